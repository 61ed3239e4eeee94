//! A step of a recurrent cell: from the sums of its gates to its state.

use anydnn_backend::Eltwise;
use anydnn_backend::op::{Activation, GateOrder};

use super::functions;
use super::level::{Level, for_levels};
use super::math::{sigmoid, tanh};

/// The gates of an LSTM, each with a sum for every unit.
pub(super) struct Lstm<'a> {
    pub(super) order: GateOrder,
    /// Of all gates, one after the other.
    pub(super) sums: &'a [f32],
    /// The products of the input with biases, each gate of all `hidden` units, from the first of these units on.
    pub(super) given: &'a [f32],
    /// Peepholes of these units alone.
    pub(super) peepholes: Option<&'a [f32]>,
    pub(super) hidden: usize,
}

/// The state and the cell behind a step.
pub(super) fn lstm(level: Level, gates: &Lstm<'_>, state: &mut [f32], cell: &mut [f32]) {
    let w = state.len();
    let [i, f, c, o] = gates.order.places().map(|gate| &gates.sums[gate * w..][..w]);
    let [gi, gf, gc, go] = gates.order.places().map(|gate| &gates.given[gate * gates.hidden..][..w]);
    let Some(peepholes) = gates.peepholes else {
        return lstm_units(level, [i, f, c, o], [gi, gf, gc, go], state, cell);
    };
    let peep = gates.order.peepholes().map(|place| &peepholes[place * w..][..w]);
    lstm_units_with_peepholes(level, [i, f, c, o], [gi, gf, gc, go], peep, state, cell);
}

/// The state behind a step of a gated recurrent unit, of the sums of its update gate and its candidate.
pub(super) fn gru(level: Level, update: &[f32], candidate: &[f32], state: &mut [f32]) {
    gru_units(level, update, candidate, state);
}

/// The function of a vanilla cell.
pub(super) fn vanilla(level: Level, activation: Activation, sums: &mut [f32]) {
    functions::eltwise(level, activation.function(), sums);
}

/// `to = sigmoid(to + given)`
pub(super) fn gate(level: Level, to: &mut [f32], given: &[f32]) {
    add(level, to, given);
    functions::eltwise(level, Eltwise::Sigmoid, to);
}

for_levels! {
    /// `to = to + from`
    pub(super) fn add(to: &mut [f32], from: &[f32]) = add_body
}

for_levels! {
    /// `to = reset * to + given`
    pub(super) fn reset(to: &mut [f32], by: &[f32], given: &[f32]) = reset_body
}

for_levels! {
    fn lstm_units(sums: [&[f32]; 4], given: [&[f32]; 4], state: &mut [f32], cell: &mut [f32]) = fused lstm_units_body
}

for_levels! {
    fn lstm_units_with_peepholes(sums: [&[f32]; 4], given: [&[f32]; 4], peep: [&[f32]; 3], state: &mut [f32], cell: &mut [f32]) = fused lstm_units_with_peepholes_body
}

for_levels! {
    fn gru_units(update: &[f32], candidate: &[f32], state: &mut [f32]) = fused gru_units_body
}

#[inline(always)]
fn add_body(to: &mut [f32], from: &[f32]) {
    to.iter_mut().zip(from).for_each(|(to, &from)| *to += from);
}

#[inline(always)]
fn reset_body(to: &mut [f32], by: &[f32], given: &[f32]) {
    for ((to, &by), &given) in to.iter_mut().zip(by).zip(given) {
        *to = by * *to + given;
    }
}

#[inline(always)]
fn lstm_units_body<const FUSED: bool>(
    sums: [&[f32]; 4],
    given: [&[f32]; 4],
    state: &mut [f32],
    cell: &mut [f32],
) {
    let w = state.len();
    let [i, f, c, o] = sums.map(|sums| &sums[..w]);
    let [gi, gf, gc, go] = given.map(|given| &given[..w]);
    let cell = &mut cell[..w];
    for u in 0..w {
        let next = sigmoid::<FUSED>(f[u] + gf[u]) * cell[u]
            + sigmoid::<FUSED>(i[u] + gi[u]) * tanh::<FUSED>(c[u] + gc[u]);
        cell[u] = next;
        state[u] = sigmoid::<FUSED>(o[u] + go[u]) * tanh::<FUSED>(next);
    }
}

#[inline(always)]
fn lstm_units_with_peepholes_body<const FUSED: bool>(
    sums: [&[f32]; 4],
    given: [&[f32]; 4],
    peep: [&[f32]; 3],
    state: &mut [f32],
    cell: &mut [f32],
) {
    let w = state.len();
    let [i, f, c, o] = sums.map(|sums| &sums[..w]);
    let [gi, gf, gc, go] = given.map(|given| &given[..w]);
    let [pi, pf, po] = peep.map(|peep| &peep[..w]);
    let cell = &mut cell[..w];
    for u in 0..w {
        let before = cell[u];
        let kept = sigmoid::<FUSED>(f[u] + gf[u] + pf[u] * before) * before;
        let next = kept + sigmoid::<FUSED>(i[u] + gi[u] + pi[u] * before) * tanh::<FUSED>(c[u] + gc[u]);
        cell[u] = next;
        state[u] = sigmoid::<FUSED>(o[u] + go[u] + po[u] * next) * tanh::<FUSED>(next);
    }
}

#[inline(always)]
fn gru_units_body<const FUSED: bool>(update: &[f32], candidate: &[f32], state: &mut [f32]) {
    for ((state, &update), &candidate) in state.iter_mut().zip(update).zip(candidate) {
        let candidate = tanh::<FUSED>(candidate);
        *state = candidate + update * (*state - candidate);
    }
}

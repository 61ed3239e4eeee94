//! Recurrent networks, one step after the other.

use anydnn_backend::Result;

use super::activation::{sigmoid, softplus};
use super::call::Call;
use super::movement::transposed;
use crate::model::HostTensor;

type Activation = Box<dyn Fn(f64) -> f64>;

/// What the three networks have in common.
struct Net {
    steps: usize,
    batch: usize,
    inputs: usize,
    hidden: usize,
    directions: usize,
    gates: usize,
    /// Whether the batch is the first dimension.
    batch_first: bool,
    values: Vec<f64>,
    weights: Vec<f64>,
    recurrence: Vec<f64>,
    bias: Vec<f64>,
    lengths: Vec<usize>,
    initial: Vec<f64>,
    activations: Vec<Activation>,
    limit: Option<f64>,
    reverse_only: bool,
}

impl Net {
    fn of(call: &Call, gates: usize, defaults: &[&str]) -> Result<Self> {
        let node = call.node;
        let batch_first = node.flag("layout", false)?;
        let src = call.ranked(0, 3)?;
        let src = if batch_first { transposed(src, &[1, 0, 2])? } else { src.clone() };
        let weights = call.ranked(1, 3)?;
        let [steps, batch, inputs] = [0, 1, 2].map(|i| src.dims()[i]);
        let (directions, hidden) = (weights.dims()[0], call.ranked(2, 3)?.dims()[2]);
        let direction = node.word("direction", "forward")?;
        let expected = if direction == "bidirectional" { 2 } else { 1 };
        if directions != expected || **weights.dims() != [directions, gates * hidden, inputs] {
            return Err(call.invalid(
                "weights",
                weights.desc(),
                format!("{gates} gates of {hidden} for {}", src.desc()),
            ));
        }
        let lengths = match call.optional(4) {
            None => vec![steps; batch],
            Some(_) => call
                .ints(4)?
                .into_iter()
                .map(|length| usize::try_from(length).unwrap_or(usize::MAX))
                .collect(),
        };
        if lengths.len() != batch || lengths.iter().any(|&length| length > steps) {
            return Err(call.invalid("lengths", format!("{lengths:?}"), format!("{batch} up to {steps}")));
        }
        let mut net = Self {
            steps,
            batch,
            inputs,
            hidden,
            directions,
            gates,
            batch_first,
            values: src.to_f64s(),
            weights: weights.to_f64s(),
            recurrence: call.values(2, directions * gates * hidden * hidden)?,
            bias: call.values_or(3, directions * 2 * gates * hidden, 0.0)?,
            lengths,
            initial: Vec::new(),
            activations: activations(call, defaults, directions)?,
            limit: node.has("clip").then_some(f64::from(node.float("clip", 0.0)?)),
            reverse_only: direction == "reverse",
        };
        net.initial = net.state(call, 5)?;
        Ok(net)
    }

    /// An initial state, zeros without one.
    fn state(&self, call: &Call, index: usize) -> Result<Vec<f64>> {
        let count = self.directions * self.batch * self.hidden;
        match call.optional(index) {
            Some(tensor)
                if self.batch_first && tensor.dims().len() == 3 && tensor.dims().elements() == count =>
            {
                Ok(transposed(tensor, &[1, 0, 2])?.to_f64s())
            }
            _ => call.values_or(index, count, 0.0),
        }
    }

    fn clipped(&self, value: f64) -> f64 {
        self.limit.map_or(value, |limit| value.max(-limit).min(limit))
    }

    /// Runs every sequence in every direction. A step has the direction, the weighted input with its bias, the state, and the product of
    /// the state for each gate; it changes the state. There may be a second part of the state.
    fn run(
        &self,
        second: &[f64],
        mut step: impl FnMut(usize, &[f64], &mut [f64], &mut [f64]),
    ) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
        let (d, b, h, rows) = (self.directions, self.batch, self.hidden, self.gates * self.hidden);
        let mut all = vec![0.0; self.steps * d * b * h];
        let (mut last, mut last_second) = (self.initial.clone(), second.to_vec());
        let mut weighted = vec![0.0; rows];
        for direction in 0..d {
            let weights = &self.weights[direction * rows * self.inputs..][..rows * self.inputs];
            let backwards = self.reverse_only || direction == 1;
            for n in 0..b {
                let at = (direction * b + n) * h;
                for i in 0..self.lengths[n] {
                    let t = if backwards { self.lengths[n] - 1 - i } else { i };
                    let x = &self.values[(t * b + n) * self.inputs..][..self.inputs];
                    for (row, sum) in weighted.iter_mut().enumerate() {
                        let parts = weights[row * self.inputs..][..self.inputs].iter().zip(x);
                        *sum = parts.map(|(w, x)| w * x).sum::<f64>() + self.bias[direction * 2 * rows + row];
                    }
                    let other = if second.is_empty() { 0..0 } else { at..at + h };
                    step(direction, &weighted, &mut last[at..at + h], &mut last_second[other]);
                    all[((t * d + direction) * b + n) * h..][..h].copy_from_slice(&last[at..at + h]);
                }
            }
        }
        (all, last, last_second)
    }

    /// A row of the recurrence times a state, with its bias.
    fn recurred(&self, direction: usize, row: usize, state: &[f64]) -> f64 {
        self.product(direction, row, state) + self.recurrent_bias(direction, row)
    }

    fn product(&self, direction: usize, row: usize, state: &[f64]) -> f64 {
        let rows = self.gates * self.hidden;
        let weights = &self.recurrence[(direction * rows + row) * self.hidden..][..self.hidden];
        weights.iter().zip(state).map(|(w, x)| w * x).sum()
    }

    fn recurrent_bias(&self, direction: usize, row: usize) -> f64 {
        let rows = self.gates * self.hidden;
        self.bias[direction * 2 * rows + rows + row]
    }

    /// All states, the last ones, and those of a second part.
    fn outputs(
        &self,
        call: &mut Call,
        (all, last, second): (Vec<f64>, Vec<f64>, Vec<f64>),
    ) -> Result<Vec<HostTensor>> {
        let data_type = call.tensor(0)?.data_type();
        let (d, b, h) = (self.directions, self.batch, self.hidden);
        let mut made = vec![call.floats([self.steps, d, b, h].into(), data_type, &all)?];
        for state in [last, second] {
            if !state.is_empty() || made.len() == 1 {
                made.push(call.floats([d, b, h].into(), data_type, &state)?);
            }
        }
        if self.batch_first {
            made = made
                .iter()
                .map(|tensor| {
                    let order: &[usize] = if tensor.dims().len() == 4 { &[2, 0, 1, 3] } else { &[1, 0, 2] };
                    transposed(tensor, order)
                })
                .collect::<Result<_>>()?;
        }
        Ok(made)
    }
}

pub(in crate::onnx) fn rnn(call: &mut Call) -> Result<Vec<HostTensor>> {
    let net = Net::of(call, 1, &["Tanh"])?;
    let made = net.run(&[], |direction, weighted, state, _| {
        let old = state.to_vec();
        for (i, state) in state.iter_mut().enumerate() {
            *state = net.activations[direction](net.clipped(weighted[i] + net.recurred(direction, i, &old)));
        }
    });
    net.outputs(call, made)
}

pub(in crate::onnx) fn gru(call: &mut Call) -> Result<Vec<HostTensor>> {
    let net = Net::of(call, 3, &["Sigmoid", "Tanh"])?;
    let reset_last = call.node.flag("linear_before_reset", false)?;
    let h = net.hidden;
    let made = net.run(&[], |direction, weighted, state, _| {
        let old = state.to_vec();
        let (f, g) = (&net.activations[direction * 2], &net.activations[direction * 2 + 1]);
        let gate = |row: usize| f(net.clipped(weighted[row] + net.recurred(direction, row, &old)));
        let reset: Vec<f64> = (0..h).map(|i| gate(h + i)).collect();
        let kept: Vec<f64> = old.iter().zip(&reset).map(|(old, reset)| old * reset).collect();
        for i in 0..h {
            let row = 2 * h + i;
            let past = if reset_last {
                reset[i] * net.recurred(direction, row, &old)
            } else {
                net.recurred(direction, row, &kept)
            };
            let (new, update) = (g(net.clipped(weighted[row] + past)), gate(i));
            state[i] = (1.0 - update) * new + update * old[i];
        }
    });
    net.outputs(call, made)
}

pub(in crate::onnx) fn lstm(call: &mut Call) -> Result<Vec<HostTensor>> {
    let net = Net::of(call, 4, &["Sigmoid", "Tanh", "Tanh"])?;
    let cells = net.state(call, 6)?;
    let h = net.hidden;
    let peepholes = call.values_or(7, net.directions * 3 * h, 0.0)?;
    let coupled = call.node.flag("input_forget", false)?;
    let made = net.run(&cells, |direction, weighted, state, cell| {
        let old = state.to_vec();
        let [f, g, last] = [0, 1, 2].map(|i| &net.activations[direction * 3 + i]);
        // Gates are input, output, forget and cell; peepholes are input, output and forget.
        let sum =
            |gate: usize, i: usize| weighted[gate * h + i] + net.recurred(direction, gate * h + i, &old);
        let peep = |gate: usize, i: usize| peepholes[(direction * 3 + gate) * h + i];
        for i in 0..h {
            let input = f(net.clipped(sum(0, i) + peep(0, i) * cell[i]));
            let forget = if coupled { 1.0 - input } else { f(net.clipped(sum(2, i) + peep(2, i) * cell[i])) };
            cell[i] = forget * cell[i] + input * g(net.clipped(sum(3, i)));
            let output = f(net.clipped(sum(1, i) + peep(1, i) * cell[i]));
            state[i] = output * last(cell[i]);
        }
    });
    net.outputs(call, made)
}

/// The activations of all directions.
fn activations(call: &Call, defaults: &[&str], directions: usize) -> Result<Vec<Activation>> {
    let names = call.node.words("activations")?;
    let names = names.unwrap_or_else(|| {
        (0..directions).flat_map(|_| defaults.iter().map(|name| (*name).to_owned())).collect()
    });
    if names.len() != directions * defaults.len() {
        let expected = format!("{} names", directions * defaults.len());
        return Err(call.invalid("attribute activations", format!("{names:?}"), expected));
    }
    let mut alphas = call.node.floats("activation_alpha")?.unwrap_or_default().into_iter().map(f64::from);
    let mut betas = call.node.floats("activation_beta")?.unwrap_or_default().into_iter().map(f64::from);
    let mut made: Vec<Activation> = Vec::new();
    for name in names {
        let mut alpha = |absent: f64| alphas.next().unwrap_or(absent);
        let mut beta = |absent: f64| betas.next().unwrap_or(absent);
        made.push(match name.to_ascii_lowercase().as_str() {
            "sigmoid" => Box::new(sigmoid),
            "tanh" => Box::new(f64::tanh),
            "relu" => Box::new(|x: f64| x.max(0.0)),
            "softsign" => Box::new(|x| x / (1.0 + x.abs())),
            "softplus" => Box::new(softplus),
            "affine" => {
                let (alpha, beta) = (alpha(1.0), beta(0.0));
                Box::new(move |x| alpha * x + beta)
            }
            "leakyrelu" => {
                let alpha = alpha(0.01);
                Box::new(move |x| if x < 0.0 { alpha * x } else { x })
            }
            "thresholdedrelu" => {
                let alpha = alpha(1.0);
                Box::new(move |x| if x > alpha { x } else { 0.0 })
            }
            "scaledtanh" => {
                let (alpha, beta) = (alpha(1.0), beta(1.0));
                Box::new(move |x| alpha * (beta * x).tanh())
            }
            "hardsigmoid" => {
                let (alpha, beta) = (alpha(0.2), beta(0.5));
                Box::new(move |x| (alpha * x + beta).clamp(0.0, 1.0))
            }
            "elu" => {
                let alpha = alpha(1.0);
                Box::new(move |x| if x < 0.0 { alpha * x.exp_m1() } else { x })
            }
            _ => return Err(call.invalid("activation", name, "one that ONNX names")),
        });
    }
    Ok(made)
}

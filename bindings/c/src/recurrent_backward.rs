//! Gradients of recurrent layers.

use std::ffi::{c_int, c_uint};

use anydnn_backend::op::{Cell, GateOrder};

use crate::attributes::Attr;
use crate::handle;
use crate::kinds::{LBR_AUGRU, LBR_GRU, VANILLA_AUGRU, VANILLA_GRU, VANILLA_LSTM, VANILLA_RNN, query};
#[allow(clippy::wildcard_imports, reason = "the names of the C API")]
use crate::object_types::*;
use crate::primitive::describe;
use crate::recipe::Recipe;
use crate::recurrent::function;
use crate::recurrent_layers::{
    ATTENTION, BIAS, CELLS, DST, Given, LAST_CELLS, LAST_STATES, Layers, PEEPHOLES, PROJECTION, SRC,
    STATE_WEIGHTS, STATES, WEIGHTS,
};
use crate::refusals::Lack;
#[allow(clippy::wildcard_imports, reason = "the names of the C API")]
use crate::types::*;

/// Describes the gradients of layers of vanilla cells. Those by weights are added to what is there, unless the flags say that they take its
/// place.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_vanilla_rnn_backward_primitive_desc_create(
    primitive_desc: *mut dnnl_primitive_desc_t,
    engine: dnnl_engine_t,
    prop_kind: dnnl_prop_kind_t,
    activation: dnnl_alg_kind_t,
    direction: c_int,
    src_layer_desc: const_dnnl_memory_desc_t,
    src_iter_desc: const_dnnl_memory_desc_t,
    weights_layer_desc: const_dnnl_memory_desc_t,
    weights_iter_desc: const_dnnl_memory_desc_t,
    bias_desc: const_dnnl_memory_desc_t,
    dst_layer_desc: const_dnnl_memory_desc_t,
    dst_iter_desc: const_dnnl_memory_desc_t,
    diff_src_layer_desc: const_dnnl_memory_desc_t,
    diff_src_iter_desc: const_dnnl_memory_desc_t,
    diff_weights_layer_desc: const_dnnl_memory_desc_t,
    diff_weights_iter_desc: const_dnnl_memory_desc_t,
    diff_bias_desc: const_dnnl_memory_desc_t,
    diff_dst_layer_desc: const_dnnl_memory_desc_t,
    diff_dst_iter_desc: const_dnnl_memory_desc_t,
    flags: c_uint,
    alpha: f32,
    beta: f32,
    hint_fwd_pd: const_dnnl_primitive_desc_t,
    attr: const_dnnl_primitive_attr_t,
) -> dnnl_status_t {
    let make = |recipe: &mut Recipe, attr: &Attr| {
        if activation == dnnl_eltwise_relu && (alpha.is_nan() || alpha < 0.0) {
            return Err(Lack::Slope.failure(format_args!("alpha {alpha}")));
        }
        let layers = Layers {
            cell: Cell::Vanilla(function(activation, alpha)?),
            kind: VANILLA_RNN,
            prop_kind,
            direction,
            flags,
        };
        // SAFETY: the caller passes null or descriptors that live.
        let (given, gradients) = unsafe {
            let given = Given::read(&[
                (SRC, src_layer_desc),
                (STATES, src_iter_desc),
                (WEIGHTS, weights_layer_desc),
                (STATE_WEIGHTS, weights_iter_desc),
                (BIAS, bias_desc),
                (DST, dst_layer_desc),
                (LAST_STATES, dst_iter_desc),
            ])?;
            let gradients = Given::read(&[
                (SRC, diff_src_layer_desc),
                (STATES, diff_src_iter_desc),
                (WEIGHTS, diff_weights_layer_desc),
                (STATE_WEIGHTS, diff_weights_iter_desc),
                (BIAS, diff_bias_desc),
                (DST, diff_dst_layer_desc),
                (LAST_STATES, diff_dst_iter_desc),
            ])?;
            (given, gradients)
        };
        // SAFETY: the caller passes null or a description that lives.
        let hint = unsafe { handle::borrow(hint_fwd_pd) }?;
        let facts = layers.backward(recipe, attr, (&given, &gradients), hint)?;
        let facts = facts.integer(query::ACTIVATION_KIND, activation);
        Ok(facts.float(query::ALPHA, alpha).float(query::BETA, beta))
    };
    // SAFETY: the caller passes null, or objects that live and a handle to write.
    unsafe { describe("dnnl_vanilla_rnn_backward_primitive_desc_create", primitive_desc, engine, attr, make) }
}

/// Describes the gradients of layers of long short-term memory; see [`dnnl_vanilla_rnn_backward_primitive_desc_create`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_lstm_backward_primitive_desc_create(
    primitive_desc: *mut dnnl_primitive_desc_t,
    engine: dnnl_engine_t,
    prop_kind: dnnl_prop_kind_t,
    direction: c_int,
    src_layer_desc: const_dnnl_memory_desc_t,
    src_iter_desc: const_dnnl_memory_desc_t,
    src_iter_c_desc: const_dnnl_memory_desc_t,
    weights_layer_desc: const_dnnl_memory_desc_t,
    weights_iter_desc: const_dnnl_memory_desc_t,
    weights_peephole_desc: const_dnnl_memory_desc_t,
    weights_projection_desc: const_dnnl_memory_desc_t,
    bias_desc: const_dnnl_memory_desc_t,
    dst_layer_desc: const_dnnl_memory_desc_t,
    dst_iter_desc: const_dnnl_memory_desc_t,
    dst_iter_c_desc: const_dnnl_memory_desc_t,
    diff_src_layer_desc: const_dnnl_memory_desc_t,
    diff_src_iter_desc: const_dnnl_memory_desc_t,
    diff_src_iter_c_desc: const_dnnl_memory_desc_t,
    diff_weights_layer_desc: const_dnnl_memory_desc_t,
    diff_weights_iter_desc: const_dnnl_memory_desc_t,
    diff_weights_peephole_desc: const_dnnl_memory_desc_t,
    diff_weights_projection_desc: const_dnnl_memory_desc_t,
    diff_bias_desc: const_dnnl_memory_desc_t,
    diff_dst_layer_desc: const_dnnl_memory_desc_t,
    diff_dst_iter_desc: const_dnnl_memory_desc_t,
    diff_dst_iter_c_desc: const_dnnl_memory_desc_t,
    flags: c_uint,
    hint_fwd_pd: const_dnnl_primitive_desc_t,
    attr: const_dnnl_primitive_attr_t,
) -> dnnl_status_t {
    let make = |recipe: &mut Recipe, attr: &Attr| {
        let layers = Layers {
            cell: Cell::Lstm(GateOrder::InputForgetCandidateOutput),
            kind: VANILLA_LSTM,
            prop_kind,
            direction,
            flags,
        };
        // SAFETY: the caller passes null or descriptors that live.
        let (given, gradients) = unsafe {
            let given = Given::read(&[
                (SRC, src_layer_desc),
                (STATES, src_iter_desc),
                (CELLS, src_iter_c_desc),
                (WEIGHTS, weights_layer_desc),
                (STATE_WEIGHTS, weights_iter_desc),
                (PEEPHOLES, weights_peephole_desc),
                (PROJECTION, weights_projection_desc),
                (BIAS, bias_desc),
                (DST, dst_layer_desc),
                (LAST_STATES, dst_iter_desc),
                (LAST_CELLS, dst_iter_c_desc),
            ])?;
            let gradients = Given::read(&[
                (SRC, diff_src_layer_desc),
                (STATES, diff_src_iter_desc),
                (CELLS, diff_src_iter_c_desc),
                (WEIGHTS, diff_weights_layer_desc),
                (STATE_WEIGHTS, diff_weights_iter_desc),
                (PEEPHOLES, diff_weights_peephole_desc),
                (PROJECTION, diff_weights_projection_desc),
                (BIAS, diff_bias_desc),
                (DST, diff_dst_layer_desc),
                (LAST_STATES, diff_dst_iter_desc),
                (LAST_CELLS, diff_dst_iter_c_desc),
            ])?;
            (given, gradients)
        };
        // SAFETY: the caller passes null or a description that lives.
        let hint = unsafe { handle::borrow(hint_fwd_pd) }?;
        layers.backward(recipe, attr, (&given, &gradients), hint)
    };
    // SAFETY: the caller passes null, or objects that live and a handle to write.
    unsafe { describe("dnnl_lstm_backward_primitive_desc_create", primitive_desc, engine, attr, make) }
}

/// Describes the gradients of layers of gated recurrent units; see [`dnnl_vanilla_rnn_backward_primitive_desc_create`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_gru_backward_primitive_desc_create(
    primitive_desc: *mut dnnl_primitive_desc_t,
    engine: dnnl_engine_t,
    prop_kind: dnnl_prop_kind_t,
    direction: c_int,
    src_layer_desc: const_dnnl_memory_desc_t,
    src_iter_desc: const_dnnl_memory_desc_t,
    weights_layer_desc: const_dnnl_memory_desc_t,
    weights_iter_desc: const_dnnl_memory_desc_t,
    bias_desc: const_dnnl_memory_desc_t,
    dst_layer_desc: const_dnnl_memory_desc_t,
    dst_iter_desc: const_dnnl_memory_desc_t,
    diff_src_layer_desc: const_dnnl_memory_desc_t,
    diff_src_iter_desc: const_dnnl_memory_desc_t,
    diff_weights_layer_desc: const_dnnl_memory_desc_t,
    diff_weights_iter_desc: const_dnnl_memory_desc_t,
    diff_bias_desc: const_dnnl_memory_desc_t,
    diff_dst_layer_desc: const_dnnl_memory_desc_t,
    diff_dst_iter_desc: const_dnnl_memory_desc_t,
    flags: c_uint,
    hint_fwd_pd: const_dnnl_primitive_desc_t,
    attr: const_dnnl_primitive_attr_t,
) -> dnnl_status_t {
    let make = |recipe: &mut Recipe, attr: &Attr| {
        let layers = Layers { cell: Cell::Gru, kind: VANILLA_GRU, prop_kind, direction, flags };
        // SAFETY: the caller passes null or descriptors that live.
        let (given, gradients) = unsafe {
            let given = Given::read(&[
                (SRC, src_layer_desc),
                (STATES, src_iter_desc),
                (WEIGHTS, weights_layer_desc),
                (STATE_WEIGHTS, weights_iter_desc),
                (BIAS, bias_desc),
                (DST, dst_layer_desc),
                (LAST_STATES, dst_iter_desc),
            ])?;
            let gradients = Given::read(&[
                (SRC, diff_src_layer_desc),
                (STATES, diff_src_iter_desc),
                (WEIGHTS, diff_weights_layer_desc),
                (STATE_WEIGHTS, diff_weights_iter_desc),
                (BIAS, diff_bias_desc),
                (DST, diff_dst_layer_desc),
                (LAST_STATES, diff_dst_iter_desc),
            ])?;
            (given, gradients)
        };
        // SAFETY: the caller passes null or a description that lives.
        let hint = unsafe { handle::borrow(hint_fwd_pd) }?;
        layers.backward(recipe, attr, (&given, &gradients), hint)
    };
    // SAFETY: the caller passes null, or objects that live and a handle to write.
    unsafe { describe("dnnl_gru_backward_primitive_desc_create", primitive_desc, engine, attr, make) }
}

/// The same with a linear product before the reset.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_lbr_gru_backward_primitive_desc_create(
    primitive_desc: *mut dnnl_primitive_desc_t,
    engine: dnnl_engine_t,
    prop_kind: dnnl_prop_kind_t,
    direction: c_int,
    src_layer_desc: const_dnnl_memory_desc_t,
    src_iter_desc: const_dnnl_memory_desc_t,
    weights_layer_desc: const_dnnl_memory_desc_t,
    weights_iter_desc: const_dnnl_memory_desc_t,
    bias_desc: const_dnnl_memory_desc_t,
    dst_layer_desc: const_dnnl_memory_desc_t,
    dst_iter_desc: const_dnnl_memory_desc_t,
    diff_src_layer_desc: const_dnnl_memory_desc_t,
    diff_src_iter_desc: const_dnnl_memory_desc_t,
    diff_weights_layer_desc: const_dnnl_memory_desc_t,
    diff_weights_iter_desc: const_dnnl_memory_desc_t,
    diff_bias_desc: const_dnnl_memory_desc_t,
    diff_dst_layer_desc: const_dnnl_memory_desc_t,
    diff_dst_iter_desc: const_dnnl_memory_desc_t,
    flags: c_uint,
    hint_fwd_pd: const_dnnl_primitive_desc_t,
    attr: const_dnnl_primitive_attr_t,
) -> dnnl_status_t {
    let make = |recipe: &mut Recipe, attr: &Attr| {
        let layers = Layers { cell: Cell::GruLinearBeforeReset, kind: LBR_GRU, prop_kind, direction, flags };
        // SAFETY: the caller passes null or descriptors that live.
        let (given, gradients) = unsafe {
            let given = Given::read(&[
                (SRC, src_layer_desc),
                (STATES, src_iter_desc),
                (WEIGHTS, weights_layer_desc),
                (STATE_WEIGHTS, weights_iter_desc),
                (BIAS, bias_desc),
                (DST, dst_layer_desc),
                (LAST_STATES, dst_iter_desc),
            ])?;
            let gradients = Given::read(&[
                (SRC, diff_src_layer_desc),
                (STATES, diff_src_iter_desc),
                (WEIGHTS, diff_weights_layer_desc),
                (STATE_WEIGHTS, diff_weights_iter_desc),
                (BIAS, diff_bias_desc),
                (DST, diff_dst_layer_desc),
                (LAST_STATES, diff_dst_iter_desc),
            ])?;
            (given, gradients)
        };
        // SAFETY: the caller passes null or a description that lives.
        let hint = unsafe { handle::borrow(hint_fwd_pd) }?;
        layers.backward(recipe, attr, (&given, &gradients), hint)
    };
    // SAFETY: the caller passes null, or objects that live and a handle to write.
    unsafe { describe("dnnl_lbr_gru_backward_primitive_desc_create", primitive_desc, engine, attr, make) }
}

/// The same of gated recurrent units with an attention for each step.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_augru_backward_primitive_desc_create(
    primitive_desc: *mut dnnl_primitive_desc_t,
    engine: dnnl_engine_t,
    prop_kind: dnnl_prop_kind_t,
    direction: c_int,
    src_layer_desc: const_dnnl_memory_desc_t,
    src_iter_desc: const_dnnl_memory_desc_t,
    attention_desc: const_dnnl_memory_desc_t,
    weights_layer_desc: const_dnnl_memory_desc_t,
    weights_iter_desc: const_dnnl_memory_desc_t,
    bias_desc: const_dnnl_memory_desc_t,
    dst_layer_desc: const_dnnl_memory_desc_t,
    dst_iter_desc: const_dnnl_memory_desc_t,
    diff_src_layer_desc: const_dnnl_memory_desc_t,
    diff_src_iter_desc: const_dnnl_memory_desc_t,
    diff_attention_desc: const_dnnl_memory_desc_t,
    diff_weights_layer_desc: const_dnnl_memory_desc_t,
    diff_weights_iter_desc: const_dnnl_memory_desc_t,
    diff_bias_desc: const_dnnl_memory_desc_t,
    diff_dst_layer_desc: const_dnnl_memory_desc_t,
    diff_dst_iter_desc: const_dnnl_memory_desc_t,
    flags: c_uint,
    hint_fwd_pd: const_dnnl_primitive_desc_t,
    attr: const_dnnl_primitive_attr_t,
) -> dnnl_status_t {
    let make = |recipe: &mut Recipe, attr: &Attr| {
        let layers = Layers { cell: Cell::Gru, kind: VANILLA_AUGRU, prop_kind, direction, flags };
        // SAFETY: the caller passes null or descriptors that live.
        let (given, gradients) = unsafe {
            let given = Given::read(&[
                (SRC, src_layer_desc),
                (STATES, src_iter_desc),
                (ATTENTION, attention_desc),
                (WEIGHTS, weights_layer_desc),
                (STATE_WEIGHTS, weights_iter_desc),
                (BIAS, bias_desc),
                (DST, dst_layer_desc),
                (LAST_STATES, dst_iter_desc),
            ])?;
            let gradients = Given::read(&[
                (SRC, diff_src_layer_desc),
                (STATES, diff_src_iter_desc),
                (ATTENTION, diff_attention_desc),
                (WEIGHTS, diff_weights_layer_desc),
                (STATE_WEIGHTS, diff_weights_iter_desc),
                (BIAS, diff_bias_desc),
                (DST, diff_dst_layer_desc),
                (LAST_STATES, diff_dst_iter_desc),
            ])?;
            (given, gradients)
        };
        // SAFETY: the caller passes null or a description that lives.
        let hint = unsafe { handle::borrow(hint_fwd_pd) }?;
        layers.backward(recipe, attr, (&given.with(ATTENTION)?, &gradients), hint)
    };
    // SAFETY: the caller passes null, or objects that live and a handle to write.
    unsafe { describe("dnnl_augru_backward_primitive_desc_create", primitive_desc, engine, attr, make) }
}

/// The same with a linear product before the reset, too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_lbr_augru_backward_primitive_desc_create(
    primitive_desc: *mut dnnl_primitive_desc_t,
    engine: dnnl_engine_t,
    prop_kind: dnnl_prop_kind_t,
    direction: c_int,
    src_layer_desc: const_dnnl_memory_desc_t,
    src_iter_desc: const_dnnl_memory_desc_t,
    attention_desc: const_dnnl_memory_desc_t,
    weights_layer_desc: const_dnnl_memory_desc_t,
    weights_iter_desc: const_dnnl_memory_desc_t,
    bias_desc: const_dnnl_memory_desc_t,
    dst_layer_desc: const_dnnl_memory_desc_t,
    dst_iter_desc: const_dnnl_memory_desc_t,
    diff_src_layer_desc: const_dnnl_memory_desc_t,
    diff_src_iter_desc: const_dnnl_memory_desc_t,
    diff_attention_desc: const_dnnl_memory_desc_t,
    diff_weights_layer_desc: const_dnnl_memory_desc_t,
    diff_weights_iter_desc: const_dnnl_memory_desc_t,
    diff_bias_desc: const_dnnl_memory_desc_t,
    diff_dst_layer_desc: const_dnnl_memory_desc_t,
    diff_dst_iter_desc: const_dnnl_memory_desc_t,
    flags: c_uint,
    hint_fwd_pd: const_dnnl_primitive_desc_t,
    attr: const_dnnl_primitive_attr_t,
) -> dnnl_status_t {
    let make = |recipe: &mut Recipe, attr: &Attr| {
        let layers =
            Layers { cell: Cell::GruLinearBeforeReset, kind: LBR_AUGRU, prop_kind, direction, flags };
        // SAFETY: the caller passes null or descriptors that live.
        let (given, gradients) = unsafe {
            let given = Given::read(&[
                (SRC, src_layer_desc),
                (STATES, src_iter_desc),
                (ATTENTION, attention_desc),
                (WEIGHTS, weights_layer_desc),
                (STATE_WEIGHTS, weights_iter_desc),
                (BIAS, bias_desc),
                (DST, dst_layer_desc),
                (LAST_STATES, dst_iter_desc),
            ])?;
            let gradients = Given::read(&[
                (SRC, diff_src_layer_desc),
                (STATES, diff_src_iter_desc),
                (ATTENTION, diff_attention_desc),
                (WEIGHTS, diff_weights_layer_desc),
                (STATE_WEIGHTS, diff_weights_iter_desc),
                (BIAS, diff_bias_desc),
                (DST, diff_dst_layer_desc),
                (LAST_STATES, diff_dst_iter_desc),
            ])?;
            (given, gradients)
        };
        // SAFETY: the caller passes null or a description that lives.
        let hint = unsafe { handle::borrow(hint_fwd_pd) }?;
        layers.backward(recipe, attr, (&given.with(ATTENTION)?, &gradients), hint)
    };
    // SAFETY: the caller passes null, or objects that live and a handle to write.
    unsafe { describe("dnnl_lbr_augru_backward_primitive_desc_create", primitive_desc, engine, attr, make) }
}

//! Recurrent layers, forward.

use std::ffi::{c_int, c_uint};

use anydnn_backend::op::{Activation, Cell, GateOrder};

use crate::attributes::Attr;
use crate::boundary::{Failure, Outcome};
use crate::kinds::{LBR_AUGRU, LBR_GRU, VANILLA_AUGRU, VANILLA_GRU, VANILLA_LSTM, VANILLA_RNN, query};
#[allow(clippy::wildcard_imports, reason = "the names of the C API")]
use crate::object_types::*;
use crate::primitive::describe;
use crate::recipe::Recipe;
use crate::recurrent_layers::{
    ATTENTION, BIAS, CELLS, DST, Given, LAST_CELLS, LAST_STATES, Layers, PEEPHOLES, PROJECTION, SRC,
    STATE_WEIGHTS, STATES, WEIGHTS,
};
#[allow(clippy::wildcard_imports, reason = "the names of the C API")]
use crate::types::*;

/// Describes the forward pass of layers of vanilla cells, whose activation is a relu with slope `alpha` below zero, a tanh or a logistic function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_vanilla_rnn_forward_primitive_desc_create(
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
    flags: c_uint,
    alpha: f32,
    beta: f32,
    attr: const_dnnl_primitive_attr_t,
) -> dnnl_status_t {
    let make = |recipe: &mut Recipe, attr: &Attr| {
        let function = function(activation, alpha)?;
        let layers = Layers { cell: Cell::Vanilla(function), kind: VANILLA_RNN, prop_kind, direction, flags };
        // SAFETY: the caller passes null or descriptors that live.
        let given = unsafe {
            Given::read(&[
                (SRC, src_layer_desc),
                (STATES, src_iter_desc),
                (WEIGHTS, weights_layer_desc),
                (STATE_WEIGHTS, weights_iter_desc),
                (BIAS, bias_desc),
                (DST, dst_layer_desc),
                (LAST_STATES, dst_iter_desc),
            ])?
        };
        let facts = layers.forward(recipe, attr, &given)?;
        Ok(facts
            .integer(query::ACTIVATION_KIND, activation)
            .float(query::ALPHA, alpha)
            .float(query::BETA, beta))
    };
    // SAFETY: the caller passes null, or objects that live and a handle to write.
    unsafe { describe("dnnl_vanilla_rnn_forward_primitive_desc_create", primitive_desc, engine, attr, make) }
}

/// Describes the forward pass of layers of long short-term memory, with peepholes and a projection or without.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_lstm_forward_primitive_desc_create(
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
    flags: c_uint,
    attr: const_dnnl_primitive_attr_t,
) -> dnnl_status_t {
    let make = |recipe: &mut Recipe, attr: &Attr| {
        let cell = Cell::Lstm(GateOrder::InputForgetCandidateOutput);
        let layers = Layers { cell, kind: VANILLA_LSTM, prop_kind, direction, flags };
        // SAFETY: the caller passes null or descriptors that live.
        let given = unsafe {
            Given::read(&[
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
            ])?
        };
        layers.forward(recipe, attr, &given)
    };
    // SAFETY: the caller passes null, or objects that live and a handle to write.
    unsafe { describe("dnnl_lstm_forward_primitive_desc_create", primitive_desc, engine, attr, make) }
}

/// Describes the forward pass of layers of gated recurrent units.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_gru_forward_primitive_desc_create(
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
    flags: c_uint,
    attr: const_dnnl_primitive_attr_t,
) -> dnnl_status_t {
    let make = |recipe: &mut Recipe, attr: &Attr| {
        let layers = Layers { cell: Cell::Gru, kind: VANILLA_GRU, prop_kind, direction, flags };
        // SAFETY: the caller passes null or descriptors that live.
        let given = unsafe {
            Given::read(&[
                (SRC, src_layer_desc),
                (STATES, src_iter_desc),
                (WEIGHTS, weights_layer_desc),
                (STATE_WEIGHTS, weights_iter_desc),
                (BIAS, bias_desc),
                (DST, dst_layer_desc),
                (LAST_STATES, dst_iter_desc),
            ])?
        };
        layers.forward(recipe, attr, &given)
    };
    // SAFETY: the caller passes null, or objects that live and a handle to write.
    unsafe { describe("dnnl_gru_forward_primitive_desc_create", primitive_desc, engine, attr, make) }
}

/// The same with a linear product before the reset; the bias has a fourth row, which is added to the candidate's product of the state.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_lbr_gru_forward_primitive_desc_create(
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
    flags: c_uint,
    attr: const_dnnl_primitive_attr_t,
) -> dnnl_status_t {
    let make = |recipe: &mut Recipe, attr: &Attr| {
        let layers = Layers { cell: Cell::GruLinearBeforeReset, kind: LBR_GRU, prop_kind, direction, flags };
        // SAFETY: the caller passes null or descriptors that live.
        let given = unsafe {
            Given::read(&[
                (SRC, src_layer_desc),
                (STATES, src_iter_desc),
                (WEIGHTS, weights_layer_desc),
                (STATE_WEIGHTS, weights_iter_desc),
                (BIAS, bias_desc),
                (DST, dst_layer_desc),
                (LAST_STATES, dst_iter_desc),
            ])?
        };
        layers.forward(recipe, attr, &given)
    };
    // SAFETY: the caller passes null, or objects that live and a handle to write.
    unsafe { describe("dnnl_lbr_gru_forward_primitive_desc_create", primitive_desc, engine, attr, make) }
}

/// Describes the forward pass of layers of gated recurrent units with an attention for each step.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_augru_forward_primitive_desc_create(
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
    flags: c_uint,
    attr: const_dnnl_primitive_attr_t,
) -> dnnl_status_t {
    let make = |recipe: &mut Recipe, attr: &Attr| {
        let layers = Layers { cell: Cell::Gru, kind: VANILLA_AUGRU, prop_kind, direction, flags };
        // SAFETY: the caller passes null or descriptors that live.
        let given = unsafe {
            Given::read(&[
                (SRC, src_layer_desc),
                (STATES, src_iter_desc),
                (ATTENTION, attention_desc),
                (WEIGHTS, weights_layer_desc),
                (STATE_WEIGHTS, weights_iter_desc),
                (BIAS, bias_desc),
                (DST, dst_layer_desc),
                (LAST_STATES, dst_iter_desc),
            ])?
        };
        layers.forward(recipe, attr, &given.with(ATTENTION)?)
    };
    // SAFETY: the caller passes null, or objects that live and a handle to write.
    unsafe { describe("dnnl_augru_forward_primitive_desc_create", primitive_desc, engine, attr, make) }
}

/// The same with a linear product before the reset.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_lbr_augru_forward_primitive_desc_create(
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
    flags: c_uint,
    attr: const_dnnl_primitive_attr_t,
) -> dnnl_status_t {
    let make = |recipe: &mut Recipe, attr: &Attr| {
        let layers =
            Layers { cell: Cell::GruLinearBeforeReset, kind: LBR_AUGRU, prop_kind, direction, flags };
        // SAFETY: the caller passes null or descriptors that live.
        let given = unsafe {
            Given::read(&[
                (SRC, src_layer_desc),
                (STATES, src_iter_desc),
                (ATTENTION, attention_desc),
                (WEIGHTS, weights_layer_desc),
                (STATE_WEIGHTS, weights_iter_desc),
                (BIAS, bias_desc),
                (DST, dst_layer_desc),
                (LAST_STATES, dst_iter_desc),
            ])?
        };
        layers.forward(recipe, attr, &given.with(ATTENTION)?)
    };
    // SAFETY: the caller passes null, or objects that live and a handle to write.
    unsafe { describe("dnnl_lbr_augru_forward_primitive_desc_create", primitive_desc, engine, attr, make) }
}

/// The function of a vanilla cell.
pub(crate) fn function(activation: dnnl_alg_kind_t, alpha: f32) -> Outcome<Activation> {
    match activation {
        dnnl_eltwise_relu if alpha == 0.0 => Ok(Activation::Relu),
        dnnl_eltwise_relu => Ok(Activation::LeakyRelu { alpha }),
        dnnl_eltwise_tanh => Ok(Activation::Tanh),
        dnnl_eltwise_logistic => Ok(Activation::Logistic),
        other => Err(Failure::invalid(format!("{other:#x} is no activation of a recurrent cell"))),
    }
}

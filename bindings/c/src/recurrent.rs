//! Recurrent layers, forward.

use std::ffi::{c_int, c_uint};

use anydnn_backend::op::{Activation, Cell, Direction, GateOrder, Recurrent};
use anydnn_backend::{Arg, Attributes, Blocking, DataType, Dims, Layout, MemoryDesc};

use crate::attributes::Attr;
use crate::boundary::{Failure, Outcome};
use crate::kinds::{LBR_GRU, VANILLA_GRU, VANILLA_LSTM, VANILLA_RNN, arg, kind, query};
#[allow(clippy::wildcard_imports, reason = "the names of the C API")]
use crate::object_types::*;
use crate::primitive::{Facts, describe, is_training, open, optional};
use crate::recipe::{Formula, Recipe, Tensor, dense};
#[allow(clippy::wildcard_imports, reason = "the names of the C API")]
use crate::types::*;

/// Describes the forward pass of layers of vanilla cells, whose activation is a relu without a slope, a tanh or a logistic function.
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
        let function = match activation {
            dnnl_eltwise_relu if alpha == 0.0 => Activation::Relu,
            dnnl_eltwise_relu => return Err(missing("a relu with a slope")),
            dnnl_eltwise_tanh => Activation::Tanh,
            dnnl_eltwise_logistic => Activation::Logistic,
            other => {
                return Err(Failure::invalid(format!("{other:#x} is no activation of a recurrent cell")));
            }
        };
        let layers = Layers { cell: Cell::Vanilla(function), kind: VANILLA_RNN, prop_kind, direction, flags };
        // SAFETY: the caller passes null or descriptors that live.
        let given = unsafe {
            Given::read(
                [src_layer_desc, src_iter_desc],
                [weights_layer_desc, weights_iter_desc, bias_desc],
                [dst_layer_desc, dst_iter_desc],
            )?
        };
        let facts = layers.describe(recipe, attr, given)?;
        Ok(facts
            .integer(query::ACTIVATION_KIND, activation)
            .float(query::ALPHA, alpha)
            .float(query::BETA, beta))
    };
    // SAFETY: the caller passes null, or objects that live and a handle to write.
    unsafe { describe("dnnl_vanilla_rnn_forward_primitive_desc_create", primitive_desc, engine, attr, make) }
}

/// Describes the forward pass of layers of long short-term memory, with peepholes or without; a projection is not implemented.
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
            if optional(weights_projection_desc, "weights_projection_desc")?.is_some() {
                return Err(missing("a projection"));
            }
            let given = Given::read(
                [src_layer_desc, src_iter_desc],
                [weights_layer_desc, weights_iter_desc, bias_desc],
                [dst_layer_desc, dst_iter_desc],
            )?;
            Given {
                cells: optional(src_iter_c_desc, "src_iter_c_desc")?,
                peepholes: optional(weights_peephole_desc, "weights_peephole_desc")?,
                last_cells: optional(dst_iter_c_desc, "dst_iter_c_desc")?,
                ..given
            }
        };
        layers.describe(recipe, attr, given)
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
            Given::read(
                [src_layer_desc, src_iter_desc],
                [weights_layer_desc, weights_iter_desc, bias_desc],
                [dst_layer_desc, dst_iter_desc],
            )?
        };
        layers.describe(recipe, attr, given)
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
            Given::read(
                [src_layer_desc, src_iter_desc],
                [weights_layer_desc, weights_iter_desc, bias_desc],
                [dst_layer_desc, dst_iter_desc],
            )?
        };
        layers.describe(recipe, attr, given)
    };
    // SAFETY: the caller passes null, or objects that live and a handle to write.
    unsafe { describe("dnnl_lbr_gru_forward_primitive_desc_create", primitive_desc, engine, attr, make) }
}

/// Parameters that all cells have.
struct Layers {
    cell: Cell,
    kind: dnnl_alg_kind_t,
    prop_kind: dnnl_prop_kind_t,
    direction: c_int,
    flags: c_uint,
}

/// Descriptors: `[T, N, I]`, `[L, D, N, H]`, `[L, D, I, G, H]`, `[L, D, G, H]`, `[T, N, D * H]`.
#[derive(Debug)]
struct Given {
    src: MemoryDesc,
    states: Option<MemoryDesc>,
    cells: Option<MemoryDesc>,
    weights: MemoryDesc,
    state_weights: MemoryDesc,
    peepholes: Option<MemoryDesc>,
    bias: Option<MemoryDesc>,
    dst: MemoryDesc,
    last_states: Option<MemoryDesc>,
    last_cells: Option<MemoryDesc>,
}

impl Given {
    /// # Safety
    /// The descriptors are null or live.
    unsafe fn read(
        [src, states]: [const_dnnl_memory_desc_t; 2],
        [weights, state_weights, bias]: [const_dnnl_memory_desc_t; 3],
        [dst, last_states]: [const_dnnl_memory_desc_t; 2],
    ) -> Outcome<Self> {
        // SAFETY: by contract.
        unsafe {
            Ok(Self {
                src: dense(open(src, "src_layer_desc")?),
                states: optional(states, "src_iter_desc")?.map(dense),
                cells: None,
                weights: dense(open(weights, "weights_layer_desc")?),
                state_weights: dense(open(state_weights, "weights_iter_desc")?),
                peepholes: None,
                bias: optional(bias, "bias_desc")?.map(dense),
                dst: dense(open(dst, "dst_layer_desc")?),
                last_states: optional(last_states, "dst_iter_desc")?.map(dense),
                last_cells: None,
            })
        }
    }
}

impl Layers {
    fn describe(&self, recipe: &mut Recipe, attr: &Attr, given: Given) -> Outcome<Facts> {
        is_training(self.prop_kind)?;
        attr.check_plain()?;
        let direction = match self.direction {
            1 => Direction::LeftToRight,
            2 => Direction::RightToLeft,
            3 => Direction::Concat,
            4 => Direction::Sum,
            other => return Err(Failure::invalid(format!("{other} is no direction of a recurrent layer"))),
        };
        let (&[layers, ways, _, gates, hidden], &[steps, batch, _]) =
            (&given.weights.dims()[..], &given.src.dims()[..])
        else {
            let (weights, src) = (given.weights.dims(), given.src.dims());
            let expected = "[layers, directions, inputs, gates, hidden units] and [steps, batch, inputs]";
            return Err(Failure::invalid(format!("weights {weights} and source {src}, expected {expected}")));
        };
        if layers == 0 || ways != direction.count() || gates != self.cell.gates() {
            let (own, cell) = (direction.count(), self.cell.gates());
            let message =
                format!("{layers} layers, {ways} directions, {gates} gates: expected {own} and {cell}");
            return Err(Failure::invalid(message));
        }
        let side_by_side = if direction == Direction::Concat { 2 } else { 1 };
        let expect = |what: &str, desc: &MemoryDesc, dims: &[usize]| {
            if **desc.dims() == *dims {
                return Ok(());
            }
            Err(Failure::invalid(format!("{what} is {}, expected {}", desc.dims(), Dims::new(dims))))
        };
        expect("dst_layer_desc", &given.dst, &[steps, batch, side_by_side * hidden])?;
        expect("weights_iter_desc", &given.state_weights, &[layers, ways, hidden, gates, hidden])?;
        let states = [layers, ways, batch, hidden];
        for (what, desc) in [
            ("src_iter_desc", &given.states),
            ("src_iter_c_desc", &given.cells),
            ("dst_iter_desc", &given.last_states),
            ("dst_iter_c_desc", &given.last_cells),
        ] {
            desc.as_ref().map_or(Ok(()), |desc| expect(what, desc, &states))?;
        }
        let is_linear = self.cell == Cell::GruLinearBeforeReset;
        if let Some(bias) = &given.bias {
            expect("bias_desc", bias, &[layers, ways, gates + usize::from(is_linear), hidden])?;
        }
        if let Some(peepholes) = &given.peepholes {
            expect("weights_peephole_desc", peepholes, &[layers, ways, 3, hidden])?;
        }
        let mut input = recipe.operand(arg::SRC, (query::SRC, 0), given.src);
        let mut named =
            |number, what, desc: Option<MemoryDesc>| desc.map(|desc| recipe.operand(number, what, desc));
        let initial = named(arg::SRC_1, (query::SRC, 1), given.states);
        let cells = named(arg::SRC_2, (query::SRC, 2), given.cells);
        let weights = named(arg::WEIGHTS, (query::WEIGHTS, 0), Some(given.weights));
        let state_weights = named(arg::WEIGHTS_1, (query::WEIGHTS, 1), Some(given.state_weights));
        let bias = named(arg::BIAS, (query::WEIGHTS, 2), given.bias);
        let peepholes = named(arg::WEIGHTS_2, (query::WEIGHTS, 3), given.peepholes);
        let dst = named(arg::DST, (query::DST, 0), Some(given.dst));
        let last = named(arg::DST_1, (query::DST, 1), given.last_states);
        let last_cells = named(arg::DST_2, (query::DST, 2), given.last_cells);
        let (Some(weights), Some(state_weights), Some(dst)) = (weights, state_weights, dst) else {
            return Err(Failure::invalid("weights or result are missing"));
        };
        let apart = [steps, batch, side_by_side, hidden];
        for layer in 0..layers {
            let mut own: Vec<(Arg, Tensor)> = Vec::new();
            let is_last = layer + 1 == layers;
            let (result, pending) = if is_last {
                let (view, pending) = recipe.write_as(&dst, Dims::from(apart))?;
                (view, Some(pending))
            } else {
                (recipe.temporary(MemoryDesc::new(apart, input.desc.data_type())), None)
            };
            own.push((Arg::SRC, input.clone()));
            own.push((Arg::Weights, layer_of(&weights, layer)?));
            own.push((Recurrent::STATE_WEIGHTS, layer_of(&state_weights, layer)?));
            if let Some(bias) = &bias {
                let bias = layer_of(bias, layer)?;
                own.push((Arg::Bias, part(&bias, 1, 0, gates)?));
                if is_linear {
                    own.push((Recurrent::STATE_BIAS, candidate_bias(recipe, &bias, gates)?));
                }
            }
            for (to, given) in [
                (Recurrent::INITIAL_STATE, &initial),
                (Recurrent::INITIAL_CELL, &cells),
                (Recurrent::PEEPHOLES, &peepholes),
                (Recurrent::LAST_STATE, &last),
                (Recurrent::LAST_CELL, &last_cells),
            ] {
                if let Some(given) = given {
                    own.push((to, layer_of(given, layer)?));
                }
            }
            own.push((Arg::DST, result.clone()));
            let args: Vec<(Arg, &Tensor)> = own.iter().map(|(arg, tensor)| (*arg, tensor)).collect();
            recipe.step(Recurrent::new(self.cell, direction), &args, &Attributes::default())?;
            match pending {
                Some(pending) => pending.store(recipe)?,
                None => input = result.dense_as([steps, batch, side_by_side * hidden])?,
            }
        }
        let facts = Facts::new(kind::RNN, self.prop_kind).integer(query::CELL_KIND, self.kind);
        Ok(facts.integer(query::DIRECTION, self.direction).integer(query::FLAGS, i64::from(self.flags)))
    }
}

/// What a layer has of a tensor whose first axis are the layers.
fn layer_of(tensor: &Tensor, layer: usize) -> Outcome<Tensor> {
    let tensor = part(tensor, 0, layer, 1)?;
    let dims: Dims = tensor.dims()[1..].iter().copied().collect();
    Ok(Tensor { desc: tensor.desc.reshaped(dims)?, ..tensor })
}

/// Some of a tensor's elements along an axis without blocks.
fn part(tensor: &Tensor, axis: usize, from: usize, count: usize) -> Outcome<Tensor> {
    let desc = &tensor.desc;
    let plain = desc.blocking().filter(|blocking| blocking.inner.iter().all(|&(other, _)| other != axis));
    let blocking = plain.ok_or_else(|| missing("blocks of layers, directions or gates"))?;
    let mut dims = desc.dims().to_vec();
    dims[axis] = count;
    let offset = blocking.offset + from * blocking.strides[axis];
    let layout = Layout::Blocked(Blocking { offset, ..blocking.clone() });
    let desc = MemoryDesc::with_layout(dims, desc.data_type(), layout)?;
    Ok(Tensor { desc, ..tensor.clone() })
}

/// A bias of the state's products that is zero but for the candidate's, which is the row behind those of the gates.
fn candidate_bias(recipe: &mut Recipe, bias: &Tensor, gates: usize) -> Outcome<Tensor> {
    let (ways, hidden) = (bias.dims()[0], bias.dims()[2]);
    let all = recipe.temporary(MemoryDesc::new([ways, gates, hidden], DataType::F32));
    let others = part(&all, 1, 0, gates - 1)?;
    let mut f = Formula::new(others.dims());
    let zero = f.number(0.0);
    f.result(zero, &others);
    recipe.formula(f)?;
    let (row, own) = (part(bias, 1, gates, 1)?, part(&all, 1, gates - 1, 1)?);
    recipe.reorder(&row, &own)?;
    Ok(all)
}

fn missing(what: &str) -> Failure {
    Failure::Status(dnnl_unimplemented, format!("{what} of recurrent layers"))
}

//! oneDNN's functions and numbers, by their published declarations.

use std::ffi::{c_int, c_uint, c_void};

use anydnn::backend::op::{Activation, Direction, Recurrent, RecurrentBackward as Backward};
use anydnn::backend::{Arg, DataType};
use libloading::Library;

use super::super::onednn::Handle;
use super::layers::Pass;

pub(super) const CPU: c_int = 1;
pub(super) const IN_ORDER: c_uint = 1;
pub(super) const TRAINING: c_int = 64;
pub(super) const INFERENCE: c_int = 96;
pub(super) const BACKWARD: c_int = 128;
/// The query for the descriptor of an argument.
pub(super) const ARGUMENT: c_int = 255;
/// The tag of a layout that the library chooses.
pub(super) const ANY: c_int = 1;
pub(super) const RELU: c_int = 0x20;
pub(super) const TANH: c_int = 0x21;
pub(super) const LOGISTIC: c_int = 0x29;
/// Scales for each gate and unit of weights, `[L, D, I, G, H]`, and for each unit of a projection, `[L, D, H, P]`.
pub(super) const BY_GATE_AND_UNIT: c_int = 0b11000;
pub(super) const BY_UNIT: c_int = 0b1000;

// The numbers of arguments.
pub(super) const SRC: c_int = 1;
pub(super) const INITIAL_STATE: c_int = 2;
pub(super) const INITIAL_CELL: c_int = 3;
pub(super) const ATTENTION: c_int = 4;
pub(super) const DST: c_int = 17;
pub(super) const LAST_STATE: c_int = 18;
pub(super) const LAST_CELL: c_int = 19;
pub(super) const WEIGHTS: c_int = 33;
pub(super) const STATE_WEIGHTS: c_int = 34;
pub(super) const PEEPHOLES: c_int = 35;
pub(super) const PROJECTION: c_int = 36;
pub(super) const BIAS: c_int = 41;
pub(super) const WORKSPACE: c_int = 64;
/// What makes the number of an operand that of its gradient.
pub(super) const DIFF: c_int = 128;

/// The functions of oneDNN's C API that are called, by their published declarations.
macro_rules! api {
    ($($field:ident: $name:ident($($arg:ty),*) -> $result:ty;)*) => {
        pub(super) struct Api { $(pub(super) $field: unsafe extern "C" fn($($arg),*) -> $result,)* }

        impl Api {
            pub(super) fn of(library: &Library) -> Self {
                // SAFETY: the types are those of the published headers; the library stays loaded as long as the functions.
                unsafe { Self { $($field: *library.get(concat!(stringify!($name), "\0").as_bytes()).unwrap(),)* } }
            }
        }
    };
}

type H = Handle;

api! {
    engine_create: dnnl_engine_create(*mut H, c_int, usize) -> c_int;
    engine_destroy: dnnl_engine_destroy(H) -> c_int;
    stream_create: dnnl_stream_create(*mut H, H, c_uint) -> c_int;
    stream_wait: dnnl_stream_wait(H) -> c_int;
    stream_destroy: dnnl_stream_destroy(H) -> c_int;
    md_create: dnnl_memory_desc_create_with_strides(*mut H, c_int, *const i64, c_int, *const i64) -> c_int;
    md_open: dnnl_memory_desc_create_with_tag(*mut H, c_int, *const i64, c_int, c_int) -> c_int;
    md_size: dnnl_memory_desc_get_size(H) -> usize;
    md_destroy: dnnl_memory_desc_destroy(H) -> c_int;
    memory_create: dnnl_memory_create(*mut H, H, H, *mut c_void) -> c_int;
    memory_destroy: dnnl_memory_destroy(H) -> c_int;
    attr_create: dnnl_primitive_attr_create(*mut H) -> c_int;
    attr_destroy: dnnl_primitive_attr_destroy(H) -> c_int;
    data_qparams: dnnl_primitive_attr_set_rnn_data_qparams(H, f32, f32) -> c_int;
    weights_qparams: dnnl_primitive_attr_set_rnn_weights_qparams(H, i64, c_int, *const f32) -> c_int;
    projection_qparams: dnnl_primitive_attr_set_rnn_weights_projection_qparams(H, i64, c_int, *const f32) -> c_int;
    reorder: dnnl_reorder_primitive_desc_create(*mut H, H, H, H, H, H) -> c_int;
    vanilla: dnnl_vanilla_rnn_forward_primitive_desc_create(
        *mut H, H, c_int, c_int, c_int, H, H, H, H, H, H, H, c_uint, f32, f32, H) -> c_int;
    lstm: dnnl_lstm_forward_primitive_desc_create(
        *mut H, H, c_int, c_int, H, H, H, H, H, H, H, H, H, H, H, c_uint, H) -> c_int;
    gru: dnnl_gru_forward_primitive_desc_create(*mut H, H, c_int, c_int, H, H, H, H, H, H, H, c_uint, H) -> c_int;
    lbr_gru: dnnl_lbr_gru_forward_primitive_desc_create(
        *mut H, H, c_int, c_int, H, H, H, H, H, H, H, c_uint, H) -> c_int;
    augru: dnnl_augru_forward_primitive_desc_create(
        *mut H, H, c_int, c_int, H, H, H, H, H, H, H, H, c_uint, H) -> c_int;
    lbr_augru: dnnl_lbr_augru_forward_primitive_desc_create(
        *mut H, H, c_int, c_int, H, H, H, H, H, H, H, H, c_uint, H) -> c_int;
    vanilla_backward: dnnl_vanilla_rnn_backward_primitive_desc_create(
        *mut H, H, c_int, c_int, c_int, H, H, H, H, H, H, H, H, H, H, H, H, H, H, c_uint, f32, f32, H, H) -> c_int;
    lstm_backward: dnnl_lstm_backward_primitive_desc_create(
        *mut H, H, c_int, c_int, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, H, c_uint, H, H)
        -> c_int;
    gru_backward: dnnl_gru_backward_primitive_desc_create(
        *mut H, H, c_int, c_int, H, H, H, H, H, H, H, H, H, H, H, H, H, H, c_uint, H, H) -> c_int;
    lbr_gru_backward: dnnl_lbr_gru_backward_primitive_desc_create(
        *mut H, H, c_int, c_int, H, H, H, H, H, H, H, H, H, H, H, H, H, H, c_uint, H, H) -> c_int;
    query_md: dnnl_primitive_desc_query_md(H, c_int, c_int) -> H;
    pd_destroy: dnnl_primitive_desc_destroy(H) -> c_int;
    primitive_create: dnnl_primitive_create(*mut H, H) -> c_int;
    primitive_destroy: dnnl_primitive_destroy(H) -> c_int;
    execute: dnnl_primitive_execute(H, H, c_int, *const ExecArg) -> c_int;
}

/// `dnnl_exec_arg_t`.
#[repr(C)]
pub(super) struct ExecArg {
    pub(super) arg: c_int,
    pub(super) memory: Handle,
}

pub(super) fn number_of(data_type: DataType) -> c_int {
    match data_type {
        DataType::F32 => 3,
        DataType::S8 => 5,
        DataType::U8 => 6,
        other => panic!("no layer here has operands of {other}"),
    }
}

pub(super) fn way(direction: Direction) -> c_int {
    match direction {
        Direction::LeftToRight => 1,
        Direction::RightToLeft => 2,
        Direction::Concat => 3,
        Direction::Sum => 4,
    }
}

pub(super) fn function(activation: Activation) -> (c_int, f32) {
    match activation {
        Activation::Relu => (RELU, 0.0),
        Activation::LeakyRelu { alpha } => (RELU, alpha),
        Activation::Tanh => (TANH, 0.0),
        Activation::Logistic => (LOGISTIC, 0.0),
    }
}

/// The number of an argument; none for what the library has in another form.
pub(super) fn number(pass: Pass, arg: Arg) -> Option<c_int> {
    let own = match arg {
        Arg::SRC => SRC,
        Arg::Weights => WEIGHTS,
        Recurrent::STATE_WEIGHTS => STATE_WEIGHTS,
        Recurrent::PEEPHOLES => PEEPHOLES,
        _ if pass == Pass::Backward => match arg {
            Backward::DIFF_DST => DIFF + DST,
            Backward::DIFF_LAST_STATE => DIFF + LAST_STATE,
            Backward::DIFF_LAST_CELL => DIFF + LAST_CELL,
            Arg::DST => DIFF + SRC,
            Backward::DIFF_INITIAL_STATE => DIFF + INITIAL_STATE,
            Backward::DIFF_INITIAL_CELL => DIFF + INITIAL_CELL,
            Backward::DIFF_WEIGHTS => DIFF + WEIGHTS,
            Backward::DIFF_STATE_WEIGHTS => DIFF + STATE_WEIGHTS,
            Backward::DIFF_BIAS => DIFF + BIAS,
            Backward::DIFF_PEEPHOLES => DIFF + PEEPHOLES,
            _ => return None,
        },
        Recurrent::INITIAL_STATE => INITIAL_STATE,
        Recurrent::INITIAL_CELL => INITIAL_CELL,
        Recurrent::ATTENTION => ATTENTION,
        Recurrent::PROJECTION => PROJECTION,
        Arg::Bias => BIAS,
        Arg::DST => DST,
        Recurrent::LAST_STATE => LAST_STATE,
        Recurrent::LAST_CELL => LAST_CELL,
        _ => return None,
    };
    Some(own)
}

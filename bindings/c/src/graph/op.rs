//! Operations of graphs.

use std::ffi::{CStr, c_char};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anydnn::graph::{AttrValue, Attrs, LogicalTensor, Op, OpId, OpKind};

use super::logical_tensor::{read, to_tensor};
use super::types::*;
use crate::boundary::{self, Failure, Outcome};
use crate::handle::{self, Handle};
use crate::types::dnnl_status_t;

/// Makes an operation without inputs and outputs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_op_create(
    op: *mut dnnl_graph_op_t,
    id: usize,
    kind: dnnl_graph_op_kind_t,
    verbose_name: *const c_char,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_op_create", || {
        let make = || {
            let known = u32::try_from(kind).ok().and_then(OpKind::from_number);
            let kind = known.ok_or_else(|| Failure::invalid(format!("{kind} is no kind of operation")))?;
            // SAFETY: the caller passes null or a string.
            let name = unsafe { text(verbose_name, "verbose_name") }?;
            let (attrs, inputs, outputs) = (Attrs::new(), Vec::new(), Vec::new());
            let op = Op { id: OpId(id as u64), name, kind, attrs, inputs, outputs };
            Ok(OpObject(Mutex::new(Described { op, tensors: Vec::new() })))
        };
        // SAFETY: the caller passes null or a handle to write.
        unsafe { handle::create_at(op, make) }
    })
}

/// Ends an operation; null is none. Graphs that it was added to keep it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_op_destroy(op: dnnl_graph_op_t) -> dnnl_status_t {
    boundary::status("dnnl_graph_op_destroy", || {
        // SAFETY: the caller passes null or an operation that lives, and gives it up.
        unsafe { handle::destroy(op) }
    })
}

/// Adds an input.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_op_add_input(
    op: dnnl_graph_op_t,
    input: *const dnnl_graph_logical_tensor_t,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_op_add_input", || {
        // SAFETY: the caller passes null, or an operation that lives and a logical tensor.
        let (op, tensor) = unsafe { (handle::borrow(op)?, to_tensor(&read(input)?)?) };
        let mut described = op.lock();
        described.op.inputs.push(tensor.id);
        described.tensors.push(tensor);
        Ok(())
    })
}

/// Adds an output.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_op_add_output(
    op: dnnl_graph_op_t,
    output: *const dnnl_graph_logical_tensor_t,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_op_add_output", || {
        // SAFETY: the caller passes null, or an operation that lives and a logical tensor.
        let (op, tensor) = unsafe { (handle::borrow(op)?, to_tensor(&read(output)?)?) };
        let mut described = op.lock();
        described.op.outputs.push(tensor.id);
        described.tensors.push(tensor);
        Ok(())
    })
}

/// Sets an attribute of floats: one, or a list.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_op_set_attr_f32(
    op: dnnl_graph_op_t,
    name: dnnl_graph_op_attr_t,
    value: *const f32,
    value_len: usize,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_op_set_attr_f32", || {
        let value = match name {
            // SAFETY: the caller passes null or so many values.
            SCALES => AttrValue::F32s(unsafe { handle::slice(value, value_len, "value") }?.to_vec()),
            // SAFETY: the caller passes null or so many values, and one for the number zero.
            _ => AttrValue::F32(unsafe { single(value, value_len) }?),
        };
        // SAFETY: the caller passes null or an operation that lives.
        unsafe { set(op, name, 0x1..0x30, value) }
    })
}

/// Sets an attribute that is a truth value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_op_set_attr_bool(
    op: dnnl_graph_op_t,
    name: dnnl_graph_op_attr_t,
    value: *const u8,
    value_len: usize,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_op_set_attr_bool", || {
        if value_len == 0 {
            return Err(Failure::invalid("there is no value"));
        }
        // SAFETY: the caller passes null or so many values.
        let value = AttrValue::Bool(unsafe { single(value, value_len) }? != 0);
        // SAFETY: the caller passes null or an operation that lives.
        unsafe { set(op, name, 0x60..0x80, value) }
    })
}

/// Sets an attribute of integers: one, or a list.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_op_set_attr_s64(
    op: dnnl_graph_op_t,
    name: dnnl_graph_op_attr_t,
    value: *const i64,
    value_len: usize,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_op_set_attr_s64", || {
        let value = match name {
            // SAFETY: the caller passes null or so many values, and one for the number zero.
            0x30..0x40 => AttrValue::S64(unsafe { single(value, value_len) }?),
            // SAFETY: the caller passes null or so many values.
            _ => AttrValue::S64s(unsafe { handle::slice(value, value_len, "value") }?.to_vec()),
        };
        // SAFETY: the caller passes null or an operation that lives.
        unsafe { set(op, name, 0x30..0x60, value) }
    })
}

/// Sets an attribute that is a word, which ends with a zero. `value_len` is not zero; it may count words, of which there is one, or bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_op_set_attr_str(
    op: dnnl_graph_op_t,
    name: dnnl_graph_op_attr_t,
    value: *const c_char,
    value_len: usize,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_op_set_attr_str", || {
        if value_len == 0 {
            return Err(Failure::invalid("there is no value"));
        }
        // SAFETY: the caller passes null or a string.
        let word = unsafe { text(value, "value") }?;
        // SAFETY: the caller passes null or an operation that lives.
        unsafe { set(op, name, 0x80..0xFF, AttrValue::from(word)) }
    })
}

/// Tells the identity of an operation.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_op_get_id(op: const_dnnl_graph_op_t, id: *mut usize) -> dnnl_status_t {
    boundary::status("dnnl_graph_op_get_id", || {
        // SAFETY: the caller passes null or an operation that lives.
        let number = unsafe { handle::borrow(op) }?.lock().op.id.0 as usize;
        // SAFETY: the caller passes null or a number to write.
        unsafe { handle::write(id, "id", number) }
    })
}

/// Tells the kind of an operation.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_graph_op_get_kind(
    op: const_dnnl_graph_op_t,
    kind: *mut dnnl_graph_op_kind_t,
) -> dnnl_status_t {
    boundary::status("dnnl_graph_op_get_kind", || {
        // SAFETY: the caller passes null or an operation that lives.
        let number = unsafe { handle::borrow(op) }?.lock().op.kind.number() as dnnl_graph_op_kind_t;
        // SAFETY: the caller passes null or a kind to write.
        unsafe { handle::write(kind, "kind", number) }
    })
}

/// What is behind an operation's handle.
#[derive(Debug)]
pub(crate) struct OpObject(Mutex<Described>);

/// An operation with its tensors, inputs and outputs in the order of their adding.
#[derive(Clone, Debug)]
pub(super) struct Described {
    pub(super) op: Op,
    pub(super) tensors: Vec<LogicalTensor>,
}

impl Handle for dnnl_graph_op {
    type Value = OpObject;
    const TAG: u64 = u64::from_le_bytes(*b"any-g-op");
    const NAME: &'static str = "operation";
}

impl OpObject {
    pub(super) fn lock(&self) -> MutexGuard<'_, Described> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const SCALES: dnnl_graph_op_attr_t = 0x20;

/// The attributes by their numbers.
const ATTRIBUTES: [(dnnl_graph_op_attr_t, &[&str]); 7] = [
    (0x1, &["alpha", "beta", "epsilon", "max", "min", "momentum"]),
    (SCALES, &["scales"]),
    (0x30, &["axis", "begin_norm_axis", "groups"]),
    (
        0x40,
        &[
            "axes",
            "dilations",
            "dst_shape",
            "kernel",
            "order",
            "output_padding",
            "pads_begin",
            "pads_end",
            "shape",
            "sizes",
            "src_shape",
            "strides",
            "weights_shape",
            "zps",
            "group_shape",
        ],
    ),
    (
        0x60,
        &[
            "exclude_pad",
            "keep_dims",
            "keep_stats",
            "per_channel_broadcast",
            "special_zero",
            "transpose_a",
            "transpose_b",
            "use_affine",
            "use_dst",
        ],
    ),
    (
        0x80,
        &[
            "auto_broadcast",
            "auto_pad",
            "coordinate_transformation_mode",
            "data_format",
            "mode",
            "qtype",
            "rounding_type",
            "weights_format",
            "accumulation_mode",
        ],
    ),
    (0xFF, &[]),
];

/// The name of an attribute.
fn name_of(number: dnnl_graph_op_attr_t) -> Option<&'static str> {
    ATTRIBUTES.iter().find_map(|(first, names)| {
        usize::try_from(number.checked_sub(*first)?).ok().and_then(|i| names.get(i)).copied()
    })
}

/// # Safety
/// `op` is null or an operation that lives.
unsafe fn set(
    op: dnnl_graph_op_t,
    name: dnnl_graph_op_attr_t,
    of_type: std::ops::Range<dnnl_graph_op_attr_t>,
    value: AttrValue,
) -> Outcome {
    // SAFETY: by contract.
    let op = unsafe { handle::borrow(op) }?;
    let known = name_of(name).filter(|_| of_type.contains(&name));
    let Some(name) = known else {
        let message = format!("{name:#x} is no attribute that is {}", value.type_name());
        return Err(Failure::invalid(message));
    };
    op.lock().op.attrs.set(name, value);
    Ok(())
}

/// The one value of an attribute that is no list. Its number is 1, or 0 as in programs that give a number to lists alone.
///
/// # Safety
/// `value` is null or a value, or as many as `count` says.
unsafe fn single<T: Copy>(value: *const T, count: usize) -> Outcome<T> {
    if count > 1 {
        return Err(Failure::invalid(format!("there are {count} values, expected one")));
    }
    // SAFETY: by contract.
    Ok(unsafe { handle::slice(value, 1, "value") }?[0])
}

/// # Safety
/// `text` is null or a string that ends with a zero.
unsafe fn text(text: *const c_char, what: &str) -> Outcome<String> {
    if text.is_null() {
        return Err(Failure::null(what));
    }
    // SAFETY: by contract.
    Ok(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use anydnn::graph::Schema;

    #[test]
    fn attributes_have_the_numbers_of_their_type() {
        assert_eq!((name_of(0x1), name_of(0x6), name_of(0x7)), (Some("alpha"), Some("momentum"), None));
        assert_eq!(
            (name_of(0x4e), name_of(0x68), name_of(0x88)),
            (Some("group_shape"), Some("use_dst"), Some("accumulation_mode"))
        );
        assert_eq!((name_of(0), name_of(0xFF), name_of(-1)), (None, None, None));
    }

    #[test]
    fn every_attribute_of_the_operations_has_a_number() {
        let all: Vec<&str> = ATTRIBUTES.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        assert_eq!(all.len(), 43);
        for kind in OpKind::ALL {
            for attr in Schema::of(*kind).attrs {
                assert_ne!(all.contains(&attr.name), attr.extension, "{kind} {}", attr.name);
            }
        }
    }
}

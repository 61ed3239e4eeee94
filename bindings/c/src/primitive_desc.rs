//! What descriptions of primitives tell.

use std::ffi::{c_int, c_void};
use std::ptr;

use crate::boundary::{self, Failure, Outcome};
use crate::engine;
use crate::handle;
use crate::kinds::{arg, query};
use crate::object_types::{const_dnnl_primitive_desc_t, dnnl_cpu, dnnl_primitive_desc_t};
use crate::primitive::{Described, arena};
use crate::refusals::Lack;
use crate::types::{
    const_dnnl_memory_desc_t, const_dnnl_primitive_attr_t, dnnl_last_impl_reached, dnnl_query_t,
    dnnl_status_t,
};

/// Goes on to another implementation: there is one only.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_desc_next_impl(
    primitive_desc: dnnl_primitive_desc_t,
) -> dnnl_status_t {
    boundary::status("dnnl_primitive_desc_next_impl", || {
        // SAFETY: the caller passes null or a description that lives.
        unsafe { handle::borrow(primitive_desc) }?;
        Err(Failure::Status(dnnl_last_impl_reached, "there is one implementation".to_owned()))
    })
}

/// Copies a description.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_desc_clone(
    primitive_desc: *mut dnnl_primitive_desc_t,
    existing_primitive_desc: const_dnnl_primitive_desc_t,
) -> dnnl_status_t {
    boundary::status("dnnl_primitive_desc_clone", || {
        // SAFETY: the caller passes null, or a description that lives and a handle to write.
        unsafe { handle::create_at(primitive_desc, || Ok(handle::borrow(existing_primitive_desc)?.clone())) }
    })
}

/// Lends the attributes, until the description ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_desc_get_attr(
    primitive_desc: const_dnnl_primitive_desc_t,
    attr: *mut const_dnnl_primitive_attr_t,
) -> dnnl_status_t {
    boundary::status("dnnl_primitive_desc_get_attr", || {
        // SAFETY: the caller passes null, or a description that lives and a place to write.
        unsafe { handle::write(attr, "attr", handle::borrow(primitive_desc)?.attr.as_ptr()) }
    })
}

/// Lends the descriptor of an operand, until the description ends; an empty one for an operand that the primitive does not have. Null for
/// what is no query of a descriptor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_desc_query_md(
    primitive_desc: const_dnnl_primitive_desc_t,
    what: dnnl_query_t,
    index: c_int,
) -> const_dnnl_memory_desc_t {
    boundary::value("dnnl_primitive_desc_query_md", ptr::null(), || {
        // SAFETY: the caller passes null or a description that lives.
        let described = unsafe { handle::borrow(primitive_desc) }?;
        descriptor(described, what, index)
    })
}

/// A number that a description tells; zero for what it does not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_desc_query_s32(
    primitive_desc: const_dnnl_primitive_desc_t,
    what: dnnl_query_t,
    index: c_int,
) -> c_int {
    boundary::value("dnnl_primitive_desc_query_s32", 0, || {
        let mut number: c_int = 0;
        if !matches!(what, query::NUM_OF_INPUTS | query::NUM_OF_OUTPUTS | query::AXIS) {
            return Err(Failure::invalid(format!("{what} is no query of a number of 32 bits")));
        }
        // SAFETY: the caller passes null or a description that lives; the number is ours.
        unsafe { tell(handle::borrow(primitive_desc)?, what, index, (&raw mut number).cast()) }?;
        Ok(number)
    })
}

/// Writes what a query asks for, of the type that goes with the query.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_desc_query(
    primitive_desc: const_dnnl_primitive_desc_t,
    what: dnnl_query_t,
    index: c_int,
    result: *mut c_void,
) -> dnnl_status_t {
    boundary::status("dnnl_primitive_desc_query", || {
        if result.is_null() {
            return Err(Failure::null("result"));
        }
        // SAFETY: the caller passes null or a description that lives, and room for the answer.
        unsafe { tell(handle::borrow(primitive_desc)?, what, index, result) }
    })
}

/// # Safety
/// `result` has room for what the query gives.
unsafe fn tell(described: &Described, what: c_int, index: c_int, result: *mut c_void) -> Outcome {
    let facts = &described.facts;
    // SAFETY: the caller vouches for room of that type.
    unsafe {
        match what {
            query::ENGINE | query::SCRATCHPAD_ENGINE => write(result, engine::raw(&described.engine)),
            query::REORDER_SRC_ENGINE => write(result, engine::raw(described.engine_of(arg::SRC))),
            query::REORDER_DST_ENGINE => write(result, engine::raw(described.engine_of(arg::DST))),
            query::PRIMITIVE_KIND => write(result, facts.kind),
            query::PROP_KIND if facts.prop != 0 => write(result, facts.prop),
            query::NUM_OF_INPUTS => write(result, bound(described).0),
            query::NUM_OF_OUTPUTS => write(result, bound(described).1),
            query::TIME_ESTIMATE => write(result, 0.0_f64),
            query::MEMORY_CONSUMPTION => {
                let bytes = if described.scratchpad > 0 { 0 } else { arena(&described.temporaries).1 };
                write(result, bytes as i64);
            }
            query::IMPL_INFO => {
                let is_host = described.engine.value().kind() == dnnl_cpu;
                write(result, if is_host { c"host:anydnn" } else { c"ocl:anydnn" }.as_ptr());
            }
            query::CACHE_BLOB_ID_SIZE => write(result, blob_id(described).len() as i64),
            query::CACHE_BLOB_ID => write(result, blob_id(described).as_ptr()),
            query::ALG_KIND => write(result, facts.algorithm.ok_or_else(|| untold(what))?),
            query::FACTORS => {
                let factors = facts.factors.as_ref().ok_or_else(|| untold(what))?;
                write(result, factors.as_ptr());
            }
            query::AXIS | query::FLAGS | query::CELL_KIND | query::DIRECTION | query::ACTIVATION_KIND => {
                write(result, integer(described, what)? as c_int);
            }
            query::LOCAL_SIZE | query::GROUP_SIZE => write(result, integer(described, what)?),
            query::EPSILON | query::ALPHA | query::BETA | query::K | query::P => {
                let found = facts.floats.iter().find(|(of, _)| *of == what);
                write(result, found.ok_or_else(|| untold(what))?.1);
            }
            query::STRIDES | query::DILATIONS | query::PADDING_L | query::PADDING_R | query::KERNEL => {
                let found = facts.arrays.iter().find(|(of, _)| *of == what);
                write(result, found.ok_or_else(|| untold(what))?.1.as_ptr());
            }
            query::SRC..=query::SCRATCHPAD | query::EXEC_ARG => {
                write(result, descriptor(described, what, index)?);
            }
            _ => return Err(untold(what)),
        }
    }
    Ok(())
}

/// # Safety
/// `result` can take the value.
unsafe fn write<T>(result: *mut c_void, value: T) {
    // SAFETY: by contract.
    unsafe { result.cast::<T>().write_unaligned(value) };
}

fn descriptor(described: &Described, what: c_int, index: c_int) -> Outcome<const_dnnl_memory_desc_t> {
    if !matches!(what, query::SRC..=query::SCRATCHPAD | query::EXEC_ARG) {
        return Err(Failure::invalid(format!("{what} is no query of a memory descriptor")));
    }
    Ok(described.lent(what, index).unwrap_or(described.lent.none.as_ptr()))
}

fn integer(described: &Described, what: c_int) -> Outcome<i64> {
    let found = described.facts.integers.iter().find(|(of, _)| *of == what);
    found.map(|(_, value)| *value).ok_or_else(|| untold(what))
}

/// How many operands a primitive reads alone, and how many it writes; factors and seeds that attributes bring are none.
fn bound(described: &Described) -> (c_int, c_int) {
    let is_counted = |i: &usize| {
        let operand = &described.operands[*i];
        let is_attribute = matches!(
            operand.number,
            arg::DROPOUT_OFFSET..arg::MULTIPLE_SRC | arg::ATTR_SCALES..arg::POST_OP_DW
        );
        operand.part == 0 && !is_attribute
    };
    let counted = (0..described.operands.len()).filter(is_counted);
    let (written, read): (Vec<_>, Vec<_>) = counted.partition(|&i| described.writes(i));
    (read.len() as c_int, written.len() as c_int)
}

fn untold(what: c_int) -> Failure {
    Lack::Query.failure(format_args!("query {what} of this primitive"))
}

/// Programs are kept with the engine: every primitive's blob is the engine's. The host compiles nothing.
fn blob_id(described: &Described) -> &'static [u8] {
    if described.engine.value().kind() == dnnl_cpu { b"" } else { b"anydnn" }
}

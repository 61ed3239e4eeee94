//! Post-operations.

use anydnn_backend::op::BinaryFunction;
use anydnn_backend::{BinaryAlgorithm, PostOp};

use crate::boundary::{self, Failure, Outcome};
use crate::handle::{self, Handle};
#[allow(clippy::wildcard_imports, reason = "every algorithm")]
use crate::object_types::*;
use crate::primitive::operand;
use crate::types::{const_dnnl_memory_desc_t, dnnl_status_t};

/// Makes an empty list of post-operations.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_post_ops_create(post_ops: *mut dnnl_post_ops_t) -> dnnl_status_t {
    boundary::status("dnnl_post_ops_create", || {
        // SAFETY: the caller passes null or a handle to write.
        unsafe { handle::create_at(post_ops, || Ok(Vec::new())) }
    })
}

/// Ends a list of post-operations; null is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_post_ops_destroy(post_ops: dnnl_post_ops_t) -> dnnl_status_t {
    boundary::status("dnnl_post_ops_destroy", || {
        // SAFETY: the caller passes null or a list that lives, and gives it up.
        unsafe { handle::destroy(post_ops) }
    })
}

/// Appends a function of a result element and one of another tensor, which broadcasts to the result.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_post_ops_append_binary(
    post_ops: dnnl_post_ops_t,
    alg_kind: dnnl_alg_kind_t,
    src1_desc: const_dnnl_memory_desc_t,
) -> dnnl_status_t {
    boundary::status("dnnl_post_ops_append_binary", || {
        let algorithm = algorithm(alg_kind)?;
        // SAFETY: the caller passes null or a descriptor that lives.
        let other = unsafe { operand(src1_desc, "src1_desc") }?.to_memory_desc()?;
        // SAFETY: the caller passes null or a list that lives, and uses it nowhere else meanwhile.
        let list = unsafe { handle::borrow_mut(post_ops) }?;
        if list.len() >= MOST {
            return Err(Failure::invalid(format!("there are {MOST} post-operations already")));
        }
        list.push(PostOp::binary(algorithm, other));
        Ok(())
    })
}

impl Handle for dnnl_post_ops {
    type Value = Vec<PostOp>;
    const TAG: u64 = u64::from_le_bytes(*b"any-post");
    const NAME: &'static str = "post-operations object";
}

/// The most post-operations of a primitive.
const MOST: usize = 32;

fn algorithm(kind: dnnl_alg_kind_t) -> Outcome<BinaryAlgorithm> {
    let row = BinaryFunction::of_onednn(kind);
    row.map(|row| row.algorithm)
        .ok_or_else(|| Failure::invalid(format!("{kind:#x} is not a binary algorithm")))
}

//! Attributes of primitives.

use std::ffi::c_int;
use std::sync::Arc;

use anydnn_backend::{DataType, FpMath, ScratchpadMode};

use crate::boundary::{self, Failure, Outcome};
use crate::handle::{self, Embedded, Handle};
use crate::kinds::arg;
use crate::object_types::{
    const_dnnl_post_ops_t, dnnl_post_ops, dnnl_scratchpad_mode_library, dnnl_scratchpad_mode_t,
    dnnl_scratchpad_mode_user,
};
use crate::post_ops::PostOpEntry;
use crate::recipe::Tensor;
use crate::recurrent_attributes::RecurrentParams;
use crate::refusals::Lack;
use crate::settings;
use crate::types::{
    const_dnnl_primitive_attr_t, dnnl_memory_desc, dnnl_primitive_attr, dnnl_primitive_attr_t, dnnl_status_t,
};

/// Makes attributes with default values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_attr_create(attr: *mut dnnl_primitive_attr_t) -> dnnl_status_t {
    boundary::status("dnnl_primitive_attr_create", || {
        // SAFETY: the caller passes null or a handle to write.
        unsafe { handle::create_at(attr, || Ok(Attr::default())) }
    })
}

/// Copies attributes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_attr_clone(
    attr: *mut dnnl_primitive_attr_t,
    existing_attr: const_dnnl_primitive_attr_t,
) -> dnnl_status_t {
    boundary::status("dnnl_primitive_attr_clone", || {
        // SAFETY: the caller passes null, or attributes that live and a handle to write.
        unsafe { handle::create_at(attr, || Ok(handle::borrow(existing_attr)?.clone())) }
    })
}

/// Ends attributes; null is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_attr_destroy(attr: dnnl_primitive_attr_t) -> dnnl_status_t {
    boundary::status("dnnl_primitive_attr_destroy", || {
        // SAFETY: the caller passes null or attributes that live, and gives them up.
        unsafe { handle::destroy(attr) }
    })
}

/// Says who gives primitives their working memory: the library, or the caller with every execution.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_attr_set_scratchpad_mode(
    attr: dnnl_primitive_attr_t,
    mode: dnnl_scratchpad_mode_t,
) -> dnnl_status_t {
    boundary::status("dnnl_primitive_attr_set_scratchpad_mode", || {
        let mode = match mode {
            dnnl_scratchpad_mode_library => ScratchpadMode::Library,
            dnnl_scratchpad_mode_user => ScratchpadMode::User,
            other => return Err(Failure::invalid(format!("{other} is no scratchpad mode"))),
        };
        // SAFETY: the caller passes null or attributes that live, and uses them nowhere else meanwhile.
        unsafe { handle::borrow_mut(attr) }?.scratchpad = mode;
        Ok(())
    })
}

/// Tells who gives primitives their working memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_attr_get_scratchpad_mode(
    attr: const_dnnl_primitive_attr_t,
    mode: *mut dnnl_scratchpad_mode_t,
) -> dnnl_status_t {
    boundary::status("dnnl_primitive_attr_get_scratchpad_mode", || {
        // SAFETY: the caller passes null, or attributes that live and a place to write.
        unsafe {
            let value = match handle::borrow(attr)?.scratchpad {
                ScratchpadMode::Library => dnnl_scratchpad_mode_library,
                ScratchpadMode::User => dnnl_scratchpad_mode_user,
            };
            handle::write(mode, "mode", value)
        }
    })
}

/// Gives attributes a copy of post-operations; null for none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_attr_set_post_ops(
    attr: dnnl_primitive_attr_t,
    post_ops: const_dnnl_post_ops_t,
) -> dnnl_status_t {
    boundary::status("dnnl_primitive_attr_set_post_ops", || {
        // SAFETY: the caller passes null, or objects that live, and uses the attributes nowhere else meanwhile.
        let (attr, post_ops) = unsafe { (handle::borrow_mut(attr)?, handle::borrow_optional(post_ops)?) };
        attr.post_ops = Arc::new(Embedded::new(post_ops.cloned().unwrap_or_default()));
        Ok(())
    })
}

/// Lends the post-operations, until the attributes get others or end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_attr_get_post_ops(
    attr: const_dnnl_primitive_attr_t,
    post_ops: *mut const_dnnl_post_ops_t,
) -> dnnl_status_t {
    boundary::status("dnnl_primitive_attr_get_post_ops", || {
        // SAFETY: the caller passes null, or attributes that live and a place to write.
        unsafe { handle::write(post_ops, "post_ops", handle::borrow(attr)?.post_ops.as_ptr()) }
    })
}

/// What is behind attributes' handle.
#[derive(Clone)]
pub(crate) struct Attr {
    pub(crate) scratchpad: ScratchpadMode,
    pub(crate) fpmath: FpMath,
    pub(crate) fpmath_for_integers: bool,
    pub(crate) deterministic: bool,
    pub(crate) accumulation: c_int,
    pub(crate) stochastic: Vec<c_int>,
    pub(crate) scales: Vec<(c_int, QuantParam)>,
    pub(crate) zero_points: Vec<(c_int, QuantParam)>,
    pub(crate) post_ops: Arc<Embedded<dnnl_post_ops>>,
    pub(crate) dropout: Option<GivenDropout>,
    /// Sums over groups of the source, which the caller knows.
    pub(crate) reductions: Option<QuantParam>,
    /// How recurrent layers and what goes into them are quantised.
    pub(crate) recurrent: RecurrentParams,
    /// How many post-operations are before those of this list, which is a part of the caller's.
    pub(crate) post_ops_before: usize,
    /// What multiplies the result before all else: the scale of a source, where [`Recipe::scale_behind`](crate::recipe::Recipe::scale_behind)
    /// moved it there.
    pub(crate) result_factor: Option<Tensor>,
}

/// What is dropped, and how.
#[derive(Clone)]
pub(crate) struct GivenDropout {
    /// The descriptor of the mask of what is kept; an empty one for none.
    pub(crate) mask: Arc<Embedded<dnnl_memory_desc>>,
    /// The type of the seed, and its number.
    pub(crate) seed: DataType,
    pub(crate) seed_code: c_int,
    pub(crate) has_offset: bool,
    /// Whether numbers come as host scalars.
    pub(crate) on_host: bool,
}

/// Scales or zero points of an operand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QuantParam {
    /// The dimensions along which they differ, in bits.
    pub(crate) mask: c_int,
    /// The sizes of groups along the last dimensions; none for one factor an index.
    pub(crate) groups: Vec<usize>,
    /// The type; u8 for exponents.
    pub(crate) data_type: DataType,
    /// Powers of two, stored as their exponents (e8m0).
    pub(crate) exponents: bool,
    /// One value that comes as a host scalar.
    pub(crate) on_host: bool,
    /// How the primitive finds them, if it does.
    pub(crate) found: Option<Found>,
}

/// How a primitive finds the scale of a group of elements from the largest one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// A power of two, by the MX specification of the Open Compute Project.
    Exponent,
    /// The largest element over the largest number of the result's type.
    Float,
}

/// The arguments that may be rounded at random.
const ROUNDED: [c_int; 3] = [arg::DST, arg::DIFF_SRC, arg::DIFF_WEIGHTS];

impl Handle for dnnl_primitive_attr {
    type Value = Attr;
    const TAG: u64 = u64::from_le_bytes(*b"any-attr");
    const NAME: &'static str = "attributes object";
}

impl Default for Attr {
    fn default() -> Self {
        Self {
            scratchpad: ScratchpadMode::Library,
            fpmath: settings::default_fpmath(),
            fpmath_for_integers: false,
            deterministic: false,
            accumulation: 0,
            stochastic: Vec::new(),
            scales: Vec::new(),
            zero_points: Vec::new(),
            post_ops: Arc::new(Embedded::new(Vec::new())),
            dropout: None,
            reductions: None,
            recurrent: RecurrentParams::default(),
            post_ops_before: 0,
            result_factor: None,
        }
    }
}

impl Attr {
    pub(crate) fn post_ops(&self) -> &[PostOpEntry] {
        self.post_ops.value()
    }

    pub(crate) fn scale(&self, number: c_int) -> Option<&QuantParam> {
        self.scales.iter().find(|(of, _)| *of == number).map(|(_, factor)| factor)
    }

    pub(crate) fn zero_point(&self, number: c_int) -> Option<&QuantParam> {
        self.zero_points.iter().find(|(of, _)| *of == number).map(|(_, factor)| factor)
    }

    /// The same attributes with other post-operations, `before` of which the caller has in front of them.
    pub(crate) fn with_post_ops(&self, post_ops: &[PostOpEntry], before: usize) -> Self {
        let post_ops = Arc::new(Embedded::new(post_ops.to_vec()));
        Self { post_ops, post_ops_before: before, ..self.clone() }
    }

    /// Whether primitives that do nothing special with an attribute can do what the attributes say.
    pub(crate) fn check_supported(&self) -> Outcome {
        let is_found =
            |(number, factor): &&(c_int, QuantParam)| factor.found.is_some() && *number != arg::DST;
        let wrong = if self.scales.iter().any(|scale| is_found(&scale)) {
            Some((Lack::FoundScales, "scales that the primitive finds for anything but its result"))
        } else if self.stochastic.iter().any(|number| !ROUNDED.contains(number)) {
            Some((Lack::Rounding, "rounding of this argument at random"))
        } else if self.post_ops().iter().any(|post_op| matches!(post_op, PostOpEntry::Depthwise { .. })) {
            Some((Lack::Depthwise, "a depthwise convolution as a post-operation here"))
        } else if !self.recurrent.is_default() {
            Some((Lack::Attribute, "quantisation of recurrent layers here"))
        } else {
            None
        };
        wrong.map_or(Ok(()), |(lack, what)| Err(lack.failure(what)))
    }

    /// Whether scales and zero points are of operands that a primitive has them for.
    pub(crate) fn check_used(&self, is_used: impl Fn(c_int) -> bool) -> Outcome {
        match self.scales.iter().chain(&self.zero_points).find(|(number, _)| !is_used(*number)) {
            Some((number, _)) => {
                Err(Lack::Attribute.failure(format_args!("scales or zero points of argument {number} here")))
            }
            None => Ok(()),
        }
    }

    /// Whether attributes change nothing but who gives working memory, for primitives that take no others.
    pub(crate) fn check_plain(&self) -> Outcome {
        self.check_supported()?;
        self.check_used(|_| false)?;
        let wrong = if !self.post_ops().is_empty() {
            "post-operations of this primitive"
        } else if self.dropout.is_some() {
            "dropout of this primitive"
        } else if self.reductions.is_some() {
            "precomputed reductions of this primitive"
        } else {
            return Ok(());
        };
        Err(Lack::Attribute.failure(wrong))
    }
}

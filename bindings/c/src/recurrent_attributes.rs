//! Attributes of quantised recurrent layers.

use std::ffi::c_int;
use std::sync::Arc;

use anydnn_backend::{DataType, Dims, MemoryDesc};

use crate::attributes::Attr;
use crate::boundary::{self, Failure, Outcome};
use crate::handle;
use crate::recipe::{Recipe, Tensor};
use crate::refusals::Lack;
use crate::types::{const_dnnl_primitive_attr_t, dnnl_dim_t, dnnl_primitive_attr_t, dnnl_status_t};

/// Says how inputs and states are stored as integers: `scale * x + shift`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_attr_set_rnn_data_qparams(
    attr: dnnl_primitive_attr_t,
    scale: f32,
    shift: f32,
) -> dnnl_status_t {
    boundary::status("dnnl_primitive_attr_set_rnn_data_qparams", || {
        // SAFETY: the caller passes null or attributes that live, and uses them nowhere else meanwhile.
        unsafe { handle::borrow_mut(attr) }?.recurrent.data = Some((scale, shift));
        Ok(())
    })
}

/// Tells how inputs and states are stored as integers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_attr_get_rnn_data_qparams(
    attr: const_dnnl_primitive_attr_t,
    scale: *mut f32,
    shift: *mut f32,
) -> dnnl_status_t {
    boundary::status("dnnl_primitive_attr_get_rnn_data_qparams", || {
        // SAFETY: the caller passes null, or attributes that live and places to write or null.
        unsafe {
            let (own_scale, own_shift) = handle::borrow(attr)?.recurrent.data();
            if !scale.is_null() {
                handle::write(scale, "scale", own_scale)?;
            }
            if !shift.is_null() {
                handle::write(shift, "shift", own_shift)?;
            }
        }
        Ok(())
    })
}

/// Says by what weights were multiplied before they became integers, along the dimensions in the bits of `mask`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_attr_set_rnn_weights_qparams(
    attr: dnnl_primitive_attr_t,
    count: dnnl_dim_t,
    mask: c_int,
    scales: *const f32,
) -> dnnl_status_t {
    boundary::status("dnnl_primitive_attr_set_rnn_weights_qparams", || {
        // SAFETY: the caller passes null or attributes that live, used nowhere else meanwhile, and null or `count` numbers.
        unsafe { handle::borrow_mut(attr)?.recurrent.weights = Some(Factors::read(count, mask, scales)?) };
        Ok(())
    })
}

/// Tells by what weights were multiplied. The numbers are lent until the attributes get others or end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_attr_get_rnn_weights_qparams(
    attr: const_dnnl_primitive_attr_t,
    count: *mut dnnl_dim_t,
    mask: *mut c_int,
    scales: *mut *const f32,
) -> dnnl_status_t {
    boundary::status("dnnl_primitive_attr_get_rnn_weights_qparams", || {
        // SAFETY: the caller passes null, or attributes that live and places to write or null.
        unsafe { lend(handle::borrow(attr)?.recurrent.weights.as_ref(), count, mask, scales) }
    })
}

/// Says by what the weights of a projection were multiplied; see [`dnnl_primitive_attr_set_rnn_weights_qparams`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_attr_set_rnn_weights_projection_qparams(
    attr: dnnl_primitive_attr_t,
    count: dnnl_dim_t,
    mask: c_int,
    scales: *const f32,
) -> dnnl_status_t {
    boundary::status("dnnl_primitive_attr_set_rnn_weights_projection_qparams", || {
        // SAFETY: the caller passes null or attributes that live, used nowhere else meanwhile, and null or `count` numbers.
        unsafe { handle::borrow_mut(attr)?.recurrent.projection = Some(Factors::read(count, mask, scales)?) };
        Ok(())
    })
}

/// Tells by what the weights of a projection were multiplied; see [`dnnl_primitive_attr_get_rnn_weights_qparams`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_attr_get_rnn_weights_projection_qparams(
    attr: const_dnnl_primitive_attr_t,
    count: *mut dnnl_dim_t,
    mask: *mut c_int,
    scales: *mut *const f32,
) -> dnnl_status_t {
    boundary::status("dnnl_primitive_attr_get_rnn_weights_projection_qparams", || {
        // SAFETY: the caller passes null, or attributes that live and places to write or null.
        unsafe { lend(handle::borrow(attr)?.recurrent.projection.as_ref(), count, mask, scales) }
    })
}

/// What the attributes say of quantised recurrent layers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RecurrentParams {
    /// The scale and the shift of inputs and states.
    pub(crate) data: Option<(f32, f32)>,
    pub(crate) weights: Option<Factors>,
    pub(crate) projection: Option<Factors>,
}

/// What weights were multiplied by.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Factors {
    /// The dimensions along which they differ, in bits.
    mask: c_int,
    scales: Arc<[f32]>,
}

static ONE: [f32; 1] = [1.0];

impl RecurrentParams {
    /// The scale and the shift of inputs and states.
    pub(crate) fn data(&self) -> (f32, f32) {
        self.data.unwrap_or((1.0, 0.0))
    }

    /// Whether nothing was said.
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Attr {
    /// The same without what is said of recurrent layers.
    pub(crate) fn without_recurrent(&self) -> Self {
        Self { recurrent: RecurrentParams::default(), ..self.clone() }
    }
}

impl Factors {
    /// # Safety
    /// `scales` is null or holds `count` numbers.
    unsafe fn read(count: dnnl_dim_t, mask: c_int, scales: *const f32) -> Outcome<Self> {
        let own = usize::try_from(count).ok().filter(|&count| count > 0);
        let own = own.ok_or_else(|| Failure::invalid(format!("{count} scales, expected at least 1")))?;
        if mask < 0 {
            return Err(Failure::invalid(format!("the mask is {mask}, expected bits of dimensions")));
        }
        if scales.is_null() {
            return Err(Failure::null("scales"));
        }
        // SAFETY: by contract.
        let scales = unsafe { handle::slice(scales, own, "scales") }?;
        Ok(Self { mask, scales: scales.into() })
    }

    /// A constant whose dimensions are those of the weights where factors differ along them, and one elsewhere; one of one without factors.
    pub(crate) fn tensor(
        given: Option<&Self>,
        recipe: &mut Recipe,
        weights: &MemoryDesc,
        terms: usize,
    ) -> Outcome<Tensor> {
        let (mask, scales) = given.map_or((0, &ONE[..]), |own| (own.mask, &own.scales[..]));
        let dims = weights.dims();
        if mask >> dims.len() != 0 || mask >> terms & 1 != 0 {
            return Err(Lack::Recurrent.failure(format_args!("scales of weights by mask {mask}")));
        }
        let own = dims.iter().enumerate().map(|(i, &dim)| if mask >> i & 1 != 0 { dim } else { 1 });
        let own: Dims = own.collect();
        let count: usize = own.iter().product();
        if count != scales.len() {
            let given = scales.len();
            return Err(Failure::invalid(format!(
                "{given} scales of weights {dims} by mask {mask}, expected {count}"
            )));
        }
        Ok(recipe.known(MemoryDesc::new(own, DataType::F32), scales))
    }
}

/// # Safety
/// Places are null or may be written.
unsafe fn lend(
    given: Option<&Factors>,
    count: *mut dnnl_dim_t,
    mask: *mut c_int,
    scales: *mut *const f32,
) -> Outcome {
    let (own_mask, own) = given.map_or((0, &ONE[..]), |own| (own.mask, &own.scales[..]));
    // SAFETY: by contract.
    unsafe {
        if !count.is_null() {
            handle::write(count, "count", own.len() as dnnl_dim_t)?;
        }
        if !mask.is_null() {
            handle::write(mask, "mask", own_mask)?;
        }
        if !scales.is_null() {
            handle::write(scales, "scales", own.as_ptr())?;
        }
    }
    Ok(())
}

//! Attributes that say how a primitive computes numbers.

use std::ffi::c_int;
use std::ptr;
use std::sync::{Arc, OnceLock};

use anydnn_backend::DataType;

use crate::attributes::{Attr, Found, GivenDropout, QuantParam};
use crate::boundary::{self, Failure, Outcome};
use crate::desc::Md;
use crate::handle::{self, Embedded};
use crate::kinds::arg;
use crate::post_ops::known;
use crate::settings;
use crate::types::{
    const_dnnl_memory_desc_t, const_dnnl_primitive_attr_t, dnnl_data_type_t, dnnl_dim_t, dnnl_e8m0, dnnl_f32,
    dnnl_fpmath_mode_t, dnnl_memory_desc, dnnl_primitive_attr_t, dnnl_s32, dnnl_s64, dnnl_status_t,
};

/// Which narrower arithmetic may be used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_attr_set_fpmath_mode(
    attr: dnnl_primitive_attr_t,
    mode: dnnl_fpmath_mode_t,
) -> dnnl_status_t {
    boundary::status("dnnl_primitive_attr_set_fpmath_mode", || {
        // SAFETY: the caller passes null or attributes that live, and uses them nowhere else meanwhile.
        unsafe { set_fpmath(attr, mode, 0) }
    })
}

/// Which narrower arithmetic may be used, and whether for integers too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_attr_set_fpmath_mode_v2(
    attr: dnnl_primitive_attr_t,
    mode: dnnl_fpmath_mode_t,
    apply_to_int: c_int,
) -> dnnl_status_t {
    boundary::status("dnnl_primitive_attr_set_fpmath_mode_v2", || {
        // SAFETY: the caller passes null or attributes that live, and uses them nowhere else meanwhile.
        unsafe { set_fpmath(attr, mode, apply_to_int) }
    })
}

/// Tells which narrower arithmetic may be used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_attr_get_fpmath_mode(
    attr: const_dnnl_primitive_attr_t,
    mode: *mut dnnl_fpmath_mode_t,
) -> dnnl_status_t {
    boundary::status("dnnl_primitive_attr_get_fpmath_mode", || {
        // SAFETY: the caller passes null, or attributes that live and a place to write.
        unsafe { handle::write(mode, "mode", settings::fpmath_number(handle::borrow(attr)?.fpmath)) }
    })
}

/// Tells which narrower arithmetic may be used, and whether for integers too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_attr_get_fpmath_mode_v2(
    attr: const_dnnl_primitive_attr_t,
    mode: *mut dnnl_fpmath_mode_t,
    apply_to_int: *mut c_int,
) -> dnnl_status_t {
    boundary::status("dnnl_primitive_attr_get_fpmath_mode_v2", || {
        // SAFETY: the caller passes null, or attributes that live and places to write or null.
        unsafe {
            let given = handle::borrow(attr)?;
            if !mode.is_null() {
                handle::write(mode, "mode", settings::fpmath_number(given.fpmath))?;
            }
            if !apply_to_int.is_null() {
                handle::write(apply_to_int, "apply_to_int", c_int::from(given.fpmath_for_integers))?;
            }
        }
        Ok(())
    })
}

/// Whether each run gives the same bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_attr_set_deterministic(
    attr: dnnl_primitive_attr_t,
    value: c_int,
) -> dnnl_status_t {
    boundary::status("dnnl_primitive_attr_set_deterministic", || {
        // SAFETY: the caller passes null or attributes that live, and uses them nowhere else meanwhile.
        unsafe { handle::borrow_mut(attr) }?.deterministic = value != 0;
        Ok(())
    })
}

/// Tells whether each run gives the same bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_attr_get_deterministic(
    attr: const_dnnl_primitive_attr_t,
    value: *mut c_int,
) -> dnnl_status_t {
    boundary::status("dnnl_primitive_attr_get_deterministic", || {
        // SAFETY: the caller passes null, or attributes that live and a place to write.
        unsafe { handle::write(value, "value", c_int::from(handle::borrow(attr)?.deterministic)) }
    })
}

/// What sums may be kept in. Sums are kept in f32 or wider whatever is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_attr_set_accumulation_mode(
    attr: dnnl_primitive_attr_t,
    mode: c_int,
) -> dnnl_status_t {
    boundary::status("dnnl_primitive_attr_set_accumulation_mode", || {
        if !(0..=5).contains(&mode) {
            return Err(Failure::invalid(format!("{mode} is no accumulation mode")));
        }
        // SAFETY: the caller passes null or attributes that live, and uses them nowhere else meanwhile.
        unsafe { handle::borrow_mut(attr) }?.accumulation = mode;
        Ok(())
    })
}

/// Tells what sums may be kept in.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_attr_get_accumulation_mode(
    attr: const_dnnl_primitive_attr_t,
    mode: *mut c_int,
) -> dnnl_status_t {
    boundary::status("dnnl_primitive_attr_get_accumulation_mode", || {
        // SAFETY: the caller passes null, or attributes that live and a place to write.
        unsafe { handle::write(mode, "mode", handle::borrow(attr)?.accumulation) }
    })
}

/// How an argument is rounded: 0 to the nearest, 1 at random.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_attr_set_rounding(
    attr: dnnl_primitive_attr_t,
    arg: c_int,
    mode: c_int,
) -> dnnl_status_t {
    boundary::status("dnnl_primitive_attr_set_rounding", || {
        if !(0..=1).contains(&mode) {
            return Err(Failure::invalid(format!("{mode} is no rounding mode")));
        }
        // SAFETY: the caller passes null or attributes that live, and uses them nowhere else meanwhile.
        let list = &mut unsafe { handle::borrow_mut(attr) }?.stochastic;
        list.retain(|&other| other != arg);
        if mode == 1 {
            list.push(arg);
        }
        Ok(())
    })
}

/// Tells how an argument is rounded.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_attr_get_rounding(
    attr: const_dnnl_primitive_attr_t,
    arg: c_int,
    mode: *mut c_int,
) -> dnnl_status_t {
    boundary::status("dnnl_primitive_attr_get_rounding", || {
        // SAFETY: the caller passes null, or attributes that live and a place to write.
        unsafe { handle::write(mode, "mode", c_int::from(handle::borrow(attr)?.stochastic.contains(&arg))) }
    })
}

/// Scales in f32 of an argument, which differ along the dimensions of a mask.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_attr_set_scales_mask(
    attr: dnnl_primitive_attr_t,
    arg: c_int,
    mask: c_int,
) -> dnnl_status_t {
    boundary::status("dnnl_primitive_attr_set_scales_mask", || {
        let given = Given { arg, mask, count: 0, groups: ptr::null(), data_type: dnnl_f32, on_host: 0 };
        // SAFETY: the caller passes null or attributes that live, and uses them nowhere else meanwhile.
        unsafe { set_factor(attr, &given, false) }
    })
}

/// Scales of an argument, by mask and by groups of its last dimensions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_attr_set_scales(
    attr: dnnl_primitive_attr_t,
    arg: c_int,
    mask: c_int,
    group_ndims: c_int,
    group_dims: *const dnnl_dim_t,
    data_type: dnnl_data_type_t,
) -> dnnl_status_t {
    boundary::status("dnnl_primitive_attr_set_scales", || {
        let given = Given { arg, mask, count: group_ndims, groups: group_dims, data_type, on_host: 0 };
        // SAFETY: the caller passes null or objects that live, and uses the attributes nowhere else meanwhile.
        unsafe { set_factor(attr, &given, false) }
    })
}

/// Scales of an argument; one that is on the host comes as a host scalar.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_attr_set_scales_v2(
    attr: dnnl_primitive_attr_t,
    arg: c_int,
    mask: c_int,
    ndims: c_int,
    group_dims: *const dnnl_dim_t,
    data_type: dnnl_data_type_t,
    is_on_host: c_int,
) -> dnnl_status_t {
    boundary::status("dnnl_primitive_attr_set_scales_v2", || {
        let given = Given { arg, mask, count: ndims, groups: group_dims, data_type, on_host: is_on_host };
        // SAFETY: the caller passes null or objects that live, and uses the attributes nowhere else meanwhile.
        unsafe { set_factor(attr, &given, false) }
    })
}

/// Scales of an argument, given (`qmode` 1) or found by the primitive: powers of two by the MX specification (2), or the largest
/// element of a group over the largest number of the result's type (3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_attr_set_scales_v3(
    attr: dnnl_primitive_attr_t,
    arg: c_int,
    mask: c_int,
    ndims: c_int,
    group_dims: *const dnnl_dim_t,
    data_type: dnnl_data_type_t,
    is_on_host: c_int,
    qmode: c_int,
) -> dnnl_status_t {
    boundary::status("dnnl_primitive_attr_set_scales_v3", || {
        if !(1..=3).contains(&qmode) {
            return Err(Failure::invalid(format!("{qmode} is no quantization mode")));
        }
        let given = Given { arg, mask, count: ndims, groups: group_dims, data_type, on_host: is_on_host };
        let found = match qmode {
            2 => Some(Found::Exponent),
            3 => Some(Found::Float),
            _ => None,
        };
        if found.is_some() && (is_on_host != 0 || mask == 0) {
            return Err(Failure::invalid("scales that are found are on the device, one for each group"));
        }
        // SAFETY: the caller passes null or objects that live, and uses the attributes nowhere else meanwhile.
        unsafe {
            set_factor(attr, &given, false)?;
            if let Some((_, factor)) = handle::borrow_mut(attr)?.scales.last_mut() {
                factor.found = found;
            }
        }
        Ok(())
    })
}

/// Zero points in s32 of an argument, which differ along the dimensions of a mask.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_attr_set_zero_points_mask(
    attr: dnnl_primitive_attr_t,
    arg: c_int,
    mask: c_int,
) -> dnnl_status_t {
    boundary::status("dnnl_primitive_attr_set_zero_points_mask", || {
        let given = Given { arg, mask, count: 0, groups: ptr::null(), data_type: dnnl_s32, on_host: 0 };
        // SAFETY: the caller passes null or attributes that live, and uses them nowhere else meanwhile.
        unsafe { set_factor(attr, &given, true) }
    })
}

/// Zero points of an argument, by mask and by groups of its last dimensions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_attr_set_zero_points(
    attr: dnnl_primitive_attr_t,
    arg: c_int,
    mask: c_int,
    group_ndims: c_int,
    group_dims: *const dnnl_dim_t,
    data_type: dnnl_data_type_t,
) -> dnnl_status_t {
    boundary::status("dnnl_primitive_attr_set_zero_points", || {
        let given = Given { arg, mask, count: group_ndims, groups: group_dims, data_type, on_host: 0 };
        // SAFETY: the caller passes null or objects that live, and uses the attributes nowhere else meanwhile.
        unsafe { set_factor(attr, &given, true) }
    })
}

/// Zero points of an argument; one that is on the host comes as a host scalar.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_attr_set_zero_points_v2(
    attr: dnnl_primitive_attr_t,
    arg: c_int,
    mask: c_int,
    ndims: c_int,
    group_dims: *const dnnl_dim_t,
    data_type: dnnl_data_type_t,
    is_on_host: c_int,
) -> dnnl_status_t {
    boundary::status("dnnl_primitive_attr_set_zero_points_v2", || {
        let given = Given { arg, mask, count: ndims, groups: group_dims, data_type, on_host: is_on_host };
        // SAFETY: the caller passes null or objects that live, and uses the attributes nowhere else meanwhile.
        unsafe { set_factor(attr, &given, true) }
    })
}

/// Sums over groups of the source of a product, which the caller knows and passes at execution: zero points of the weights take as much from
/// the product as the sums say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_attr_set_precomputed_reductions(
    attr: dnnl_primitive_attr_t,
    arg: c_int,
    mask: c_int,
    group_ndims: c_int,
    group_dims: *const dnnl_dim_t,
    data_type: dnnl_data_type_t,
) -> dnnl_status_t {
    boundary::status("dnnl_primitive_attr_set_precomputed_reductions", || {
        if arg != arg::SRC || data_type != dnnl_s32 {
            return Err(Failure::invalid(format!(
                "reductions of argument {arg} in the data type {data_type}, expected those of the source in s32"
            )));
        }
        let given = Given { arg, mask, count: group_ndims, groups: group_dims, data_type, on_host: 0 };
        // SAFETY: the caller passes null or objects that live, and uses the attributes nowhere else meanwhile.
        unsafe { handle::borrow_mut(attr)?.reductions = Some(factor(&given)?) };
        Ok(())
    })
}

/// Drops results at random, with a seed in s32. An empty descriptor says that the mask of what is kept is not wanted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_attr_set_dropout(
    attr: dnnl_primitive_attr_t,
    mask_desc: const_dnnl_memory_desc_t,
) -> dnnl_status_t {
    boundary::status("dnnl_primitive_attr_set_dropout", || {
        // SAFETY: the caller passes null or objects that live, and uses the attributes nowhere else meanwhile.
        unsafe { set_dropout(attr, mask_desc, [dnnl_s32, 0, 0]) }
    })
}

/// Drops results at random, with a seed in s32 or s64, an offset or none, and numbers that come as host scalars or not; see
/// [`dnnl_primitive_attr_set_dropout`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_attr_set_dropout_v2(
    attr: dnnl_primitive_attr_t,
    mask_desc: const_dnnl_memory_desc_t,
    seed_dt: dnnl_data_type_t,
    use_offset: c_int,
    use_host_scalars: c_int,
) -> dnnl_status_t {
    boundary::status("dnnl_primitive_attr_set_dropout_v2", || {
        // SAFETY: the caller passes null or objects that live, and uses the attributes nowhere else meanwhile.
        unsafe { set_dropout(attr, mask_desc, [seed_dt, use_offset, use_host_scalars]) }
    })
}

/// Lends the descriptor of the mask of what is kept, an empty one where there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_attr_get_dropout(
    attr: const_dnnl_primitive_attr_t,
    mask_desc: *mut const_dnnl_memory_desc_t,
) -> dnnl_status_t {
    boundary::status("dnnl_primitive_attr_get_dropout", || {
        // SAFETY: the caller passes null, or attributes that live and a place to write.
        unsafe {
            let attr = handle::borrow(attr)?;
            handle::write(
                mask_desc,
                "mask_desc",
                attr.dropout.as_ref().map_or(no_mask(), |given| given.mask.as_ptr()),
            )
        }
    })
}

/// Tells what is dropped, and how; see [`dnnl_primitive_attr_set_dropout_v2`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dnnl_primitive_attr_get_dropout_v2(
    attr: const_dnnl_primitive_attr_t,
    mask_desc: *mut const_dnnl_memory_desc_t,
    seed_dt: *mut dnnl_data_type_t,
    use_offset: *mut c_int,
    use_host_scalars: *mut c_int,
) -> dnnl_status_t {
    boundary::status("dnnl_primitive_attr_get_dropout_v2", || {
        // SAFETY: the caller passes null, or attributes that live and places to write or null.
        unsafe {
            let given = handle::borrow(attr)?;
            let numbers = given.dropout.as_ref().map_or([0; 3], |given| {
                [given.seed_code, c_int::from(given.has_offset), c_int::from(given.on_host)]
            });
            if !mask_desc.is_null() {
                let mask = given.dropout.as_ref().map_or(no_mask(), |given| given.mask.as_ptr());
                handle::write(mask_desc, "mask_desc", mask)?;
            }
            for (out, number) in [seed_dt, use_offset, use_host_scalars].into_iter().zip(numbers) {
                if !out.is_null() {
                    handle::write(out, "a number", number)?;
                }
            }
        }
        Ok(())
    })
}

struct Given {
    arg: c_int,
    mask: c_int,
    count: c_int,
    groups: *const dnnl_dim_t,
    data_type: dnnl_data_type_t,
    on_host: c_int,
}

/// # Safety
/// `attr` is null or attributes that live, used nowhere else meanwhile; the groups are null or as many as are told.
unsafe fn set_factor(attr: dnnl_primitive_attr_t, given: &Given, is_zero_point: bool) -> Outcome {
    // SAFETY: by contract.
    let factor = unsafe { factor(given) }?;
    let data_type = factor.data_type;
    let fits = match data_type {
        _ if factor.exponents => !is_zero_point,
        DataType::F32 | DataType::F16 | DataType::BF16 | DataType::F8E4M3 | DataType::F8E5M2 => {
            !is_zero_point
        }
        DataType::S32 | DataType::S8 | DataType::U8 | DataType::S4 | DataType::U4 => is_zero_point,
        _ => false,
    };
    let what = if is_zero_point { "zero points" } else { "scales" };
    if !fits {
        let expected =
            if is_zero_point { "integers of at most 32 bits" } else { "floats of at most 32 bits, or e8m0" };
        return Err(Failure::invalid(format!("{what} in {data_type}, expected {expected}")));
    }
    if !is_quantized(given.arg) {
        return Err(Failure::invalid(format!("argument {} has no {what}", given.arg)));
    }
    // SAFETY: by contract.
    let attr = unsafe { handle::borrow_mut(attr) }?;
    let list = if is_zero_point { &mut attr.zero_points } else { &mut attr.scales };
    list.retain(|(other, _)| *other != given.arg);
    list.push((given.arg, factor));
    Ok(())
}

/// Whether an argument is one that primitives take scales or zero points of: sources, weights and results, also of a depthwise convolution
/// behind another one.
fn is_quantized(number: c_int) -> bool {
    let plain = number & !arg::POST_OP_DW;
    matches!(plain, arg::SRC..=arg::SRC_2 | arg::WEIGHTS | arg::DST)
        || (arg::MULTIPLE_SRC..arg::ATTR_SCALES).contains(&plain)
}

/// # Safety
/// The groups are null or as many as are told.
unsafe fn factor(given: &Given) -> Outcome<QuantParam> {
    let &Given { arg, mask, count, groups, data_type, on_host } = given;
    let count = usize::try_from(count).map_err(|_| Failure::invalid(format!("there are {count} groups")))?;
    // Operands of a depthwise convolution behind another one have numbers of their own.
    let plain = arg & !arg::POST_OP_DW;
    if mask < 0 || plain <= 0 || plain >= arg::ATTR_SCALES || count > 12 {
        return Err(Failure::invalid(format!("argument {arg} with mask {mask} and {count} groups")));
    }
    // SAFETY: by contract.
    let groups = unsafe { handle::slice(groups, count, "group_dims") }?;
    let groups = groups
        .iter()
        .map(|&group| usize::try_from(group).ok().filter(|&group| group > 0))
        .collect::<Option<Vec<_>>>()
        .ok_or_else(|| Failure::invalid("a group is not positive"))?;
    if !matches!(count, 0 | 2) || count > 0 && mask == 0 {
        return Err(Failure::invalid(format!(
            "{count} sizes of groups with mask {mask}, expected none, or two and a mask"
        )));
    }
    let exponents = data_type == dnnl_e8m0;
    let data_type = if exponents { DataType::U8 } else { known(data_type)? };
    let on_host = on_host != 0;
    if on_host && (mask != 0 || !groups.is_empty()) {
        return Err(Failure::invalid("only one value can be on the host"));
    }
    Ok(QuantParam { mask, groups, data_type, exponents, on_host, found: None })
}

/// # Safety
/// `attr` is null or attributes that live, used nowhere else meanwhile.
unsafe fn set_fpmath(attr: dnnl_primitive_attr_t, mode: dnnl_fpmath_mode_t, integers: c_int) -> Outcome {
    let fpmath =
        settings::fpmath(mode).ok_or_else(|| Failure::invalid(format!("{mode} is no fpmath mode")))?;
    // SAFETY: by contract.
    let attr: &mut Attr = unsafe { handle::borrow_mut(attr) }?;
    (attr.fpmath, attr.fpmath_for_integers) = (fpmath, integers != 0);
    Ok(())
}

/// # Safety
/// The pointers are null or objects that live, the attributes used nowhere else meanwhile.
unsafe fn set_dropout(
    attr: dnnl_primitive_attr_t,
    mask_desc: const_dnnl_memory_desc_t,
    numbers: [c_int; 3],
) -> Outcome {
    // SAFETY: by contract.
    let (attr, mask) = unsafe { (handle::borrow_mut(attr)?, handle::borrow(mask_desc)?) };
    let [seed_code, has_offset, on_host] = numbers;
    let seed = match seed_code {
        dnnl_s32 => DataType::S32,
        dnnl_s64 => DataType::S64,
        other => {
            return Err(Failure::invalid(format!(
                "the seed is of the data type {other}, expected s32 or s64"
            )));
        }
    };
    let mask = Arc::new(Embedded::new(mask.clone()));
    let (has_offset, on_host) = (has_offset != 0, on_host != 0);
    attr.dropout = Some(GivenDropout { mask, seed, seed_code, has_offset, on_host });
    Ok(())
}

/// The empty descriptor.
fn no_mask() -> const_dnnl_memory_desc_t {
    static EMPTY: OnceLock<Embedded<dnnl_memory_desc>> = OnceLock::new();
    EMPTY.get_or_init(|| Embedded::new(Md::empty())).as_ptr()
}

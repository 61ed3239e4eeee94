//! Reductions along axes that may be given on execution.

use anydnn_backend::{DataType, Dims, Result};

use super::call::Call;
use super::numbers::{Numbers, ints, walk};
use super::whole;
use crate::graph::normalize_axis;
use crate::model::HostTensor;

pub(in crate::onnx) fn reduce(call: &mut Call) -> Result<Vec<HostTensor>> {
    let src = call.tensor(0)?;
    let rank = src.dims().len();
    let axes = call.int_list(1, "axes")?.unwrap_or_default();
    if axes.is_empty() && call.node.flag("noop_with_empty_axes", false)? {
        return elementwise(call, src);
    }
    let mut gone = vec![axes.is_empty(); rank];
    for axis in axes {
        gone[normalize_axis(axis, rank)?] = true;
    }
    let kept: Dims = src.dims().iter().zip(&gone).map(|(&dim, &gone)| if gone { 1 } else { dim }).collect();
    let dims = if call.node.flag("keepdims", true)? {
        kept.clone()
    } else {
        (0..rank).filter(|&axis| !gone[axis]).map(|axis| kept[axis]).collect()
    };
    let each = src.dims().elements() / kept.elements().max(1);
    let data_type = src.data_type();
    if call.operator() == "ReduceLogSumExp" {
        let targets = targets(src.dims(), &kept, &gone);
        let mut made = log_of_powers(src.to_f64s(), &targets, kept.elements());
        if data_type.is_integer() {
            made.iter_mut().for_each(|value| *value = value.trunc());
        }
        return call.output(dims, data_type, &made);
    }
    let mut made = folded(call.operator(), src, &kept, &gone).ok_or_else(|| call.unfit(src))?;
    made.iter_mut().for_each(|sum| *sum = ended(call.operator(), *sum, each as i64));
    call.made(dims, data_type, &Numbers::Ints(made))
}

/// Where each element of a tensor goes.
pub(super) fn targets(from: &Dims, kept: &Dims, gone: &[bool]) -> Vec<usize> {
    let strides = kept.row_major_strides();
    let strides: Vec<i64> =
        strides.iter().zip(gone).map(|(&stride, &gone)| if gone { 0 } else { stride as i64 }).collect();
    if from.elements() == 0 { Vec::new() } else { walk(from, &strides, 0) }
}

/// The folds of an operator's integers, each in a loop of its own.
fn folded(operator: &str, src: &HostTensor, kept: &Dims, gone: &[bool]) -> Option<Vec<i64>> {
    let data_type = src.data_type();
    let bits = data_type.bits() as u32;
    let (least, most) = match data_type {
        DataType::S64 | DataType::S32 | DataType::S16 | DataType::S8 => {
            (i64::MIN >> (64 - bits), i64::MAX >> (64 - bits))
        }
        DataType::U64 => (0, i64::MAX),
        DataType::U32 | DataType::U16 | DataType::U8 => (0, (1 << bits) - 1),
        _ => (0, 1),
    };
    macro_rules! fold {
        ($start:expr, $of:expr) => {
            whole::fold(src, kept, gone, $start, $of)
                .or_else(|| Some(each(&ints(src)?, src.dims(), kept, gone, $start, $of)))
        };
    }
    match operator {
        "ReduceSum" | "ReduceMean" | "ReduceLogSum" => fold!(0, i64::wrapping_add),
        "ReduceProd" => fold!(1, i64::wrapping_mul),
        "ReduceMax" => fold!(least, i64::max),
        "ReduceMin" => fold!(most, i64::min),
        "ReduceL1" => fold!(0, |sum, value: i64| sum.wrapping_add(value.wrapping_abs())),
        "ReduceSumSquare" | "ReduceL2" => {
            fold!(0, |sum, value: i64| sum.wrapping_add(value.wrapping_mul(value)))
        }
        _ => None,
    }
}

/// The same one after the other, as of truth values.
fn each(
    values: &[i64],
    from: &Dims,
    kept: &Dims,
    gone: &[bool],
    start: i64,
    of: impl Fn(i64, i64) -> i64,
) -> Vec<i64> {
    let mut made = vec![start; kept.elements()];
    for (&value, target) in values.iter().zip(targets(from, kept, gone)) {
        made[target] = of(made[target], value);
    }
    made
}

/// What a reduction makes of its sum, without a fraction.
fn ended(operator: &str, sum: i64, count: i64) -> i64 {
    match operator {
        "ReduceMean" => sum.checked_div(count).unwrap_or(0),
        "ReduceL2" => (sum as f64).sqrt() as i64,
        "ReduceLogSum" => (sum as f64).ln() as i64,
        _ => sum,
    }
}

/// The logarithms of sums of powers of e. Without its greatest value, no power overflows.
fn log_of_powers(mut values: Vec<f64>, targets: &[usize], count: usize) -> Vec<f64> {
    let greatest = |a: f64, b: f64| if a.is_nan() || a > b { a } else { b };
    let mut shift = fold(&values, targets, vec![f64::NEG_INFINITY; count], greatest);
    shift.iter_mut().filter(|most| !most.is_finite()).for_each(|most| *most = 0.0);
    values.iter_mut().zip(targets).for_each(|(value, &target)| *value = (*value - shift[target]).exp());
    let sums = fold(&values, targets, vec![0.0; count], |a, b| a + b);
    sums.into_iter().zip(shift).map(|(sum, shift)| sum.ln() + shift).collect()
}

fn fold(values: &[f64], targets: &[usize], mut made: Vec<f64>, of: fn(f64, f64) -> f64) -> Vec<f64> {
    for (&value, &target) in values.iter().zip(targets) {
        made[target] = of(made[target], value);
    }
    made
}

/// Nothing is summed, the rest of the formula is computed for each element.
fn elementwise(call: &mut Call, src: &HostTensor) -> Result<Vec<HostTensor>> {
    let of: fn(i64) -> i64 = match call.operator() {
        "ReduceL1" | "ReduceL2" => i64::wrapping_abs,
        "ReduceSumSquare" => |value| value.wrapping_mul(value),
        "ReduceLogSum" => |value| (value as f64).ln() as i64,
        _ => return Ok(vec![src.clone()]),
    };
    let values = ints(src).ok_or_else(|| call.unfit(src))?.into_iter().map(of).collect();
    call.made(src.dims().clone(), src.data_type(), &Numbers::Ints(values))
}

//! Reductions along axes that may be given on execution.

use anydnn_backend::{DataType, Dims, Result};

use super::call::Call;
use super::numbers::{Numbers, ints, walk};
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
    let targets = targets(src.dims(), &kept, &gone);
    let dims = if call.node.flag("keepdims", true)? {
        kept.clone()
    } else {
        (0..rank).filter(|&axis| !gone[axis]).map(|axis| kept[axis]).collect()
    };
    let each = src.dims().elements() / kept.elements().max(1);
    let data_type = src.data_type();
    if let (Some(values), Some((start, of))) = (ints(src), of_integers(call.operator(), data_type)) {
        let mut made = vec![start; kept.elements()];
        for (value, target) in values.into_iter().zip(targets) {
            made[target] = of(made[target], value);
        }
        return call.made(dims, data_type, &Numbers::Ints(made));
    }
    if data_type == DataType::U64 && ints(src).is_none() {
        return Err(call.unfit(src));
    }
    let mut values = src.to_f64s();
    let made = reduced(call.operator(), &mut values, &targets, kept.elements(), each);
    let mut made = made.ok_or_else(|| call.unfit(src))?;
    if data_type.is_integer() {
        made.iter_mut().for_each(|value| *value = value.trunc());
    }
    call.output(dims, data_type, &made)
}

/// Where each element of a tensor goes.
pub(super) fn targets(from: &Dims, kept: &Dims, gone: &[bool]) -> Vec<usize> {
    let strides = kept.row_major_strides();
    let strides: Vec<i64> =
        strides.iter().zip(gone).map(|(&stride, &gone)| if gone { 0 } else { stride as i64 }).collect();
    if from.elements() == 0 { Vec::new() } else { walk(from, &strides, 0) }
}

type Combine = fn(i64, i64) -> i64;

fn of_integers(operator: &str, data_type: DataType) -> Option<(i64, Combine)> {
    let (least, most) = match data_type {
        DataType::S64 => (i64::MIN, i64::MAX),
        DataType::S32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        DataType::S8 => (-128, 127),
        DataType::S16 => (-32768, 32767),
        DataType::U64 => (0, i64::MAX),
        DataType::U8 | DataType::U16 | DataType::U32 => (0, (1 << data_type.bits()) - 1),
        _ => (0, 1),
    };
    Some(match operator {
        "ReduceSum" => (0, i64::wrapping_add),
        "ReduceProd" => (1, i64::wrapping_mul),
        "ReduceMax" => (least, std::cmp::Ord::max),
        "ReduceMin" => (most, std::cmp::Ord::min),
        "ReduceL1" => (0, |sum, value| sum.wrapping_add(value.wrapping_abs())),
        "ReduceSumSquare" => (0, |sum, value| sum.wrapping_add(value.wrapping_mul(value))),
        _ => return None,
    })
}

fn reduced(
    operator: &str,
    values: &mut [f64],
    targets: &[usize],
    count: usize,
    each: usize,
) -> Option<Vec<f64>> {
    let greatest = |values: &[f64]| {
        fold(values, targets, vec![f64::NEG_INFINITY; count], |a, b| if a.is_nan() || a > b { a } else { b })
    };
    let sum = |values: &[f64]| fold(values, targets, vec![0.0; count], |a, b| a + b);
    let squares = |values: &[f64]| fold(values, targets, vec![0.0; count], |a, b| a + b * b);
    let map = |sums: Vec<f64>, of: fn(f64) -> f64| sums.into_iter().map(of).collect();
    Some(match operator {
        "ReduceSum" => sum(values),
        "ReduceMean" => sum(values).into_iter().map(|sum| sum / each as f64).collect(),
        "ReduceProd" => fold(values, targets, vec![1.0; count], |a, b| a * b),
        "ReduceMax" => greatest(values),
        "ReduceMin" => {
            fold(values, targets, vec![f64::INFINITY; count], |a, b| if a.is_nan() || a < b { a } else { b })
        }
        "ReduceL1" => fold(values, targets, vec![0.0; count], |a, b| a + b.abs()),
        "ReduceL2" => map(squares(values), f64::sqrt),
        "ReduceSumSquare" => squares(values),
        "ReduceLogSum" => map(sum(values), f64::ln),
        "ReduceLogSumExp" => {
            // Without its greatest value, no power overflows.
            let shift: Vec<f64> =
                greatest(values).into_iter().map(|most| if most.is_finite() { most } else { 0.0 }).collect();
            values
                .iter_mut()
                .zip(targets)
                .for_each(|(value, &target)| *value = (*value - shift[target]).exp());
            sum(values).into_iter().zip(shift).map(|(sum, shift)| sum.ln() + shift).collect()
        }
        _ => return None,
    })
}

fn fold(values: &[f64], targets: &[usize], mut made: Vec<f64>, of: fn(f64, f64) -> f64) -> Vec<f64> {
    for (&value, &target) in values.iter().zip(targets) {
        made[target] = of(made[target], value);
    }
    made
}

/// Nothing is summed, the rest of the formula is computed for each element.
fn elementwise(call: &mut Call, src: &HostTensor) -> Result<Vec<HostTensor>> {
    let of: fn(f64) -> f64 = match call.operator() {
        "ReduceL1" | "ReduceL2" => f64::abs,
        "ReduceSumSquare" => |value| value * value,
        "ReduceLogSum" => f64::ln,
        _ => return Ok(vec![src.clone()]),
    };
    let values: Vec<f64> = src.to_f64s().into_iter().map(of).collect();
    call.output(src.dims().clone(), src.data_type(), &values)
}

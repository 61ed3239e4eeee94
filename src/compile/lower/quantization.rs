//! Scales and zero points of (de)quantising operations.

use anydnn_backend::{DataType, Dims, Error, InvalidKind, MemoryDesc, Result};

use super::input;
use crate::compile::program::{Program, Value, declared};
use crate::graph::{Op, OpKind, normalize_axis};

/// The scales of a tensor, and its zero points.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "few live at a time")]
pub(super) enum Scales {
    /// One of each, known now.
    Number {
        /// The factor of the quantised elements.
        scale: f32,
        /// Subtracted from the quantised elements.
        zero_point: i32,
    },
    /// Tensors of the quantised one's rank that broadcast to it by blocks.
    Tensors {
        /// The factors of the quantised elements.
        scale: Value,
        /// Subtracted from the quantised elements.
        zero_point: Option<Value>,
    },
}

/// Whether an operation multiplies quantised elements by scales.
pub(super) fn is_dequantize(kind: OpKind) -> bool {
    matches!(kind, OpKind::Dequantize | OpKind::DynamicDequantize)
}

/// Whether an operation divides by scales and rounds.
pub(super) fn is_quantize(kind: OpKind) -> bool {
    matches!(kind, OpKind::Quantize | OpKind::DynamicQuantize)
}

/// Whether an operation has a single scale.
pub(super) fn is_per_tensor(op: &Op) -> bool {
    op.attrs.says("qtype", "per_tensor")
}

/// Whether an operation rounds before it adds zero points.
pub(super) fn rounds_first(op: &Op) -> bool {
    op.attrs.bool("round_first").unwrap_or(false)
}

/// The scale and the zero point of an operation that knows them now and has one of each.
pub(super) fn number(op: &Op) -> Option<(f32, i32)> {
    let known = matches!(op.kind, OpKind::Quantize | OpKind::Dequantize) && is_per_tensor(op);
    let &scale = op.attrs.f32s("scales").ok().filter(|_| known)?.first()?;
    let zero_point = op.attrs.s64s("zps").ok().and_then(|zps| zps.first().copied()).unwrap_or(0);
    Some((scale, zero_point as i32))
}

/// The dimensions of an operation's scales, with the rank of its source `dims`.
pub(super) fn scale_dims(op: &Op, dims: &Dims) -> Result<Dims> {
    match op.attrs.string("qtype")? {
        "per_channel" => {
            let axis = normalize_axis(op.attrs.s64("axis")?, dims.len())?;
            Ok((0..dims.len()).map(|i| if i == axis { dims[i] } else { 1 }).collect())
        }
        "per_group" => {
            let shape = op.attrs.s64s("group_shape")?;
            let groups: Option<Dims> = (shape.len() == dims.len())
                .then(|| {
                    dims.iter().zip(shape).map(|(&dim, &size)| dim.checked_div(usize::try_from(size).ok()?))
                })
                .and_then(Iterator::collect);
            groups.ok_or_else(|| {
                let expected = format!("positive sizes for each dimension of {dims}");
                let given = format!("{shape:?}");
                Error::invalid_kind(
                    InvalidKind::GraphOp,
                    op.to_string(),
                    "attribute group_shape",
                    given,
                    expected,
                )
            })
        }
        _ => Ok(std::iter::repeat_n(1, dims.len()).collect()),
    }
}

impl Scales {
    /// Those of an operation.
    pub(super) fn of(program: &mut Program<'_>, op: &Op) -> Result<Self> {
        if let Some((scale, zero_point)) = number(op) {
            return Ok(Self::Number { scale, zero_point });
        }
        let source = op.inputs.first().copied().unwrap_or(crate::graph::TensorId(u64::MAX));
        let dims = declared(program.graph, source)?.dims().clone();
        let wanted = scale_dims(op, &dims)?;
        if matches!(op.kind, OpKind::Quantize | OpKind::Dequantize) {
            let scale = program.literal(wanted.clone(), op.attrs.f32s("scales")?);
            let zps: Vec<i32> =
                op.attrs.s64s("zps").unwrap_or_default().iter().map(|&zp| zp as i32).collect();
            let zero_point = match zps.as_slice() {
                [] => None,
                zps if zps.iter().all(|&zp| zp == 0) => None,
                &[zp] => Some(program.literal_s32(ones(dims.len()), &[zp])),
                zps => Some(program.literal_s32(wanted, zps)),
            };
            return Ok(Self::Tensors { scale, zero_point });
        }
        let shaped = |value: Value| -> Result<Value> {
            let dims = if value.desc.elements() == 1 { ones(dims.len()) } else { wanted.clone() };
            Ok(if *value.desc.dims() == dims { value } else { value.with_desc(value.desc.reshaped(dims)?) })
        };
        let zero_point = if op.inputs.len() > 2 { Some(shaped(input(program, op, 2)?)?) } else { None };
        Ok(Self::Tensors { scale: shaped(input(program, op, 1)?)?, zero_point })
    }

    /// The scales as a tensor of `rank` dimensions.
    pub(super) fn scale(&self, program: &mut Program<'_>, rank: usize) -> Value {
        match self {
            Self::Number { scale, .. } => program.literal(ones(rank), &[*scale]),
            Self::Tensors { scale, .. } => scale.clone(),
        }
    }

    /// The zero points of elements of a type as a tensor of `rank` dimensions; none where they are zero.
    pub(super) fn zero_point(
        &self,
        program: &mut Program<'_>,
        rank: usize,
        element: DataType,
    ) -> Option<Value> {
        match self {
            Self::Number { zero_point: 0, .. } => None,
            Self::Number { zero_point, .. } => Some(program.literal_zero(ones(rank), *zero_point, element)),
            Self::Tensors { zero_point, .. } => zero_point.clone(),
        }
    }

    /// Those of a view of the quantised tensor.
    pub(super) fn viewed(self, view: impl Fn(&MemoryDesc) -> Result<MemoryDesc>) -> Result<Self> {
        match self {
            Self::Number { .. } => Ok(self),
            Self::Tensors { scale, zero_point } => Ok(Self::Tensors {
                scale: scale.with_desc(view(&scale.desc)?),
                zero_point: match zero_point {
                    Some(zp) => Some(zp.with_desc(view(&zp.desc)?)),
                    None => None,
                },
            }),
        }
    }
}

/// The dimensions `blocks`, which broadcast to `from` by blocks, after a reshape of `from` to `to`; none where blocks would break.
pub(super) fn reshaped_blocks(blocks: &[usize], from: &[usize], to: &[usize]) -> Option<Dims> {
    if blocks.iter().all(|&block| block == 1) {
        return Some(ones(to.len()));
    }
    let mut result = Vec::with_capacity(to.len());
    let (mut i, mut j) = (0, 0);
    while i < from.len() || j < to.len() {
        // The shortest runs of old and new dimensions with the same product.
        let (first_old, first_new) = (i, j);
        let mut old = from.get(i).copied().unwrap_or(1);
        let mut new = to.get(j).copied().unwrap_or(1);
        (i, j) = ((i + 1).min(from.len()), (j + 1).min(to.len()));
        while old != new {
            if old < new {
                old *= from.get(i)?;
                i += 1;
            } else {
                new *= to.get(j)?;
                j += 1;
            }
        }
        let run = &blocks[first_old..i];
        if run.iter().all(|&block| block == 1) {
            result.extend(to[first_new..j].iter().map(|_| 1));
        } else if *run == from[first_old..i] {
            result.extend(&to[first_new..j]);
        } else if i - first_old == 1 && j - first_new == 1 {
            result.push(run[0]);
        } else {
            return None;
        }
    }
    Some(result.into())
}

/// A dimension of one, so many times.
fn ones(rank: usize) -> Dims {
    std::iter::repeat_n(1, rank).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_follow_a_reshape() {
        let reshaped = |blocks: &[usize], from: &[usize], to: &[usize]| {
            reshaped_blocks(blocks, from, to).map(|dims| dims.to_vec())
        };
        assert_eq!(reshaped(&[1, 1], &[4, 6], &[24]), Some(vec![1]));
        assert_eq!(reshaped(&[4, 1], &[4, 6], &[2, 2, 6]), Some(vec![2, 2, 1]));
        assert_eq!(reshaped(&[4, 3], &[4, 6], &[1, 4, 6]), Some(vec![1, 4, 3]));
        assert_eq!(reshaped(&[4, 3], &[4, 6], &[4, 6, 1]), Some(vec![4, 3, 1]));
        assert_eq!(reshaped(&[1, 3], &[4, 6], &[24]), None);
        assert_eq!(reshaped(&[4, 6, 1], &[4, 6, 2], &[24, 2]), Some(vec![24, 1]));
    }
}

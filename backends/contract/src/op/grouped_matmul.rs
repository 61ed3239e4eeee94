use std::ops::Range;

use super::{ErrorGrowth, Operation, expect_dims, shape_error, type_error};
use crate::arg::Arg;
use crate::data_type::DataType;
use crate::dims::Dims;
use crate::error::Result;
use crate::op::primitive_desc::{Operands, PrimitiveDesc};

/// Matrix products of groups whose sizes are known at execution alone, as the tokens of each expert in a mixture of experts.
///
/// Groups follow one another along an axis. `src1` `[G]` (s32) tells where each ends: it begins where the one before it ends, the first at
/// zero. An end before its group's begin makes the group empty; an end behind the axis is the axis' own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GroupedMatMul {
    /// Groups of rows, each with weights of its own: `dst[m, n] = sum over k of src0[m, k] * weights[g, k, n] + src2[g, n]` where row `m` is
    /// in group `g`.
    ///
    /// Operands: `src0` `[M, K]`, `weights` `[G, K, N]`, an optional bias for each group `src2` `[G, N]`; the result is `[M, N]`. Rows behind
    /// the last group are sums of no terms, without a bias.
    Rows,
    /// Groups of terms, each summed by itself: `dst[g, m, n] = sum over k in group g of src0[m, k] * weights[k, n]`.
    ///
    /// Operands: `src0` `[M, K]`, `weights` `[K, N]`; the result is `[G, M, N]`.
    Terms,
}

impl GroupedMatMul {
    /// The indices of each group along an axis of this extent, by their ends.
    pub fn groups(ends: impl IntoIterator<Item = i64>, extent: usize) -> impl Iterator<Item = Range<usize>> {
        let mut first = 0;
        ends.into_iter().map(move |end| {
            let end = usize::try_from(end).unwrap_or(0).clamp(first, extent);
            let group = first..end;
            first = end;
            group
        })
    }
}

impl Operation for GroupedMatMul {
    fn name(&self) -> &'static str {
        "grouped_matmul"
    }

    fn infer(&self, operands: &Operands) -> Result<(Dims, DataType)> {
        let name = self.name();
        let bias: &[Arg] = if *self == Self::Rows { &[Arg::Src(2)] } else { &[] };
        let operands = operands.only(name, &[Arg::Src(0), Arg::Src(1), Arg::Weights], bias)?;
        let (src, ends) = (operands.required(Arg::Src(0))?, operands.required(Arg::Src(1))?);
        let weights = operands.required(Arg::Weights)?;
        if ends.data_type() != DataType::S32 {
            return Err(type_error(name, "src1 data type", ends.data_type(), "s32"));
        }
        let [groups] = ends.dims()[..] else {
            return Err(shape_error(
                name,
                "src1 dimensions",
                ends.dims().to_string(),
                "the number of groups",
            ));
        };
        let [m, k] = src.dims()[..] else {
            return Err(shape_error(name, "src0 dimensions", src.dims().to_string(), "rows and columns"));
        };
        let Some(&n) = weights.dims().last() else {
            return Err(shape_error(name, "weights dimensions", weights.dims().to_string(), "a matrix"));
        };
        let (expected, dims) = match self {
            Self::Rows => (Dims::from([groups, k, n]), Dims::from([m, n])),
            Self::Terms => (Dims::from([k, n]), Dims::from([groups, m, n])),
        };
        expect_dims(name, Arg::Weights, weights, &expected)?;
        if let Some(bias) = operands.find(Arg::Src(2)) {
            expect_dims(name, Arg::Src(2), bias, &Dims::from([groups, n]))?;
        }
        if let Some(dst) = operands.dst() {
            expect_dims(name, Arg::DST, dst, &dims)?;
        }
        let integer = src.data_type().is_integer() && weights.data_type().is_integer();
        Ok((dims, if integer { DataType::S32 } else { src.data_type() }))
    }

    fn dequantizes(&self, arg: Arg) -> bool {
        matches!(arg, Arg::Src(0) | Arg::Weights)
    }

    fn error_growth(&self, desc: &PrimitiveDesc) -> ErrorGrowth {
        let src = desc.src().dims();
        // A bias is one more term.
        ErrorGrowth::of_sum(src[src.len() - 1] + usize::from(desc.find(Arg::Src(2)).is_some()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemoryDesc, Op, PrimitiveDesc};

    fn result(op: GroupedMatMul, dims: [&[usize]; 3], bias: Option<&[usize]>) -> Result<Dims> {
        let f32 = |dims: &[usize]| MemoryDesc::new(dims, DataType::F32);
        let builder = PrimitiveDesc::builder(Op::GroupedMatMul(op))
            .src(f32(dims[0]))
            .src(MemoryDesc::new(dims[1], DataType::S32))
            .weights(f32(dims[2]));
        let builder = bias.into_iter().fold(builder, |builder, dims| builder.src(f32(dims)));
        builder.build().map(|desc| desc.dst().dims().clone())
    }

    #[test]
    fn shapes_follow_from_the_operands() {
        use GroupedMatMul::{Rows, Terms};
        let rows = result(Rows, [&[9, 5], &[3], &[3, 5, 4]], Some(&[3, 4])).unwrap();
        assert_eq!(rows[..], [9, 4]);
        assert_eq!(result(Terms, [&[9, 5], &[3], &[5, 4]], None).unwrap()[..], [3, 9, 4]);
        for (op, dims, bias) in [
            (Rows, [&[9, 5][..], &[2], &[3, 5, 4]], None),
            (Rows, [&[9, 5], &[3], &[3, 6, 4]], None),
            (Rows, [&[9, 5], &[3], &[5, 4]], None),
            (Rows, [&[9, 5], &[3], &[]], None),
            (Rows, [&[1, 9, 5], &[3], &[3, 5, 4]], None),
            (Rows, [&[9, 5], &[3, 1], &[3, 5, 4]], None),
            (Rows, [&[9, 5], &[3], &[3, 5, 4]], Some(&[1, 4][..])),
            (Terms, [&[9, 5], &[3], &[3, 5, 4]], None),
            (Terms, [&[9, 5], &[3], &[5, 4]], Some(&[3, 4])),
        ] {
            assert!(result(op, dims, bias).is_err(), "{op:?} {dims:?} {bias:?}");
        }
    }

    #[test]
    fn ends_that_go_back_or_too_far_stay_on_the_axis() {
        let groups = |ends: &[i64]| GroupedMatMul::groups(ends.to_vec(), 6).collect::<Vec<_>>();
        assert_eq!(groups(&[2, 2, 5]), [0..2, 2..2, 2..5]);
        assert_eq!(groups(&[4, 1, -3, 90, 5]), [0..4, 4..4, 4..4, 4..6, 6..6]);
    }
}

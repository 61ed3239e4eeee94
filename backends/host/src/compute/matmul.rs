//! Batched matrix products.

use std::borrow::Cow;

use anydnn_backend::op::{GatedMatMul, MatMul};
use anydnn_backend::{Arg, Dims, MemoryDesc, PrimitiveDesc, Result, check_host_memory};

use super::element::Float;
use super::epilogue::{Epilogue, produce_dense};
use super::gemm::{Matrix, multiply};
use super::operands::{Operands, Results};
use super::parallel::parallel_chunks;
use super::view::View;
use super::{CHUNK, Compute};

/// Products of fewer multiplications than this run on one thread; threads then take whole products.
const SMALL_PRODUCT: usize = 1 << 18;

pub(crate) fn compute<T: Float>(operands: &Operands<'_>, results: &mut Results<'_, '_>) -> Result<()> {
    let dst = operands.desc.dst();
    let epilogue = Epilogue::new(operands)?;
    produce_dense(dst, results.dst()?, &epilogue, |out: &mut [T]| {
        let a = Matrices::new(operands, Arg::SRC)?;
        let b = Matrices::new(operands, Arg::Weights)?;
        multiply_batches(&a, &b, dst.dims(), out);
        Ok(())
    })
}

/// Two products of one source, one through a function as the other's factor.
pub(crate) fn gated<T: Float>(
    op: GatedMatMul,
    operands: &Operands<'_>,
    results: &mut Results<'_, '_>,
) -> Result<()> {
    let dst = operands.desc.dst();
    let epilogue = Epilogue::new(operands)?;
    produce_dense(dst, results.dst()?, &epilogue, |out: &mut [T]| {
        let src = Matrices::new(operands, Arg::SRC)?;
        multiply_batches(&src, &Matrices::new(operands, Arg::Weights)?, dst.dims(), out);
        check_host_memory(size_of_val(out), || format!("the gate of {}", operands.desc.name()))?;
        let mut gate = vec![T::ZERO; out.len()];
        multiply_batches(&src, &Matrices::new(operands, Arg::Src(1))?, dst.dims(), &mut gate);
        parallel_chunks(out, CHUNK, |i, out| {
            let mut factor = [T::ZERO; CHUNK];
            let factor = &mut factor[..out.len()];
            factor.copy_from_slice(&gate[i * CHUNK..][..out.len()]);
            T::eltwise(op.activation, factor);
            T::binary(op.join, out, factor, false);
        });
        Ok(())
    })
}

fn multiply_batches<T: Float>(a: &Matrices<'_, T>, b: &Matrices<'_, T>, dims: &Dims, out: &mut [T]) {
    let rank = dims.len();
    let (rows, columns) = (dims[rank - 2], dims[rank - 1]);
    let batches = out.len() / (rows * columns);
    if batches > 1
        && b.dims[..rank - 2].iter().all(|&dim| dim == 1)
        && let Some(row_stride) = a.merged_row_stride()
    {
        // One weight matrix for all batches: their rows form one matrix.
        let mut stacked = a.matrix(0);
        (stacked.rows, stacked.row_stride) = (batches * rows, row_stride);
        return multiply(&stacked, &b.matrix(0), out, columns, true);
    }
    let depth = a.dims[rank - 1];
    let work = rows.saturating_mul(columns).saturating_mul(depth);
    let batch_dims = Dims::new(&dims[..rank - 2]);
    let product = |batch: usize, out: &mut [T], parallel: bool| {
        let (a, b) = (a.matrix(a.start_of(batch, &batch_dims)), b.matrix(b.start_of(batch, &batch_dims)));
        multiply(&a, &b, out, columns, parallel);
    };
    if batches > 1 && (work < SMALL_PRODUCT || batches >= rayon::current_num_threads()) {
        let together = (SMALL_PRODUCT / work.max(1)).clamp(1, batches);
        parallel_chunks(out, together * rows * columns, |i, out| {
            for (j, out) in out.chunks_mut(rows * columns).enumerate() {
                product(i * together + j, out, false);
            }
        });
    } else {
        for (batch, out) in out.chunks_mut(rows * columns).enumerate() {
            product(batch, out, true);
        }
    }
}

/// A batch of strided matrices.
pub(super) struct Matrices<'a, T: Float> {
    data: Cow<'a, [T]>,
    pub(super) dims: Dims,
    pub(super) strides: Dims,
    offset: usize,
}

impl<'a, T: Float> Matrices<'a, T> {
    /// The operand's bytes themselves where they are of the type, or converted in the order of memory; copied to row-major only when
    /// the layout is blocked or has gaps, or the operand is dequantised.
    pub(super) fn new(operands: &Operands<'a>, arg: Arg) -> Result<Self> {
        let (desc, bytes) = operands.required(arg)?;
        let dims = desc.dims().clone();
        let bits = desc.data_type().bits();
        if let (Some(strides), Some(blocking)) = (desc.strides(), desc.blocking())
            && operands.dequantize(arg).is_none()
            && bits >= 8
        {
            let strides = Dims::new(strides);
            let offset = blocking.offset;
            if desc.data_type() == T::DATA_TYPE
                && let Ok(data) = bytemuck::try_cast_slice(&bytes[..desc.size()])
            {
                return Ok(Self { data: Cow::Borrowed(data), dims, strides, offset });
            }
            let element = bits / 8;
            let span = desc.size() / element - offset.min(desc.size() / element);
            if span <= desc.elements() {
                let run = MemoryDesc::new([span], desc.data_type());
                let mut data = vec![T::ZERO; span];
                View::new(&run, &bytes[(offset * element).min(bytes.len())..])?.load_parallel(0, &mut data);
                return Ok(Self { data: Cow::Owned(data), dims, strides, offset: 0 });
            }
        }
        let strides = dims.row_major_strides();
        Ok(Self { data: operands.dense(arg)?, dims, strides, offset: 0 })
    }

    /// The matrix whose first element is `start` elements behind the first one of all.
    pub(super) fn matrix(&self, start: usize) -> Matrix<'_, T> {
        let rank = self.dims.len();
        Matrix {
            data: &self.data[(self.offset + start).min(self.data.len())..],
            rows: self.dims[rank - 2],
            columns: self.dims[rank - 1],
            row_stride: self.strides[rank - 2],
            column_stride: self.strides[rank - 1],
        }
    }

    /// The start of the matrix that meets the given batch of the result.
    fn start_of(&self, batch: usize, batch_dims: &[usize]) -> usize {
        let mut rest = batch;
        let mut start = 0;
        for (axis, &dim) in batch_dims.iter().enumerate().rev() {
            if self.dims[axis] != 1 {
                start += rest % dim * self.strides[axis];
            }
            rest /= dim;
        }
        start
    }

    /// The distance between rows, when the rows of all batches follow one another at that distance.
    fn merged_row_stride(&self) -> Option<usize> {
        let rows = self.dims.len() - 1;
        let (mut stride, mut next) = (None, 0);
        for axis in (0..rows).rev().filter(|&axis| self.dims[axis] != 1) {
            if stride.is_some() && self.strides[axis] != next {
                return None;
            }
            stride = stride.or(Some(self.strides[axis]));
            next = self.strides[axis] * self.dims[axis];
        }
        Some(stride.unwrap_or(0))
    }
}

impl Compute for MatMul {
    fn implementation(&self, _desc: &PrimitiveDesc) -> &'static str {
        "host:gemm"
    }

    fn compute<T: Float>(&self, operands: &Operands<'_>, results: &mut Results<'_, '_>) -> Result<()> {
        compute::<T>(operands, results)
    }

    fn sums_products(&self) -> bool {
        true
    }
}

impl Compute for GatedMatMul {
    fn implementation(&self, _desc: &PrimitiveDesc) -> &'static str {
        "host:gemm"
    }

    fn compute<T: Float>(&self, operands: &Operands<'_>, results: &mut Results<'_, '_>) -> Result<()> {
        gated::<T>(*self, operands, results)
    }

    fn sums_products(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use crate::compute::tests::{bytes_of, run, values_of};
    use anydnn_backend::op::MatMul;
    use anydnn_backend::{Arg, DataType, MemoryDesc, Op, PrimitiveDesc};
    use proptest::prelude::*;

    fn product(
        src: &MemoryDesc,
        weights: &MemoryDesc,
        dst: DataType,
        a: &[f64],
        b: &[f64],
    ) -> (MemoryDesc, Vec<f64>) {
        let builder = PrimitiveDesc::builder(Op::MatMul(MatMul)).src(src.clone()).weights(weights.clone());
        let dims = builder.clone().build().unwrap().dst().dims().clone();
        let dst = MemoryDesc::new(dims, dst);
        let desc = builder.dst(dst.clone()).build().unwrap();
        let mut out = bytes_of(&dst, &vec![7.0; dst.elements()]);
        run(
            &desc,
            &[(Arg::SRC, &bytes_of(src, a)), (Arg::Weights, &bytes_of(weights, b))],
            &mut [(Arg::DST, &mut out)],
        )
        .unwrap();
        let values = values_of(&dst, &out);
        (dst, values)
    }

    #[test]
    fn hand_computed_product() {
        let desc = MemoryDesc::new([2, 2], DataType::F32);
        let (_, out) = product(&desc, &desc, DataType::F32, &[1.0, 2.0, 3.0, 4.0], &[5.0, 6.0, 7.0, 8.0]);
        assert_eq!(out, [19.0, 22.0, 43.0, 50.0]);
    }

    #[test]
    fn integer_sums_are_exact_beyond_f32() {
        // 4001 products of 255 * 127 exceed 2^24, and one differs.
        let src = MemoryDesc::new([1, 4001], DataType::U8);
        let weights = MemoryDesc::new([4001, 1], DataType::S8);
        let mut b = vec![127.0; 4001];
        b[17] = -128.0;
        let (_, out) = product(&src, &weights, DataType::S32, &vec![255.0; 4001], &b);
        assert_eq!(out, [255.0 * (127.0 * 4000.0 - 128.0)]);
    }

    #[test]
    fn an_empty_sum_gives_zeros() {
        let (_, out) = product(
            &MemoryDesc::new([2, 0], DataType::F32),
            &MemoryDesc::new([0, 3], DataType::F32),
            DataType::F32,
            &[],
            &[],
        );
        assert_eq!(out, [0.0; 6]);
    }

    proptest! {
        #[test]
        fn products_meet_the_definition(
            (m, n, k) in (1_usize..9, 1_usize..9, 1_usize..9),
            (batch_a, batch_b) in prop_oneof![Just((1, 1)), Just((3, 1)), Just((1, 3)), Just((3, 3))],
            (transposed_a, transposed_b, half) in any::<(bool, bool, bool)>(),
            gap in 0_usize..3,
        ) {
            let data_type = if half { DataType::BF16 } else { DataType::F32 };
            let matrix = |batch: usize, rows: usize, columns: usize, transposed: bool| {
                let (row, column) = if transposed { (1, rows + gap) } else { (columns + gap, 1) };
                let batch_stride = (rows + gap) * (columns + gap);
                MemoryDesc::with_strides([batch, rows, columns], data_type, [batch_stride, row, column]).unwrap()
            };
            let (src, weights) = (matrix(batch_a, m, k, transposed_a), matrix(batch_b, k, n, transposed_b));
            let a: Vec<f64> = (0..src.elements()).map(|i| (i * 7 % 13) as f64 - 6.0).collect();
            let b: Vec<f64> = (0..weights.elements()).map(|i| (i * 5 % 11) as f64 - 5.0).collect();
            let (dst, out) = product(&src, &weights, DataType::F32, &a, &b);
            for (at, index) in dst.dims().indices().enumerate() {
                let (first, second) = (index[0] % batch_a * m * k, index[0] % batch_b * k * n);
                let sum: f64 = (0..k).map(|p| a[first + index[1] * k + p] * b[second + p * n + index[2]]).sum();
                prop_assert_eq!(out[at], sum);
            }
        }
    }
}

//! Matrix products of groups whose sizes lie in memory.

use anydnn_backend::op::GroupedMatMul;
use anydnn_backend::{Arg, PrimitiveDesc, Result};

use super::Compute;
use super::element::Float;
use super::epilogue::{Epilogue, produce_dense};
use super::gemm::multiply;
use super::matmul::Matrices;
use super::operands::{Operands, Results};
use super::view::dense;

impl Compute for GroupedMatMul {
    fn implementation(&self, _desc: &PrimitiveDesc) -> &'static str {
        "host:gemm"
    }

    fn compute<T: Float>(&self, operands: &Operands<'_>, results: &mut Results<'_, '_>) -> Result<()> {
        let dst = operands.desc.dst();
        let epilogue = Epilogue::new(operands)?;
        let (ends, bytes) = operands.required(Arg::Src(1))?;
        let ends = dense::<i64>(ends, bytes)?;
        let src = Matrices::new(operands, Arg::SRC)?;
        let weights = Matrices::new(operands, Arg::Weights)?;
        let [m, k] = src.dims[..] else { return Ok(()) };
        let n = dst.dims()[dst.rank() - 1];
        produce_dense(dst, results.dst()?, &epilogue, |out: &mut [T]| {
            if *self == Self::Terms {
                for (terms, out) in Self::groups(ends.iter().copied(), k).zip(out.chunks_mut(m * n)) {
                    let mut a = src.matrix(terms.start * src.strides[1]);
                    let mut b = weights.matrix(terms.start * weights.strides[0]);
                    (a.columns, b.rows) = (terms.len(), terms.len());
                    multiply(&a, &b, out, n, true);
                }
                return Ok(());
            }
            out.fill(T::ZERO);
            let bias = operands.find_dense::<T>(Arg::Src(2))?;
            for (g, rows) in Self::groups(ends.iter().copied(), m).enumerate() {
                if rows.is_empty() {
                    continue;
                }
                let mut a = src.matrix(rows.start * src.strides[0]);
                a.rows = rows.len();
                let out = &mut out[rows.start * n..rows.end * n];
                multiply(&a, &weights.matrix(g * weights.strides[0]), out, n, true);
                let Some(bias) = &bias else { continue };
                for row in out.chunks_mut(n) {
                    row.iter_mut().zip(&bias[g * n..]).for_each(|(value, bias)| *value += *bias);
                }
            }
            Ok(())
        })
    }

    fn sums_products(&self) -> bool {
        true
    }

    fn uses_value_of(&self, arg: Arg) -> bool {
        arg != Arg::Src(1)
    }
}

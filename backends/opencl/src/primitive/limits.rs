//! What kernels can index: sizes beyond it are refused before anything is made.

use anydnn_backend::{Error, PrimitiveDesc, Result, each_operation};

use super::Planner;

/// The most elements along one dimension of an operand of work that counts rows, terms or windows in 32 bits.
const MOST: usize = i32::MAX as usize;

/// Refuses operands with a dimension that the operation's kernels cannot count. Work that goes element by element counts in 64 bits where
/// a tensor needs it, and has no such limit.
pub(super) fn check(desc: &PrimitiveDesc) -> Result<()> {
    if each_operation!(desc.op(), op => op.counts_in_64_bits(), _ => false) {
        return Ok(());
    }
    for operand in desc.args() {
        let dims = operand.desc.dims();
        if let Some(axis) = dims.iter().position(|&dim| dim > MOST) {
            let why = format!(
                "{} has {} elements along dimension {axis}, and kernels index at most {MOST}",
                operand.arg, dims[axis]
            );
            return Err(Error::unsupported(desc.name(), why));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use anydnn_backend::op::{MatMul, Softmax};
    use anydnn_backend::{DataType, Eltwise, MemoryDesc, Op, PrimitiveDesc};

    use super::*;

    fn of(op: &Op, dims: [usize; 2]) -> Result<()> {
        let builder = PrimitiveDesc::builder(op.clone()).src(MemoryDesc::new(dims, DataType::S8));
        let builder = match op {
            Op::MatMul(_) => builder.weights(MemoryDesc::new([dims[1], 1], DataType::S8)),
            _ => builder,
        };
        let dst = builder.clone().build()?.dst().dims().clone();
        check(&builder.dst(MemoryDesc::new(dst, DataType::S8)).build()?)
    }

    #[test]
    fn dimensions_beyond_32_bits_are_refused_with_the_limit() {
        assert!(of(&Op::MatMul(MatMul), [1, MOST]).is_ok());
        let error = of(&Op::MatMul(MatMul), [1, MOST + 1]).unwrap_err().to_string();
        assert!(error.contains("2147483648") && error.contains("at most 2147483647"), "{error}");
        assert!(of(&Op::Softmax(Softmax::new(1)), [1, MOST + 1]).is_err());
        assert!(of(&Op::Eltwise(Eltwise::Relu), [1, MOST + 1]).is_ok());
    }
}

//! What follows an operation: bias, post-operations, conversion and layout of the result.

use anydnn_backend::{Arg, BinaryAlgorithm, Eltwise, Error, MemoryDesc, PostOp, Result};

use super::CHUNK;
use super::element::Real;
use super::operands::Operands;
use super::pack::pack;
use super::parallel::parallel_chunks;
use super::storage::{Kind, read_run, write_run};
use super::view::View;

/// Steps applied to each result element before it is stored.
#[derive(Debug)]
pub(crate) struct Epilogue<'a> {
    steps: Vec<Step<'a>>,
    sums: bool,
}

#[derive(Debug)]
enum Step<'a> {
    Eltwise(Eltwise),
    Binary { algorithm: BinaryAlgorithm, operand: Box<View<'a>>, reversed: bool },
    Select { condition: Box<View<'a>>, other: Box<View<'a>>, other_where_true: bool },
    Sum { scale: f64, zero_point: f64, read_as: Kind },
}

/// The result's old content, which a sum reads.
#[derive(Clone, Copy)]
enum Old<'a> {
    /// The bytes of just the elements at hand.
    Run(&'a [u8]),
    /// Any layout.
    Tensor(&'a MemoryDesc, &'a [u8]),
}

impl<'a> Epilogue<'a> {
    pub(crate) fn new(operands: &Operands<'a>) -> Result<Self> {
        let desc = operands.desc;
        let dims = desc.dst().dims();
        let mut steps = Vec::new();
        if let Some((bias, bytes)) = operands.find(Arg::Bias)? {
            let operand = match super::bias_axis(desc) {
                Some(axis) => View::along(bias, bytes, dims, axis)?,
                None => View::broadcast(bias, bytes, dims)?,
            };
            let operand = Box::new(operand);
            steps.push(Step::Binary { algorithm: BinaryAlgorithm::Add, operand, reversed: false });
        }
        for (i, post_op) in desc.attributes().post_ops.iter().enumerate() {
            steps.push(match post_op {
                PostOp::Eltwise(function) => Step::Eltwise(*function),
                PostOp::Binary { algorithm, reversed, .. } => {
                    let (operand, bytes) = operands.required(Arg::PostOp(i as u16))?;
                    let operand = Box::new(View::broadcast(operand, bytes, dims)?);
                    Step::Binary { algorithm: *algorithm, operand, reversed: *reversed }
                }
                PostOp::Select { other_where_true, .. } => {
                    let view = |arg: Arg| {
                        let (operand, bytes) = operands.required(arg)?;
                        Ok::<_, Error>(Box::new(View::broadcast(operand, bytes, dims)?))
                    };
                    let (condition, other) =
                        (view(Arg::PostOp(i as u16))?, view(Arg::PostOpOther(i as u16))?);
                    Step::Select { condition, other, other_where_true: *other_where_true }
                }
                PostOp::Sum { scale, zero_point, data_type } => Step::Sum {
                    scale: f64::from(*scale),
                    zero_point: f64::from(*zero_point),
                    read_as: Kind::of(data_type.unwrap_or(desc.dst().data_type()))?,
                },
                other => {
                    return Err(Error::unsupported(
                        format!("post-operation {other:?}"),
                        "the host backend does not know it",
                    ));
                }
            });
        }
        let sums = steps.iter().any(|step| matches!(step, Step::Sum { .. }));
        Ok(Self { steps, sums })
    }

    /// Applies every step to the elements `start..` of the result.
    fn apply<T: Real>(&self, start: usize, values: &mut [T], old: Old<'_>) -> Result<()> {
        let mut buffer = [T::ZERO; CHUNK];
        let buffer = &mut buffer[..values.len()];
        for step in &self.steps {
            match step {
                Step::Eltwise(function) => T::eltwise(*function, values),
                Step::Binary { algorithm, operand, reversed } => {
                    operand.load(start, buffer);
                    T::binary(*algorithm, values, buffer, *reversed);
                }
                Step::Select { condition, other, other_where_true } => {
                    let mut others = [T::ZERO; CHUNK];
                    let others = &mut others[..values.len()];
                    condition.load(start, buffer);
                    other.load(start, others);
                    for ((value, condition), other) in values.iter_mut().zip(&*buffer).zip(&*others) {
                        if condition.is_nonzero() == *other_where_true {
                            *value = *other;
                        }
                    }
                }
                Step::Sum { scale, zero_point, read_as } => {
                    match old {
                        Old::Run(bytes) => read_run(*read_as, bytes, buffer),
                        Old::Tensor(desc, bytes) => {
                            let desc = desc.with_data_type(read_as.data_type());
                            View::new(&desc, bytes)?.load(start, buffer);
                        }
                    }
                    for (value, old) in values.iter_mut().zip(&*buffer) {
                        *value = T::from_f64(value.to_f64() + scale * (old.to_f64() - zero_point));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Makes a result whose elements do not depend on one another: `fill` computes the elements from a row-major index on.
pub(crate) fn produce<T: Real>(
    desc: &MemoryDesc,
    bytes: &mut [u8],
    epilogue: &Epilogue<'_>,
    fill: impl Fn(usize, &mut [T]) + Sync,
) -> Result<()> {
    let kind = Kind::of(desc.data_type())?;
    if desc.is_row_major() {
        let bytes = &mut bytes[..desc.size()];
        let elements = desc.elements();
        // A chunk is of whole bytes even where elements are not.
        return parallel_chunks(bytes, CHUNK * kind.bits() / 8, |i, bytes| {
            let mut values = [T::ZERO; CHUNK];
            let values = &mut values[..(elements - i * CHUNK).min(CHUNK)];
            fill(i * CHUNK, values);
            epilogue.apply(i * CHUNK, values, Old::Run(bytes))?;
            write_run(kind, values, bytes);
            Ok(())
        });
    }
    let mut values = vec![T::ZERO; desc.elements()];
    let old = Old::Tensor(desc, bytes);
    parallel_chunks(&mut values, CHUNK, |i, values| -> Result<()> {
        fill(i * CHUNK, values);
        epilogue.apply(i * CHUNK, values, old)
    })?;
    pack(desc, &values, bytes)
}

/// Makes a result that `kernel` computes as a whole, dense and row-major.
pub(crate) fn produce_dense<T: Real>(
    desc: &MemoryDesc,
    bytes: &mut [u8],
    epilogue: &Epilogue<'_>,
    kernel: impl FnOnce(&mut [T]) -> Result<()>,
) -> Result<()> {
    if desc.elements() == 0 {
        return Ok(());
    }
    if desc.data_type() == T::DATA_TYPE
        && desc.is_row_major()
        && !epilogue.sums
        && let Ok(values) = bytemuck::try_cast_slice_mut::<u8, T>(&mut bytes[..desc.size()])
    {
        kernel(values)?;
        if epilogue.steps.is_empty() {
            return Ok(());
        }
        return parallel_chunks(values, CHUNK, |i, values| epilogue.apply(i * CHUNK, values, Old::Run(&[])));
    }
    let mut values = vec![T::ZERO; desc.elements()];
    kernel(&mut values)?;
    produce(desc, bytes, epilogue, |start, chunk: &mut [T]| {
        chunk.copy_from_slice(&values[start..][..chunk.len()]);
    })
}

#[cfg(test)]
mod tests {
    use crate::compute::tests::{bytes_of, run, values_of};
    use anydnn_backend::{
        Arg, Attributes, BinaryAlgorithm, DataType, Eltwise, MemoryDesc, PostOp, PrimitiveDesc,
    };

    fn f32(dims: &[usize]) -> MemoryDesc {
        MemoryDesc::new(dims, DataType::F32)
    }

    #[test]
    fn steps_run_in_order_and_sums_read_the_old_result() {
        let attributes = Attributes::default()
            .with_post_op(PostOp::Sum { scale: 2.0, zero_point: 1, data_type: Some(DataType::S8) })
            .with_post_op(PostOp::Eltwise(Eltwise::Relu))
            .with_post_op(PostOp::Binary {
                algorithm: BinaryAlgorithm::Subtract,
                operand: f32(&[2, 1]),
                reversed: true,
            });
        for dst in [
            MemoryDesc::new([2, 2], DataType::U8),
            MemoryDesc::with_strides([2, 2], DataType::U8, [1, 2]).unwrap(),
        ] {
            let desc = PrimitiveDesc::builder(anydnn_backend::op::Reorder)
                .src(f32(&[2, 2]))
                .dst(dst.clone())
                .attributes(attributes.clone())
                .build()
                .unwrap();
            let src = bytes_of(&f32(&[2, 2]), &[1.0, 2.0, 3.0, 4.0]);
            let operand = bytes_of(&f32(&[2, 1]), &[10.0, 100.0]);
            // Read as s8: 3, -1, 5, -100.
            let mut out = bytes_of(&dst, &[3.0, 255.0, 5.0, 156.0]);
            run(&desc, &[(Arg::SRC, &src), (Arg::PostOp(2), &operand)], &mut [(Arg::DST, &mut out)]).unwrap();
            // 10 - relu(1 + 2*(3-1)), 10 - relu(2 + 2*(-1-1)), 100 - relu(3 + 2*(5-1)), 100 - relu(4 + 2*(-100-1))
            assert_eq!(values_of(&dst, &out), [5.0, 10.0, 89.0, 100.0]);
        }
    }
}

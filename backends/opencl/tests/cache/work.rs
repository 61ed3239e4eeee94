//! Work for engines: a few primitives, each with a program of its own.

use anydnn_backend::conformance::values::Values;
use anydnn_backend::conformance::{data, reference};
use anydnn_backend::op::{Eltwise, MatMul, Op, Reduction, ReductionAlgorithm, Softmax};
use anydnn_backend::{
    DataType, Engine, MemoryDesc, MemoryKind, Primitive, PrimitiveDesc, Stream, StreamDesc, TensorValues,
    Tolerance,
};
use anydnn_opencl::OpenClEngine;
use approx::assert_relative_eq;

/// The programs that [`everything`] takes.
pub(crate) const PROGRAMS: u64 = 4;

/// Runs every primitive and checks its results.
pub(crate) fn everything(engine: &OpenClEngine) {
    for desc in [relu(64), mish(65), matmul(), sums()] {
        run(engine, &desc);
    }
}

pub(crate) fn relu(elements: usize) -> PrimitiveDesc {
    eltwise(Eltwise::Relu, elements)
}

/// A function that processors have in no list of steps, so that its program is its own.
pub(crate) fn mish(elements: usize) -> PrimitiveDesc {
    eltwise(Eltwise::Mish, elements)
}

fn eltwise(function: Eltwise, elements: usize) -> PrimitiveDesc {
    let desc = f32(&[elements]);
    PrimitiveDesc::builder(Op::Eltwise(function)).src(desc.clone()).dst(desc).build().unwrap()
}

pub(crate) fn softmax() -> PrimitiveDesc {
    PrimitiveDesc::builder(Op::Softmax(Softmax::new(1))).src(f32(&[3, 17])).build().unwrap()
}

fn matmul() -> PrimitiveDesc {
    PrimitiveDesc::builder(Op::MatMul(MatMul)).src(f32(&[5, 7])).weights(f32(&[7, 3])).build().unwrap()
}

fn sums() -> PrimitiveDesc {
    let op = Reduction::new(ReductionAlgorithm::Sum);
    PrimitiveDesc::builder(Op::Reduction(op)).src(f32(&[4, 33])).dst(f32(&[4, 1])).build().unwrap()
}

fn f32(dims: &[usize]) -> MemoryDesc {
    MemoryDesc::new(dims, DataType::F32)
}

/// Runs a primitive on drawn values and compares with the reference.
pub(crate) fn run(engine: &OpenClEngine, desc: &PrimitiveDesc) {
    let primitive = engine.create_primitive(desc).unwrap();
    let stream = engine.create_stream(&StreamDesc::default()).unwrap();
    let desc = primitive.desc();
    let (mut inputs, mut args) = (reference::Tensors::new(), Vec::new());
    for (seed, operand) in desc.args().iter().enumerate() {
        let layout = &operand.desc;
        let drawn = Values::of(layout.data_type()).draw(layout.elements(), seed as u64);
        let bytes = data::encode(layout, &drawn).unwrap();
        if operand.access.reads() {
            let values = data::decode(layout, &bytes).unwrap();
            inputs.insert(operand.arg, reference::Tensor::new(layout.dims().clone(), values).unwrap());
        }
        let memory = engine.create_memory(layout, MemoryKind::Buffer).unwrap();
        stream.write(&memory, 0, &bytes, &[]).unwrap();
        args.push((operand.arg, memory));
    }
    stream.execute(&primitive, &args, &[]).unwrap();
    for (arg, expected) in reference::compute(desc, &inputs).unwrap() {
        let memory = args.iter().find(|(bound, _)| *bound == arg).map(|(_, memory)| memory).unwrap();
        let layout = desc.find(arg).unwrap();
        let mut bytes = vec![0; layout.size()];
        stream.read(memory, 0, &mut bytes, &[]).unwrap();
        let actual = TensorValues::decode(layout, &bytes).unwrap();
        let expected = TensorValues::new(layout, expected.values).unwrap();
        assert_relative_eq!(actual, expected.within(Tolerance::of(desc)));
    }
}

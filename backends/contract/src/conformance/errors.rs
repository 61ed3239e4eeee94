//! Wrong arguments: each is refused with an error that names the culprit, and nothing happens.

use super::report::ensure;
use super::subject::{expect_error, is_invalid, is_mismatch, read_all};
use super::{Case, Failure, Lacking, Outcome, Subject};
use crate::op::{Binary, MatMul, Reduction, ReductionAlgorithm, Softmax};
use crate::{
    Arg, Attributes, Backend, BinaryAlgorithm, DataType, Eltwise, Engine, Error, Memory, MemoryDesc, Op,
    PostOp, Primitive, PrimitiveDesc, Range, ScratchpadMode, Stream,
};

pub(super) fn cases<B: Backend>() -> Vec<Case<B>> {
    vec![
        Case::new("errors/missing_argument", missing),
        Case::new("errors/duplicate_argument", duplicate),
        Case::new("errors/unknown_argument", unknown),
        Case::new("errors/too_small", too_small),
        Case::new("errors/aliasing", aliasing),
        Case::new("errors/aliasing_where_nothing_is_written", harmless_aliasing),
        Case::new("errors/scratchpad", scratchpad),
        Case::new("errors/another_engines_objects", foreign),
    ]
}

const POISON: u8 = 0xCD;

/// `dst = src0 - src1` with a multiplication after it, and memories for it.
struct Stage<B: Backend> {
    stream: B::Stream,
    primitive: B::Primitive,
    args: Vec<(Arg, B::Memory)>,
}

impl<B: Backend> Stage<B> {
    fn new(subject: &Subject<B>) -> Result<Self, Failure> {
        let desc = MemoryDesc::new([4, 8], DataType::F32);
        let factor = PostOp::binary(BinaryAlgorithm::Multiply, MemoryDesc::new([8], DataType::F32));
        let builder = PrimitiveDesc::builder(Op::Binary(Binary::new(BinaryAlgorithm::Subtract)))
            .src(desc.clone())
            .src(desc.clone())
            .dst(desc)
            .attributes(Attributes::default().with_post_op(factor))
            .label("difference");
        let primitive = subject.primitive(builder.build())?;
        let stream = subject.stream()?;
        let mut args = Vec::new();
        for operand in primitive.desc().args() {
            let memory = subject.memory(&operand.desc)?;
            stream.write(&memory, 0, &vec![POISON; operand.desc.size()], &[])?;
            args.push((operand.arg, memory));
        }
        stream.wait()?;
        Ok(Self { stream, primitive, args })
    }

    /// The arguments with one bound to other memory.
    fn with(&self, arg: Arg, memory: &B::Memory) -> Vec<(Arg, B::Memory)> {
        let swap = |(a, m): &(Arg, B::Memory)| (*a, if *a == arg { memory.clone() } else { m.clone() });
        self.args.iter().map(swap).collect()
    }

    fn memory(&self, arg: Arg) -> Result<&B::Memory, Failure> {
        let found = self.args.iter().find(|(a, _)| *a == arg).map(|(_, memory)| memory);
        found.ok_or_else(|| Failure::new(format!("the primitive has no {arg}")))
    }

    /// The arguments are refused with an error that mentions `naming`, and every memory stays as it was.
    fn refuses(
        &self,
        args: &[(Arg, B::Memory)],
        what: &str,
        kind: fn(&Error) -> bool,
        naming: &[&str],
    ) -> Result<(), Failure> {
        let mut all = vec!["difference"];
        all.extend_from_slice(naming);
        let event = self.stream.execute(&self.primitive, args, &[]);
        expect_error(event, &format!("executing with {what}"), kind, &all)?;
        self.stream.wait().map_err(|e| Failure::from(e).at("the stream after a refused command"))?;
        for (arg, memory) in &self.args {
            let bytes = read_all::<B>(&self.stream, memory)?;
            ensure!(
                bytes.iter().all(|&b| b == POISON),
                "executing with {what} was refused, yet {arg} changed"
            );
        }
        Ok(())
    }

    /// The stage still works with the right arguments.
    fn works(&self) -> Result<Outcome, Failure> {
        self.stream.execute(&self.primitive, &self.args, &[])?;
        self.stream.wait()?;
        let bytes = read_all::<B>(&self.stream, self.memory(Arg::DST)?)?;
        ensure!(bytes.iter().all(|&b| b == 0 || b == 0x80), "equal operands differ by {bytes:?}");
        Ok(Outcome::Passed)
    }
}

fn missing<B: Backend>(subject: &Subject<B>) -> Result<Outcome, Failure> {
    let stage = Stage::new(subject)?;
    for (arg, _) in &stage.args {
        let rest: Vec<_> = stage.args.iter().filter(|(a, _)| a != arg).cloned().collect();
        stage.refuses(&rest, &format!("no {arg}"), is_invalid, &[&arg.to_string()])?;
    }
    stage.refuses(&[], "no arguments", is_invalid, &["src0"])?;
    stage.works()
}

fn duplicate<B: Backend>(subject: &Subject<B>) -> Result<Outcome, Failure> {
    let stage = Stage::new(subject)?;
    for (arg, memory) in &stage.args {
        let mut twice = stage.args.clone();
        twice.push((*arg, memory.clone()));
        stage.refuses(&twice, &format!("{arg} twice"), is_invalid, &[&arg.to_string()])?;
    }
    stage.works()
}

fn unknown<B: Backend>(subject: &Subject<B>) -> Result<Outcome, Failure> {
    let stage = Stage::new(subject)?;
    let spare = subject.bytes(128)?;
    for arg in [Arg::Weights, Arg::Src(2), Arg::Dst(1), Arg::PostOp(1), Arg::Bias] {
        let mut more = stage.args.clone();
        more.push((arg, spare.clone()));
        stage.refuses(&more, &format!("an unknown {arg}"), is_invalid, &[&arg.to_string()])?;
    }
    stage.works()
}

fn too_small<B: Backend>(subject: &Subject<B>) -> Result<Outcome, Failure> {
    let stage = Stage::new(subject)?;
    for operand in stage.primitive.desc().args() {
        let size = operand.desc.size();
        let small = subject.bytes(size - 1)?;
        let args = stage.with(operand.arg, &small);
        let naming = [&*operand.arg.to_string(), &(size - 1).to_string(), &size.to_string()];
        stage.refuses(&args, &format!("a small {}", operand.arg), is_invalid, &naming)?;
        // A view counts with its own size, not its parent's.
        let view = subject.bytes(2 * size)?.view(&MemoryDesc::new([size - 4], DataType::U8), 0)?;
        let args = stage.with(operand.arg, &view);
        stage.refuses(&args, &format!("a small view as {}", operand.arg), is_invalid, &naming[..1])?;
    }
    stage.works()
}

fn aliasing<B: Backend>(subject: &Subject<B>) -> Result<Outcome, Failure> {
    let stage = Stage::new(subject)?;
    let dst = stage.memory(Arg::DST)?;
    let vector = dst.view(&MemoryDesc::new([8], DataType::F32), 16)?;
    stage.refuses(
        &stage.with(Arg::PostOp(0), &vector),
        "post_op0 inside dst0",
        is_invalid,
        &["post_op0", "dst0"],
    )?;
    let parent = subject.bytes(160)?;
    let tensor = MemoryDesc::new([4, 8], DataType::F32);
    for (first, second, what) in [(0, 32, "overlapping behind"), (32, 0, "overlapping in front")] {
        let mut args = stage.with(Arg::SRC, &parent.view(&tensor, first)?);
        let result = parent.view(&tensor, second)?;
        args.iter_mut().filter(|(arg, _)| *arg == Arg::DST).for_each(|(_, m)| *m = result.clone());
        stage.refuses(&args, &format!("src0 and dst0 {what}"), is_invalid, &["src0", "dst0"])?;
    }
    // A product may not overwrite its own operand, whatever the layouts.
    let square = MemoryDesc::new([4, 4], DataType::F32);
    let product = PrimitiveDesc::builder(Op::MatMul(MatMul)).src(square.clone()).weights(square.clone());
    let product = subject.primitive(product.dst(square.clone()).build())?;
    let (shared, other) = (subject.memory(&square)?, subject.memory(&square)?);
    let args = [(Arg::SRC, shared.clone()), (Arg::Weights, other), (Arg::DST, shared)];
    let event = stage.stream.execute(&product, &args, &[]);
    expect_error(event, "a product over its own operand", is_invalid, &["matmul", "src0", "dst0"])?;
    stage.stream.wait()?;
    stage.works()
}

/// Sources may share bytes, and a memory may hold several operands side by side.
fn harmless_aliasing<B: Backend>(subject: &Subject<B>) -> Result<Outcome, Failure> {
    let stage = Stage::new(subject)?;
    let src = stage.memory(Arg::SRC)?;
    let same = stage.with(Arg::Src(1), src);
    stage.stream.execute(&stage.primitive, &same, &[])?;
    let parent = subject.bytes(4 * 128)?;
    stage.stream.write(&parent, 0, &[POISON; 4 * 128], &[])?;
    let mut side_by_side = Vec::new();
    for (i, operand) in stage.primitive.desc().args().iter().enumerate() {
        side_by_side.push((operand.arg, parent.view(&operand.desc, i * 128)?));
    }
    stage.stream.execute(&stage.primitive, &side_by_side, &[])?;
    stage.stream.wait()?;
    stage.works()
}

/// Working memory is asked for in user mode, where the implementation needs any.
fn scratchpad<B: Backend>(subject: &Subject<B>) -> Result<Outcome, Failure> {
    let f32 = |dims: &[usize]| MemoryDesc::new(dims, DataType::F32);
    let sum = Op::Reduction(Reduction::new(ReductionAlgorithm::Sum));
    let descs = [
        PrimitiveDesc::builder(Op::MatMul(MatMul))
            .src(f32(&[5, 300]))
            .weights(f32(&[300, 7]))
            .dst(f32(&[5, 7])),
        PrimitiveDesc::builder(Op::Softmax(Softmax::new(0))).src(f32(&[40, 9])).dst(f32(&[40, 9])),
        PrimitiveDesc::builder(sum).src(f32(&[2000])).dst(f32(&[1])),
        PrimitiveDesc::builder(Op::Eltwise(Eltwise::Relu)).src(f32(&[9])).dst(f32(&[9])),
    ];
    let stream = subject.stream()?;
    for builder in descs {
        let attributes = Attributes::default().with_scratchpad(ScratchpadMode::User);
        let primitive = subject.primitive(builder.attributes(attributes).build())?;
        let mut args = Vec::new();
        for operand in primitive.desc().args() {
            let memory = subject.memory(&operand.desc)?;
            stream.write(&memory, 0, &vec![0; operand.desc.size()], &[])?;
            args.push((operand.arg, memory));
        }
        let needed = primitive.scratchpad_size();
        if needed > 0 {
            let event = stream.execute(&primitive, &args, &[]);
            expect_error(event, "executing without a scratchpad", is_invalid, &["scratchpad"])?;
            args.push((Arg::Scratchpad, subject.bytes(needed - 1)?));
            let event = stream.execute(&primitive, &args, &[]);
            expect_error(event, "executing with a small scratchpad", is_invalid, &["scratchpad"])?;
            args.pop();
        }
        args.push((Arg::Scratchpad, subject.bytes(needed)?));
        stream.execute(&primitive, &args, &[])?;
        stream.wait()?;
    }
    Ok(Outcome::Passed)
}

fn foreign<B: Backend>(subject: &Subject<B>) -> Result<Outcome, Failure> {
    let Some(second) = subject.second_engine() else {
        return Ok(Outcome::Unsupported(Lacking::SecondEngine));
    };
    ensure!(second.id() != subject.engine().id(), "the second engine is the first one again");
    let stage = Stage::new(subject)?;
    let other = Stage::new(&Subject::<B>::new(second))?;
    for (arg, memory) in &other.args {
        let name = arg.to_string();
        stage.refuses(
            &stage.with(*arg, memory),
            &format!("another engine's {arg}"),
            is_mismatch,
            &[&name],
        )?;
    }
    let event = stage.stream.execute(&other.primitive, &other.args, &[]);
    expect_error(event, "another engine's primitive", is_mismatch, &["difference"])?;
    let theirs = other.memory(Arg::DST)?;
    let range = |memory: &B::Memory| Range { memory: memory.clone(), offset: 0, bytes: 4 };
    let ours = stage.memory(Arg::DST)?;
    expect_error(
        stage.stream.copy(range(theirs), range(ours), &[]),
        "a copy from another engine",
        is_mismatch,
        &[],
    )?;
    expect_error(
        stage.stream.copy(range(ours), range(theirs), &[]),
        "a copy to another engine",
        is_mismatch,
        &[],
    )?;
    expect_error(stage.stream.write(theirs, 0, &[0; 4], &[]), "a write to another engine", is_mismatch, &[])?;
    expect_error(
        stage.stream.read(theirs, 0, &mut [0; 4], &[]),
        "a read from another engine",
        is_mismatch,
        &[],
    )?;
    stage.stream.wait()?;
    stage.works()
}

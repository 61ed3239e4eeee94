//! Every implementation of a primitive, forced one after the other and measured by turns.

use std::time::Instant;

use anydnn::backend::op::{Op, Reorder};
use anydnn::backend::{
    Arg, Engine, Event, Memory as _, MemoryDesc, MemoryKind, Primitive, PrimitiveDesc, Result, Stream,
    StreamDesc,
};
use anydnn::model::HostTensor;
use anydnn::select::AnyEngine;
use anydnn_opencl::{OpenClEngine, OpenClMemory, OpenClPrimitive, OpenClStream};

use super::data::Tensor;
use super::measure::{MOST, SAMPLE, median, relative};

/// An implementation that serves a primitive, in the order of preference.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) name: String,
    /// Why it stands where it does.
    pub(crate) reason: &'static str,
    /// Seconds of one execution, where it was measured.
    pub(crate) time: Option<f64>,
    /// The norm of the difference to the first one's result over the norm of that.
    pub(crate) difference: Option<f64>,
}

/// The implementations that serve a step's primitive; none where the backend does not tell. Constant weights may lie as they like.
pub(crate) fn candidates(engine: &AnyEngine, desc: &PrimitiveDesc, constant: bool) -> Vec<Candidate> {
    let listed = engine.as_opencl().map(|engine| engine.implementations(&open(desc, constant)));
    let listed = listed.and_then(Result::ok).unwrap_or_default();
    let named = listed.into_iter().map(|found| Candidate {
        name: found.name,
        reason: found.reason,
        time: None,
        difference: None,
    });
    named.collect()
}

/// Measures every implementation of a step's primitive on numbers of its own.
pub(crate) fn measure(
    engine: &AnyEngine,
    desc: &PrimitiveDesc,
    constant: bool,
    rounds: u32,
) -> Result<Vec<Candidate>> {
    let mut candidates = candidates(engine, desc, constant);
    let Some(engine) = engine.as_opencl() else { return Ok(candidates) };
    let stream = engine.create_stream(&StreamDesc::default())?;
    let mut forced = Vec::new();
    for candidate in &candidates {
        forced.push(Forced::new(engine, &stream, &open(desc, constant), &candidate.name)?);
    }
    let reference =
        forced.first().map(|first| first.result(engine, &stream)).transpose()?.unwrap_or_default();
    for (one, candidate) in forced.iter().zip(&mut candidates) {
        let result = one.result(engine, &stream)?;
        candidate.difference = Some(relative(&result, &reference, 0.0));
    }
    let mut times = vec![Vec::new(); forced.len()];
    for round in 0..=rounds {
        for (one, times) in forced.iter_mut().zip(&mut times) {
            let seconds = one.run(&stream)?;
            // The first round warms up and says how many to queue.
            if round == 0 {
                one.queued = ((SAMPLE / one.run(&stream)?).ceil() as usize).clamp(1, MOST);
            } else {
                times.push(seconds);
            }
        }
    }
    for (candidate, times) in candidates.iter_mut().zip(times) {
        candidate.time = Some(median(&times));
    }
    Ok(candidates)
}

/// The description with the layout of constant weights left to the implementation, as a graph leaves it.
fn open(desc: &PrimitiveDesc, constant: bool) -> PrimitiveDesc {
    match desc.op() {
        Op::MatMul(_) | Op::Convolution(_) if constant => desc.clone().opened(Arg::Weights),
        _ => desc.clone(),
    }
}

/// A primitive of a chosen implementation with its arguments.
struct Forced {
    primitive: OpenClPrimitive,
    args: Vec<(Arg, OpenClMemory)>,
    queued: usize,
}

impl Forced {
    fn new(engine: &OpenClEngine, stream: &OpenClStream, desc: &PrimitiveDesc, name: &str) -> Result<Self> {
        let primitive = engine.create_primitive_as(desc, name)?;
        let mut args = Vec::new();
        for (number, arg) in primitive.desc().args().iter().enumerate() {
            args.push((arg.arg, filled(engine, stream, number, arg.arg, &arg.desc)?));
        }
        if primitive.scratchpad_size() > 0 && primitive.desc().access(Arg::Scratchpad).is_some() {
            let bytes = MemoryDesc::new([primitive.scratchpad_size()], anydnn::backend::DataType::U8);
            args.push((Arg::Scratchpad, engine.create_memory(&bytes, MemoryKind::Buffer)?));
        }
        Ok(Self { primitive, args, queued: 1 })
    }

    fn run(&self, stream: &OpenClStream) -> Result<f64> {
        let start = Instant::now();
        for _ in 0..self.queued {
            stream.execute(&self.primitive, &self.args, &[])?;
        }
        stream.wait()?;
        Ok(start.elapsed().as_secs_f64() / self.queued as f64)
    }

    fn result(&self, engine: &OpenClEngine, stream: &OpenClStream) -> Result<Vec<f32>> {
        self.run(stream)?;
        let Some((_, memory)) = self.args.iter().find(|(arg, _)| *arg == Arg::DST) else {
            return Ok(Vec::new());
        };
        let plain = memory.desc().to_row_major();
        let memory = reordered(engine, stream, memory, &plain)?;
        let mut bytes = vec![0; plain.size()];
        stream.read(&memory, 0, &mut bytes, &[])?;
        Ok(HostTensor::new(plain, bytes)?.to_f32s())
    }
}

/// Memory with random numbers that suit an argument.
fn filled(
    engine: &OpenClEngine,
    stream: &OpenClStream,
    number: usize,
    arg: Arg,
    desc: &MemoryDesc,
) -> Result<OpenClMemory> {
    let dims = desc.dims();
    let (offset, scale) = match arg {
        Arg::Src(_) | Arg::Dst(_) => (0.0, 1.0),
        Arg::Weights => {
            let columns = dims.iter().copied().max().unwrap_or(1).max(1);
            (0.0, (3.0 * columns as f32 / desc.elements().max(1) as f32).sqrt())
        }
        _ => (1.0, 0.5),
    };
    let tensor = Tensor {
        name: arg.to_string(),
        id: number as u64,
        dims: dims.to_vec(),
        data_type: desc.data_type(),
        constant: true,
        offset,
        scale,
    };
    let plain = desc.to_row_major();
    let memory = engine.create_memory(&plain, MemoryKind::Buffer)?;
    stream.write(&memory, 0, tensor.values(0)?.bytes(), &[])?.wait()?;
    reordered(engine, stream, &memory, desc)
}

fn reordered(
    engine: &OpenClEngine,
    stream: &OpenClStream,
    memory: &OpenClMemory,
    desc: &MemoryDesc,
) -> Result<OpenClMemory> {
    if memory.desc().same_bytes(desc) {
        return Ok(memory.clone());
    }
    let reorder =
        PrimitiveDesc::builder(Op::Reorder(Reorder)).src(memory.desc().clone()).dst(desc.clone()).build()?;
    let reorder = engine.create_primitive(&reorder)?;
    let to = engine.create_memory(desc, MemoryKind::Buffer)?;
    stream.execute(&reorder, &[(Arg::SRC, memory.clone()), (Arg::DST, to.clone())], &[])?.wait()?;
    Ok(to)
}

//! Which primitives of a processor are native commands: those that take about as long as the launch of a kernel, and are computed by the host
//! backend's vector forms.

use std::sync::Arc;

use anydnn_backend::op::Eltwise;
use anydnn_backend::{
    Arg, DataType, Engine, MemoryDesc, MemoryKind, Op, Primitive, PrimitiveDesc, Result, Stream, StreamDesc,
};
use anydnn_host::{HostEngine, HostPrimitive};

use crate::backend::engine::OpenClEngine;
use crate::queue::fate::Operation;
use crate::queue::native::Job;

/// Nanoseconds of one thread up to which a primitive is worth no launch: a kernel takes 3 to 5 us by its launch, and the rest of its time on
/// several threads.
const MOST: f64 = 8_000.0;
/// Nanoseconds of a product and of an element by vector forms, with weights that lie in a core's cache, and by the reference.
const FAST: (f64, f64) = (0.03, 0.4);
const REFERENCE: (f64, f64) = (2.0, 12.0);
/// The products that one of a recurrent layer takes as long as: its steps wait for one another.
const RECURRENT: f64 = 2.5;
/// The elements that one of a node of an expression takes as long as: a function, and a way through the cache.
const NODE: f64 = 2.0;
/// Nanoseconds of any primitive, and of each row of a product.
const CALL: f64 = 600.0;
const ROW: f64 = 20.0;

/// The environment variable that forbids them: `never`.
const VARIABLE: &str = "ANYDNN_NATIVE";

/// What the environment says of native commands.
pub(crate) fn from_env() -> bool {
    match std::env::var(VARIABLE).as_deref() {
        Ok("never") => false,
        Ok("" | "auto") | Err(_) => true,
        Ok(value) => {
            tracing::warn!(value, variable = VARIABLE, "neither auto nor never");
            true
        }
    }
}

/// The primitive of a description as a native command; none where a kernel is to compute it.
pub(crate) fn primitive(engine: &OpenClEngine, desc: &PrimitiveDesc) -> Option<HostPrimitive> {
    if !desc.attributes().native || !engine.runs_native() || nanoseconds(desc, true) > MOST {
        return None;
    }
    let primitive = HostEngine::shared().create_primitive(desc).ok()?;
    (nanoseconds(primitive.desc(), primitive.is_fast()) <= MOST).then_some(primitive)
}

/// What the implementation is called.
pub(crate) fn name(native: &HostPrimitive) -> String {
    native.implementation().replacen("host:", "ocl:native:", 1)
}

/// Whether a native command of the device reads and writes what other commands do: its word alone is not enough.
pub(crate) fn work(engine: &OpenClEngine) -> bool {
    let probed = probe(engine).unwrap_or_else(|error| {
        tracing::debug!(%error, "native commands fail");
        false
    });
    tracing::debug!(works = probed, device = engine.opencl_device().name(), "native commands");
    probed
}

fn probe(engine: &OpenClEngine) -> Result<bool> {
    const NUMBERS: [f32; 4] = [1.0, 2.0, 3.0, 4.0];
    let bytes = |numbers: [f32; 4]| numbers.map(f32::to_ne_bytes).concat();
    let desc = MemoryDesc::new([NUMBERS.len()], DataType::F32);
    let negate = PrimitiveDesc::builder(Op::Eltwise(Eltwise::Linear { alpha: -1.0, beta: 0.0 }));
    let negate =
        HostEngine::shared().create_primitive(&negate.src(desc.clone()).dst(desc.clone()).build()?)?;
    let mut job = Job::default();
    job.add(&negate, [(Arg::SRC, 0, 0), (Arg::DST, 1, 0)].into_iter());
    let job = Arc::new(job);
    let stream = engine.create_stream(&StreamDesc::default().labelled("native commands"))?;
    let memory = || engine.create_memory(&desc, MemoryKind::Buffer);
    let (second, first) = (memory()?, memory()?);
    stream.write(&first, 0, &bytes(NUMBERS), &[])?;
    let operation = Operation::Fixed("native commands");
    let mut submission = stream.submit(operation.clone(), &[])?;
    submission.run(&operation, &job, &[&first, &second], true)?;
    submission.finish()?;
    let mut found = bytes([0.0; 4]);
    stream.read(&second, 0, &mut found, &[])?;
    Ok(found == bytes(NUMBERS.map(|number| -number)))
}

/// About how long one thread takes.
fn nanoseconds(desc: &PrimitiveDesc, is_fast: bool) -> f64 {
    let count = |desc: &MemoryDesc| desc.elements() as f64;
    let all = || desc.args().iter().map(|operand| count(&operand.desc));
    let (src, weights, dst) = (desc.find(Arg::SRC), desc.find(Arg::Weights), desc.find(Arg::DST));
    let results = dst.map_or(0.0, count);
    let both = results + src.map_or(0.0, count);
    let (products, elements) = match desc.op() {
        Op::MatMul(_) => {
            let terms = src.and_then(|src| src.dims().last()).map_or(0, |&terms| terms);
            let columns = dst.and_then(|dst| dst.dims().last()).map_or(1, |&columns| columns.max(1));
            let rows = results / columns as f64 * ROW / if is_fast { FAST.0 } else { REFERENCE.0 };
            (results * terms as f64 + rows, both)
        }
        Op::Convolution(_) => {
            let channels = dst.and_then(|dst| dst.dims().get(1)).map_or(1, |&channels| channels.max(1));
            (results * weights.map_or(0.0, count) / channels as f64, both)
        }
        Op::Recurrent(_) => {
            let steps = src.map_or(0, |src| src.dims().iter().rev().skip(1).product::<usize>());
            (all().fold(0.0, f64::max) * steps as f64 * RECURRENT, both)
        }
        Op::Expression(op) => (0.0, NODE * results.max(all().fold(0.0, f64::max)) * op.nodes.len() as f64),
        Op::Eltwise(_)
        | Op::Binary(_)
        | Op::Select(_)
        | Op::Softmax(_)
        | Op::LayerNormalization(_)
        | Op::BatchNormalization(_)
        | Op::Reduction(_)
        | Op::Concat(_)
        | Op::Reorder(_)
        | Op::Remap(_)
        | Op::Gather(_) => (0.0, all().sum()),
        _ => return f64::INFINITY,
    };
    let (product, element) = if is_fast { FAST } else { REFERENCE };
    CALL + products * product + elements * element
}

#[cfg(test)]
#[path = "native_tests.rs"]
mod tests;

//! What two answers to one case are worth.

use anydnn_backend::op::{Cell, Direction, GateOrder, MatMul, Recurrent};
use anydnn_backend::{Attributes, DataType, Eltwise, MemoryDesc, Op, PostOp, PrimitiveDesc, Tolerance};

use super::library::{Answer, Output};
use super::random::Words;

/// How two libraries compare on a case.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// The same numbers within the tolerance.
    Equal,
    /// Both refuse, with the same status.
    BothRefuse,
    /// oneDNN's library refuses, ends or writes nothing, and nothing wider is there to compare with.
    More,
    /// The library says that it does not have this: why.
    Missing(String),
    /// oneDNN gives these numbers too, but others in the layouts and types of the case.
    Contradiction,
    /// Anything else.
    Different(String),
}

pub(crate) fn judge(case: &Words, ours: &Answer, theirs: &Answer, wider: Option<&Answer>) -> Verdict {
    match (ours, theirs) {
        (Answer::Ended(how), _) => Verdict::Different(format!("the process ends: {how}")),
        (Answer::Refused(_, why), _) if why.contains("is absent") => Verdict::Missing(why.clone()),
        (Answer::Results(ours), Answer::Results(theirs)) => compare(case, ours, theirs),
        (Answer::Results(ours), _) => match wider {
            Some(Answer::Results(theirs)) => compare(case, ours, theirs),
            _ => Verdict::More,
        },
        (Answer::Refused(status, why), Answer::Results(_)) if status == "unimplemented" => {
            Verdict::Missing(why.clone())
        }
        (Answer::Refused(status, why), Answer::Results(_)) => {
            Verdict::Different(format!("{status}, which oneDNN takes: {why}"))
        }
        // A processor's lack of a type is told before anything else is looked at.
        (Answer::Refused(..), Answer::Refused(other, at))
            if other == "unimplemented"
                && lacks_kernels(case)
                && at.contains("forward_primitive_desc_create") =>
        {
            Verdict::More
        }
        // What that library describes and cannot make is refused there too.
        (Answer::Refused(..), Answer::Refused(other, at))
            if other == "runtime_error" && at.contains("dnnl_primitive_create") =>
        {
            Verdict::BothRefuse
        }
        // What that library takes for missing, this one may have and take for wrong, or miss too.
        (Answer::Refused(own, why), Answer::Refused(other, at)) if own != other => {
            Verdict::Different(format!("{own} ({why}), oneDNN's is {other} ({at})"))
        }
        (Answer::Refused(..), _) => Verdict::BothRefuse,
    }
}

/// Whether oneDNN has kernels for a case's floats of 16 bits on processors with AVX-512 alone.
fn lacks_kernels(case: &Words) -> bool {
    let is_narrow = |key: &str| {
        let data_type = case.get(key).and_then(|desc| desc.split(':').next());
        matches!(data_type, Some("f16" | "bf16"))
    };
    is_narrow("src") || is_narrow("dst")
}

fn compare(case: &Words, ours: &[Output], theirs: &[Output]) -> Verdict {
    let names = |outputs: &[Output]| outputs.iter().map(|o| o.name.clone()).collect::<Vec<_>>();
    if names(ours) != names(theirs) {
        return Verdict::Different(format!("results {:?}, oneDNN's are {:?}", names(ours), names(theirs)));
    }
    let mut unwritten = false;
    for (own, other) in ours.iter().zip(theirs) {
        if own.dirty {
            return Verdict::Different(format!("{} has padding that is not zero", own.name));
        }
        if let Err(error) = tolerance(case, &own.data_type).compare(&own.values, &other.values) {
            if other.untouched && leaves(case, own) {
                unwritten = true;
                continue;
            }
            return Verdict::Different(format!("{}: {error}", own.name));
        }
    }
    if unwritten { Verdict::More } else { Verdict::Equal }
}

/// Whether oneDNN leaves a result as it was and says nothing: some of recurrent layers, and statistics over no elements, which are zeros here.
fn leaves(case: &Words, own: &Output) -> bool {
    let dims = case.get("src").and_then(|desc| desc.split(':').nth(1)).unwrap_or_default();
    let is_empty = dims.split('x').any(|dim| dim == "0");
    match case.primitive() {
        "rnn" => true,
        "batch_normalization" => is_empty && own.values.iter().all(|value| *value == 0.0),
        _ => false,
    }
}

/// What both sides may be off together: the contract's tolerance of a sum as long as the primitive's with as many functions behind it, once
/// for each.
fn tolerance(case: &Words, data_type: &str) -> Tolerance {
    let data_type = data_type.parse::<DataType>().unwrap_or(DataType::F32);
    if let Some(alike) = quantized(case, data_type) {
        return Tolerance::of_chain([&alike, &alike]);
    }
    // Cells of a recurrent layer are in f32 and follow from states that are rounded at every step.
    let states = case.get("src").and_then(|desc| desc.split(':').next()?.parse::<DataType>().ok());
    let data_type = match states.filter(|states| case.primitive() == "rnn" && states.is_float()) {
        Some(states) if states.unit_roundoff() > data_type.unit_roundoff() => states,
        _ => data_type,
    };
    let terms = case.number("terms").unwrap_or(1).max(1);
    let functions = case.number("functions").unwrap_or(0) + case.count("po") + case.count("scale");
    let mut attributes = Attributes::default();
    attributes.post_ops = (0..functions).map(|_| PostOp::Eltwise(Eltwise::Abs)).collect();
    let alike = PrimitiveDesc::builder(Op::MatMul(MatMul))
        .src(MemoryDesc::new([1, terms], DataType::F32))
        .weights(MemoryDesc::new([terms, 1], DataType::F32))
        .dst(MemoryDesc::new([1, 1], data_type))
        .attributes(attributes)
        .build()
        .unwrap();
    Tolerance::of_chain([&alike, &alike])
}

/// A recurrent layer whose states become integers by the case's scale: what that rounds another way is far off.
fn quantized(case: &Words, data_type: DataType) -> Option<PrimitiveDesc> {
    let scale =
        case.get("rnn_data").filter(|_| case.primitive() == "rnn")?.split(':').next()?.parse().ok()?;
    let cell = Cell::Lstm(GateOrder::InputForgetCandidateOutput);
    let direction = if case.get("direction") == Some("4") { Direction::Sum } else { Direction::LeftToRight };
    let own = if data_type.is_float() { DataType::U8 } else { data_type };
    let ways = direction.count();
    let layer = PrimitiveDesc::builder(Recurrent::new(cell, direction).with_quantization(scale, 0.0))
        .src(MemoryDesc::new([2, 1, 64], own))
        .src(MemoryDesc::new([ways, 64, 4, 64], DataType::S8))
        .weights(MemoryDesc::new([ways, 64, 4, 64], DataType::S8))
        .arg(Recurrent::WEIGHTS_SCALES, MemoryDesc::new([1, 1, 1], DataType::F32))
        .dst(MemoryDesc::new([2, 1, 1, 64], data_type));
    Some(layer.build().unwrap())
}

//! Operators of ONNX Runtime's domain `com.microsoft.nchwc`, which optimising a model for a processor puts in place of standard ones: they work
//! on images whose channels lie in blocks. Here images lie as they always do, so that pools and resampling are the standard ones.
//! Convolutions have their weights in blocks in the file, whose size it does not tell: ONNX Runtime takes that of the processor that it runs on.

use std::collections::HashMap;

use prost::bytes::Bytes;

use super::{NodeProto, Program, Step, ValueId};
use crate::onnx::proto::{AttributeProto, TensorProto};

/// The domain.
pub(in crate::onnx) const DOMAIN: &str = "com.microsoft.nchwc";
/// The attribute that says how many channels are a block.
pub(in crate::onnx) const BLOCK: &str = "block";
/// The attribute of a convolution that says how many of its channels are read, where the others only fill the last block.
pub(in crate::onnx) const KEPT: &str = "kept";

/// Makes standard operators of those that have one, and tells the others how many channels are a block.
pub(super) fn settle(program: &mut Program) {
    let block = block(program);
    let kept = kept(program);
    for at in 0..program.steps.len() {
        let step = &mut program.steps[at];
        if !is_blocked(step) {
            continue;
        }
        match step.operator() {
            "MaxPool" | "AveragePool" | "GlobalMaxPool" | "GlobalAveragePool" => {
                (step.proto.domain, step.opset) = (None, 12);
            }
            "Upsample" => {
                let scales = ints(&step.proto, "scales");
                step.proto.attribute.retain(|attribute| attribute.name.as_deref() != Some("scales"));
                step.proto.attribute.push(word("nearest_mode", "floor"));
                if !step.proto.attribute.iter().any(|told| told.name.as_deref() == Some(COORDINATES)) {
                    step.proto.attribute.push(word(COORDINATES, "asymmetric"));
                }
                step.proto.op_type = Some("Resize".into());
                (step.proto.domain, step.opset) = (None, 13);
                let value = program.value("scales");
                program.weights[value] = Some(std::sync::Arc::new(floats(&scales)));
                program.steps[at].inputs.resize(1, None);
                program.steps[at].inputs.extend([None, Some(value)]);
            }
            _ => {
                step.proto.attribute.push(number(BLOCK, block));
                let made = step.outputs.first().copied().flatten();
                let kept = made.and_then(|made| kept.get(&made).copied().flatten());
                step.proto.attribute.extend(kept.map(|kept| number(KEPT, kept)));
            }
        }
    }
}

const COORDINATES: &str = "coordinate_transformation_mode";

/// How many channels are a block: 16 where the processor has AVX-512, else 8, as ONNX Runtime has it, unless some convolution has channels that
/// only blocks of 8 make.
fn block(program: &Program) -> i64 {
    let convolutions = program.steps.iter().filter(|step| is_blocked(step) && step.operator() == "Conv");
    let mut weights = convolutions.filter_map(|step| program.weights[(*step.inputs.get(1)?)?].as_ref());
    let is_odd =
        |count: Option<&i64>, least: i64| count.is_some_and(|&count| count >= least && count % 16 != 0);
    let is_eight = weights.any(|weights| is_odd(weights.dims.first(), 0) || is_odd(weights.dims.get(1), 16));
    if is_eight || !has_wide_blocks() { 8 } else { 16 }
}

/// How many channels are taken of each value that only leaves its blocks; none where others read it, too.
fn kept(program: &Program) -> HashMap<ValueId, Option<i64>> {
    let mut kept: HashMap<ValueId, Option<i64>> = HashMap::new();
    for step in &program.steps {
        let leaves = is_blocked(step) && step.operator() == "ReorderOutput";
        let channels = leaves.then(|| int(&step.proto, "channels")).flatten();
        for value in step.needs() {
            let told = kept.entry(value).or_insert(channels);
            *told = told.filter(|told| Some(*told) == channels);
        }
    }
    kept
}

#[cfg(target_arch = "x86_64")]
fn has_wide_blocks() -> bool {
    std::arch::is_x86_feature_detected!("avx512f")
}

#[cfg(not(target_arch = "x86_64"))]
fn has_wide_blocks() -> bool {
    true
}

fn is_blocked(step: &Step) -> bool {
    step.proto.domain.as_deref() == Some(DOMAIN)
}

fn ints(proto: &NodeProto, name: &str) -> Vec<i64> {
    let found = proto.attribute.iter().find(|attribute| attribute.name.as_deref() == Some(name));
    found.map(|attribute| attribute.ints.clone()).unwrap_or_default()
}

fn int(proto: &NodeProto, name: &str) -> Option<i64> {
    proto.attribute.iter().find(|attribute| attribute.name.as_deref() == Some(name))?.i
}

fn number(name: &str, value: i64) -> AttributeProto {
    AttributeProto { name: Some(name.into()), i: Some(value), r#type: Some(2), ..AttributeProto::default() }
}

fn word(name: &str, value: &'static str) -> AttributeProto {
    let s = Some(Bytes::from_static(value.as_bytes()));
    AttributeProto { name: Some(name.into()), s, r#type: Some(3), ..AttributeProto::default() }
}

fn floats(values: &[i64]) -> TensorProto {
    TensorProto {
        dims: vec![values.len() as i64],
        data_type: Some(1),
        float_data: values.iter().map(|&value| value as f32).collect(),
        ..TensorProto::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block_of(dims: &[[i64; 4]]) -> i64 {
        let mut program = Program::default();
        for dims in dims {
            let value = program.value("w");
            program.weights[value] =
                Some(std::sync::Arc::new(TensorProto { dims: dims.to_vec(), ..TensorProto::default() }));
            let proto = NodeProto {
                op_type: Some("Conv".into()),
                domain: Some(DOMAIN.into()),
                ..NodeProto::default()
            };
            let inputs = vec![None, Some(value)];
            program.steps.push(Step {
                proto,
                opset: 1,
                inputs,
                outputs: Vec::new(),
                kind: crate::onnx::program::StepKind::Plain,
                prepared: crate::onnx::program::Prepared::default(),
            });
        }
        block(&program)
    }

    #[test]
    fn channels_tell_blocks_of_eight_and_else_the_processor_does() {
        let own = if has_wide_blocks() { 16 } else { 8 };
        assert_eq!(block_of(&[[32, 16, 3, 3], [64, 3, 3, 3]]), own);
        assert_eq!(block_of(&[[32, 12, 3, 3]]), own);
        assert_eq!(block_of(&[[32, 16, 3, 3], [24, 16, 3, 3]]), 8);
        assert_eq!(block_of(&[[32, 24, 3, 3]]), 8);
    }
}

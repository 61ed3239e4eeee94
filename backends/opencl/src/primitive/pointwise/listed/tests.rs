use std::collections::HashSet;

use anydnn_backend::op::{Binary, Op, Reorder};
use anydnn_backend::{
    Attributes, BinaryAlgorithm, DataType, Eltwise, MemoryDesc, PostOp, PrimitiveDesc, PrimitiveDescBuilder,
};

use super::{FUNCTIONS, KINDS, OLD};
use crate::primitive::tests::{check_everywhere, cpu, f32, gpu, planned, tagged};

/// The text of the first program, and the bytes of its table.
fn program(op: Op, sources: &[MemoryDesc], post_ops: &[PostOp]) -> (String, Vec<u8>) {
    let attributes = post_ops.iter().cloned().fold(Attributes::default(), Attributes::with_post_op);
    let sources = sources.iter().cloned();
    let desc = sources.fold(PrimitiveDesc::builder(op), PrimitiveDescBuilder::src);
    let plan = planned(desc.attributes(attributes), &cpu());
    let launch = &plan.launches[0];
    (launch.program.source.to_string(), launch.table.clone())
}

fn binary(algorithm: BinaryAlgorithm) -> Op {
    Op::Binary(Binary { algorithm })
}

#[test]
fn every_kind_is_a_function_that_there_is() {
    assert!(FUNCTIONS.iter().all(|name| Eltwise::TABLE.iter().any(|function| function.name == *name)));
    assert_eq!(KINDS.matches("case ").count(), 1 + OLD);
}

#[test]
fn a_program_serves_every_list_and_shape() {
    let relu = PostOp::Eltwise(Eltwise::Relu);
    let scaled = PostOp::binary(BinaryAlgorithm::Multiply, f32(&[1, 64]));
    let all = [
        program(Op::Eltwise(Eltwise::Tanh), &[f32(&[1000])], &[]),
        program(Op::Eltwise(Eltwise::GeluErf), &[f32(&[3, 5, 7, 64])], &[relu.clone(), scaled.clone()]),
        program(binary(BinaryAlgorithm::Add), &[f32(&[8, 64]), f32(&[8, 64])], &[PostOp::sum(0.5)]),
        program(binary(BinaryAlgorithm::Divide), &[f32(&[8, 64]), f32(&[8, 1])], &[scaled, relu]),
        program(Op::Reorder(Reorder), &[tagged(&[2, 100, 6, 64], "abcd")], &[]),
        program(binary(BinaryAlgorithm::Maximum), &[f32(&[1, 1]), f32(&[1, 7])], &[]),
    ];
    let texts: HashSet<&str> = all.iter().map(|(text, _)| &**text).collect();
    assert_eq!(texts.len(), 1);
    let tables: HashSet<&[u8]> = all.iter().map(|(_, table)| &**table).collect();
    assert_eq!(tables.len(), all.len());
}

#[test]
fn what_a_list_lacks_has_a_text_of_its_own() {
    let text = |op, source, post_ops: &[PostOp]| program(op, &[source], post_ops).0;
    let tanh = || Op::Eltwise(Eltwise::Tanh);
    let listed = text(tanh(), f32(&[1000]), &[]);
    let power = PostOp::binary(BinaryAlgorithm::Power, f32(&[1]));
    let again = vec![PostOp::Eltwise(Eltwise::Relu); super::STEPS + 1];
    let others = [
        text(Op::Eltwise(Eltwise::Mish), f32(&[1000]), &[]),
        text(tanh(), f32(&[1000]), &[power]),
        text(tanh(), f32(&[1000]), &again),
        // Rows of three elements cost more as a list, once there are many.
        text(tanh(), f32(&[1000, 3]), &[PostOp::binary(BinaryAlgorithm::Add, f32(&[1, 3]))]),
        text(tanh(), MemoryDesc::new([1000], DataType::F16), &[]),
    ];
    assert!(others.iter().all(|other| *other != listed));
}

#[test]
fn devices_that_want_many_work_items_have_no_lists() {
    let desc = PrimitiveDesc::builder(Op::Eltwise(Eltwise::Tanh)).src(f32(&[1000]));
    let text = planned(desc, &gpu()).launches[0].program.source.to_string();
    assert!(!text.contains("STEP_LIST"));
}

/// Results that are too large for the caches pass them by, from where vectors may on.
#[test]
fn large_results_stream() {
    let count = (8 << 20) / 4 + 21;
    let builder = PrimitiveDesc::builder(binary(BinaryAlgorithm::Add)).src(f32(&[count])).src(f32(&[count]));
    let relu = Attributes::default().with_post_op(PostOp::Eltwise(Eltwise::Relu));
    let list = [builder.clone(), builder.attributes(relu)].map(|builder| builder.build().unwrap());
    check_everywhere(&list, |_| None);
}

/// Cheap steps go with others, before and behind them, whatever their operands lie like.
#[test]
fn cheap_steps_go_along() {
    let whole = || f32(&[3, 5, 149]);
    let operands = [&[3, 5, 149][..], &[1, 1, 1], &[1, 5, 1], &[1, 1, 149], &[3, 5, 149]];
    let join = |algorithm, at: usize| PostOp::binary(algorithm, f32(operands[at % operands.len()]));
    let relu = || PostOp::Eltwise(Eltwise::Relu);
    let clamp = || PostOp::Eltwise(Eltwise::Clamp { min: -0.5, max: 0.75 });
    let tanh = || PostOp::Eltwise(Eltwise::Tanh);
    let mut list = Vec::new();
    for at in 0..operands.len() {
        let [add, multiply, subtract] =
            [BinaryAlgorithm::Add, BinaryAlgorithm::Multiply, BinaryAlgorithm::Subtract]
                .map(|way| join(way, at));
        let chains = [
            vec![relu()],
            vec![multiply.clone(), relu()],
            vec![tanh(), subtract.clone(), clamp()],
            vec![subtract, multiply, tanh(), add, relu(), tanh()],
        ];
        for post_ops in chains {
            let attributes = post_ops.into_iter().fold(Attributes::default(), Attributes::with_post_op);
            let second = f32(operands[(at + 1) % operands.len()]);
            let desc = PrimitiveDesc::builder(binary(BinaryAlgorithm::Add)).src(whole()).src(second);
            list.push(desc.attributes(attributes).build().expect("a description"));
        }
    }
    check_everywhere(&list, |_| None);
}

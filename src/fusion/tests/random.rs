//! Partitions of any graph cover it once, depend on each other in no cycle, and do not depend on the order of independent operations.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use proptest::prelude::*;

use super::text;
use crate::fusion::{Partitioning, Policy, partition};
use crate::graph::Graph;

/// What an operation does and which of the tensors before it reads.
type Draw = (u8, usize, usize);

/// The statement of an operation over square tensors, so that everything fits everything.
fn statement(at: usize, (kind, a, b): Draw) -> String {
    let first = 4;
    let of = |draw: usize| match draw % (first + at) {
        given if given < first => format!("x{given}"),
        made => format!("t{}", made - first),
    };
    let (a, b) = (of(a), of(b));
    match kind % 16 {
        0 | 1 => format!("t{at} MatMul {a} {b}"),
        2 => format!("t{at} Add {a} {b}"),
        3 => format!("t{at} Multiply {a} {b}"),
        4 => format!("t{at} Subtract {a} {b}"),
        5 => format!("t{at} ReLU {a}"),
        6 => format!("t{at} Sigmoid {a}"),
        7 => format!("t{at} Exp {a}"),
        8 => format!("t{at},s{at} SoftMax {a} axis=1"),
        9 => format!("t{at} StaticTranspose {a} order=[1,0]"),
        10 => format!("t{at} StaticReshape {a} shape=[4,4]"),
        11 => format!("t{at} SoftMaxBackward {a} {b} axis=1"),
        12 => format!("t{at}:f32 TypeCast {a}"),
        13 => format!("t{at} Dropout {a} seed seed p"),
        14 => format!("t{at} Divide {a} {b}"),
        _ => format!("r{at} ReduceSum {a} axes=[0] keep_dims=true; t{at} Add r{at} {a}"),
    }
}

fn graph(draws: &[Draw], order: &[usize]) -> Graph {
    let inputs = "x0 f32 4x4; x1 f32 4x4; x2 f32 4x4; x3 f32 4x4; seed s64 1; p f32 1";
    let statements: Vec<String> = draws.iter().enumerate().map(|(at, &draw)| statement(at, draw)).collect();
    let body: Vec<&str> = order.iter().map(|&at| statements[at].as_str()).collect();
    // Inputs that nothing reads are mistakes.
    let uses = "- End x0; - End x1; - End x2; - End x3; - End seed; - End p";
    text::graph(&format!("{inputs}\n{}\n{uses}", body.join("\n")))
}

fn check(graph: &Graph, parts: &Partitioning) {
    let mut covered: Vec<usize> = parts.partitions.iter().flat_map(|part| part.ops.clone()).collect();
    covered.sort_unstable();
    assert_eq!(covered, (0..graph.ops().len()).collect::<Vec<_>>());
    for part in &parts.partitions {
        for &id in &part.inputs {
            if let Some(maker) = graph.producer(id) {
                let before = parts.of(maker).unwrap();
                assert!(before.id < part.id, "{}", parts.describe(graph));
                assert!(before.outputs.contains(&id), "{}", parts.describe(graph));
            }
        }
    }
}

/// The partitions as sets of names, which no order changes.
fn sets(graph: &Graph, parts: &Partitioning) -> BTreeSet<(&'static str, BTreeSet<String>)> {
    let names = |ops: &[usize]| ops.iter().map(|&op| graph.ops()[op].name.clone()).collect();
    let kept = parts.partitions.iter().filter(|part| part.ops.len() > 1);
    kept.map(|part| (part.pattern, names(&part.ops))).collect()
}

/// An order in which every operation still comes after those it reads.
fn shuffled(draws: &[Draw], keys: &[u32]) -> Vec<usize> {
    let text: Vec<String> = draws.iter().enumerate().map(|(at, &draw)| statement(at, draw)).collect();
    let reads =
        |at: usize, other: usize| text[at].split([' ', ';']).skip(1).any(|word| word == format!("t{other}"));
    let mut order = Vec::new();
    while order.len() < draws.len() {
        let ready = (0..draws.len())
            .filter(|at| !order.contains(at))
            .filter(|&at| (0..at).all(|other| order.contains(&other) || !reads(at, other)));
        order.extend(ready.min_by_key(|&at| keys[at % keys.len()]));
    }
    order
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(96) })]

    #[test]
    fn partitions_of_random_graphs_are_sound(
        draws in prop::collection::vec((any::<u8>(), 0_usize..64, 0_usize..64), 1..24),
        keys in prop::collection::vec(any::<u32>(), 24),
    ) {
        let plain: Vec<usize> = (0..draws.len()).collect();
        let first = graph(&draws, &plain);
        let parts = partition(&first, Policy::Fusion);
        check(&first, &parts);
        let other = graph(&draws, &shuffled(&draws, &keys));
        let again = partition(&other, Policy::Fusion);
        check(&other, &again);
        prop_assert_eq!(sets(&first, &parts), sets(&other, &again));
        check(&first, &partition(&first, Policy::Debug));
    }
}

#[test]
fn hard_graphs_end() {
    // Every sum reads the two before it: as many ways back as Fibonacci numbers.
    let mut statements = String::from("x f32 4; y f32 4; t0 Add x y; t1 Add t0 y;");
    for at in 2..60 {
        let _ = write!(statements, "t{at} Add t{} t{};", at - 1, at - 2);
    }
    let graph = text::graph(&statements);
    let begun = std::time::Instant::now();
    check(&graph, &partition(&graph, Policy::Fusion));
    // As many steps as ways back would take years.
    assert!(begun.elapsed().as_secs() < 120, "{:?}", begun.elapsed());
}

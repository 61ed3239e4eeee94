//! What operations compute together is what each computes alone.

use std::collections::HashMap;

use anydnn_backend::conformance::data::{decode, encode, encode_into};
use anydnn_backend::conformance::reference::{self, Tensors};
use anydnn_backend::{Access, TensorValues};
use approx::abs_diff_eq;
use proptest::prelude::*;

use super::*;
use crate::compile::program::Storage;

/// The outputs of a graph, every step being computed by the reference; together, or each operation alone.
fn outputs(graph: &Graph, given: &[Vec<f64>], together: bool) -> (Vec<Vec<f64>>, usize) {
    let mut program = Program::new(graph).unwrap();
    // As in regions: what no output needs is not computed.
    let all: Vec<usize> = (0..graph.ops().len()).filter(|&op| program.is_live(op)).collect();
    if together {
        lower_ops(&mut program, &all, graph.outputs()).unwrap();
    } else {
        for op in all {
            lower_ops(&mut program, &[op], &graph.ops()[op].outputs).unwrap();
        }
    }
    let mut bytes: HashMap<Storage, Vec<u8>> = HashMap::new();
    for (i, (&id, values)) in graph.inputs().iter().zip(given).enumerate() {
        bytes.insert(Storage::Input(i), encode(&declared(graph, id).unwrap(), values).unwrap());
    }
    for (i, literal) in program.literals.iter().enumerate() {
        bytes.insert(Storage::Literal(i), literal.bytes.clone());
    }
    for (i, temp) in program.temps.iter().enumerate() {
        bytes.insert(Storage::Temp(i), vec![0; temp.bytes]);
    }
    for (i, &id) in graph.outputs().iter().enumerate() {
        bytes.insert(Storage::Output(i), vec![0; declared(graph, id).unwrap().size()]);
    }
    for step in &program.steps {
        let reads = |arg: Arg| step.desc.access(arg).is_some_and(Access::reads);
        let mut inputs = Tensors::new();
        for (arg, value) in step.args.iter().filter(|(arg, _)| reads(*arg)) {
            let values = decode(&value.desc, &bytes[&value.storage]).unwrap();
            inputs.insert(*arg, reference::Tensor::new(value.desc.dims().clone(), values).unwrap());
        }
        let made = reference::compute(&step.desc, &inputs).unwrap();
        for (arg, value) in step.args.iter().filter(|(arg, _)| !reads(*arg)) {
            let into = bytes.get_mut(&value.storage).unwrap();
            encode_into(&value.desc, &made[arg].values, into).unwrap();
        }
    }
    let read = |(i, &id): (usize, &TensorId)| {
        decode(&declared(graph, id).unwrap(), &bytes[&Storage::Output(i)]).unwrap()
    };
    (graph.outputs().iter().enumerate().map(read).collect(), program.steps.len())
}

/// One random choice: which operation, on which tensors.
type Choice = (u8, usize, usize);

/// Adds one operation; returns the tensors that it makes.
fn grow(
    g: &mut GraphBuilder,
    nodes: &[(TensorId, Vec<usize>)],
    (kind, first, second): Choice,
) -> Vec<(TensorId, Vec<usize>)> {
    let name = format!("op{}", nodes.len());
    let (a, dims) = nodes[nodes.len() - 1 - first % nodes.len().min(5)].clone();
    let stretched = |other: &[usize]| Dims::new(&dims).broadcast(&Dims::new(other)).ok().map(|d| d.to_vec());
    let partners: Vec<(TensorId, Vec<usize>)> =
        nodes.iter().filter_map(|(id, other)| Some((*id, stretched(other)?))).collect();
    let (b, wide) = partners[second % partners.len()].clone();
    let pair = if first % 2 == 0 { [a, b] } else { [b, a] };
    let rank = dims.len();
    let mut one =
        |kind, inputs: &[TensorId], attrs, dims: Vec<usize>| vec![(op(g, &name, kind, inputs, attrs), dims)];
    match kind % 14 {
        0 => one(K::Tanh, &[a], Attrs::new(), dims),
        1 => one(K::Sigmoid, &[a], Attrs::new(), dims),
        2 => one(K::Add, &pair, Attrs::new(), wide),
        3 => one(K::Subtract, &pair, Attrs::new(), wide),
        4 => one(K::Multiply, &pair, Attrs::new(), wide),
        5 => one(K::Maximum, &pair, Attrs::new(), wide),
        6 | 7 if rank > 0 => one(K::SoftMax, &[a], axis((second % rank) as i64), dims),
        8..=10 if rank > 0 => {
            let folded: Vec<usize> = match second % 3 {
                0 => vec![0],
                1 => vec![rank - 1],
                _ => (0..rank).collect(),
            };
            let keep = first % 3 != 0;
            let kept = |(i, &dim): (usize, &usize)| match (folded.contains(&i), keep) {
                (true, true) => Some(1),
                (true, false) => None,
                (false, _) => Some(dim),
            };
            let result = dims.iter().enumerate().filter_map(kept).collect();
            let kind = [K::ReduceMean, K::ReduceMax, K::ReduceSum][first % 3];
            let attrs = axes(&folded.iter().map(|&axis| axis as i64).collect::<Vec<_>>(), keep);
            one(kind, &[a], attrs, result)
        }
        11 if rank > 0 => {
            let begin = second % rank;
            // A large epsilon keeps rows of nearly equal numbers from amplifying errors.
            let attrs = Attrs::new()
                .with("begin_norm_axis", begin as i64)
                .with("use_affine", false)
                .with("epsilon", 1.0_f32);
            let made = g.op_multi(&name, K::LayerNorm, &[a], attrs, 3).unwrap();
            let outer = dims[..begin].to_vec();
            vec![(made[0], dims), (made[1], outer.clone()), (made[2], outer)]
        }
        12 if rank > 0 => {
            let index = op(g, &name, K::GenIndex, &[a], axis((second % rank) as i64));
            let middle = op(g, &format!("{name}.middle"), K::GenIndex, &[a], axis((first % rank) as i64));
            let keep = op(g, &format!("{name}.keep"), K::GreaterEqual, &[index, middle], Attrs::new());
            vec![(op(g, &format!("{name}.select"), K::Select, &[keep, a, b], Attrs::new()), wide)]
        }
        _ => one(K::GELUBackward, &[a, a], Attrs::new(), dims),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn together_and_alone_agree(
        choices in prop::collection::vec((any::<u8>(), 0..64_usize, 0..64_usize), 9),
        (n, rows, columns) in (1..3_usize, 1..4_usize, 1..4_usize),
        shown in any::<u16>(),
    ) {
        let mut g = GraphBuilder::new();
        let mut nodes: Vec<(TensorId, Vec<usize>)> = Vec::new();
        for dims in [vec![n, rows, columns], vec![rows, columns], vec![columns], vec![rows, 1], vec![n, 1, columns]] {
            // Every input is read, whatever the choices.
            let input = g.input(&format!("{dims:?}"), F32, dims.clone());
            let read = op(&mut g, &format!("read {dims:?}"), K::Abs, &[input], Attrs::new());
            nodes.extend([(input, dims.clone()), (read, dims)]);
        }
        for choice in choices {
            let made = grow(&mut g, &nodes, choice);
            nodes.extend(made);
        }
        for (i, (id, _)) in nodes.iter().enumerate().skip(10) {
            if shown >> (i % 16) & 1 == 1 || i + 1 == nodes.len() {
                g.output(*id);
            }
        }
        let graph = g.build().unwrap();
        let given: Vec<Vec<f64>> = graph
            .inputs()
            .iter()
            .enumerate()
            .map(|(k, &id)| {
                let count = declared(&graph, id).unwrap().elements();
                (0..count).map(|i| ((i * 7 + k * 5) % 11) as f64 / 5.5 - 1.0).collect()
            })
            .collect();
        let (alone, launches) = outputs(&graph, &given, false);
        let (together, fewer) = outputs(&graph, &given, true);
        prop_assert!(fewer <= launches);
        // Sums may cancel anywhere, so errors are held against the largest value.
        let scale = alone.iter().flatten().fold(1.0_f64, |most, v| most.max(v.abs()));
        for ((id, a), b) in graph.outputs().iter().zip(&alone).zip(&together) {
            let of = |values: &[f64]| TensorValues::list(F32, values.iter().copied());
            let (alone, together) = (of(a), of(b));
            let close = abs_diff_eq!(together, alone, epsilon = 1e-5 * scale);
            prop_assert!(close, "{}: {together:?} together, {alone:?} alone", graph.tensor(*id).unwrap());
        }
    }
}

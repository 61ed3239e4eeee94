//! Random graphs: both policies, both stream orders and the mock agree with the reference.

use anydnn::backend::{Engine, StreamDesc};
use anydnn::fusion::Policy;
use anydnn::graph::{Attrs, OpKind as K, TensorId};
use proptest::prelude::*;

use super::case::Case;

/// A tensor of the graph so far, `[rows, columns]`, with a bound on its values so that errors stay comparable.
#[derive(Clone, Copy, Debug)]
struct Node {
    id: TensorId,
    rows: usize,
    columns: usize,
    bound: f64,
}

/// One random choice: which operation, on which tensors.
type Choice = (u8, usize, usize);

const LARGEST: f64 = 8.0;

/// Adds one operation. Functions that would amplify errors without limit are left out.
fn grow(case: &mut Case, nodes: &mut Vec<Node>, (kind, first, second): Choice) {
    let a = nodes[nodes.len() - 1 - first % nodes.len().min(4)];
    let fits = |b: &&Node| {
        (b.rows == a.rows || b.rows == 1 || a.rows == 1)
            && (b.columns == a.columns || b.columns == 1 || a.columns == 1)
    };
    let partners: Vec<Node> = nodes.iter().filter(fits).copied().collect();
    let b = partners[second % partners.len()];
    let none = Attrs::new;
    let unary =
        |case: &mut Case, kind, attrs, bound: f64| Node { id: case.op(kind, &[a.id], attrs), bound, ..a };
    let binary = |case: &mut Case, kind, bound: f64| {
        let inputs = if second % 2 == 0 { [a.id, b.id] } else { [b.id, a.id] };
        let (rows, columns) = (a.rows.max(b.rows), a.columns.max(b.columns));
        Node { id: case.op(kind, &inputs, none()), rows, columns, bound }
    };
    let clamp = || Attrs::new().with("min", -0.5_f32).with("max", 0.75_f32);
    let node = match kind % 19 {
        1 => unary(case, K::ReLU, none(), a.bound),
        2 => unary(case, K::Sigmoid, none(), 1.0),
        3 => unary(case, K::Clamp, clamp(), 0.75),
        4 => unary(case, K::GELU, none(), a.bound),
        5 if a.bound + b.bound <= LARGEST => binary(case, K::Add, a.bound + b.bound),
        6 | 7 if a.bound + b.bound <= LARGEST => binary(case, K::Subtract, a.bound + b.bound),
        8 if a.bound * b.bound <= LARGEST => binary(case, K::Multiply, a.bound * b.bound),
        9 => binary(case, K::Maximum, a.bound.max(b.bound)),
        10 => unary(case, K::SoftMax, Attrs::new().with("axis", (second % 2) as i64), 1.0),
        11 => {
            let columns = 1 + second % 6;
            let reciprocal = 1.0 / a.columns as f64;
            let w =
                case.constant_of(anydnn::backend::DataType::F32, &[a.columns, columns], |v| v * reciprocal);
            Node { id: case.op(K::MatMul, &[a.id, w], none()), columns, ..a }
        }
        12 => {
            let bias = case.constant(&[a.columns]);
            Node { id: case.op(K::BiasAdd, &[a.id, bias], none()), bound: a.bound + 1.0, ..a }
        }
        13 => {
            // A large epsilon keeps rows of nearly equal numbers from amplifying errors.
            let attrs =
                Attrs::new().with("keep_stats", false).with("use_affine", false).with("epsilon", 1.0_f32);
            unary(case, K::LayerNorm, attrs, 2.0 * a.bound)
        }
        14 => {
            let attrs = Attrs::new().with("axes", [(second % 2) as i64]).with("keep_dims", true);
            let reduced =
                unary(case, if first % 2 == 0 { K::ReduceMean } else { K::ReduceMax }, attrs, a.bound);
            if second % 2 == 0 { Node { rows: 1, ..reduced } } else { Node { columns: 1, ..reduced } }
        }
        15 => {
            let id = case.op(K::StaticTranspose, &[a.id], Attrs::new().with("order", [1, 0]));
            Node { id, rows: a.columns, columns: a.rows, bound: a.bound }
        }
        16 => {
            let shape = [a.columns as i64, -1];
            let id = case.op(
                K::StaticReshape,
                &[a.id],
                Attrs::new().with("shape", shape).with("special_zero", false),
            );
            Node { id, rows: a.columns, columns: a.rows, bound: a.bound }
        }
        17 if a.rows == b.rows && a.columns + b.columns <= 12 => {
            let id = case.op(K::Concat, &[a.id, b.id], Attrs::new().with("axis", 1_i64));
            Node { id, columns: a.columns + b.columns, bound: a.bound.max(b.bound), ..a }
        }
        0 => Node { id: case.op(K::Reorder, &[a.id], none()), ..a },
        _ => unary(case, K::Tanh, none(), 1.0),
    };
    nodes.push(node);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn policies_orders_and_engines_agree(
        choices in prop::collection::vec((any::<u8>(), 0..64_usize, 0..64_usize), 12),
        (rows, columns) in (1..5_usize, 1..6_usize),
        seed in 0..1000_u64,
    ) {
        let mut case = Case::new();
        let mut nodes = Vec::new();
        for dims in [[rows, columns], [rows, 1], [1, columns]] {
            nodes.push(Node { id: case.input(&dims), rows: dims[0], columns: dims[1], bound: 1.0 });
        }
        // Every input is read, whatever the choices.
        let sum = case.op(K::Add, &[nodes[0].id, nodes[1].id], Attrs::new());
        let sum = case.op(K::Multiply, &[nodes[2].id, sum], Attrs::new());
        nodes.push(Node { id: sum, rows, columns, bound: 2.0 });
        for choice in choices {
            grow(&mut case, &mut nodes, choice);
        }
        agree(case, seed);
    }
}

/// Sums may cancel anywhere in the graph, so errors are held against its largest intermediate value.
fn agree(case: Case, seed: u64) {
    let (graph, given, expected) = case.evaluated();
    let scale = expected.values().flat_map(|t| &t.values).fold(1.0_f64, |m, v| m.max(v.abs()));
    let check =
        |outputs: &[Vec<f64>], tolerance: &dyn Fn(TensorId) -> anydnn::backend::Tolerance, what: &str| {
            for (&id, actual) in graph.outputs().iter().zip(outputs) {
                let mut bound = tolerance(id);
                bound.absolute += bound.relative * scale;
                if let Err(error) = bound.compare(actual, &expected[&id].values) {
                    panic!("{what}: {}: {error}", graph.tensor(id).unwrap());
                }
            }
        };
    for policy in [Policy::Fusion, Policy::Debug] {
        for stream in [StreamDesc::default(), StreamDesc::out_of_order()] {
            let engine = anydnn_host::HostEngine::new();
            let run = super::case::run(&engine, &graph, policy, &stream, &given).unwrap();
            check(
                &run.outputs,
                &|id| super::case::tolerance(&run.compiled, id),
                &format!("host, {policy:?}"),
            );
        }
        for seed in seed..seed + 2 {
            let device = anydnn_mock::MockDevice::builder().seed(seed).build();
            let engine = device.engine();
            let run = super::case::run(&engine, &graph, policy, &StreamDesc::out_of_order(), &given).unwrap();
            let what = format!("{}, {policy:?}", engine.device().name);
            check(&run.outputs, &|id| super::case::tolerance(&run.compiled, id), &what);
        }
    }
}

//! Plans of a session for ever new shapes.

use anydnn_backend::{Backend, MemoryDesc};

use super::*;
use crate::compile::Likeness;
use crate::fusion::{Policy, grouped};
use crate::graph::Graph;

/// A convolution with its normalisation, a product, and shape arithmetic around them, for images `[1, 4, 3, w]`.
fn recogniser() -> Draft {
    let numbers = |count: usize| (0..count).map(|i| (i * 7 % 11) as f32 / 8.0 - 0.5).collect::<Vec<_>>();
    let each = |value: f32| [value, value + 0.5, value + 1.0, value + 1.5];
    let draft = Draft::new(13)
        .input("x", &["1", "4", "3", "w"])
        .floats("kernel", &[4, 4, 3, 3], &numbers(144))
        .floats("bias", &[4], &each(0.1))
        .floats("scale", &[4], &each(0.5))
        .floats("shift", &[4], &each(-0.5))
        .floats("mean", &[4], &each(0.2))
        .floats("variance", &[4], &each(1.0))
        .floats("dense", &[12, 6], &numbers(72))
        .floats("last", &[6], &numbers(6));
    let draft = draft.ints("rows", &[3], &[0, 0, 12]).ints("from", &[1], &[1]).ints("to", &[1], &[i64::MAX]);
    draft
        .ints("axis", &[1], &[1])
        .node("c = Conv(x, kernel, bias)", vec![ints("pads", &[1, 1, 1, 1])])
        .node("n = BatchNormalization(c, scale, shift, mean, variance)", vec![])
        .node("r = Relu(n)", vec![])
        .node("t = Transpose(r)", vec![ints("perm", &[0, 3, 1, 2])])
        .node("f = Reshape(t, rows)", vec![])
        .node("m = MatMul(f, dense)", vec![])
        .node("a = Add(m, last)", vec![])
        .node("s = Softmax(a)", vec![int("axis", -1)])
        .node("y = Slice(s, from, to, axis)", vec![])
        .output("y")
}

/// Layers enough for several threads to create their primitives, for rows `[n, 8]`.
fn layers() -> Draft {
    let numbers: Vec<f32> = (0..64).map(|i| (i * 5 % 13) as f32 / 16.0 - 0.4).collect();
    let draft = Draft::new(13).input("x", &["n", "8"]).floats("dense", &[8, 8], &numbers);
    let layer = |draft: Draft, i: usize| {
        let source = if i == 0 { "x".to_owned() } else { format!("s{}", i - 1) };
        let draft = draft.node(&format!("m{i} = MatMul({source}, dense)"), vec![]);
        draft.node(&format!("s{i} = Softmax(m{i})"), vec![int("axis", -1)])
    };
    (0..20).fold(draft, layer).output("s19")
}

/// The plan that a session made last.
fn newest<B: Backend>(session: &crate::onnx::Session<B>) -> CompiledGraph<B> {
    session.describe().pop().and_then(|stage| stage.device).unwrap()
}

fn a_session_plans_every_shape_as_a_new_one_does<B: Backend>(
    engine: &B::Engine,
    draft: &Draft,
    dim: &str,
    dims: impl Fn(usize) -> Vec<usize>,
) {
    let model = draft.load().unwrap();
    let session = model.compile(engine, &[]).unwrap();
    let (mut constants, mut first) = (Vec::new(), None);
    // Some extents are the number of channels, of rows or of results.
    for extent in [5, 9, 4, 12, 3, 6, 2, 16, 7, 11, 8] {
        let x = HostTensor::random(&MemoryDesc::new(dims(extent), DataType::F32), extent as u64).unwrap();
        let fresh = model.compile(engine, &[(dim, extent)]).unwrap();
        let inputs = [("x", x)];
        assert_eq!(session.run(&inputs).unwrap(), fresh.run(&inputs).unwrap(), "{dim} {extent}");
        let (own, expected) = (newest(&session), newest(&fresh));
        assert_eq!(own.to_string(), expected.to_string(), "{dim} {extent}");
        assert_eq!(own.partitioning(), expected.partitioning(), "{dim} {extent}");
        assert!(first.as_ref().is_none_or(|first| own.shares_partitions_with(first)), "{dim} {extent}");
        first.get_or_insert(own);
        let held = session.memory();
        constants.push(held.weights + held.prepared);
    }
    assert!(constants.windows(2).all(|pair| pair[0] == pair[1]), "shared by all plans: {constants:?}");
}

fn sessions_plan_every_shape_as_new_ones_do<B: Backend>(engine: &B::Engine) {
    let (image, rows) = (|width| vec![1, 4, 3, width], |n| vec![n, 8]);
    a_session_plans_every_shape_as_a_new_one_does::<B>(engine, &recogniser(), "w", image);
    a_session_plans_every_shape_as_a_new_one_does::<B>(engine, &layers(), "n", rows);
}

#[test]
fn plans_for_many_shapes_are_those_of_new_sessions() {
    sessions_plan_every_shape_as_new_ones_do::<anydnn_host::Host>(&anydnn_host::HostEngine::new());
    for engine in anydnn_opencl::testing::hasty_test_engines() {
        sessions_plan_every_shape_as_new_ones_do::<anydnn_opencl::OpenCl>(&engine);
    }
}

#[test]
fn graphs_are_alike_where_no_pattern_can_tell_them_apart() {
    let graph = |width| recogniser().load().unwrap().graph(&[("w", width)]).unwrap().graph;
    let alike = |own: &Graph, its: &Graph| Likeness::of(own).unites(own, &Likeness::of(its), its);
    for own in 2..14 {
        for its in 2..14 {
            let (one, other) = (graph(own), graph(its));
            let [taken, expected] = [&one, &other].map(|graph| grouped(graph, Policy::Fusion));
            assert!(!alike(&one, &other) || taken == expected, "{own} and {its}");
        }
    }
    assert!(alike(&graph(10), &graph(4)), "results are as wide as the input has channels");
    let other = layers().load().unwrap().graph(&[("n", 5)]).unwrap().graph;
    assert!(!alike(&graph(5), &other));
}

#[test]
fn shapes_behind_the_first_five_compile_nothing() {
    for engine in anydnn_opencl::testing::hasty_test_engines() {
        let session = recogniser().load().unwrap().compile(&engine, &[]).unwrap();
        let made = || {
            let stats = engine.program_stats();
            stats.built + stats.from_disk
        };
        for width in [20, 61, 33, 48, 27] {
            session.warm_up(&[("w", width)]).unwrap();
        }
        let warm = made();
        assert!(warm > 0);
        for width in 16..80 {
            session.warm_up(&[("w", width)]).unwrap();
            assert_eq!(made(), warm, "width {width}");
        }
    }
}

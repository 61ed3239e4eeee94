//! Places in tensors that executions and rounds of loops give: stretches from there, and elements written there.

use super::control::{BOOL, compile, graph, longs, outputs};
use super::*;
#[cfg(feature = "opencl")]
use crate::onnx::{SessionOptions, StageInfo, Startup};

/// Sums of the least and the greatest of `x[:, start..start + length]` over rounds, cut off where the axis ends.
fn stretches(first: i64, length: i64) -> (Draft, Vec<f32>) {
    let body = Draft::new(13)
        .typed("i", INT64, &[])
        .typed("go", BOOL, &[])
        .input("sum", &["2", "1"])
        .ints("first", &[1], &[first])
        .ints("length", &[1], &[length])
        .ints("axis", &[1], &[1])
        .ints("zero", &[1], &[0])
        .node("at = Unsqueeze(i, zero)", vec![])
        .node("start = Add(at, first)", vec![])
        .node("end = Add(start, length)", vec![])
        .node("part = Slice(x, start, end, axis)", vec![])
        .node("least = ReduceMin(part)", vec![ints("axes", &[1])])
        .node("greatest = ReduceMax(part)", vec![ints("axes", &[1])])
        .node("parts = Add(least, greatest)", vec![])
        .node("twice = Add(sum, sum)", vec![])
        .node("next = Add(twice, parts)", vec![])
        .node("goes_on = Identity(go)", vec![])
        .output("goes_on")
        .output("next");
    let draft = Draft::new(13)
        .input("x", &["2", "12"])
        .floats("none", &[2, 1], &[0.0, 0.0])
        .ints("rounds", &[], &[11])
        .node("y = Loop(rounds, , none)", vec![graph("body", body)])
        .output("y");
    let mut sums = vec![0.0; 2];
    for round in 0..11 {
        let from_front = |at: i64| if at < 0 { at + 12 } else { at };
        let (start, end) = (from_front(round + first).max(0), from_front(round + first + length).min(12));
        for (row, sum) in sums.iter_mut().enumerate() {
            // Element by element one more than the one before, from one on.
            *sum = *sum * 2.0 + (row as i64 * 24 + start + 1 + end) as f32;
        }
    }
    (draft, sums)
}

#[test]
fn stretches_of_rounds_are_gathered_from_where_they_are() {
    let x: Vec<f32> = (1..25).map(|at| at as f32).collect();
    for (first, length) in [(0, 1), (0, 3), (-12, 1), (-13, 14), (0, 20)] {
        let (draft, sums) = stretches(first, length);
        let session = compile(&draft);
        let made = outputs(&session, &[("x", tensor([2, 12], &x))]);
        assert_eq!(made[0].to_f32s(), sums, "{length} from {first}");
        if (first, length) == (0, 1) {
            // One graph serves all rounds: nothing is made for a place.
            let stages = session.describe();
            let made_for: Vec<_> = stages.iter().flat_map(|stage| &stage.made_for).collect();
            assert_eq!(made_for, ["1 from start to end"], "{session}");
        }
    }
}

#[test]
fn one_place_along_an_axis_is_written_on_the_device() {
    let draft = |node: &str, dims: [&[&str]; 3], axis: Option<i64>| {
        Draft::new(16)
            .input("x", dims[0])
            .typed("at", INT64, dims[1])
            .input("new", dims[2])
            .node("r = Relu(x)", vec![])
            .node(
                &format!("w = {node}(r, at, new)"),
                axis.map(|axis| int("axis", axis)).into_iter().collect(),
            )
            .node("y = Neg(w)", vec![])
            .output("y")
    };
    let x = tensor([2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let run = |draft: &Draft, at: HostTensor, new: HostTensor, is_on_device: bool| {
        let session = compile(draft);
        let made = outputs(&session, &[("x", x.clone()), ("at", at), ("new", new)]);
        let stages = session.describe();
        let on_host = stages
            .iter()
            .flat_map(|stage| &stage.host_nodes)
            .any(|node| node.operator.starts_with("Scatter"));
        assert_eq!(!on_host, is_on_device, "{session}");
        made[0].to_f32s()
    };
    let columns = draft("ScatterElements", [&["2", "3"], &["2", "1"], &["2", "1"]], Some(-1));
    let made = run(&columns, longs(&[2, 1], &[2, -3]), tensor([2, 1], &[7.0, 8.0]), true);
    assert_eq!(made, [-1.0, -2.0, -7.0, -8.0, -5.0, -6.0]);
    let row = draft("ScatterND", [&["2", "3"], &["1", "1"], &["1", "3"]], None);
    let made = run(&row, longs(&[1, 1], &[-1]), tensor([1, 3], &[7.0, 8.0, 9.0]), true);
    assert_eq!(made, [-1.0, -2.0, -3.0, -7.0, -8.0, -9.0]);
    // Fewer than all across the axis, and two places.
    let few = draft("ScatterElements", [&["2", "3"], &["1", "1"], &["1", "1"]], Some(1));
    let made = run(&few, longs(&[1, 1], &[1]), tensor([1, 1], &[7.0]), false);
    assert_eq!(made, [-1.0, -7.0, -3.0, -4.0, -5.0, -6.0]);
    let two = draft("ScatterND", [&["2", "3"], &["2", "1"], &["2", "3"]], None);
    let made = run(&two, longs(&[2, 1], &[1, 0]), tensor([2, 3], &[7.0, 8.0, 9.0, 1.0, 1.0, 1.0]), false);
    assert_eq!(made, [-1.0, -1.0, -1.0, -7.0, -8.0, -9.0]);
}

/// Of a round on the host, where a function costs no more than a primitive, the function writes the place; a device compares all of them.
#[cfg(feature = "opencl")]
#[test]
fn rounds_on_the_host_write_a_place_alone() {
    let body = Draft::new(16)
        .typed("i", INT64, &[])
        .typed("go", BOOL, &[])
        .input("rows", &["3", "2"])
        .ints("shape", &[2], &[1, 1])
        .node("at = Reshape(i, shape)", vec![])
        .node("new = Mul(x, x)", vec![])
        .node("next = ScatterND(rows, at, new)", vec![])
        .node("goes_on = Identity(go)", vec![])
        .output("goes_on")
        .output("next");
    let draft = Draft::new(16)
        .input("x", &["1", "2"])
        .input("start", &["3", "2"])
        .ints("rounds", &[], &[2])
        .node("y = Loop(rounds, , start)", vec![graph("body", body)])
        .output("y");
    let inputs =
        [("x", tensor([1, 2], &[2.0, -3.0])), ("start", tensor([3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))];
    let expected = [4.0, 9.0, 4.0, 9.0, 5.0, 6.0];
    let session = compile(&draft);
    assert_eq!(outputs(&session, &inputs)[0].to_f32s(), expected);
    let writes = |stage: &StageInfo<anydnn_host::Host>| {
        stage.host_nodes.iter().any(|node| node.operator == "ScatterND")
    };
    assert!(session.describe().iter().any(writes), "{session}");
    let options =
        SessionOptions { startup: Some(Startup::Device), host_loops: false, ..SessionOptions::default() };
    for engine in anydnn_opencl::testing::hasty_test_engines() {
        let session = draft.load().unwrap().compile_with(&engine, &[], &options).unwrap();
        assert_eq!(session.run(&inputs).unwrap()[0].1.to_f32s(), expected);
        let stages = session.describe();
        let mut on_device = stages.iter().flat_map(|stage| &stage.device_nodes);
        assert!(on_device.any(|node| node.operator == "ScatterND"), "{session}");
    }
}

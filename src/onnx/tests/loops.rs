//! Loops as exporters of recurrent layers write them: what every round reads is carried from one to the next, times are compared as floats.

use super::control::{BOOL, compile, graph, outputs};
use super::*;
use crate::onnx::{Precision, Session, SessionOptions, Startup};

/// Rounds of `h = relu(h * w + x[i])` while `i + 1 < limit`, whose `w`, `limit` and `told` are handed on as they are.
fn recurrent(w: &[f32]) -> Draft {
    let float = || vec![int("to", i64::from(FLOAT))];
    let body = Draft::new(13)
        .typed("i", INT64, &[])
        .typed("go", BOOL, &[])
        .typed("time", INT64, &[])
        .input("h", &["2"])
        .typed("limit", INT64, &[])
        .input("w", &["2"])
        .input("told", &["2"])
        .ints("one", &[], &[1])
        .node("next_time = Add(time, one)", vec![])
        .node("row = Gather(x, time)", vec![])
        .node("scaled = Mul(h, w)", vec![])
        .node("sum = Add(scaled, row)", vec![])
        .node("next = Relu(sum)", vec![])
        .node("scan = Add(next, told)", vec![])
        .node("a = Cast(next_time)", float())
        .node("b = Cast(limit)", float())
        .node("goes_on = Less(a, b)", vec![])
        .output("goes_on")
        .output("next_time")
        .output("next")
        .output("limit")
        .output("w")
        .output("told")
        .output("scan");
    Draft::new(13)
        .input("x", &["5", "2"])
        .input("t", &["2"])
        .floats("first", &[2], &[1.0, -1.0])
        .floats("w0", &[2], w)
        .ints("zero", &[], &[0])
        .ints("limit0", &[], &[4])
        .node("shift = Neg(t)", vec![])
        .node(
            "end, h_end, l_end, w_end, told_end, all = Loop(, , zero, first, limit0, w0, shift)",
            vec![graph("body", body)],
        )
        .output("h_end")
        .output("w_end")
        .output("told_end")
        .output("all")
        .output("l_end")
        .output("end")
}

/// The same by hand: the last state and the states plus `told`, one behind the other.
fn by_hand(x: &[f32], w: &[f32], told: &[f32]) -> (Vec<f32>, Vec<f32>) {
    let (mut h, mut all) = (vec![1.0, -1.0], Vec::new());
    for row in x.chunks_exact(2).take(4) {
        h = (0..2).map(|i| f32::max(h[i] * w[i] + row[i], 0.0)).collect();
        all.extend((0..2).map(|i| h[i] + told[i]));
    }
    (h, all)
}

fn on_device(host_loops: bool) -> SessionOptions {
    SessionOptions { startup: Some(Startup::Device), host_loops, ..SessionOptions::default() }
}

fn check<E: Engine>(engine: &E) {
    let (w, told) = ([0.5, -2.0], [10.0, 20.0]);
    let options = on_device(false);
    let session: Session<E::B> = recurrent(&w).load().unwrap().compile_with(engine, &[], &options).unwrap();
    for start in [0.0_f32, 3.0] {
        let x: Vec<f32> = (0..10).map(|i| start + i as f32 / 4.0).collect();
        let inputs = [("x", tensor([5, 2], &x)), ("t", tensor([2], &told.map(|t| -t)))];
        let made: Vec<_> = session.run(&inputs).unwrap().into_iter().map(|(_, tensor)| tensor).collect();
        let (h, all) = by_hand(&x, &w, &told);
        assert_eq!(made[0].to_f32s(), h, "{session}");
        assert_eq!((made[1].to_f32s(), made[2].to_f32s()), (w.to_vec(), told.to_vec()));
        assert_eq!((made[3].dims().to_vec(), made[3].to_f32s()), (vec![4, 2], all));
        assert_eq!((made[4].to_f64s(), made[5].to_f64s()), (vec![4.0], vec![4.0]));
    }
    let stages = session.describe();
    let bodies: Vec<_> = stages.iter().filter(|stage| !stage.path.is_empty()).collect();
    assert!(!bodies.is_empty(), "{session}");
    for stage in bodies {
        // Nobody waits for the device to know whether there is another round.
        assert!(stage.device_nodes.iter().all(|node| node.operator != "Less"), "{session}");
        assert!(stage.fetched.is_empty(), "{session}");
        // What is the same in every round is a constant there.
        let Some(device) = &stage.device else { continue };
        assert!(device.graph().constants().any(|tensor| tensor.known_dims().is_some_and(|d| d[..] == [2])));
    }
}

#[test]
fn loops_hand_on_what_does_not_change_and_wait_for_nothing() {
    check(&anydnn_host::HostEngine::new());
    #[cfg(feature = "opencl")]
    for engine in anydnn_opencl::testing::hasty_test_engines() {
        check(&engine);
    }
}

/// Launching the rounds of few elements takes a device longer than the host computes them; what computes with many is the device's.
#[cfg(feature = "opencl")]
#[test]
fn the_host_runs_loops_of_few_elements_in_place_of_a_device() {
    // Each round adds up what `n` elements of the number that is carried make.
    let wide = |n: i64| {
        let body = Draft::new(13)
            .typed("i", INT64, &[])
            .typed("go", BOOL, &[])
            .input("v", &["1"])
            .ints("n", &[1], &[n])
            .ints("zero", &[1], &[0])
            .node("rows = Expand(v, n)", vec![])
            .node("sum = ReduceSum(rows, zero)", vec![int("keepdims", 1)])
            .node("next = Mul(sum, t)", vec![])
            .node("goes_on = Identity(go)", vec![])
            .output("goes_on")
            .output("next");
        Draft::new(13)
            .input("x", &["1"])
            .input("u", &["1"])
            .ints("rounds", &[], &[3])
            .node("t = Neg(u)", vec![])
            .node("z = Loop(rounds, , x)", vec![graph("body", body)])
            .node("y = Neg(z)", vec![])
            .output("y")
    };
    for engine in anydnn_opencl::testing::hasty_test_engines() {
        let bodies = |session: &Session<anydnn_opencl::OpenCl>| {
            session.describe().iter().filter(|stage| !stage.path.is_empty()).count()
        };
        let few = recurrent(&[0.5, -2.0]).load().unwrap();
        let session = few.compile_with(&engine, &[], &on_device(true)).unwrap();
        let x: Vec<f32> = (0..10).map(|i| i as f32 / 4.0).collect();
        let inputs = [("x", tensor([5, 2], &x)), ("t", tensor([2], &[-10.0, -20.0]))];
        let made = session.run(&inputs).unwrap();
        let (h, all) = by_hand(&x, &[0.5, -2.0], &[10.0, 20.0]);
        assert_eq!((made[0].1.to_f32s(), made[3].1.to_f32s()), (h, all));
        assert_eq!(bodies(&session), 0, "{session}");
        // A loop that it ran is a step of the host in times.
        let times = session.profile(&inputs).unwrap();
        assert!(times.iter().any(|step| step.on_host && step.operator == "Loop"), "{times:?}");
        // Results have the model's types where those in between are narrower.
        let narrow = SessionOptions { precision: Precision::BF16, ..on_device(true) };
        let session = few.compile_with(&engine, &[], &narrow).unwrap();
        assert!(session.run(&inputs).unwrap()[..4].iter().all(|(_, y)| y.data_type() == DataType::F32));
        // Processors are the host itself: it computes with more in their place.
        for (n, is_few) in [(4, true), (1 << 18, true), (1 << 22, false)] {
            let session = wide(n).load().unwrap().compile_with(&engine, &[], &on_device(true)).unwrap();
            let inputs = [("x", tensor([1], &[1.0])), ("u", tensor([1], &[-1.0 / n as f32]))];
            for _ in 0..2 {
                assert_eq!(session.run(&inputs).unwrap()[0].1.to_f32s(), [-1.0], "{n}");
            }
            assert_eq!(bodies(&session) == 0, is_few, "{session}");
        }
    }
}

#[test]
fn results_of_narrow_rounds_have_the_type_of_the_model() {
    let options = SessionOptions { precision: Precision::BF16, ..SessionOptions::default() };
    let session: Session<anydnn_host::Host> = recurrent(&[0.5, -2.0])
        .load()
        .unwrap()
        .compile_with(&anydnn_host::HostEngine::new(), &[], &options)
        .unwrap();
    let x: Vec<f32> = (0..10).map(|i| i as f32 / 4.0).collect();
    let made = session.run(&[("x", tensor([5, 2], &x)), ("t", tensor([2], &[1.0, 2.0]))]).unwrap();
    let types: Vec<_> = made.iter().map(|(_, tensor)| tensor.data_type()).collect();
    assert_eq!(types[..4], [DataType::F32; 4]);
    let (_, all) = by_hand(&x, &[0.5, -2.0], &[-1.0, -2.0]);
    // All of these numbers have few digits.
    assert_eq!(made[3].1.to_f32s(), all);
}

#[test]
fn values_that_change_places_are_carried() {
    let body = Draft::new(13)
        .typed("i", INT64, &[])
        .typed("go", BOOL, &[])
        .input("a", &["1"])
        .input("b", &["1"])
        .input("c", &["1"])
        .node("goes_on = Identity(go)", vec![])
        .node("sum = Add(a, c)", vec![])
        .output("goes_on")
        .output("b")
        .output("a")
        .output("c")
        .output("sum");
    let draft = Draft::new(13)
        .input("a", &["1"])
        .input("b", &["1"])
        .floats("c", &[1], &[10.0])
        .ints("rounds", &[], &[3])
        .node("x, y, z, sums = Loop(rounds, , a, b, c)", vec![graph("body", body)]);
    let draft = draft.output("x").output("y").output("z").output("sums");
    let session: Session<anydnn_host::Host> =
        draft.load().unwrap().compile(&anydnn_host::HostEngine::new(), &[]).unwrap();
    let made = session.run(&[("a", tensor([1], &[1.0])), ("b", tensor([1], &[2.0]))]).unwrap();
    let made: Vec<_> = made.iter().map(|(_, tensor)| tensor.to_f32s()).collect();
    assert_eq!(made, [vec![2.0], vec![1.0], vec![10.0], vec![11.0, 12.0, 11.0]]);
}

#[test]
fn a_loop_of_no_rounds_hands_on_what_it_is_given() {
    let body = Draft::new(13)
        .typed("i", INT64, &[])
        .typed("go", BOOL, &[])
        .input("w", &["2"])
        .input("v", &["2"])
        .node("goes_on = Identity(go)", vec![])
        .node("next = Mul(v, w)", vec![])
        .output("goes_on")
        .output("w")
        .output("next");
    let with = |rounds: i64| {
        Draft::new(13)
            .input("x", &["2"])
            .floats("v0", &[2], &[3.0, 4.0])
            .ints("rounds", &[], &[rounds])
            .node("w, v = Loop(rounds, , x, v0)", vec![graph("body", body.clone())])
            .output("w")
            .output("v")
    };
    for (rounds, expected) in [(0, [3.0, 4.0]), (2, [12.0, 36.0])] {
        let session: Session<anydnn_host::Host> =
            with(rounds).load().unwrap().compile(&anydnn_host::HostEngine::new(), &[]).unwrap();
        let made = session.run(&[("x", tensor([2], &[2.0, 3.0]))]).unwrap();
        assert_eq!(made[0].1.to_f32s(), [2.0, 3.0]);
        assert_eq!(made[1].1.to_f32s(), expected);
    }
}

#[test]
fn floats_are_compared_on_the_host_as_everywhere() {
    let values = [-1.0_f32, 0.0, 2.0, f32::INFINITY, f32::NAN];
    for (operator, compare) in [
        ("Equal", (|a, b| a.partial_cmp(&b).is_some_and(std::cmp::Ordering::is_eq)) as fn(f32, f32) -> bool),
        ("Less", |a, b| a < b),
        ("LessOrEqual", |a, b| a <= b),
        ("Greater", |a, b| a > b),
        ("GreaterOrEqual", |a, b| a >= b),
    ] {
        for (a, b) in values.iter().flat_map(|&a| values.map(|b| (a, b))) {
            let draft = Draft::new(13)
                .input("x", &["1"])
                .floats("a", &[1], &[a])
                .floats("b", &[1], &[b])
                .node(&format!("c = {operator}(a, b)"), vec![])
                .node("f = Cast(c)", vec![int("to", i64::from(FLOAT))])
                .node("y = Mul(f, x)", vec![])
                .output("y");
            let made = draft.run(&[], &[tensor([1], &[1.0])]).unwrap();
            assert_eq!(made[0].to_f32s(), [f32::from(u8::from(compare(a, b)))], "{operator} of {a} and {b}");
        }
    }
}

/// Two stages of each round are made for elements, one for the counter and one for what the device computed from it: the plans that are kept
/// have no room for eight of both. Of slices with steps the elements are asked for.
#[test]
fn plans_that_made_room_count_among_those_made_for_elements() {
    let body = Draft::new(13)
        .typed("i", INT64, &[])
        .typed("go", BOOL, &[])
        .input("sum", &["1"])
        .ints("one", &[1], &[1])
        .ints("zero", &[1], &[0])
        .ints("two", &[1], &[2])
        .node("start = Unsqueeze(i, zero)", vec![])
        .node("end = Add(start, one)", vec![])
        .node("part = Slice(x, start, end, zero, two)", vec![])
        .node("place = Relu(part)", vec![])
        .node("again = Cast(place)", vec![int("to", i64::from(INT64))])
        .node("behind = Add(again, one)", vec![])
        .node("second = Slice(y, again, behind, zero, two)", vec![])
        .node("next = Add(sum, second)", vec![])
        .node("goes_on = Identity(go)", vec![])
        .output("goes_on")
        .output("next");
    let draft = Draft::new(13)
        .input("x", &["60"])
        .input("y", &["60"])
        .floats("none", &[1], &[0.0])
        .ints("rounds", &[], &[60])
        .node("z = Loop(rounds, , none)", vec![graph("body", body)])
        .output("z");
    let session = compile(&draft);
    let x: Vec<f32> = (0..60).map(|i| i as f32).collect();
    let y: Vec<f32> = x.iter().map(|x| x * 2.0).collect();
    let made = outputs(&session, &[("x", tensor([60], &x)), ("y", tensor([60], &y))]);
    assert_eq!(made[0].to_f32s(), [3540.0]);
    let stages = session.describe();
    let late = |made_for: &&String| (20..=60).any(|round| made_for.ends_with(&format!("= [{round}]")));
    let late: Vec<_> = stages.iter().flat_map(|stage| &stage.made_for).filter(late).collect();
    assert!(late.is_empty(), "{late:?}: {session}");
}

/// A counter that is a float for a while, as frameworks with one kind of numbers write it, stays on the host.
#[test]
fn single_numbers_of_the_host_stay_there() {
    let body = Draft::new(13)
        .typed("i", INT64, &[])
        .typed("go", BOOL, &[])
        .typed("count", INT64, &[])
        .input("sum", &["1"])
        .floats("step", &[], &[3.0])
        .floats("third", &[], &[3.0])
        .floats("less", &[], &[0.5])
        .floats("half", &[], &[0.5])
        .node("a = Cast(count)", vec![int("to", i64::from(FLOAT))])
        .node("b = Add(a, step)", vec![])
        .node("c = Div(b, third)", vec![])
        .node("d = Mul(c, third)", vec![])
        .node("e = Sub(d, less)", vec![])
        .node("f = Add(e, half)", vec![])
        .node("next_count = Cast(f)", vec![int("to", i64::from(INT64))])
        .node("next = Sin(sum)", vec![])
        .node("goes_on = Identity(go)", vec![])
        .output("goes_on")
        .output("next_count")
        .output("next");
    let draft = Draft::new(13)
        .input("x", &["1"])
        .ints("first", &[], &[6])
        .ints("rounds", &[], &[4])
        .node("n, y = Loop(rounds, , first, x)", vec![graph("body", body)])
        .output("n")
        .output("y");
    let session = compile(&draft);
    assert_eq!(outputs(&session, &[("x", tensor([1], &[1.0]))])[0].to_f64s(), [18.0]);
    let on_device = |operator: &str| {
        session.describe().iter().any(|stage| stage.device_nodes.iter().any(|node| node.operator == operator))
    };
    assert!(
        on_device("Sin") && !["Cast", "Add", "Sub", "Mul", "Div"].into_iter().any(on_device),
        "{session}"
    );
}

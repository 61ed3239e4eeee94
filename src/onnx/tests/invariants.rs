//! What rounds compute alike.

use super::control::{BOOL, compile, graph, outputs};
use super::*;
use crate::onnx::Session;

type Host = anydnn_host::Host;

/// The operators of the graphs with a path, or of those without one, and of the steps of the host.
fn operators(session: &Session<Host>, of_bodies: bool) -> Vec<String> {
    let stages = session.describe();
    let stages = stages.iter().filter(|stage| stage.path.is_empty() != of_bodies);
    let nodes = stages.flat_map(|stage| stage.device_nodes.iter().chain(&stage.host_nodes));
    nodes.map(|node| node.operator.clone()).collect()
}

/// Extents of the weight, which has enough elements.
const N: usize = 64;

/// The start of a body that carries `h`.
fn body() -> Draft {
    Draft::new(13).typed("i", INT64, &[]).typed("go", BOOL, &[]).input("h", &["2", "64"])
}

fn w() -> Vec<f32> {
    (0..N * N).map(|i| ((i * 7919 % 101) as f32 - 50.0) / 500.0).collect()
}

fn b() -> Vec<f32> {
    (0..N).map(|i| i as f32 / 64.0 - 0.5).collect()
}

fn x() -> Vec<f32> {
    (0..2 * N).map(|i| (i % 13) as f32 / 13.0 - 0.5).collect()
}

fn first() -> Vec<f32> {
    (0..2 * N).map(|i| i as f32 / 100.0).collect()
}

/// `-x * w` by hand.
fn product() -> Vec<f32> {
    let (x, w) = (x(), w());
    let sum = |at: usize| (0..N).map(|k| -x[at / N * N + k] * w[k * N + at % N]).sum();
    (0..2 * N).map(sum).collect()
}

/// A model with encoded states `e`, which nobody knows before an execution, and the first value of what is carried.
fn model(rounds: i64) -> Draft {
    Draft::new(13)
        .input("x", &["2", "64"])
        .input("h0", &["2", "64"])
        .ints("rounds", &[], &[rounds])
        .floats("w", &[N as i64, N as i64], &w())
        .floats("b", &[N as i64], &b())
        .node("e = Neg(x)", vec![])
}

fn inputs() -> [(&'static str, HostTensor); 2] {
    [("x", tensor([2, N], &x())), ("h0", tensor([2, N], &first()))]
}

fn check_near(made: &[f32], expected: &[f32]) {
    assert_eq!(made.len(), expected.len());
    made.iter().zip(expected).for_each(|(made, expected)| {
        assert_abs_diff_eq!(made, expected, epsilon = 1e-5 * expected.abs().max(1.0));
    });
}

/// A product, its bias and a function of captured values, of ones that each round hands on, and inside of another loop.
#[test]
fn what_rounds_compute_alike_is_computed_in_front_of_the_loop() {
    let steps = |body: Draft, e: &str| {
        body.node(&format!("p = MatMul({e}, w)"), vec![])
            .node("q = Add(p, b)", vec![])
            .node("a = Tanh(q)", vec![])
            .node("next = Add(h, a)", vec![])
            .node("goes_on = Identity(go)", vec![])
    };
    let captured = steps(body(), "e").output("goes_on").output("next");
    let handed_on =
        steps(body().input("own", &["2", "64"]), "own").output("goes_on").output("next").output("own");
    let nested = body()
        .ints("once", &[], &[1])
        .node("next = Loop(once, , h)", vec![graph("body", captured.clone())])
        .node("goes_on = Identity(go)", vec![])
        .output("goes_on")
        .output("next");
    for (what, body, nodes) in [
        ("captured", captured, "y = Loop(rounds, , h0)"),
        ("handed on", handed_on, "y, last = Loop(rounds, , h0, e)"),
        ("nested", nested, "y = Loop(rounds, , h0)"),
    ] {
        let session = compile(&model(3).node(nodes, vec![graph("body", body)]).output("y"));
        let made = outputs(&session, &inputs())[0].to_f32s();
        let of = |at: usize| first()[at] + 3.0 * (product()[at] + b()[at % N]).tanh();
        let expected: Vec<f32> = (0..2 * N).map(of).collect();
        check_near(&made, &expected);
        let (front, rounds) = (operators(&session, false), operators(&session, true));
        for operator in ["MatMul", "Tanh"] {
            assert!(front.iter().any(|own| own == operator), "{what}: {session}");
            assert!(rounds.iter().all(|own| own != operator), "{what}: {session}");
        }
        assert!(rounds.iter().any(|own| own == "Add"), "{what}: {session}");
    }
}

/// A loop without rounds hands on what it is given; results of rounds are those values, too.
#[test]
fn loops_without_rounds_and_results_of_rounds_stay_what_they_are() {
    let body = body()
        .node("p = MatMul(e, w)", vec![])
        .node("next = Identity(h)", vec![])
        .node("goes_on = Identity(go)", vec![])
        .output("goes_on")
        .output("next")
        .output("p");
    for rounds in [0, 2] {
        let draft = model(rounds).node("y, all = Loop(rounds, , h0)", vec![graph("body", body.clone())]);
        let session = compile(&draft.output("y").output("all"));
        let made = outputs(&session, &inputs());
        assert_eq!(made[0].to_f32s(), first());
        check_near(&made[1].to_f32s(), &product().repeat(rounds as usize));
    }
}

/// Branches may not be taken, chance is another one each time, and what follows from dimensions is known where it is read.
#[test]
fn what_rounds_may_leave_out_or_have_otherwise_stays_in_them() {
    let otherwise = Draft::new(13).node("kept = Identity(h)", vec![]).output("kept");
    let then = Draft::new(13).node("taken = MatMul(e, w)", vec![]).output("taken");
    let branches = body()
        .ints("one", &[], &[1])
        .node("c = Equal(i, one)", vec![])
        .node("next = If(c)", vec![graph("then_branch", then), graph("else_branch", otherwise)])
        .node("goes_on = Identity(go)", vec![])
        .output("goes_on")
        .output("next");
    let session =
        compile(&model(2).node("y = Loop(rounds, , h0)", vec![graph("body", branches)]).output("y"));
    check_near(&outputs(&session, &inputs())[0].to_f32s(), &product());
    assert!(!operators(&session, false).contains(&"MatMul".to_owned()), "{session}");

    let chance = body()
        .node("r = RandomUniformLike(e)", vec![])
        .node("p = MatMul(r, w)", vec![])
        .node("next = Add(h, p)", vec![])
        .node("goes_on = Identity(go)", vec![])
        .output("goes_on")
        .output("next")
        .output("p");
    let draft = model(2).node("y, all = Loop(rounds, , h0)", vec![graph("body", chance)]);
    let all = outputs(&compile(&draft.output("all")), &inputs())[0].to_f32s();
    assert!(all[..2 * N] != all[2 * N..], "{all:?}");

    let shapes = body()
        .node("s = Shape(e)", vec![])
        .node("f = Cast(s)", vec![int("to", i64::from(FLOAT))])
        .node("q = Tile(f, times)", vec![])
        .node("p = MatMul(q, w)", vec![])
        .node("next = Add(h, p)", vec![])
        .node("goes_on = Identity(go)", vec![])
        .output("goes_on")
        .output("next");
    let draft =
        model(2).ints("times", &[1], &[32]).node("y = Loop(rounds, , h0)", vec![graph("body", shapes)]);
    let session = compile(&draft.output("y"));
    let (w, made) = (w(), outputs(&session, &inputs())[0].to_f32s());
    let of = |at: usize| {
        let sum: f32 = (0..N).map(|k| if k % 2 == 0 { 2.0 } else { 64.0 } * w[k * N + at % N]).sum();
        first()[at] + 2.0 * sum
    };
    check_near(&made, &(0..2 * N).map(of).collect::<Vec<_>>());
    assert!(!operators(&session, false).contains(&"MatMul".to_owned()), "{session}");
}

/// A product by few weights takes less than a launch of its own.
#[test]
fn small_products_stay_in_their_rounds() {
    let body = body()
        .node("p = MatMul(e, v)", vec![])
        .node("next = Add(h, p)", vec![])
        .node("goes_on = Identity(go)", vec![])
        .output("goes_on")
        .output("next");
    let draft =
        model(1).floats("v", &[64, 1], &[1.0; N]).node("y = Loop(rounds, , h0)", vec![graph("body", body)]);
    let session = compile(&draft.output("y"));
    let sum = |row: usize| -> f32 { x()[row * N..][..N].iter().sum() };
    let expected: Vec<f32> = (0..2 * N).map(|at| first()[at] - sum(at / N)).collect();
    check_near(&outputs(&session, &inputs())[0].to_f32s(), &expected);
    assert!(!operators(&session, false).contains(&"MatMul".to_owned()), "{session}");
}

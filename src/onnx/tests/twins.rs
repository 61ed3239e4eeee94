//! Nodes that say the same of the same values.

use super::control::{BOOL, graph};
use super::*;
use crate::graph::OpKind;

fn x() -> Draft {
    Draft::new(13).input("x", &["2", "2"])
}

/// Chains of twins, by weights of the same bytes under other names.
#[test]
fn twins_are_computed_once() {
    let draft = x()
        .floats("two", &[], &[2.0])
        .floats("zwei", &[], &[2.0])
        .node("a = Exp(x)", vec![])
        .node("p = Mul(a, two)", vec![])
        .node("b = Exp(x)", vec![])
        .node("q = Mul(b, zwei)", vec![])
        .node("y = Sub(p, q)", vec![])
        .output("y");
    assert_eq!(kinds(&draft), [OpKind::Exp, OpKind::Multiply, OpKind::Subtract]);
    let found = draft.run(&[], &[tensor([2, 2], &[0.0, 1.0, -1.0, 0.5])]).unwrap();
    assert_eq!(found[0].to_f32s(), [0.0; 4]);
}

#[test]
fn what_differs_in_anything_is_computed_by_itself() {
    let draft = |first: f32, second: f32, other: &str| {
        let draft = x().floats("three", &[], &[3.0]).floats("two", &[], &[2.0]);
        draft
            .node("a = LeakyRelu(x)", vec![float("alpha", first)])
            .node("p = Mul(a, two)", vec![])
            .node("b = LeakyRelu(x)", vec![float("alpha", second)])
            .node(&format!("q = Mul(b, {other})"), vec![])
            .node("y = Add(p, q)", vec![])
            .output("y")
    };
    let of = |draft: &Draft| draft.run(&[], &[tensor([2, 2], &[-1.0, 1.0, -2.0, 2.0])]).unwrap()[0].to_f32s();
    assert_eq!(kinds(&draft(0.5, 0.5, "two")).len(), 3);
    assert_eq!(of(&draft(0.5, 0.5, "two")), [-2.0, 4.0, -4.0, 8.0]);
    assert_eq!(kinds(&draft(0.5, 0.25, "two")).len(), 5);
    assert_eq!(of(&draft(0.5, 0.25, "two")), [-1.5, 4.0, -3.0, 8.0]);
    assert_eq!(kinds(&draft(0.5, 0.5, "three")).len(), 4);
    assert_eq!(of(&draft(0.5, 0.5, "three")), [-2.5, 5.0, -5.0, 10.0]);
}

/// Readers behind an output that is a twin read its first twin.
#[test]
fn outputs_are_there_each_by_itself() {
    let draft = x()
        .node("a = Exp(x)", vec![])
        .node("b = Exp(x)", vec![])
        .node("c = Neg(b)", vec![])
        .output("a")
        .output("b")
        .output("c");
    let found = draft.run(&[], &[tensor([2, 2], &[0.0; 4])]).unwrap();
    assert_eq!(found.iter().map(HostTensor::to_f32s).collect::<Vec<_>>(), [[1.0; 4], [1.0; 4], [-1.0; 4]]);
}

/// A view that two readers share would be in nobody's kernel.
#[test]
fn views_stay_with_their_readers_and_go_with_them() {
    let draft = |other: &str| {
        x().floats("w", &[2, 2], &[1.0, 2.0, 3.0, 4.0])
            .floats("v", &[2, 2], &[4.0, 3.0, 2.0, 1.0])
            .node("s = Transpose(x)", vec![])
            .node("t = Transpose(x)", vec![])
            .node("p = MatMul(s, w)", vec![])
            .node(&format!("q = MatMul(t, {other})"), vec![])
            .node("y = Sub(p, q)", vec![])
            .output("y")
    };
    let steps = |draft: &Draft| draft.load().unwrap().program().unwrap().steps.len();
    assert_eq!([steps(&draft("v")), steps(&draft("w"))], [5, 3]);
    let of = |draft: &Draft| draft.run(&[], &[tensor([2, 2], &[1.0, 2.0, 3.0, 4.0])]).unwrap()[0].to_f32s();
    assert_eq!(of(&draft("w")), [0.0; 4]);
    assert_eq!(of(&draft("v")), [0.0, 8.0, -2.0, 10.0]);
}

#[test]
fn nodes_of_chance_stay_apart() {
    let draft = x()
        .node("a = RandomNormalLike(x)", vec![])
        .node("b = RandomNormalLike(x)", vec![])
        .node("y = Sub(a, b)", vec![])
        .output("y");
    assert_eq!(draft.load().unwrap().program().unwrap().steps.len(), 3);
}

/// A branch makes what is made around it, and a loop reads a twin.
#[test]
fn graphs_of_nodes_read_the_first_twin() {
    let then = Draft::new(13).node("c = Exp(x)", vec![]).node("t = Neg(c)", vec![]).output("t");
    let otherwise = Draft::new(13).node("e = Neg(x)", vec![]).output("e");
    let branches = vec![graph("then_branch", then), graph("else_branch", otherwise)];
    let body = Draft::new(13)
        .typed("i", INT64, &[])
        .typed("go", BOOL, &[])
        .input("sum", &["2", "2"])
        .node("on = Identity(go)", vec![])
        .node("next = Add(sum, b)", vec![])
        .output("on")
        .output("next");
    let draft = x()
        .typed("test", BOOL, &[])
        .ints("turns", &[], &[3])
        .node("a = Exp(x)", vec![])
        .node("b = Exp(x)", vec![])
        .node("s = Add(a, b)", vec![])
        .node("f = If(test)", branches)
        .node("l = Loop(turns, , s)", vec![graph("body", body)])
        .node("y = Add(f, l)", vec![])
        .output("y");
    let session = draft.load().unwrap().compile(&anydnn_host::HostEngine::new(), &[]).unwrap();
    for (test, expected) in [(true, 4.0), (false, 5.0)] {
        let condition = HostTensor::new(
            anydnn_backend::MemoryDesc::new([0_usize; 0], DataType::Boolean),
            vec![u8::from(test)],
        );
        let x = tensor([2, 2], &[0.0; 4]);
        let found = session.run(&[("x", x), ("test", condition.unwrap())]).unwrap();
        assert_eq!(found[0].1.to_f32s(), [expected; 4]);
    }
}

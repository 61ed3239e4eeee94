//! What is computed while importing.

use super::*;
use crate::graph::OpKind;

#[test]
fn shape_arithmetic_leaves_one_reshape() {
    // As exporters write `x.view(x.shape[0], -1)`.
    let draft = Draft::new(13)
        .input("x", &["n", "2", "3"])
        .ints("zero", &[], &[0])
        .ints("axes", &[1], &[0])
        .ints("rest", &[1], &[-1])
        .node("shape = Shape(x)", vec![])
        .node("n = Gather(shape, zero)", vec![])
        .node("row = Unsqueeze(n, axes)", vec![])
        .node("wanted = Concat(row, rest)", vec![int("axis", 0)])
        .node("y = Reshape(x, wanted)", vec![])
        .output("y");
    let model = draft.load().unwrap().graph(&[("n", 4)]).unwrap();
    let kinds: Vec<_> = model.graph.ops().iter().map(|op| op.kind).collect();
    assert_eq!((kinds, model.constants.len()), (vec![OpKind::StaticReshape], 0));
    assert_eq!(model.graph.tensor(model.graph.outputs()[0]).unwrap().to_string(), "y:f32:4x6");
}

/// What a chain of integer nodes makes of `src`.
fn folded(draft: Draft) -> (Vec<usize>, Vec<f64>) {
    let model = draft.output("y").load().unwrap().graph(&[]).unwrap();
    let tensor = model.constants.values().next().unwrap();
    (tensor.dims().to_vec(), tensor.to_f64s())
}

#[test]
fn slices_count_from_both_ends() {
    let slice = |start: i64, end: i64, step: i64| {
        let draft = Draft::new(13)
            .ints("src", &[5], &[0, 1, 2, 3, 4])
            .ints("start", &[1], &[start])
            .ints("end", &[1], &[end])
            .ints("axis", &[1], &[0])
            .ints("step", &[1], &[step]);
        folded(draft.node("y = Slice(src, start, end, axis, step)", vec![])).1
    };
    assert_eq!(slice(1, i64::MAX, 2), [1.0, 3.0]);
    assert_eq!(slice(-2, 9, 1), [3.0, 4.0]);
    assert_eq!(slice(-1, i64::MIN, -2), [4.0, 2.0, 0.0]);
    assert_eq!(slice(9, -4, -1), [4.0, 3.0, 2.0]);
    assert_eq!(slice(3, 1, 1), [0.0; 0]);
}

#[test]
fn integers_divide_towards_zero() {
    let divide = |operator: &str, attributes| {
        let draft = Draft::new(13).ints("a", &[2, 1], &[-7, 7]).ints("b", &[2], &[2, -2]);
        folded(draft.node(&format!("y = {operator}(a, b)"), attributes))
    };
    assert_eq!(divide("Div", vec![]), (vec![2, 2], vec![-3.0, 3.0, 3.0, -3.0]));
    assert_eq!(divide("Mod", vec![]).1, [1.0, -1.0, 1.0, -1.0]);
    assert_eq!(divide("Mod", vec![int("fmod", 1)]).1, [-1.0, -1.0, 1.0, 1.0]);
}

#[test]
fn choices_and_copies_are_folded() {
    let draft = Draft::new(13)
        .ints("wanted", &[3], &[2, -1, 3])
        .ints("minus", &[1], &[-1])
        .ints("one", &[1], &[1])
        .node("open = Equal(wanted, minus)", vec![])
        .node("dims = Where(open, one, wanted)", vec![])
        .ints("src", &[2, 1, 1], &[5, 6])
        .node("y = Expand(src, dims)", vec![]);
    assert_eq!(folded(draft), (vec![2, 1, 3], vec![5.0, 5.0, 5.0, 6.0, 6.0, 6.0]));
    let order = Draft::new(13).ints("src", &[2, 3], &[0, 1, 2, 3, 4, 5]).node("y = Transpose(src)", vec![]);
    assert_eq!(folded(order), (vec![3, 2], vec![0.0, 3.0, 1.0, 4.0, 2.0, 5.0]));
}

#[test]
fn floats_lose_their_fraction_on_the_way_to_integers() {
    let draft = Draft::new(13).floats("src", &[3], &[-1.7, 0.5, 2.9]);
    let made = folded(draft.node("y = Cast(src)", vec![int("to", i64::from(INT64))]));
    assert_eq!(made.1, [-1.0, 0.0, 2.0]);
}

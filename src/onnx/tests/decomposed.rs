//! Operators that become several operations of a graph, and types that no operation has, against numbers worked out by hand.

use super::*;
use crate::onnx::Session;

/// The output of `y = Operator(x, ..)` as one graph, where nothing is left to the host.
fn on_device(draft: Draft, text: &str, attributes: Vec<AttributeProto>, x: &HostTensor) -> Vec<f32> {
    let draft = draft.node(text, attributes).output("y");
    draft.run(&[], std::slice::from_ref(x)).unwrap()[0].to_f32s()
}

#[test]
fn images_are_resized_by_every_mode() {
    let resize = |scale: f32, x: &[f32], words: &[(&str, &str)], more: Vec<AttributeProto>| {
        let draft = Draft::new(18).input("x", &["1", "1", &x.len().to_string()]);
        let draft = draft.floats("r", &[0], &[]).floats("s", &[3], &[1.0, 1.0, scale]);
        let attributes = words.iter().map(|(name, value)| word(name, value)).chain(more).collect();
        on_device(draft, "y = Resize(x, r, s)", attributes, &tensor([1, 1, x.len()], x))
    };
    let ways =
        |mode: &'static str, way: &'static str| [("mode", mode), ("coordinate_transformation_mode", way)];
    assert_eq!(resize(2.0, &[0.0, 4.0], &ways("linear", "asymmetric"), vec![]), [0.0, 2.0, 4.0, 4.0]);
    let floor =
        [("mode", "nearest"), ("coordinate_transformation_mode", "asymmetric"), ("nearest_mode", "floor")];
    assert_eq!(resize(1.5, &[0.0, 4.0], &floor, vec![]), [0.0, 0.0, 4.0]);
    // Weights of -3/32, 19/32, 19/32 and -3/32 half way between two.
    let cubic = resize(2.0, &[0.0, 32.0, 0.0, 0.0], &ways("cubic", "asymmetric"), vec![]);
    assert_eq!(cubic[1..6], [19.0, 32.0, 19.0, 0.0, -3.0]);
    let narrow =
        |scale: f32, x: &[f32]| resize(scale, x, &ways("linear", "half_pixel"), vec![int("antialias", 1)]);
    assert_eq!(narrow(0.5, &[0.0, 8.0, 16.0, 24.0]), [5.0, 19.0]);
    let row: Vec<f32> = (0..8).map(|i| i as f32).collect();
    assert_eq!(narrow(0.25, &row), [1.65625, 5.34375]);
}

#[test]
fn absurd_sizes_are_not_resampled() {
    for scale in [1e30, f32::INFINITY, 1e-30] {
        let draft = Draft::new(18).input("x", &["1", "1", "2"]).floats("r", &[0], &[]);
        let draft = draft.floats("s", &[3], &[1.0, 1.0, scale]);
        let refused = draft.node("y = Resize(x, r, s)", vec![]).output("y").refused();
        assert!(refused.contains("Resize"), "{refused}");
    }
}

#[test]
fn updates_go_where_known_indices_say() {
    let x = |count: usize| tensor([count], &(0..count).map(|i| i as f32).collect::<Vec<_>>());
    let list = |indices: &[i64]| {
        let draft = Draft::new(13).input("x", &["4"]).ints("i", &[2, 1], indices);
        on_device(draft.floats("u", &[2], &[8.0, 9.0]), "y = ScatterND(x, i, u)", vec![], &x(4))
    };
    assert_eq!(list(&[3, 0]), [9.0, 1.0, 2.0, 8.0]);
    assert_eq!(list(&[-3, 1]), [0.0, 9.0, 2.0, 3.0]);
    let draft = Draft::new(13).input("x", &["2", "3"]).ints("i", &[2, 1], &[2, 0]);
    let draft = draft.floats("u", &[2, 1], &[10.0, 20.0]);
    let rows = x(6).reshaped([2, 3]).unwrap();
    let made = on_device(draft, "y = ScatterElements(x, i, u)", vec![int("axis", 1)], &rows);
    assert_eq!(made, [0.0, 1.0, 10.0, 20.0, 4.0, 5.0]);
    let far = Draft::new(13).input("x", &["4"]).ints("i", &[1, 1], &[4]).floats("u", &[1], &[8.0]);
    let refused = far.node("y = ScatterND(x, i, u)", vec![]).output("y").refused();
    assert!(refused.contains("ScatterND") && refused.contains("dimension of 4"), "{refused}");
}

#[test]
fn sums_over_named_indices_are_products_of_matrices() {
    let sum = |equation: &str, inputs: &str| {
        let draft = Draft::new(13).input("x", &["2", "3"]);
        let draft = draft.floats("w", &[2, 3], &[1.0, 0.0, 2.0, 0.0, 1.0, 0.0]);
        let x = tensor([2, 3], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        on_device(draft, &format!("y = Einsum({inputs})"), vec![word("equation", equation)], &x)
    };
    assert_eq!(sum("ij,kj->ik", "x, w"), [4.0, 1.0, 13.0, 4.0]);
    assert_eq!(sum("ij,ij->i", "x, w"), [4.0, 4.0]);
    assert_eq!(sum("ij,kl->jk", "x, w"), [9.0, 3.0, 15.0, 5.0, 21.0, 7.0]);
    assert_eq!(sum("...j,kj->k...", "x, w"), [4.0, 13.0, 1.0, 4.0]);
    assert_eq!(sum("ij,ij,kj->ki", "x, w, w"), [8.0, 0.0, 0.0, 4.0]);
    assert_eq!(sum("ij->ji", "x"), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    assert_eq!(sum("ij", "x"), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
}

#[test]
fn weights_of_rows_that_are_hidden_whole_are_zeros() {
    let hidden = f32::NEG_INFINITY;
    let draft = Draft::new(20).input("x", &["2", "2"]).floats("m", &[2, 2], &[0.0, hidden, hidden, hidden]);
    let draft = draft.floats("zero", &[], &[0.0]).node("t = Transpose(x)", vec![]);
    let draft = draft.node("s = MatMul(x, t)", vec![]).node("u = Add(s, m)", vec![]);
    let draft = draft.node("p = Softmax(u)", vec![]).node("n = IsNaN(p)", vec![]);
    let draft = draft.node("w = Where(n, zero, p)", vec![]);
    let made = on_device(draft, "y = MatMul(w, x)", vec![], &tensor([2, 2], &[1.0, 2.0, 3.0, 4.0]));
    assert_eq!(made, [1.0, 2.0, 0.0, 0.0]);
}

#[test]
fn types_of_the_host_are_computed_with_there() {
    let draft = |number: i32| {
        let draft = Draft::new(13).typed("x", number, &["2"]).typed("d", number, &["2"]);
        draft.node("a = Div(x, d)", vec![]).node("m = Max(a, d)", vec![]).node("y = Less(x, m)", vec![])
    };
    let run = |number: i32, x: HostTensor, d: HostTensor| {
        let session: Session<anydnn_host::Host> = draft(number)
            .output("m")
            .output("y")
            .load()
            .unwrap()
            .compile(&anydnn_host::HostEngine::new(), &[])
            .unwrap();
        session.run(&[("x", x), ("d", d)]).unwrap()
    };
    let of = |data_type, bytes: Vec<u8>| {
        HostTensor::new(anydnn_backend::MemoryDesc::new([2_usize], data_type), bytes).unwrap()
    };
    let words = |values: [u64; 2]| of(DataType::U64, values.iter().flat_map(|v| v.to_ne_bytes()).collect());
    let made = run(13, words([u64::MAX, 7]), words([2, u64::MAX - 1]));
    assert_eq!(made[0].1.bytes(), words([u64::MAX / 2, u64::MAX - 1]).bytes());
    assert_eq!(made[1].1.bytes(), [0, 1]);
    let halves = |values: [i16; 2]| of(DataType::S16, values.iter().flat_map(|v| v.to_ne_bytes()).collect());
    let made = run(5, halves([-300, 7]), halves([-2, 9]));
    assert_eq!(made[0].1.to_f32s(), [150.0, 9.0]);
    let refused = draft(4).output("y").refused();
    assert!(refused.contains("Div") && refused.contains("u16"), "{refused}");
}

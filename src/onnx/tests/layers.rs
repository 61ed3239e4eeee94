//! Recurrent layers against ONNX Runtime's numbers, and operators made of several others against numbers worked out by hand.

use super::*;

#[track_caller]
fn near(found: &HostTensor, expected: &[f32]) {
    assert_close(found, expected, 1e-5);
}

/// A layer of two hidden elements over two steps of two elements, with small weights that go round.
fn recurrent(operator: &str, gates: i64, attributes: Vec<AttributeProto>) -> Vec<HostTensor> {
    let round = |count: i64, by: i64, less: i64, unit: f32| -> Vec<f32> {
        (0..count).map(|i| (i % by - less) as f32 * unit).collect()
    };
    let outputs = if operator == "LSTM" { "y, h, c" } else { "y, h" };
    let draft = Draft::new(14)
        .input("x", &["2", "1", "2"])
        .floats("w", &[1, gates * 2, 2], &round(gates * 4, 5, 2, 0.25))
        .floats("r", &[1, gates * 2, 2], &round(gates * 4, 3, 1, 0.5))
        .floats("b", &[1, gates * 4], &round(gates * 4, 4, 1, 0.125))
        .node(&format!("{outputs} = {operator}(x, w, r, b)"), attributes)
        .output("y")
        .output("h");
    let draft = if operator == "LSTM" { draft.output("c") } else { draft };
    draft.run(&[], &[tensor([2, 1, 2], &[1.0, -1.0, 0.5, 2.0])]).unwrap()
}

#[test]
fn layers_keep_their_state() {
    let made = recurrent("LSTM", 4, vec![]);
    assert_eq!((made[0].dims().to_vec(), made[2].dims().to_vec()), (vec![2, 1, 1, 2], vec![1, 1, 2]));
    near(&made[0], &[0.0, 0.211_813_76, 0.068_132_5, -0.039_989]);
    near(&made[1], &[0.068_132_5, -0.039_989]);
    near(&made[2], &[0.170_817_88, -0.067_575_69]);
    let made = recurrent("LSTM", 4, vec![word("direction", "reverse")]);
    near(&made[0], &[0.042_879_54, 0.188_571_63, 0.063_870_68, -0.089_659_62]);
    near(&made[1], &[0.042_879_54, 0.188_571_63]);
    near(&recurrent("GRU", 3, vec![])[0], &[-0.137_687_5, 0.0, 0.485_958_58, -0.155_272_9]);
    let made = recurrent("GRU", 3, vec![int("linear_before_reset", 1)]);
    near(&made[0], &[-0.155_301_23, -0.062_176_5, 0.458_432_38, -0.226_220_41]);
    near(&recurrent("RNN", 1, vec![])[0], &[-0.244_918_64, 0.0, -0.556_356_5, 0.556_356_43]);
}

#[test]
fn extremes_sums_and_triangles() {
    let x = tensor([2, 3], &[1.0, 5.0, 5.0, -2.0, -7.0, 0.0]);
    let y = |text: &str, attributes: Vec<AttributeProto>| {
        let draft = Draft::new(14).input("x", &["2", "3"]).ints("k", &[], &[1]).node(text, attributes);
        let made = draft.output("y").run(&[], std::slice::from_ref(&x)).unwrap().remove(0);
        (made.dims().to_vec(), made.to_f64s())
    };
    assert_eq!(y("y = ArgMax(x)", vec![int("axis", 1)]), (vec![2, 1], vec![1.0, 2.0]));
    let last = vec![int("axis", -1), int("select_last_index", 1), int("keepdims", 0)];
    assert_eq!(y("y = ArgMax(x)", last), (vec![2], vec![2.0, 2.0]));
    assert_eq!(y("y = ArgMin(x)", vec![]), (vec![1, 3], vec![1.0, 1.0, 1.0]));
    assert_eq!(y("y = CumSum(x, k)", vec![]).1, [1.0, 6.0, 11.0, -2.0, -9.0, -9.0]);
    let behind = vec![int("exclusive", 1), int("reverse", 1)];
    assert_eq!(y("y = CumSum(x, k)", behind).1, [10.0, 5.0, 0.0, -7.0, 0.0, 0.0]);
    assert_eq!(y("y = Trilu(x, k)", vec![]).1, [0.0, 5.0, 5.0, 0.0, 0.0, 0.0]);
    assert_eq!(y("y = Trilu(x)", vec![int("upper", 0)]).1, [1.0, 0.0, 0.0, -2.0, -7.0, 0.0]);
}

#[test]
fn one_place_is_hot() {
    let draft = Draft::new(13)
        .input("x", &["3"])
        .ints("d", &[1], &[3])
        .floats("v", &[2], &[-1.0, 4.0])
        .node("i = Cast(x)", vec![int("to", 7)])
        .node("y = OneHot(i, d, v)", vec![])
        .output("y");
    let made = draft.run(&[], &[tensor([3], &[0.0, -1.0, 7.0])]).unwrap();
    assert_eq!(made[0].to_f32s(), [4.0, -1.0, -1.0, -1.0, -1.0, 4.0, -1.0, -1.0, -1.0]);
}

//! Products of scaled integers, against numbers worked out by hand. A graph without other stages computes them, so the device does.

use super::*;
use crate::fusion::{Policy, partition};
use crate::graph::OpKind;

const UINT8: i32 = 2;
const INT32: i32 = 6;

/// A constant of integers of the type with this number.
fn constant(mut draft: Draft, name: &str, number: i32, dims: &[i64], values: &[i32]) -> Draft {
    draft.graph.initializer.push(TensorProto {
        name: Some(name.into()),
        dims: dims.to_vec(),
        data_type: Some(number),
        int32_data: values.to_vec(),
        ..TensorProto::default()
    });
    draft
}

fn bytes<const N: usize>(dims: [usize; N], values: &[u8]) -> HostTensor {
    let numbers: Vec<f64> = values.iter().copied().map(f64::from).collect();
    HostTensor::from_f64(dims, DataType::U8, &numbers).unwrap()
}

#[test]
fn products_of_integers_take_their_zero_points_off() {
    let product = |text: &str| {
        let draft = constant(Draft::new(13).typed("a", UINT8, &["2", "2"]), "p", UINT8, &[], &[1]);
        let draft = constant(draft, "b", INT8, &[2, 2], &[2, 3, -4, 5]);
        let draft = constant(draft, "columns", INT8, &[2], &[1, -1]).node(text, vec![]).output("y");
        let made = draft.run(&[], &[bytes([2, 2], &[1, 2, 3, 4])]).unwrap().remove(0);
        assert_eq!(made.data_type(), DataType::S32);
        made.to_f32s()
    };
    assert_eq!(product("y = MatMulInteger(a, b)"), [-6.0, 13.0, -10.0, 29.0]);
    assert_eq!(product("y = MatMulInteger(a, b, p)"), [-4.0, 5.0, -8.0, 21.0]);
    assert_eq!(product("y = MatMulInteger(a, b, p, columns)"), [-5.0, 6.0, -13.0, 26.0]);
}

#[test]
fn windows_of_integers_see_zeros_at_the_border() {
    let draft = constant(Draft::new(10).typed("x", UINT8, &["1", "1", "3"]), "w", UINT8, &[1, 1, 2], &[1, 2]);
    let draft = constant(draft, "p", UINT8, &[], &[1]);
    let draft = draft.node("y = ConvInteger(x, w, p)", vec![ints("pads", &[1, 0])]).output("y");
    let made = draft.run(&[], &[bytes([1, 1, 3], &[2, 3, 4])]).unwrap().remove(0);
    assert_eq!((made.data_type(), made.to_f32s()), (DataType::S32, vec![2.0, 5.0, 8.0]));
}

/// A bias in steps, as some exporters write it beside sums of products: with the scale and a function it goes with the products. Integers alone
/// are added as such, beyond the digits of a float.
#[test]
fn biases_of_integers_go_with_their_products() {
    let draft = constant(Draft::new(13).typed("a", UINT8, &["2", "2"]), "p", UINT8, &[], &[1]);
    let draft = constant(draft, "b", INT8, &[2, 2], &[2, 3, -4, 5]).input("bias", &["2"]).input("scale", &[]);
    let draft = draft.ints("dims", &[2], &[1, 2]).node("f = Floor(bias)", vec![]);
    let draft = draft.node("c = Cast(f)", vec![int("to", INT32.into())]).node("r = Reshape(c, dims)", vec![]);
    let draft = draft.node("m = MatMulInteger(a, b, p)", vec![]).node("s = Add(m, r)", vec![]);
    let with = |draft: Draft| draft.node("t = Cast(s)", vec![int("to", 1)]).node("y = Mul(t, scale)", vec![]);
    let floats = with(draft.clone()).output("y");
    let inputs = [bytes([2, 2], &[1, 2, 3, 4]), tensor([2], &[-0.5, 2.9]), tensor([], &[0.5])];
    let made = floats.run(&[], &inputs).unwrap().remove(0);
    assert_eq!(made.to_f32s(), [-2.5, 3.5, -4.5, 11.5]);
    let found = kinds(&floats);
    assert!(!found.contains(&OpKind::TypeCast), "{found:?}");
    // Whoever wants the integers has them.
    let whole = draft.output("s").run(&[], &inputs[..2]).unwrap().remove(0);
    assert_eq!((whole.data_type(), whole.to_f32s()), (DataType::S32, vec![-5.0, 7.0, -9.0, 23.0]));
    let draft = Draft::new(13).input("x", &["2"]).node("c = Cast(x)", vec![int("to", INT32.into())]);
    let draft = constant(draft, "d", INT32, &[2], &[1, 1]).node("y = Add(c, d)", vec![]).output("y");
    let made = draft.run(&[], &[tensor([2], &[16_777_216.0, -3.7])]).unwrap().remove(0);
    assert_eq!((made.data_type(), made.to_f64s()), (DataType::S32, vec![16_777_217.0, -2.0]));
}

#[test]
fn values_give_the_scale_that_they_are_quantized_with() {
    let draft = Draft::new(11).input("x", &["2", "2"]).node("y, s, z = DynamicQuantizeLinear(x)", vec![]);
    let draft = draft.output("y").output("s").output("z");
    let run = |values: &[f32]| {
        let made = draft.run(&[], &[tensor([2, 2], values)]).unwrap();
        assert_eq!(made.iter().map(|made| made.dims().len()).collect::<Vec<_>>(), [2, 0, 0]);
        made.iter().map(HostTensor::to_f32s).collect::<Vec<_>>()
    };
    let made = run(&[-1.0, 0.0, 3.0, 4.1]);
    assert_eq!((&made[0], &made[2]), (&vec![0.0, 50.0, 200.0, 255.0], &vec![50.0]));
    assert_abs_diff_eq!(made[1][0], 0.02, epsilon = 1e-8);
    // A half is rounded to even before the odd zero point is added.
    assert_eq!(run(&[-1.0, 254.0, 0.5, 2.5])[0], [0.0, 255.0, 1.0, 3.0]);
    // Zero belongs to the range.
    assert_eq!(run(&[255.0, 5.0, 7.0, 9.0]), [vec![255.0, 5.0, 7.0, 9.0], vec![1.0], vec![0.0]]);
    assert_eq!(run(&[0.0; 4]), [vec![0.0; 4], vec![0.0], vec![0.0]]);
}

/// What quantisers make of a product of floats: no integers of 32 bits are left between it and what follows.
#[test]
fn a_product_quantized_on_execution_keeps_its_weights() {
    let draft = constant(Draft::new(13).input("x", &["1", "2"]), "w", INT8, &[2, 2], &[20, 30, -40, 50]);
    let draft = constant(draft, "zero", INT8, &[], &[0])
        .floats("ws", &[], &[0.1])
        .node("q, s, z = DynamicQuantizeLinear(x)", vec![])
        .node("i = MatMulInteger(q, w, z, zero)", vec![])
        .node("f = Cast(i)", vec![int("to", i64::from(FLOAT))])
        .node("scale = Mul(s, ws)", vec![])
        .node("y = Mul(f, scale)", vec![])
        .output("y");
    let model = draft.load().unwrap().graph(&[]).unwrap();
    assert!(model.constants.values().any(|constant| constant.data_type() == DataType::S8));
    let made = kinds(&draft);
    assert!(made.contains(&OpKind::DynamicDequantize), "{made:?}");
    assert_eq!(
        made.iter().filter(|&&kind| kind == OpKind::TypeCast).count(),
        2,
        "those of the values and of the zero point: {made:?}"
    );
    // The product of the scales comes along with what makes one of them; the zero point in another shape is a view.
    let made = partition(&model.graph, Policy::Fusion);
    assert_eq!(
        made.partitions.iter().map(|partition| partition.pattern).collect::<Vec<_>>(),
        ["quantize/dynamic", "single_op", "matmul/int8"]
    );
    let made = draft.run(&[], &[tensor([1, 2], &[1.0, 0.5])]).unwrap();
    assert_close(&made[0], &[0.0, 5.5], 0.02);
}

#[test]
fn scaled_integers_become_scaled_integers() {
    let draft = constant(Draft::new(10).typed("a", UINT8, &["1", "2"]), "ap", UINT8, &[], &[128]);
    let draft =
        constant(draft, "b", INT8, &[2, 1], &[2, 4]).floats("as", &[], &[0.5]).floats("bs", &[], &[0.25]);
    let draft = constant(draft, "bp", INT8, &[], &[0]).floats("ys", &[], &[0.1]);
    let draft = constant(draft, "yp", UINT8, &[], &[3]);
    let draft = draft.node("y = QLinearMatMul(a, as, ap, b, bs, bp, ys, yp)", vec![]).output("y");
    let made = draft.run(&[], &[bytes([1, 2], &[130, 128])]).unwrap().remove(0);
    assert_eq!((made.data_type(), made.to_f32s()), (DataType::U8, vec![8.0]));
}

/// Halves go to the even number of steps, whatever the zero point is, and what is just below a half stays so beside a large one.
#[test]
fn known_zero_points_are_added_to_whole_steps() {
    let run = |number: i32, point: i32, values: &[f32]| {
        let draft = constant(Draft::new(13).input("x", &["4"]), "z", number, &[], &[point]);
        let draft = draft.floats("s", &[], &[0.5]).node("y = QuantizeLinear(x, s, z)", vec![]).output("y");
        assert!(kinds(&draft).contains(&OpKind::Quantize));
        draft.run(&[], &[tensor([4], values)]).unwrap()[0].to_f32s()
    };
    assert_eq!(run(UINT8, 3, &[0.25, 0.75, 1.25, -0.25]), [3.0, 5.0, 5.0, 3.0]);
    assert_eq!(run(INT8, -1, &[0.25, 0.75, 1.25, -0.25]), [-1.0, 1.0, 1.0, -1.0]);
    assert_eq!(run(UINT8, 2, &[0.25, 0.75, 1.25, -0.25]), [2.0, 4.0, 4.0, 2.0]);
    let below = 17.75_f32.next_down();
    assert_eq!(run(INT8, -128, &[below, 17.75, 1000.0, -1000.0]), [-93.0, -92.0, 127.0, -128.0]);

    let product = |point: i32| {
        let draft = constant(Draft::new(10).typed("a", UINT8, &["2", "1"]), "p", UINT8, &[], &[0]);
        let draft = constant(draft, "b", INT8, &[1, 2], &[1, 3]).floats("one", &[], &[1.0]);
        let draft = constant(draft.floats("two", &[], &[2.0]), "bp", INT8, &[], &[0]);
        let draft = constant(draft, "yp", UINT8, &[], &[point]);
        let draft = draft.node("y = QLinearMatMul(a, one, p, b, one, bp, two, yp)", vec![]).output("y");
        draft.run(&[], &[bytes([2, 1], &[1, 3])]).unwrap()[0].to_f32s()
    };
    assert_eq!(product(4), [4.0, 6.0, 6.0, 8.0]);
    assert_eq!(product(5), [5.0, 7.0, 7.0, 9.0]);

    // The mean of integers whose scale the result has is exact: 41.5 and 40.5 steps become 42 and 40.
    let draft = constant(Draft::new(13).typed("x", INT8, &["1", "1", "4"]), "z", INT8, &[], &[-106]);
    let draft = draft.floats("s", &[], &[0.007_906_97]).node("d = DequantizeLinear(x, s, z)", vec![]);
    let pooled = vec![ints("kernel_shape", &[2]), ints("strides", &[2])];
    let draft = draft.node("m = AveragePool(d)", pooled).node("y = QuantizeLinear(m, s, z)", vec![]);
    let x = HostTensor::from_f64([1, 1, 4], DataType::S8, &[-107.0, -22.0, -100.0, -31.0]).unwrap();
    let made = draft.output("y").run(&[], &[x]).unwrap();
    assert_eq!(made[0].to_f32s(), [-64.0, -66.0]);

    // Side by side: one part has the result's scale, the other half of it.
    let draft =
        constant(Draft::new(13).typed("a", UINT8, &["2"]).typed("b", UINT8, &["2"]), "z", UINT8, &[], &[3]);
    let draft = draft.floats("one", &[], &[1.0]).floats("half", &[], &[0.5]);
    let draft = draft
        .node("af = DequantizeLinear(a, one, z)", vec![])
        .node("bf = DequantizeLinear(b, half, z)", vec![]);
    let draft = draft.node("both = Concat(af, bf)", vec![int("axis", 0)]);
    let draft = draft.node("y = QuantizeLinear(both, one, z)", vec![]).output("y");
    let made = draft.run(&[], &[bytes([2], &[1, 4]), bytes([2], &[4, 6])]).unwrap();
    assert_eq!(made[0].to_f32s(), [1.0, 4.0, 3.0, 5.0]);
}

#[test]
fn scaled_windows_have_a_scale_for_each_channel() {
    let draft = constant(Draft::new(10).typed("x", UINT8, &["1", "1", "3"]), "zero", UINT8, &[], &[0]);
    let draft = constant(draft, "w", INT8, &[2, 1, 2], &[1, 1, 2, -2]).floats("one", &[], &[1.0]);
    let draft = constant(draft, "wp", INT8, &[2], &[0, 0]).floats("ws", &[2], &[1.0, 0.5]);
    let draft = constant(draft, "bias", INT32, &[2], &[10, 4]).floats("half", &[], &[0.5]);
    let text = "y = QLinearConv(x, one, zero, w, ws, wp, half, zero, bias)";
    let draft = draft.node(text, vec![]).output("y");
    let model = draft.load().unwrap().graph(&[]).unwrap();
    assert!(model.constants.values().any(|constant| constant.data_type() == DataType::S8));
    let made = draft.run(&[], &[bytes([1, 1, 3], &[1, 2, 3])]).unwrap().remove(0);
    assert_eq!((made.data_type(), made.to_f32s()), (DataType::U8, vec![26.0, 30.0, 2.0, 2.0]));
}

/// The numbers are those of ONNX Runtime 1.31.1. Sums of what is dequantised are beside some of these halves.
#[test]
fn sums_of_scaled_integers_round_as_those_of_onnx_runtime() {
    let draft = Draft::new(17).typed("a", UINT8, &["6"]).typed("b", UINT8, &["6"]);
    let draft = draft.floats("as", &[], &[0.1]).floats("bs", &[], &[0.1]).floats("ys", &[], &[0.2]);
    let draft = constant(draft, "ap", UINT8, &[], &[3]);
    let draft = constant(draft, "bp", UINT8, &[], &[128]);
    let mut draft = constant(draft, "yp", UINT8, &[], &[7])
        .node("y = QLinearAdd(a, as, ap, b, bs, bp, ys, yp)", vec![])
        .output("y");
    draft.graph.node[0].domain = Some("com.microsoft".into());
    let inputs = [bytes([6], &[120, 211, 231, 208, 169, 104]), bytes([6], &[0, 31, 63, 96, 145, 206])];
    let made = draft.run(&[], &inputs).unwrap().remove(0);
    assert_eq!((made.data_type(), made.to_f32s()), (DataType::U8, vec![2.0, 62.0, 88.0, 94.0, 98.0, 96.0]));
}

/// Scales that an execution is given, for values and for integers.
#[test]
fn values_are_quantized_with_given_scales() {
    let draft = Draft::new(13).input("x", &["2", "2"]).input("s", &[]).typed("z", UINT8, &[]);
    let draft =
        draft.node("q = QuantizeLinear(x, s, z)", vec![]).node("y = DequantizeLinear(q, s, z)", vec![]);
    let draft = draft.output("q").output("y");
    let made = kinds(&draft);
    assert!(made.contains(&OpKind::DynamicQuantize) && made.contains(&OpKind::DynamicDequantize), "{made:?}");
    let inputs = [tensor([2, 2], &[-1.0, 0.125, 0.375, 90.0]), tensor([], &[0.25]), bytes([], &[3])];
    let made = draft.run(&[], &inputs).unwrap();
    // Halves of a step go to even numbers of them, whatever the zero point is.
    assert_eq!(made[0].to_f32s(), [0.0, 3.0, 5.0, 255.0]);
    assert_eq!(made[1].to_f32s(), [-0.75, 0.0, 0.5, 63.0]);
    let draft = Draft::new(13).input("x", &["2", "2"]).input("s", &["2"]).typed("z", UINT8, &["2"]);
    let draft = draft.node("q = QuantizeLinear(x, s, z)", vec![int("axis", 0)]).output("q");
    let inputs = [tensor([2, 2], &[1.0, 2.0, 3.0, 4.0]), tensor([2], &[0.5, 2.0]), bytes([2], &[1, 7])];
    assert_eq!(draft.run(&[], &inputs).unwrap()[0].to_f32s(), [3.0, 5.0, 9.0, 9.0]);
}

/// Each function reads the stored integers itself; what moves elements reads the floats of others.
#[test]
fn every_reader_dequantizes() {
    let draft = Draft::new(13).typed("x", UINT8, &["2", "2"]).floats("s", &[], &[0.5]);
    let draft = constant(draft, "z", UINT8, &[], &[3]).node("f = DequantizeLinear(x, s, z)", vec![]);
    let draft =
        draft.node("a = Tanh(f)", vec![]).node("b = Mul(f, f)", vec![]).node("t = Transpose(f)", vec![]);
    let draft = draft.output("a").output("b").output("t");
    let graph = draft.load().unwrap().graph(&[]).unwrap().graph;
    let read = |kind| graph.ops().iter().find(|op| op.kind == kind).map(|op| op.inputs.clone()).unwrap();
    assert_eq!(graph.ops().iter().filter(|op| op.kind == OpKind::Dequantize).count(), 2);
    let (tanh, product) = (read(OpKind::Tanh), read(OpKind::Multiply));
    assert!(product[0] == product[1] && product[0] != tanh[0]);
    assert_eq!(read(OpKind::StaticTranspose), tanh);
    let made = draft.run(&[], &[bytes([2, 2], &[3, 5, 1, 3])]).unwrap();
    assert_eq!(made[1].to_f32s(), [0.0, 1.0, 1.0, 0.0]);
    assert_eq!(made[2].to_f32s(), [0.0, -1.0, 1.0, 0.0]);
}

#[test]
fn parameters_that_do_not_fit_are_refused() {
    let draft = constant(Draft::new(13).typed("a", UINT8, &["2", "2"]), "b", INT8, &[2, 2], &[1, 2, 3, 4]);
    let draft = constant(draft, "p", INT8, &[3], &[1, 2, 3]);
    let refused = draft.node("y = MatMulInteger(a, b, , p)", vec![]).output("y").refused();
    assert!(refused.contains("zero points") && refused.contains("1 and 3"), "{refused}");
}

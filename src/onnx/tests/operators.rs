//! Operators against numbers worked out by hand.

use super::*;
use crate::graph::OpKind;

fn one(
    operator: &str,
    opset: i64,
    attributes: Vec<AttributeProto>,
    dims: &[&str],
    values: &[f32],
) -> HostTensor {
    let draft =
        Draft::new(opset).input("x", dims).node(&format!("y = {operator}(x)"), attributes).output("y");
    let dims: Vec<usize> = dims.iter().map(|dim| dim.parse().unwrap()).collect();
    draft.run(&[], &[HostTensor::from_f32(dims, values).unwrap()]).unwrap().remove(0)
}

#[test]
fn convolutions_pad_as_they_say() {
    let draft = |attributes| {
        Draft::new(11)
            .input("x", &["1", "1", "4"])
            .floats("w", &[1, 1, 3], &[1.0, 10.0, 100.0])
            .node("y = Conv(x, w)", attributes)
            .output("y")
    };
    let x = [tensor([1, 1, 4], &[1.0, 2.0, 3.0, 4.0])];
    let values = |attributes| draft(attributes).run(&[], &x).unwrap()[0].to_f32s();
    assert_eq!(values(vec![]), [321.0, 432.0]);
    assert_eq!(values(vec![ints("pads", &[0, 1])]), [321.0, 432.0, 43.0]);
    assert_eq!(values(vec![word("auto_pad", "SAME_UPPER"), ints("strides", &[2])]), [321.0, 43.0]);
    assert_eq!(values(vec![word("auto_pad", "SAME_LOWER"), ints("strides", &[2])]), [210.0, 432.0]);
    let dilated = vec![word("auto_pad", "VALID"), ints("strides", &[1]), ints("dilations", &[1])];
    assert_eq!(values(dilated), [321.0, 432.0]);
}

#[test]
fn pools_drop_windows_that_begin_behind_the_source() {
    let pool = |attributes: Vec<AttributeProto>| {
        let mut all = vec![ints("kernel_shape", &[2]), ints("strides", &[2]), int("ceil_mode", 1)];
        all.extend(attributes);
        one("MaxPool", 12, all, &["1", "1", "5"], &[1.0, 5.0, 2.0, 4.0, 3.0]).to_f32s()
    };
    assert_eq!(pool(vec![]), [5.0, 4.0, 3.0]);
    // The fourth window would begin in the padding.
    assert_eq!(pool(vec![ints("pads", &[0, 1])]), [5.0, 4.0, 3.0]);
    let mean = one("GlobalAveragePool", 9, vec![], &["1", "2", "2"], &[1.0, 3.0, 5.0, 9.0]);
    assert_eq!((mean.dims().to_vec(), mean.to_f32s()), (vec![1, 2, 1], vec![2.0, 7.0]));
}

#[test]
fn products_have_biases_and_factors() {
    let gemm = |bias: (&[i64], &[f32]), attributes| {
        let draft = Draft::new(11)
            .input("x", &["2", "2"])
            .floats("w", &[3, 2], &[1.0, 0.0, 0.0, 1.0, 1.0, 1.0])
            .floats("b", bias.0, bias.1)
            .node("y = Gemm(x, w, b)", attributes)
            .output("y");
        draft.run(&[], &[tensor([2, 2], &[1.0, 2.0, 3.0, 4.0])]).unwrap()[0].to_f32s()
    };
    let by_column = gemm((&[3], &[10.0, 20.0, 30.0]), vec![int("transB", 1)]);
    assert_eq!(by_column, [11.0, 22.0, 33.0, 13.0, 24.0, 37.0]);
    let factors = vec![int("transB", 1), float("alpha", 2.0), float("beta", 0.5)];
    assert_eq!(gemm((&[2, 1], &[10.0, 20.0]), factors), [7.0, 9.0, 11.0, 16.0, 18.0, 24.0]);
}

#[test]
fn softmax_goes_over_all_inner_dimensions_before_opset_13() {
    let old = one("Softmax", 11, vec![], &["1", "2", "2"], &[0.0; 4]);
    assert_eq!((old.dims().to_vec(), old.to_f32s()), (vec![1, 2, 2], vec![0.25; 4]));
    assert_eq!(one("Softmax", 13, vec![], &["1", "2", "2"], &[0.0; 4]).to_f32s(), [0.5; 4]);
}

#[test]
fn limits_may_be_missing() {
    let clip = |text: &str, limits: &[(&str, f32)]| {
        let mut draft = Draft::new(13).input("x", &["3"]).node(text, vec![]).output("y");
        for (name, limit) in limits {
            draft = draft.floats(name, &[], &[*limit]);
        }
        draft.run(&[], &[tensor([3], &[-9.0, 0.5, f32::INFINITY])]).unwrap()[0].to_f32s()
    };
    assert_eq!(clip("y = Clip(x, low)", &[("low", -1.0)]), [-1.0, 0.5, f32::INFINITY]);
    assert_eq!(clip("y = Clip(x, , high)", &[("high", 6.0)]), [-9.0, 0.5, 6.0]);
    assert_eq!(clip("y = Clip(x, low, high)", &[("low", -1.0), ("high", 6.0)]), [-1.0, 0.5, 6.0]);
    // The upper limit wins.
    assert_eq!(clip("y = Clip(x, low, high)", &[("low", 7.0), ("high", 6.0)]), [6.0; 3]);
    let old = vec![float("min", 0.0), float("max", 1.0)];
    assert_eq!(one("Clip", 6 + 1, old, &["2"], &[-1.0, 2.0]).to_f32s(), [0.0, 1.0]);
}

#[test]
fn slopes_are_told_apart_from_rows() {
    let prelu = |dims: &[i64]| {
        let draft = Draft::new(9)
            .input("x", &["1", "2", "2"])
            .floats("s", dims, &[10.0, 100.0])
            .node("y = PRelu(x, s)", vec![])
            .output("y");
        draft.run(&[], &[tensor([1, 2, 2], &[-1.0; 4])]).unwrap()[0].to_f32s()
    };
    assert_eq!(prelu(&[2, 1]), [-10.0, -10.0, -100.0, -100.0]);
    assert_eq!(prelu(&[2]), [-10.0, -100.0, -10.0, -100.0]);
}

/// What is beyond one end of a narrow type goes on at the other one, as in ONNX Runtime and NumPy.
#[test]
fn narrow_integers_wrap_around() {
    let made = |operator: &str, number: i32, data_type: DataType, a: &[f64], b: &[f64]| {
        let draft = Draft::new(14).typed("a", number, &["4"]).typed("b", number, &["4"]);
        let draft = draft.node(&format!("y = {operator}(a, b)"), vec![]).output("y");
        let given = [a, b].map(|values| HostTensor::from_f64([4], data_type, values).unwrap());
        let y = draft.run(&[], &given).unwrap().remove(0);
        assert_eq!(y.data_type(), data_type);
        y.to_f64s()
    };
    let (a, b) = ([100.0, -128.0, 7.0, -100.0], [100.0, 1.0, -9.0, 100.0]);
    assert_eq!(made("Add", INT8, DataType::S8, &a, &b), [-56.0, -127.0, -2.0, 0.0]);
    assert_eq!(made("Sub", INT8, DataType::S8, &a, &b), [0.0, 127.0, 16.0, 56.0]);
    assert_eq!(made("Mul", INT8, DataType::S8, &a, &b), [16.0, -128.0, -63.0, -16.0]);
    let (a, b) = ([200.0, 3.0, 0.0, 255.0], [100.0, 4.0, 1.0, 255.0]);
    assert_eq!(made("Add", UINT8, DataType::U8, &a, &b), [44.0, 7.0, 1.0, 254.0]);
    assert_eq!(made("Sub", UINT8, DataType::U8, &a, &b), [100.0, 255.0, 255.0, 0.0]);
    assert_eq!(made("Div", UINT8, DataType::U8, &a, &b), [2.0, 0.0, 0.0, 1.0]);
}

#[test]
fn quantized_weights_stay_quantized() {
    let mut draft = Draft::new(13)
        .input("x", &["1", "2"])
        .floats("scale", &[2], &[0.5, 2.0])
        .node("f = DequantizeLinear(w, scale)", vec![int("axis", 1)])
        .node("y = MatMul(x, f)", vec![])
        .output("y");
    draft.graph.initializer.push(TensorProto {
        name: Some("w".into()),
        dims: vec![2, 2],
        data_type: Some(INT8),
        int32_data: vec![2, 3, -4, 5],
        ..TensorProto::default()
    });
    let model = draft.load().unwrap().graph(&[]).unwrap();
    assert_eq!(model.graph.ops()[0].kind, OpKind::Dequantize);
    let types: Vec<_> = model.constants.values().map(HostTensor::data_type).collect();
    assert_eq!(types, [DataType::S8]);
    assert_eq!(run(&model, &[tensor([1, 2], &[1.0, 10.0])]).unwrap()[0].to_f32s(), [-19.0, 106.0]);
}

#[test]
fn outputs_may_be_inputs_constants_and_the_same() {
    let draft = Draft::new(14)
        .input("x", &["2"])
        .input("unused", &["2"])
        .floats("c", &[1], &[7.0])
        .node("a = Relu(x)", vec![])
        .node("b = Identity(a)", vec![])
        .node("d = Identity(x)", vec![])
        .node("nobody = NoSuchOperator(a)", vec![])
        .output("a")
        .output("b")
        .output("d")
        .output("c");
    let outputs = draft.run(&[], &[tensor([2], &[-1.0, 2.0])]).unwrap();
    let values: Vec<_> = outputs.iter().map(HostTensor::to_f32s).collect();
    assert_eq!(values, [vec![0.0, 2.0], vec![0.0, 2.0], vec![-1.0, 2.0], vec![7.0]]);
    let graph = draft.load().unwrap().graph(&[]).unwrap().graph;
    let names: Vec<_> = graph.outputs().iter().map(|id| graph.label(*id)).collect();
    assert_eq!((names, graph.inputs().len()), (["a", "b", "d", "c"].map(String::from).to_vec(), 1));
}

#[test]
fn operands_before_opset_7_begin_at_the_axis_that_is_named() {
    let draft = |opset, call: &str, attributes: Vec<AttributeProto>, dims: &[&str]| {
        Draft::new(opset).input("x", &["2", "3", "2"]).input("b", dims).node(call, attributes).output("y")
    };
    let x = tensor([2, 3, 2], &[0.0, -1.0, 2.0, -3.0, 4.0, -5.0, 6.0, -7.0, 8.0, -9.0, 10.0, -11.0]);
    let b = || tensor([3], &[10.0, 20.0, 30.0]);
    let along = |axis| vec![int("broadcast", 1), int("axis", axis)];
    let sums = [10.0, 9.0, 22.0, 17.0, 34.0, 25.0, 16.0, 3.0, 28.0, 11.0, 40.0, 19.0];
    for engine in anydnn_opencl::testing::hasty_test_engines() {
        let run = |draft: &Draft, b: HostTensor| {
            let session = draft.load().unwrap().compile(&engine, &[]).unwrap();
            session.run(&[("x", x.clone()), ("b", b)]).unwrap()[0].1.to_f32s()
        };
        for axis in [1, -2] {
            assert_eq!(run(&draft(6, "y = Add(x, b)", along(axis), &["3"]), b()), sums);
        }
        let slopes = [0.0, -10.0, 2.0, -60.0, 4.0, -150.0, 6.0, -70.0, 8.0, -180.0, 10.0, -330.0];
        assert_eq!(run(&draft(6, "y = PRelu(x, b)", vec![], &["3"]), b()), slopes);
        let last =
            run(&draft(6, "y = Mul(x, b)", vec![int("broadcast", 1)], &["2"]), tensor([2], &[1.0, 0.0]));
        assert_eq!(last, [0.0, 0.0, 2.0, 0.0, 4.0, 0.0, 6.0, 0.0, 8.0, 0.0, 10.0, 0.0]);
    }
    // The host does the same with what is known.
    let known =
        Draft::new(6).input("x", &["1"]).ints("a", &[2, 3], &[1, 2, 3, 4, 5, 6]).ints("b", &[2], &[10, 20]);
    let known = known.node("y = Add(a, b)", along(0)).output("y");
    let session = known.load().unwrap().compile(&anydnn_host::HostEngine::new(), &[]).unwrap();
    assert_eq!(
        session.run(&[("x", tensor([1], &[0.0]))]).unwrap()[0].1.to_f32s(),
        [11.0, 12.0, 13.0, 24.0, 25.0, 26.0]
    );
    let refused =
        |draft: &Draft| draft.load().unwrap().compile(&anydnn_host::HostEngine::new(), &[]).unwrap_err();
    let text = refused(&draft(6, "y = Add(x, b)", along(2), &["3", "1"])).to_string();
    assert!(text.contains("second operand is 3x1, expected at most 1 dimensions from axis 2"), "{text}");
    let session = draft(6, "y = Dropout(x)", vec![], &["3"]).load().unwrap();
    let session = session.compile(&anydnn_host::HostEngine::new(), &[]).unwrap();
    let text = session.run(&[("x", x.clone()), ("b", b())]).unwrap_err().to_string();
    assert!(text.contains("only inference is read, which is_test of 1 says"), "{text}");
}

#[test]
fn folds_of_single_elements_are_the_elements() {
    let dims = ["2", "1", "3"];
    let x = [1.0, -2.0, 3.0, -4.0, 5.0, -6.0];
    for (operator, sign) in [
        ("ReduceMean", true),
        ("ReduceSum", true),
        ("ReduceMax", true),
        ("ReduceProd", true),
        ("ReduceL1", false),
    ] {
        let draft = |keeps| {
            let attributes = vec![ints("axes", &[1]), int("keepdims", keeps)];
            let draft = Draft::new(11).input("x", &dims).node("s = Neg(x)", vec![]);
            draft.node(&format!("y = {operator}(s)"), attributes).output("y")
        };
        for keeps in [0, 1] {
            let found = draft(keeps).run(&[], &[HostTensor::from_f32([2, 1, 3], &x).unwrap()]).unwrap();
            assert_eq!(found[0].dims().len(), 2 + keeps as usize);
            assert_close(&found[0], &x.map(|x| if sign { -x } else { x.abs() }), 0.0);
            let graph = draft(keeps).load().unwrap().graph(&[]).unwrap().graph;
            let kinds: Vec<_> = graph.ops().iter().map(|op| op.kind).collect();
            assert_eq!(kinds.iter().any(|kind| kind.to_string().starts_with("Reduce")), !sign, "{kinds:?}");
        }
    }
}

#[test]
fn sums_of_powers_have_no_power_of_themselves() {
    let infinity = f32::INFINITY;
    let x = [[1000.0, 1000.0], [-infinity, -infinity], [infinity, 1.0], [-1000.0, -infinity], [0.0, 0.0]];
    for keeps in [0, 1] {
        let attributes = vec![ints("axes", &[1]), int("keepdims", keeps)];
        let found = one("ReduceLogSumExp", 13, attributes, &["5", "2"], x.as_flattened());
        assert_eq!(found.dims().len(), 1 + keeps as usize);
        let two = 2.0_f32.ln();
        assert_eq!(found.to_f32s(), [1000.0 + two, -infinity, infinity, -1000.0, two]);
    }
}

#[test]
fn norms_and_thresholds_leave_zeros() {
    let norm = |p: i64| one("LpNormalization", 13, vec![int("p", p)], &["2", "2"], &[3.0, -4.0, 0.0, 0.0]);
    assert_close(&norm(1), &[3.0 / 7.0, -4.0 / 7.0, 0.0, 0.0], 1e-6);
    assert_close(&norm(2), &[0.6, -0.8, 0.0, 0.0], 1e-6);
    let (dims, x) = (["5"], [-2.0, -0.5, f32::NAN, 0.5, 2.0]);
    let shrink = one("Shrink", 13, vec![float("bias", 0.25), float("lambd", 0.5)], &dims, &x);
    assert_eq!(shrink.to_f32s(), [-1.75, 0.0, 0.0, 0.0, 1.75]);
    let above = one("ThresholdedRelu", 13, vec![float("alpha", 0.5)], &dims, &x);
    assert_eq!(above.to_f32s(), [0.0, 0.0, 0.0, 0.0, 2.0]);
}

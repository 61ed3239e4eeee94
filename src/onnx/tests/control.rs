//! Values that are only known on execution, branches, loops and functions.

use super::super::proto::FunctionProto;
use super::*;
use crate::onnx::Session;

pub(super) const BOOL: i32 = 9;

type Host = anydnn_host::Host;

pub(super) fn compile(draft: &Draft) -> Session<Host> {
    draft.load().unwrap().compile(&anydnn_host::HostEngine::new(), &[]).unwrap()
}

pub(super) fn outputs(session: &Session<Host>, inputs: &[(&str, HostTensor)]) -> Vec<HostTensor> {
    session.run(inputs).unwrap().into_iter().map(|(_, tensor)| tensor).collect()
}

fn floats_of(draft: &Draft, inputs: &[(&str, HostTensor)]) -> Vec<Vec<f32>> {
    outputs(&compile(draft), inputs).iter().map(HostTensor::to_f32s).collect()
}

pub(super) fn longs(dims: &[usize], values: &[i64]) -> HostTensor {
    let bytes = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
    HostTensor::new(anydnn_backend::MemoryDesc::new(dims, DataType::S64), bytes).unwrap()
}

fn truth(value: bool) -> HostTensor {
    HostTensor::new(anydnn_backend::MemoryDesc::new([0_usize; 0], DataType::Boolean), vec![u8::from(value)])
        .unwrap()
}

pub(super) fn graph(name: &str, draft: Draft) -> AttributeProto {
    AttributeProto { g: Some(draft.graph), ..attribute(name, 5) }
}

/// What is put together with another list has one dimension.
#[test]
fn the_host_hands_elements_on_under_other_dimensions() {
    let axes = |axis| vec![ints("axes", &[axis])];
    for (opset, nodes) in [
        (13, vec![("a = Squeeze(rows, first)", vec![])]),
        (13, vec![("b = Squeeze(rows)", vec![]), ("a = Unsqueeze(b, first)", vec![])]),
        (13, vec![("a = Reshape(rows, one)", vec![])]),
        (13, vec![("b = Identity(rows)", vec![]), ("a = Reshape(b, one)", vec![])]),
        (11, vec![("a = Squeeze(rows)", axes(1))]),
        (11, vec![("b = Squeeze(rows)", vec![]), ("a = Unsqueeze(b)", axes(0))]),
    ] {
        let draft = Draft::new(opset)
            .input("x", &["n"])
            .typed("rows", INT64, &["1", "1"])
            .ints("first", &[1], &[0])
            .ints("one", &[1], &[-1]);
        let draft =
            nodes.iter().fold(draft, |draft, (node, attributes)| draft.node(node, attributes.clone()));
        let draft = draft
            .node("shape = Concat(a, one)", vec![int("axis", 0)])
            .node("y = Reshape(x, shape)", vec![])
            .output("y");
        let session = compile(&draft);
        let x = || ("x", tensor([6], &[1.0; 6]));
        for rows in [1, 2, 3] {
            let made = outputs(&session, &[x(), ("rows", longs(&[1, 1], &[rows]))]);
            assert_eq!(made[0].dims()[..], [rows as usize, 6 / rows as usize], "{nodes:?}");
        }
        let error = session.run(&[x(), ("rows", longs(&[1, 1], &[4]))]).unwrap_err().to_string();
        assert!(error.contains("Reshape"), "{error}");
    }
}

#[test]
fn shapes_given_on_execution_make_stages() {
    let draft = Draft::new(13)
        .input("x", &["n"])
        .typed("rows", INT64, &["1"])
        .ints("rest", &[1], &[-1])
        .node("a = Relu(x)", vec![])
        .node("shape = Concat(rows, rest)", vec![int("axis", 0)])
        .node("y = Reshape(a, shape)", vec![])
        .node("z = Neg(y)", vec![])
        .output("z");
    let session = compile(&draft);
    let x = tensor([6], &[1.0, -2.0, 3.0, 4.0, 5.0, 6.0]);
    for (rows, dims) in [(2, [2, 3]), (3, [3, 2]), (2, [2, 3])] {
        let made = outputs(&session, &[("x", x.clone()), ("rows", longs(&[1], &[rows]))]);
        assert_eq!(made[0].dims()[..], dims);
        assert_eq!(made[0].to_f32s(), [-1.0, 0.0, -3.0, -4.0, -5.0, -6.0]);
    }
    let stages = session.describe();
    let made_for: Vec<_> = stages.iter().flat_map(|stage| &stage.made_for).collect();
    assert_eq!(made_for.len(), 2, "{session}");
    assert!(
        stages.iter().any(|stage| stage.host_nodes.iter().any(|node| node.operator == "Concat")),
        "{session}"
    );
}

#[test]
fn what_the_device_cannot_run_is_run_on_the_host() {
    // Operations on integers.
    let draft = Draft::new(13)
        .typed("x", INT64, &["2", "n"])
        .input("f", &["n"])
        .node("d = Add(x, x)", vec![])
        .node("e = Cast(d)", vec![int("to", i64::from(FLOAT))])
        .node("r = Relu(f)", vec![])
        .node("y = Mul(e, r)", vec![])
        .output("y")
        .output("d");
    let session = compile(&draft);
    let many = 2000;
    let x: Vec<i64> = (0..2 * many as i64).collect();
    let made = outputs(&session, &[("x", longs(&[2, many], &x)), ("f", tensor([2000], &vec![0.5; many]))]);
    assert_eq!(made[0].to_f64s(), x.iter().map(|&x| x as f64).collect::<Vec<_>>());
    assert_eq!(made[1].bytes(), longs(&[2, many], &x.iter().map(|x| 2 * x).collect::<Vec<_>>()).bytes());
}

fn branches() -> (Draft, Draft) {
    let then = Draft::new(13).node("t = Relu(a)", vec![]).output("t");
    let otherwise = Draft::new(13).floats("k", &[1], &[10.0]).node("e = Mul(a, k)", vec![]).output("e");
    (then, otherwise)
}

fn conditional(draft: Draft) -> Draft {
    let (then, otherwise) = branches();
    draft
        .node("a = Neg(x)", vec![])
        .node("y = If(c)", vec![graph("then_branch", then), graph("else_branch", otherwise)])
        .node("z = Neg(y)", vec![])
        .output("z")
}

#[test]
fn branches_are_taken_as_the_condition_says() {
    let x = [("x", tensor([2], &[1.0, -2.0]))];
    let known = |value: i64| {
        let draft = Draft::new(13).input("x", &["2"]).ints("one", &[], &[1]).ints("v", &[], &[value]);
        conditional(draft.node("c = Equal(v, one)", vec![]))
    };
    // Known when the model is imported: one graph.
    assert_eq!(
        run(&known(1).load().unwrap().graph(&[]).unwrap(), &[x[0].1.clone()]).unwrap()[0].to_f32s(),
        [0.0, -2.0]
    );
    assert_eq!(floats_of(&known(0), &x), [[10.0, -20.0]]);
    let given = conditional(Draft::new(13).input("x", &["2"]).typed("c", BOOL, &[]));
    let session = compile(&given);
    for value in [true, false, true] {
        let made = outputs(&session, &[x[0].clone(), ("c", truth(value))]);
        assert_eq!(made[0].to_f32s(), if value { [0.0, -2.0] } else { [10.0, -20.0] });
    }
    assert_eq!(session.describe().len(), 3, "{session}");
    let refused = given.load().unwrap().graph(&[]).unwrap_err().to_string();
    assert!(refused.contains("If") && refused.contains("condition"), "{refused}");
}

#[test]
fn conditions_have_the_dimensions_of_what_they_compare() {
    let draft = Draft::new(13).input("x", &["2"]).input("score", &["1", "1"]).floats("half", &[], &[0.5]);
    let session = compile(&conditional(draft.node("c = GreaterOrEqual(score, half)", vec![])));
    for (score, expected) in [(0.75, [0.0, -2.0]), (0.25, [10.0, -20.0]), (0.5, [0.0, -2.0])] {
        let inputs = [("x", tensor([2], &[1.0, -2.0])), ("score", tensor([1, 1], &[score]))];
        assert_eq!(outputs(&session, &inputs)[0].to_f32s(), expected);
    }
}

#[test]
fn conditions_are_one_truth_value() {
    let refused = |draft: Draft, given: HostTensor| {
        let session = conditional(draft.input("x", &["2"])).load().unwrap();
        let session = session.compile(&anydnn_host::HostEngine::new(), &[]);
        let inputs = [("x", tensor([2], &[1.0, -2.0])), ("c", given)];
        session.and_then(|session| session.run(&inputs)).unwrap_err().to_string()
    };
    let many =
        HostTensor::new(anydnn_backend::MemoryDesc::new([2, 2], DataType::Boolean), vec![1; 4]).unwrap();
    let told = refused(Draft::new(13).typed("c", BOOL, &["2", "2"]), many);
    assert!(told.contains("2x2") && told.contains("one truth value"), "{told}");
    let told = refused(Draft::new(13).input("c", &["1"]), tensor([1], &[1.0]));
    assert!(told.contains("f32") && told.contains("one truth value"), "{told}");
}

#[test]
fn loops_carry_values_whose_shape_changes() {
    // Grows a row by its last element doubled, until it has eight; tells every element that was added.
    let body = Draft::new(13)
        .typed("i", INT64, &[])
        .typed("goes_on", BOOL, &[])
        .input("row", &["n"])
        .ints("last", &[1], &[-1])
        .ints("end", &[1], &[i64::MAX])
        .ints("zero", &[1], &[0])
        .ints("most", &[1], &[8])
        .node("tail = Slice(row, last, end, zero)", vec![])
        .node("more = Mul(tail, factor)", vec![])
        .node("longer = Concat(row, more)", vec![int("axis", 0)])
        .node("shape = Shape(longer)", vec![])
        .node("small = Less(shape, most)", vec![])
        .node("next = Squeeze(small, zero)", vec![])
        .output("next")
        .output("longer")
        .output("more");
    let draft = Draft::new(13)
        .input("x", &["2"])
        .input("two", &["1"])
        .node("factor = Relu(two)", vec![])
        .node("y, added = Loop(, , x)", vec![graph("body", body.clone())])
        .output("y")
        .output("added");
    let inputs = [("x", tensor([2], &[3.0, 1.0])), ("two", tensor([1], &[2.0]))];
    let session = compile(&draft);
    for _ in 0..2 {
        let made = outputs(&session, &inputs);
        assert_eq!(made[0].to_f32s(), [3.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]);
        assert_eq!(
            (made[1].dims().to_vec(), made[1].to_f32s()),
            (vec![6, 1], vec![2.0, 4.0, 8.0, 16.0, 32.0, 64.0])
        );
    }
    // The trip count ends it sooner.
    let counted = Draft::new(13)
        .input("x", &["2"])
        .input("factor", &["1"])
        .ints("rounds", &[], &[1])
        .node("y, added = Loop(rounds, , x)", vec![graph("body", body)])
        .output("y");
    assert_eq!(floats_of(&counted, &[inputs[0].clone(), ("factor", tensor([1], &[2.0]))]), [[3.0, 1.0, 2.0]]);
}

#[test]
fn scans_go_both_ways() {
    let body = Draft::new(13)
        .input("sum", &["2"])
        .input("row", &["2"])
        .node("next = Add(sum, row)", vec![])
        .node("told = Identity(next)", vec![])
        .output("next")
        .output("told");
    let scan = |attributes: Vec<AttributeProto>| {
        let mut all = vec![int("num_scan_inputs", 1), graph("body", body.clone())];
        all.extend(attributes);
        let draft = Draft::new(13).input("x", &["3", "2"]).floats("zero", &[2], &[0.0, 0.0]);
        draft.node("sum, sums = Scan(zero, x)", all).output("sum").output("sums")
    };
    let x = [("x", tensor([3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))];
    assert_eq!(floats_of(&scan(vec![]), &x), [vec![9.0, 12.0], vec![1.0, 2.0, 4.0, 6.0, 9.0, 12.0]]);
    let backwards = vec![
        ints("scan_input_directions", &[1]),
        ints("scan_output_axes", &[1]),
        ints("scan_output_directions", &[1]),
    ];
    assert_eq!(floats_of(&scan(backwards), &x), [vec![9.0, 12.0], vec![9.0, 8.0, 5.0, 12.0, 10.0, 6.0]]);
}

#[test]
fn scans_of_old_models_go_over_sequences_of_a_batch() {
    let body = Draft::new(8)
        .input("sum", &["1"])
        .input("row", &["1"])
        .node("next = Add(sum, row)", vec![])
        .node("told = Identity(next)", vec![])
        .output("next")
        .output("told");
    let scan = |call: &str, attributes: Vec<AttributeProto>| {
        let mut all = vec![int("num_scan_inputs", 1), graph("body", body.clone())];
        all.extend(attributes);
        let draft = Draft::new(8).input("x", &["2", "3", "1"]).floats("zero", &[2, 1], &[0.0, 100.0]);
        draft.ints("lengths", &[2], &[3, 2]).node(call, all).output("sum").output("sums")
    };
    let x = [("x", tensor([2, 3, 1], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))];
    let whole = scan("sum, sums = Scan(, zero, x)", vec![]);
    assert_eq!(floats_of(&whole, &x), [vec![6.0, 115.0], vec![1.0, 3.0, 6.0, 104.0, 109.0, 115.0]]);
    // What lies behind a shorter sequence is zero.
    let shorter = scan("sum, sums = Scan(lengths, zero, x)", vec![ints("directions", &[1])]);
    assert_eq!(floats_of(&shorter, &x), [vec![6.0, 109.0], vec![3.0, 5.0, 6.0, 105.0, 109.0, 0.0]]);
    let lengths = scan("sum, sums = Scan(zero, zero, x)", vec![]);
    let refused = compile(&lengths).run(&x).unwrap_err().to_string();
    assert!(refused.contains("Scan"), "{refused}");
}

#[test]
fn a_loop_whose_counter_is_an_index_does_not_compile_for_ever() {
    let body = Draft::new(13)
        .typed("i", INT64, &[])
        .typed("go", BOOL, &[])
        .input("sum", &["1"])
        .ints("one", &[1], &[1])
        .ints("zero", &[1], &[0])
        .node("start = Unsqueeze(i, zero)", vec![])
        .node("end = Add(start, one)", vec![])
        .node("part = Slice(x, start, end, zero)", vec![])
        .node("next = Add(sum, part)", vec![])
        .node("goes_on = Identity(go)", vec![])
        .output("goes_on")
        .output("next");
    let draft = Draft::new(13)
        .input("x", &["40"])
        .floats("none", &[1], &[0.0])
        .ints("rounds", &[], &[40])
        .node("y = Loop(rounds, , none)", vec![graph("body", body)])
        .output("y");
    let session = compile(&draft);
    let x: Vec<f32> = (0..40).map(|i| i as f32).collect();
    assert_eq!(outputs(&session, &[("x", tensor([40], &x))])[0].to_f32s(), [780.0]);
    let stages = session.describe().len();
    assert!(stages < 40, "{stages} stages: {session}");
}

#[test]
fn functions_are_put_in_place_of_their_calls() {
    let mut draft =
        Draft::new(13).input("x", &["2"]).node("y = Scaled(x)", vec![float("by", 0.5)]).output("y");
    draft.graph.node[0].domain = Some("own".into());
    let by = AttributeProto { ref_attr_name: Some("by".into()), ..attribute("alpha", 1) };
    let inner = Draft::new(13).node("n = Neg(v)", vec![]).node("w = LeakyRelu(n)", vec![by]).graph.node;
    let mut proto = ModelProto::decode(&draft.bytes()[..]).unwrap();
    proto.functions.push(FunctionProto {
        name: Some("Scaled".into()),
        domain: Some("own".into()),
        input: vec!["v".into()],
        output: vec!["w".into()],
        node: inner,
        opset_import: vec![OperatorSetIdProto { domain: None, version: Some(13) }],
        attribute_proto: Vec::new(),
    });
    let model = Model::from_bytes(proto.encode_to_vec()).unwrap().graph(&[]).unwrap();
    assert_eq!(run(&model, &[tensor([2], &[1.0, -2.0])]).unwrap()[0].to_f32s(), [-0.5, 2.0]);
    // One that calls itself has no end.
    proto.functions[0].node[0].op_type = Some("Scaled".into());
    proto.functions[0].node[0].domain = Some("own".into());
    let refused =
        Model::from_bytes(proto.encode_to_vec()).and_then(|model| model.graph(&[])).unwrap_err().to_string();
    assert!(refused.contains("within one another"), "{refused}");
}

#[test]
fn wrong_bodies_are_told() {
    let refused = |draft: &Draft| {
        let session = draft.load().unwrap().compile(&anydnn_host::HostEngine::new(), &[]);
        session.and_then(|session| session.run(&[("x", tensor([1], &[1.0]))])).unwrap_err().to_string()
    };
    let says = |text: String, parts: &[&str]| assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    let with = |attributes| Draft::new(13).input("x", &["1"]).node("y = Loop(, , x)", attributes).output("y");
    says(refused(&with(vec![])), &["Loop", "no body"]);
    let body = Draft::new(13).input("x", &["1"]).output("x");
    says(refused(&with(vec![graph("body", body)])), &["Loop \"y\"", "1 inputs", "3 inputs"]);
    let (then, _) = branches();
    let draft =
        Draft::new(13).input("x", &["1"]).node("y = If(x)", vec![graph("then_branch", then)]).output("y");
    says(refused(&draft), &["If", "no else_branch"]);
}

#[test]
fn narrow_types_are_used_where_they_are_allowed() {
    // As many columns as vectors have lanes, so that packing adds none.
    let weights: [f32; 32] = std::array::from_fn(|i| [1.0, 0.1].get(i).copied().unwrap_or(0.0));
    let draft = Draft::new(13)
        .input("x", &["n", "2"])
        .floats("w", &[2, 16], &weights)
        .node("p = MatMul(x, w)", vec![])
        .node("y = Relu(p)", vec![])
        .output("y");
    let model = draft.load().unwrap();
    for (precision, expected) in
        [(super::super::Precision::F16, 0.099_975_586), (super::super::Precision::BF16, 0.100_097_656)]
    {
        let options = super::super::SessionOptions { precision, ..Default::default() };
        let session = model.compile_with(&anydnn_host::HostEngine::new(), &[("n", 1)], &options).unwrap();
        let made = outputs(&session, &[("x", tensor([1, 2], &[1.0, 0.0]))]);
        assert_eq!(
            (made[0].data_type(), &made[0].to_f32s()[..2]),
            (DataType::F32, [1.0, expected].as_slice())
        );
        // Numbers of two bytes.
        let held = session.memory();
        assert_eq!(held.weights + held.prepared, 2 * weights.len());
    }
}

#[test]
fn masks_of_the_least_number_stay_finite_in_narrow_types() {
    // As exporters write attention masks: what is visible times the least f32.
    let draft = Draft::new(13)
        .input("hidden", &["n"])
        .floats("least", &[1], &[f32::MIN])
        .node("y = Mul(hidden, least)", vec![])
        .output("y");
    let model = draft.load().unwrap();
    for (precision, least) in [
        (super::super::Precision::F16, -65504.0),
        (super::super::Precision::BF16, f32::from(half::bf16::MIN)),
    ] {
        let options = super::super::SessionOptions { precision, ..Default::default() };
        let session = model.compile_with(&anydnn_host::HostEngine::new(), &[("n", 2)], &options).unwrap();
        let made = outputs(&session, &[("hidden", tensor([2], &[0.0, 1.0]))]);
        assert_eq!(made[0].to_f32s(), [0.0, least]);
    }
}

#[test]
fn a_loop_without_end_is_cancelled() {
    let body = Draft::new(13).typed("i", INT64, &[]).typed("c", BOOL, &[]).typed("v", INT64, &[]);
    let body = body.node("d = Identity(c)", vec![]).node("w = Add(v, i)", vec![]).output("d").output("w");
    let draft = Draft::new(13).typed("v", INT64, &[]).ints("most", &[], &[i64::MAX]);
    let draft = draft.node("w = Loop(most, , v)", vec![graph("body", body)]).output("w");
    let session = compile(&draft);
    let cancel = crate::onnx::Cancel::new();
    let other = cancel.clone();
    let ends = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(50));
        other.cancel();
    });
    let error = session.run_until(&[("v", longs(&[], &[0]))], &cancel).unwrap_err();
    ends.join().unwrap();
    assert!(matches!(error.root(), anydnn_backend::Error::Cancelled { .. }), "{error}");
    let cancelled = session.run_until(&[("v", longs(&[], &[0]))], &cancel).unwrap_err();
    assert!(matches!(cancelled.root(), anydnn_backend::Error::Cancelled { .. }), "{cancelled}");
}

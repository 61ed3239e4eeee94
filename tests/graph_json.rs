//! Graph JSON: what is read, what is refused and how.

#![allow(clippy::unwrap_used, clippy::float_cmp, reason = "test helpers fail the test, and values are exact")]

use anydnn::backend::{DataType, FpMath};
use anydnn::graph::{Graph, OpKind, Property, TensorId, TensorLayout};
use rstest::rstest;

/// A graph of one operation.
fn one(kind: &str, attrs: &str, inputs: &[&str], outputs: &[&str]) -> String {
    format!(
        r#"{{"version":"3.14.0","engine_kind":"gpu","fpmath_mode":"strict","graph":[{{"id":7,"name":"it","kind":"{kind}","attrs":{{{attrs}}},"inputs":[{}],"outputs":[{}]}}]}}"#,
        inputs.join(","),
        outputs.join(",")
    )
}

const X: &str = r#"{"id":0,"dtype":"f32","shape":[2,3],"stride":[3,1],"layout_type":"strided","property_type":"variable"}"#;
const Y: &str = r#"{"id":1,"dtype":"f32","shape":[2,3],"stride":[3,1],"layout_type":"strided","property_type":"variable"}"#;

fn relu() -> String {
    one("ReLU", "", &[X], &[Y])
}

#[test]
fn a_plain_graph_is_read() {
    let graph = Graph::from_json(&relu()).unwrap();
    assert_eq!((graph.ops()[0].kind, graph.ops()[0].id.0), (OpKind::ReLU, 7));
    assert_eq!((graph.inputs(), graph.outputs()), (&[TensorId(0)][..], &[TensorId(1)][..]));
    assert_eq!(graph.tensor(TensorId(0)).unwrap().property, Property::Variable);
}

#[rstest]
#[case(r#"{"id":"0","dtype":"f32","shape":["2",3.0],"stride":["3","1"],"layout_type":"strided","property_type":"undef"}"#)]
#[case(r#"{"id":0,"dtype":"f32","shape":[2,3]}"#)]
#[case(r#"{"id":0,"dtype":"f32","shape":[2,3],"stride":[],"layout_type":"any","property_type":"variable"}"#)]
#[case(r#"{"id":0,"dtype":"f32","shape":[2,3],"stride":"","layout_type":"undef","property_type":null}"#)]
#[case(r#"{"id":0,"dtype":"f32","shape":[2,3],"stride":[-9223372036854775808,1],"layout_type":"strided"}"#)]
#[case(r#"{"id":0,"dtype":"f32","shape":[2,3],"layout_type":"opaque","layout_id":4}"#)]
fn tensors_are_read_leniently(#[case] x: &str) {
    let graph = Graph::from_json(&one("ReLU", "", &[x], &[Y])).unwrap();
    assert_eq!(graph.tensor(TensorId(0)).unwrap().to_string(), "t0:f32:2x3");
}

#[rstest]
#[case(r#""axes":{"type":"s64[]","value":[1]}"#, 2)]
#[case(r#""axes":{"type":"s64[]","value":1}"#, 2)]
#[case(r#""axes":{"type":"s64[]","value":"1"}"#, 2)]
#[case(r#""axes":{"type":"s64[]","value":""}"#, 6)]
#[case(r#""axes":{"type":"s64[]","value":[0,1]},"keep_dims":{"type":"bool","value":0}"#, 1)]
#[case(r#""axes":{"type":"s64[]","value":[0,1]},"keep_dims":{"type":"bool","value":true},"matched":{"type":"bool","value":1}"#, 1)]
#[case(r#""axes":{"type":"s64[]","value":[0]},"keep_dims":{"type":"bool","value":"1"},"partition_id":{"type":"s64","value":1}"#, 3)]
fn attributes_are_read_leniently(#[case] attrs: &str, #[case] elements: usize) {
    let out =
        r#"{"id":1,"dtype":"undef","shape":[],"stride":[],"layout_type":"any","property_type":"undef"}"#;
    let graph = Graph::from_json(&one("ReduceSum", attrs, &[X], &[out])).unwrap();
    let tensor = graph.tensor(TensorId(1)).unwrap();
    assert_eq!((tensor.known_dims().unwrap().elements(), tensor.data_type), (elements, Some(DataType::F32)));
}

#[test]
fn shapes_in_the_middle_may_be_left_out() {
    for middle in [
        r#"{"id":5,"dtype":"f32","shape":[],"stride":[],"layout_type":"any","property_type":"undef"}"#,
        r#"{"id":5,"dtype":"f32","shape":[2,3],"stride":[-9223372036854775808],"layout_type":"undef"}"#,
        r#"{"id":5,"dtype":"undef","shape":[-9223372036854775808],"stride":[-9223372036854775808],"layout_type":"undef"}"#,
    ] {
        let second = format!(r#"}}]}},{{"id":8,"kind":"Abs","inputs":[{middle}],"outputs":[{Y}]}}]}}"#);
        let text = one("ReLU", "", &[X], &[middle]).replace("}]}]}", &second);
        let graph = Graph::from_json(&text).unwrap();
        assert_eq!(graph.tensor(TensorId(5)).unwrap().to_string(), "t5:f32:2x3");
        assert_eq!(graph.tensor(TensorId(5)).unwrap().memory_desc().unwrap().size(), 24);
    }
}

#[test]
fn floats_may_be_words() {
    let attrs = r#""min":{"type":"f32","value":"-inf"},"max":{"type":"f32","value":6}"#;
    let graph = Graph::from_json(&one("Clamp", attrs, &[X], &[Y])).unwrap();
    assert_eq!(graph.ops()[0].attrs.f32("min").unwrap(), f32::NEG_INFINITY);
    assert_eq!(Graph::from_json(&graph.to_json()).unwrap(), graph);
}

#[test]
fn the_document_says_ports_and_arithmetic() {
    let text = relu().replace(
        "\"strict\"",
        "\"bf16\",\"fpmath_mode_apply_to_int\":\"true\",\"input_ports\":[0,0],\"output_ports\":[1]",
    );
    let graph = Graph::from_json(&text).unwrap();
    assert_eq!((graph.fpmath(), graph.fpmath_apply_to_int()), (FpMath::BF16, true));
}

#[test]
fn scalars_and_permuted_strides_are_kept() {
    let scalar = r#"{"id":0,"dtype":"f32","shape":[],"stride":[],"layout_type":"undef","property_type":"host_scalar"}"#;
    let x = r#"{"id":2,"dtype":"f32","shape":[2,3],"stride":[1,2],"layout_type":"undef","property_type":"variable"}"#;
    let graph = Graph::from_json(&one("Multiply", "", &[x, scalar], &[Y])).unwrap();
    assert_eq!(graph.tensor(TensorId(0)).unwrap().to_string(), "t0:f32:scalar");
    assert_eq!(graph.tensor(TensorId(2)).unwrap().layout, TensorLayout::Strided(vec![Some(1), Some(2)]));
    assert_eq!(graph.inputs(), [TensorId(2), TensorId(0)]);
}

#[test]
fn the_example_model_round_trips() {
    let text = include_str!("../examples/digits/graph.json");
    let graph = Graph::from_json(text).unwrap();
    assert_eq!((graph.inputs().len(), graph.constants().count(), graph.outputs().len()), (1, 12, 1));
    assert_eq!(Graph::from_json(&graph.to_json()).unwrap(), graph);
    let batch = graph.with_batch(16).unwrap();
    assert_eq!(batch.tensor(batch.outputs()[0]).unwrap().known_dims().unwrap(), [16, 10].into());
}

#[test]
fn what_is_written_names_every_field() {
    let written = Graph::from_json(&relu()).unwrap().to_json();
    let value: serde_json::Value = serde_json::from_str(&written).unwrap();
    let mut expected: serde_json::Value = serde_json::from_str(&relu()).unwrap();
    expected["engine_kind"] = "cpu".into();
    expected["fpmath_mode_apply_to_int"] = "false".into();
    expected["input_ports"] = vec![0].into();
    expected["output_ports"] = vec![1].into();
    assert_eq!(value, expected);
}

/// Texts that are refused, with parts of the message.
fn zoo() -> Vec<(String, &'static [&'static str])> {
    let x = |from: &str, to: &str| {
        assert!(X.contains(from), "{from}");
        one("ReLU", "", &[&X.replace(from, to)], &[Y])
    };
    let doc = |from: &str, to: &str| {
        assert!(relu().contains(from), "{from}");
        relu().replace(from, to)
    };
    let attr = |kind: &str, attrs: &str| one(kind, attrs, &[X], &[Y]);
    let two = |second: &str| relu().replace("}]}]}", &format!("}}]}},{second}]}}"));
    vec![
        (String::new(), &["text", "line 1 column 0"]),
        ("{".into(), &["line 1 column 1"]),
        ("{\n \"graph\": [,]}".into(), &["line 2 column"]),
        ("[]".into(), &["graph JSON: value is []", "an object"]),
        ("null".into(), &["an object"]),
        ("{}".into(), &["graph JSON: graph is missing", "an array of operations"]),
        (r#"{"graph": 5}"#.into(), &["graph is 5", "an array"]),
        (r#"{"graph": "graph.json"}"#.into(), &["graph is \"graph.json\"", "an array"]),
        (r#"{"graph": [5]}"#.into(), &["graph[0]", "is 5", "an object"]),
        (format!("{}{}", "[".repeat(10_000), "]".repeat(10_000)), &["recursion limit"]),
        (relu() + "x", &["trailing characters"]),
        (doc("\"gpu\"", "\"tpu\""), &["engine_kind is \"tpu\"", "cpu, gpu"]),
        (doc("\"gpu\"", "1"), &["engine_kind is 1", "a string"]),
        (doc("\"3.14.0\"", "3"), &["version is 3", "a string"]),
        (doc("\"strict\"", "\"loose\""), &["fpmath_mode is \"loose\"", "strict, bf16"]),
        (doc("\"strict\"", "\"any\",\"fpmath_mode_apply_to_int\":\"maybe\""), &["\"maybe\"", "true, false"]),
        (doc("\"strict\"", "\"any\",\"input_ports\":0"), &["input_ports is 0", "an array"]),
        (doc("\"strict\"", "\"any\",\"input_ports\":[-1]"), &["input_ports[0] is -1", "an id"]),
        (doc("\"strict\"", "\"any\",\"input_ports\":[9]"), &["input port is t9", "no tensor"]),
        (doc("\"strict\"", "\"any\",\"input_ports\":[1]"), &["input port is t1", "\"it\""]),
        (doc("\"strict\"", "\"any\",\"output_ports\":[0]"), &["output port is t0", "makes"]),
        (doc("\"id\":7,", ""), &["graph[0]: id is missing"]),
        (doc("\"id\":7,", "\"id\":-7,"), &["graph[0]: id is -7", "whole number"]),
        (doc("\"id\":7,", "\"id\":1.5,"), &["graph[0]", "id is 1.5"]),
        (doc("\"name\":\"it\"", "\"name\":5"), &["graph[0]: name is 5", "a string"]),
        (doc("\"kind\":\"ReLU\",", ""), &["graph[0] \"it\": kind is missing"]),
        (doc("\"ReLU\"", "\"Relu\""), &["graph[0] \"it\": kind is \"Relu\"", "\"ReLU\"?"]),
        (doc("\"ReLU\"", "\"Banana bread\""), &["kind is \"Banana bread\"", "88 kinds"]),
        (doc("\"ReLU\"", "7"), &["kind is 7", "a string"]),
        (doc("\"attrs\":{}", "\"attrs\":[]"), &["attrs is []", "an object"]),
        (doc("\"attrs\":{}", "\"attrs\":{\"alpha\":1}"), &["attrs.alpha is 1", "an object"]),
        (attr("Elu", r#""alpha":{"value":1}"#), &["attrs.alpha.type is missing"]),
        (attr("Elu", r#""alpha":{"type":"f32"}"#), &["attrs.alpha.value is missing"]),
        (
            attr("Elu", r#""alpha":{"type":"f64","value":1}"#),
            &["attrs.alpha.type is \"f64\"", "one of string, bool"],
        ),
        (
            attr("Elu", r#""alpha":{"type":"f32","value":"one"}"#),
            &["attrs.alpha.value is \"one\"", "a number"],
        ),
        (attr("Elu", r#""alpha":{"type":"s64","value":1}"#), &["Elu \"it\"", "alpha is of type s64", "f32"]),
        (
            attr("SoftMax", r#""axis":{"type":"s64","value":1.5}"#),
            &["attrs.axis.value is 1.5", "whole number"],
        ),
        (attr("SoftMax", r#""axis":{"type":"s64","value":9}"#), &["attribute axis is 9", "2 dimensions"]),
        (attr("ReduceSum", r#""axes":{"type":"s64[]","value":[0,"x"]}"#), &["attrs.axes.value[1] is \"x\""]),
        (
            attr("ReduceSum", r#""keep_dims":{"type":"bool","value":2}"#),
            &["attrs.keep_dims.value is 2", "true, false"],
        ),
        (attr("Elu", ""), &["attribute alpha is missing"]),
        (attr("ReLU", r#""alpha":{"type":"f32","value":1}"#), &["\"alpha\"", "no attributes"]),
        (attr("MaxPool", r#""kernel":{"type":"s64[]","value":[2,2]}"#), &["attribute strides is missing"]),
        (doc("\"inputs\":[", "\"inputs\":[5,"), &["graph[0] \"it\": inputs[0] is 5", "an object"]),
        (doc("\"inputs\"", "\"input\""), &["number of inputs is 0", "1 (src)"]),
        (one("ReLU", "", &[X, X], &[Y]), &["number of inputs is 2"]),
        (one("ReLU", "", &[X], &[]), &["number of outputs is 0"]),
        (x("\"id\":0,", ""), &["inputs[0].id is missing"]),
        (x("\"id\":0", "\"id\":true"), &["inputs[0].id is true"]),
        (x("\"f32\"", "\"f31\""), &["graph[0] \"it\": inputs[0].dtype is \"f31\", expected one of f32, f16"]),
        (x("\"f32\"", "32"), &["inputs[0].dtype is 32", "a string"]),
        (x("[2,3]", "[2,\"a\"]"), &["inputs[0].shape[1] is \"a\""]),
        (x("[2,3]", "[2,-5]"), &["inputs[0].shape[1] is -5", "-1 for unknown"]),
        (x("[2,3]", "[2,1e300]"), &["inputs[0].shape[1] is 1e", "whole number"]),
        (x("[2,3]", "[2,18446744073709551615]"), &["inputs[0].shape[1]", "whole number"]),
        (x("[2,3]", "{}"), &["inputs[0].shape", "an array"]),
        (x("[2,3]", "[1,1,1,1,1,1,1,1,1,1,1,1,1]"), &["inputs[0].shape is a list of 13", "12"]),
        (x("[2,3]", "[9000000000000,9000000000000]"), &["t0", "address space"]),
        (x("[2,3]", "[3,2]"), &["shape of dst t1 is 2x3", "3x2"]),
        (x("[3,1]", "[1]"), &["inputs[0].stride is [1]", "2 strides"]),
        (x("[3,1]", "[9223372036854775807,9223372036854775807]"), &["t0"]),
        (
            x("\"strided\"", "\"twisted\""),
            &["inputs[0].layout_type is \"twisted\"", "undef, any, strided, opaque"],
        ),
        (x("\"variable\"", "\"volatile\""), &["inputs[0].property_type is \"volatile\"", "host_scalar"]),
        (x("\"variable\"", "\"host_scalar\""), &["host scalar is 2x3", "no dimensions"]),
        (two(r#"{"id":7,"kind":"Abs"}"#), &["graph[1] \"op7\": id is 7", "graph[0]"]),
        (
            two(&format!(r#"{{"id":8,"name":"b","kind":"Abs","inputs":[{X}],"outputs":[{Y}]}}"#)),
            &["tensor t1", "\"it\"", "\"b\"", "one operation"],
        ),
        (
            two(&format!(r#"{{"id":8,"name":"b","kind":"Abs","inputs":[{Y}],"outputs":[{X}]}}"#)),
            &["a cycle", "\"it\"", "\"b\"", "acyclic"],
        ),
        (
            two(&format!(
                r#"{{"id":8,"name":"b","kind":"Abs","inputs":[{}],"outputs":[]}}"#,
                Y.replace("f32", "f16")
            )),
            &["number of outputs is 0"],
        ),
        (
            two(&format!(r#"{{"id":8,"name":"b","kind":"End","inputs":[{}]}}"#, Y.replace("f32", "f16"))),
            &["graph[1] \"b\"", "tensor t1", "data type is f16", "f32"],
        ),
        (
            two(&format!(
                r#"{{"id":8,"name":"b","kind":"End","inputs":[{}]}}"#,
                Y.replace("[2,3]", "[6]").replace("[3,1]", "[1]")
            )),
            &["tensor t1", "shape is 6", "2x3"],
        ),
        (one("Select", "", &[X, X, X], &[Y]), &["data type of cond is f32", "boolean"]),
        (
            one(
                "Add",
                "",
                &[X, &X.replace("\"id\":0", "\"id\":5").replace("[2,3]", "[2,4]").replace("[3,1]", "[4,1]")],
                &[Y],
            ),
            &["Add \"it\"", "2x3 with 2x4"],
        ),
    ]
}

#[test]
fn malformed_texts_are_refused_with_the_place() {
    let zoo = zoo();
    assert!(zoo.len() >= 60);
    let mut wrong = Vec::new();
    for (text, parts) in zoo {
        let shown: String = text.chars().take(400).collect();
        match Graph::from_json(&text).map_err(|error| error.to_string()) {
            Ok(_) => wrong.push(format!("accepted: {shown}")),
            Err(message) => {
                let parts = parts.iter().chain(&["expected"]).filter(|part| !message.contains(**part));
                wrong.extend(parts.map(|part| format!("{part:?} is not in {message:?} for {shown}")));
                assert!(message.len() < 1000, "{message}");
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_truncation_panics() {
    let text = relu();
    for end in 0..text.len() {
        assert!(Graph::from_json(&text[..end]).is_err());
    }
}

//! Graphs as frameworks dump them.

use serde_json::Value;

use super::{fails, json, scratch, succeeds, write};
/// A tensor of a dump: an unknown rank is written as one unknown dimension.
fn dumped(id: u64, data_type: &str, shape: &[i64], property: &str) -> String {
    let mut stride: Vec<i64> = vec![1; shape.len()];
    for i in (1..shape.len()).rev() {
        stride[i - 1] = stride[i].wrapping_mul(shape[i]);
    }
    if shape.iter().any(|&dim| dim < 0) {
        stride.fill(i64::MIN);
    }
    format!(
        r#"{{"id": {id}, "dtype": "{data_type}", "shape": {shape:?}, "stride": {stride:?}, "layout_type": "strided", "property_type": "{property}"}}"#
    )
}

fn dumped_op(id: u64, kind: &str, name: &str, attrs: &str, inputs: &[&str], outputs: &[&str]) -> String {
    format!(
        r#"{{"id": {id}, "name": "{name}", "kind": "{kind}", "attrs": {{{attrs}}}, "inputs": [{}], "outputs": [{}]}}"#,
        inputs.join(", "),
        outputs.join(", ")
    )
}

/// What a framework dumps: constants from nowhere, some without a shape or type, an operation that oneDNN does not know in the middle,
/// an input listed once for each reader, results marked by End. Input 6 of the divisor has the shape that is said.
fn framework_dump(divisor: &[i64]) -> String {
    const UNKNOWN: i64 = i64::MIN;
    let variable = |id, shape: &[i64]| dumped(id, "f32", shape, "variable");
    let (x, y, z) = (variable(0, &[2, 3, 8]), variable(3, &[2, 3, 4]), variable(5, &[2, 12]));
    let (weights, bias) = (dumped(1, "f32", &[4, 8], "constant"), dumped(2, "f32", &[UNKNOWN], "constant"));
    let (divisor, out) = (dumped(6, "undef", divisor, "constant"), variable(7, &[2, 12]));
    let linear = r#""transpose_b": {"type": "bool", "value": 1}"#;
    let ops = [
        dumped_op(10, "Wildcard", "prim::Constant", "", &[], &[&weights]),
        dumped_op(11, "Wildcard", "prim::Constant", "", &[], &[&bias]),
        dumped_op(12, "Wildcard", "prim::Constant", "", &[], &[&dumped(4, "f32", &[UNKNOWN], "constant")]),
        dumped_op(13, "Wildcard", "prim::Constant", "", &[], &[]),
        dumped_op(14, "Wildcard", "aten::reshape", "", &[&y, &y, &y], &[&z]),
        dumped_op(15, "Wildcard", "aten::as_tensor", "", &[], &[&divisor]),
        dumped_op(9_223_372_036_854_775_807, "End", "end", "", &[&out], &[]),
        dumped_op(16, "MatMul", "aten::linear", linear, &[&x, &weights, &bias], &[&y]),
        dumped_op(17, "Divide", "aten::div", "", &[&z, &divisor], &[&out]),
    ];
    format!(
        r#"{{"version": "3.13.3", "engine_kind": "cpu", "fpmath_mode": "strict", "fpmath_mode_apply_to_int": "false",
            "input_ports": [0, 0, 0], "output_ports": [4, 7], "graph": [{}]}}"#,
        ops.join(",\n")
    )
}

#[test]
fn framework_dumps_run_without_what_computes_nothing() {
    let folder = scratch();
    let graph = write(&folder, "dump.json", &framework_dump(&[i64::MIN]));
    let run = |args: &[&str]| {
        json(&[&["run", &graph, "--backend", "host", "--check", "--json", "--repeat", "0"], args].concat())
    };
    let report = run(&[]);
    assert_eq!(report["check"]["passed"], true, "{}", report["check"]);
    assert_eq!((&report["ops"], &report["random_constants"]), (&2.into(), &3.into()));
    assert_eq!(report["cut"]["ops"].as_array().expect("a list").len(), 7);
    assert_eq!(report["cut"]["inputs"], serde_json::json!(["t1", "t2", "t5", "t6"]));
    assert_eq!(report["cut"]["outputs"], serde_json::json!(["t3"]));
    assert_eq!(report["random_inputs"], serde_json::json!(["t0", "t5"]));
    let shape = |report: &Value, output: usize| report["outputs"][output]["shape"].clone();
    assert_eq!((shape(&report, 0), shape(&report, 1)), (vec![2, 12].into(), vec![2, 3, 4].into()));
    let words = succeeds(&["run", &graph, "--backend", "host", "--check", "--repeat", "0"]);
    for part in [
        "cut out   4 Wildcard \"prim::Constant\"",
        "1 End \"end\"",
        "given instead: t1, t2, t5, t6",
        "shown, too: t3",
    ] {
        assert!(words.contains(part), "{part:?} is not in\n{words}");
    }

    let report = run(&["--batch", "5", "--shape", "t6=1", "--dt", "bf16"]);
    assert_eq!(report["check"]["passed"], true, "{}", report["check"]);
    assert_eq!((shape(&report, 0), shape(&report, 1)), (vec![5, 12].into(), vec![5, 3, 4].into()));
    assert_eq!(report["outputs"][0]["data_type"], "bf16");
    let report = run(&["--shape", "0:7x8", "--dt", "t3=f16"]);
    assert_eq!((shape(&report, 1), &report["outputs"][1]["data_type"]), (vec![7, 4].into(), &"f16".into()));
}

#[test]
fn what_a_dump_leaves_open_is_asked_for() {
    let folder = scratch();
    let conv = r#""strides": {"type": "s64[]", "value": [1, 1]}, "pads_begin": {"type": "s64[]", "value": [0, 0]},
        "pads_end": {"type": "s64[]", "value": [0, 0]}, "dilations": {"type": "s64[]", "value": [1, 1]},
        "data_format": {"type": "string", "value": "NCX"}, "weights_format": {"type": "string", "value": "OIX"}"#;
    let weights = dumped(31, "f32", &[i64::MIN], "constant");
    let (x, y) = (dumped(0, "f32", &[1, 3, 8, 8], "variable"), dumped(2, "f32", &[i64::MIN; 4], "variable"));
    let ops = [
        dumped_op(1, "Wildcard", "prim::Constant", "", &[], &[&weights]),
        dumped_op(2, "Convolution", "conv", conv, &[&x, &weights], &[&y]),
    ];
    let graph = write(&folder, "open.json", &format!(r#"{{"graph": [{}]}}"#, ops.join(", ")));
    fails(&["run", &graph, "--backend", "host"], 2, &["t31", "shape is unknown", "--shape t0=4x3x8x8"]);
    fails(&["run", &graph, "--backend", "host", "--shape", "t31=4x2x3x3"], 2, &["conv", "3"]);
    fails(&["run", &graph, "--shape", "t9=1"], 2, &["--shape", "\"t9\"", "a tensor of the graph"]);
    fails(&["run", &graph, "--shape", "t2=1x4x6x6"], 2, &["t2", "an input or a constant"]);
    fails(&["run", &graph, "--dt", "s8"], 2, &["s8", "f32, f16 or bf16"]);
    let report = json(&[
        "run",
        &graph,
        "--backend",
        "host",
        "--check",
        "--json",
        "--shape",
        "t31=4x3x3x3",
        "--dt",
        "f16",
    ]);
    assert_eq!(
        (&report["outputs"][0]["shape"], &report["check"]["passed"]),
        (&vec![1, 4, 6, 6].into(), &true.into())
    );
    let nothing = dumped_op(1, "Wildcard", "prim::Constant", "", &[], &[&weights]);
    let nothing = write(&folder, "nothing.json", &format!(r#"{{"graph": [{nothing}]}}"#));
    fails(&["run", &nothing, "--backend", "host"], 2, &["nothing.json", "one that computes"]);
}

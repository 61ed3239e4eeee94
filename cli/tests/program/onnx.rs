//! ONNX files.

use approx::assert_abs_diff_eq;
use serde_json::Value;

use super::{backends, fails, json, scratch, succeeds, write};
/// A model `y = Operator(x W)` with an open dimension, as ONNX writes it.
fn product_and(operator: &str) -> Vec<u8> {
    let part = |number: u8, inner: &[u8]| [&[number << 3 | 2, inner.len() as u8], inner].concat();
    let number = |number: u8, value: u8| vec![number << 3, value];
    let node = |operator: &str, inputs: &[&str], output: &str| {
        let inputs = inputs.iter().flat_map(|name| part(1, name.as_bytes()));
        let rest = [part(2, output.as_bytes()), part(4, operator.as_bytes())].concat();
        part(1, &inputs.chain(rest).collect::<Vec<_>>())
    };
    let values: Vec<u8> = [1.0_f32, -1.0, 0.5, 2.0].iter().flat_map(|value| value.to_le_bytes()).collect();
    let weights = [number(1, 2), number(1, 2), number(2, 1), part(8, b"w"), part(9, &values)].concat();
    let dims = [part(1, &part(2, b"rows")), part(1, &number(1, 2))].concat();
    let tensor = part(1, &[number(1, 1), part(2, &dims)].concat());
    let x = [part(1, b"x"), part(2, &tensor)].concat();
    let nodes = [node("MatMul", &["x", "w"], "a"), node(operator, &["a"], "y")].concat();
    let graph = [nodes, part(5, &weights), part(11, &x), part(12, &part(1, b"y"))].concat();
    [number(1, 8), part(7, &graph), part(8, &number(2, 17))].concat()
}

#[test]
fn onnx_files_are_run_checked_traced_and_measured() {
    let folder = scratch();
    let model = folder.path().join("model.onnx");
    std::fs::write(&model, product_and("Relu")).expect("a temporary file");
    let (model, trace) = (model.to_str().expect("UTF-8"), folder.path().join("trace.json"));
    let staged = folder.path().join("staged.onnx");
    std::fs::write(&staged, product_and("NonZero")).expect("a temporary file");
    let staged = staged.to_str().expect("UTF-8");
    let trace = trace.to_str().expect("UTF-8");
    let input = write(&folder, "x.json", "[[1, 2], [-3, 4], [0, 1]]");
    let input = format!("x={input}");
    for backend in backends() {
        let args = ["run", model, "--dim", "rows=3", "--input", &input, "--backend", &backend, "--check"];
        let report = json(&[&args[..], &["--json"]].concat());
        assert_eq!(report["check"]["passed"], true, "{report}");
        let output = &report["outputs"][0];
        assert_eq!((&output["name"], &output["max"]), (&"y".into(), &11.0.into()), "{report}");
        if backend != "host" {
            let words = succeeds(&[&args[..], &["--times", "--trace", trace]].concat());
            assert!(words.contains("  steps  "), "{words}");
            let trace: Value =
                serde_json::from_str(&std::fs::read_to_string(trace).expect("a trace")).expect("JSON");
            let events = trace["traceEvents"].as_array().expect("a list");
            let steps = events.iter().filter(|event| event["ph"] == "X" && event["tid"] == 2);
            assert!(steps.clone().count() >= 2, "{trace}");
            assert!(
                steps.clone().all(|event| event["dur"].as_f64().is_some_and(|time| time >= 0.0)),
                "{trace}"
            );
        }
        let warm = succeeds(&["warm", model, "--dim", "rows=3", "--backend", &backend]);
        assert!(
            warm.contains("warm after ") && warm.ends_with("programs compiled\n") == (backend != "host"),
            "{warm}"
        );
        // The second is no single graph: how many elements it makes is known when it has run.
        for (model, is_staged) in [(model, false), (staged, true)] {
            let args = ["bench", model, "--dim", "rows=3", "--backend", &backend, "--rounds", "1"];
            let words = succeeds(&args);
            let row = words.lines().find(|line| line.contains(".onnx ")).expect("a row");
            assert_eq!(row.trim_end().ends_with('-'), is_staged, "{words}");
        }
    }
    fails(&["run", model, "--backend", "host"], 2, &["rows", "missing"]);
    fails(&["warm", model, "--backend", "host"], 2, &["rows", "missing"]);
    fails(&["warm", model, "--dim", "columns=3", "--backend", "host"], 2, &["columns", "rows"]);
    fails(&["warm", "examples/digits", "--backend", "host"], 2, &["an ONNX file"]);
    fails(&["run", "examples/digits", "--backend", "host", "--check", "onnxruntime"], 2, &["an ONNX file"]);
}

#[test]
fn sessions_are_traced_and_narrowed() {
    let folder = scratch();
    let [plain, staged] = ["Relu", "NonZero"].map(|operator| {
        let file = folder.path().join(format!("{operator}.onnx"));
        std::fs::write(&file, product_and(operator)).expect("a temporary file");
        file.to_str().expect("UTF-8").to_owned()
    });
    let trace = folder.path().join("trace.json");
    let trace = trace.to_str().expect("UTF-8");
    let input = write(&folder, "x.json", "[[1, 2], [-3, 4], [0, 1.0009765625]]");
    let input = format!("x={input}");
    for backend in backends().into_iter().filter(|backend| backend != "host") {
        let options = ["--dim", "rows=3", "--input", &input, "--backend", &backend];
        succeeds(&[&["run", &staged, "--trace", trace], &options[..]].concat());
        let written: Value =
            serde_json::from_str(&std::fs::read_to_string(trace).expect("a trace")).expect("JSON");
        let of = |track: i64| {
            let events = written["traceEvents"].as_array().expect("a list").iter();
            let steps: Vec<_> =
                events.filter(|event| event["ph"] == "X" && event["tid"] == track).cloned().collect();
            assert!(!steps.is_empty(), "{written}");
            steps
        };
        let time = |event: &Value, of: &str| event[of].as_f64().expect("a number");
        let (host, device) = (&of(1)[0], &of(2)[0]);
        assert_eq!((&host["name"], &device["name"]), (&"NonZero".into(), &"MatMul".into()), "{written}");
        // The host waits for the product, which may start late. The clocks are told apart by microseconds.
        let end = |event| time(event, "ts") + time(event, "dur");
        assert!(end(host) + 200.0 >= end(device), "{written}");
        // Of the last input bf16 keeps one.
        let of_one = |last: f64| (16.0 + 2.5 * last) / 6.0;
        for (precision, mean) in [(&[][..], of_one(1.000_976_562_5)), (&["--precision", "bf16"], of_one(1.0))]
        {
            let report = json(&[&["run", &plain, "--json"], &options[..], precision].concat());
            let output = &report["outputs"][0];
            assert_eq!(output["data_type"], "f32", "{report}");
            assert_abs_diff_eq!(output["mean"].as_f64().expect("a number"), mean, epsilon = 1e-5);
        }
    }
    let digits = ["run", "examples/digits", "--backend", "host", "--precision", "f16"];
    fails(&digits, 2, &["--precision", "an ONNX file"]);
}

/// ONNX Runtime computes the same from the same file, where a Python that has it is named.
#[test]
fn onnx_runtime_agrees() {
    if std::env::var_os("ANYDNN_PEER_PYTHON").is_none() {
        let message = "ANYDNN_PEER_PYTHON names no Python with onnxruntime: `cargo xtask setup` provides one";
        assert!(std::env::var_os("ANYDNN_REQUIRE").is_none(), "{message}");
        eprintln!("NOT TESTED: {message}");
        return;
    }
    let folder = scratch();
    let model = folder.path().join("model.onnx");
    std::fs::write(&model, product_and("Relu")).expect("a temporary file");
    let model = model.to_str().expect("UTF-8");
    let args = ["--dim", "rows=3", "--backend", "host"];
    let report = json(&[&["run", model, "--check", "onnxruntime", "--json"], &args[..]].concat());
    let check = &report["check"]["outputs"][0];
    assert!(check["passed"] == true && check["cosine"].as_f64().is_some_and(|c| c > 0.9999), "{report}");
    let staged = folder.path().join("staged.onnx");
    std::fs::write(&staged, product_and("NonZero")).expect("a temporary file");
    for model in [model, staged.to_str().expect("UTF-8")] {
        succeeds(&[&["bench", model, "--peer", "onnxruntime", "--rounds", "1"], &args[..]].concat());
    }
}

#[test]
fn the_first_answer_of_a_model_is_told_with_who_gave_it() {
    let folder = scratch();
    let model = folder.path().join("model.onnx");
    std::fs::write(&model, product_and("Relu")).expect("a temporary file");
    let model = model.to_str().expect("UTF-8");
    let input = write(&folder, "x.json", "[[1, 2], [-3, 4], [0, 1]]");
    let input = format!("x={input}");
    for backend in backends() {
        let args = ["run", model, "--dim", "rows=3", "--input", &input, "--backend", &backend, "--first"];
        let report = json(&[&args[..], &["--json"]].concat());
        let output = &report["outputs"][0];
        assert_eq!((&output["name"], &output["max"]), (&"y".into(), &11.0.into()), "{report}");
        assert!(report["first_ms"].as_f64().is_some_and(|time| time > 0.0), "{report}");
        let by = report["first_by"].as_str().expect("a name");
        // With warm caches the device may be the faster.
        assert!(by == "device" || backend != "host" && by == "host", "{report}");
        assert!(succeeds(&args).contains("after the process began"), "{backend}");
    }
    fails(&["run", "examples/digits", "--first"], 2, &["--first", "an ONNX file"]);
}

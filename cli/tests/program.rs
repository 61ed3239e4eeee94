//! The program as a user starts it: results, exit codes, JSON, help.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use approx::assert_abs_diff_eq;
use serde_json::Value;

fn anydnn(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anydnn"));
    command.env_remove("ANYDNN_BACKEND").env_remove("ANYDNN_LOG").env("NO_COLOR", "1").env("COLUMNS", "110");
    command.current_dir(root()).args(args).output().expect("the program starts")
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

#[track_caller]
fn succeeds(args: &[&str]) -> String {
    let output = anydnn(args);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "", "{args:?} writes to standard error");
    text(&output.stdout)
}

#[track_caller]
fn json(args: &[&str]) -> Value {
    serde_json::from_str(&succeeds(args)).expect("one JSON object")
}

/// Runs and expects an exit code, an `error:` line with all of the words, and a `help:` line.
#[track_caller]
fn fails(args: &[&str], code: i32, words: &[&str]) {
    let output = anydnn(args);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {error}");
    assert_eq!(text(&output.stdout), "", "{args:?}");
    assert!(error.starts_with("error: "), "{error}");
    let missing: Vec<_> = words.iter().filter(|word| !error.contains(**word)).collect();
    assert!(missing.is_empty(), "{missing:?} not in {error}");
    assert!(error.contains("\nhelp: "), "{error}");
}

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn write(folder: &tempfile::TempDir, name: &str, content: &str) -> String {
    let path = folder.path().join(name);
    std::fs::write(&path, content).expect("a temporary file");
    path.to_str().expect("a path in UTF-8").to_owned()
}

/// A graph of one operation over `[2, 3]`, with parts to replace.
fn relu(replace: &[(&str, &str)]) -> String {
    let graph = r#"{"version": "3.14.0", "engine_kind": "cpu", "fpmath_mode": "strict", "graph": [
        {"id": 0, "name": "act", "kind": "ReLU", "attrs": {},
         "inputs": [{"id": 0, "dtype": "f32", "shape": [2, 3], "stride": [3, 1], "layout_type": "strided", "property_type": "variable"}],
         "outputs": [{"id": 1, "dtype": "f32", "shape": [2, 3], "stride": [3, 1], "layout_type": "strided", "property_type": "variable"}]}]}"#;
    replace.iter().fold(graph.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    })
}

/// The host and every OpenCL device that must be there.
fn backends() -> Vec<String> {
    let required = std::env::var("ANYDNN_REQUIRE").unwrap_or_default();
    let devices = required.split(',').filter(|entry| entry.starts_with("opencl:")).map(str::to_owned);
    ["host".to_owned()].into_iter().chain(devices).collect()
}

#[test]
fn digits_are_recognised_by_every_backend() {
    for backend in backends() {
        let args = ["run", "examples/digits", "--backend", &backend, "--check", "--json", "--repeat", "0"];
        let report = json(&args);
        let classification = &report["classification"];
        assert_eq!(classification["samples"], 360);
        assert!(classification["accuracy"].as_f64().expect("a number") >= 0.97, "{classification}");
        assert!(classification["images_per_second"].as_f64().expect("a number") > 0.0);
        let chosen = report["backend"].as_str().expect("a name");
        assert!(chosen.starts_with(&backend), "{chosen} in place of {backend}");
        assert_eq!(report["check"]["passed"], true);
        let steps = report["steps"].as_array().expect("steps");
        assert!(steps.iter().all(|step| !step["implementation"].as_str().expect("a name").is_empty()));
        let fused = steps.iter().any(|step| step["ops"].as_array().expect("operations").len() > 1);
        assert!(fused, "nothing is fused");
    }
}

#[test]
fn predictions_do_not_depend_on_the_batch_or_backend() {
    let predictions = |args: &[&str]| {
        let report = json(&[&["run", "examples/digits", "--json", "--repeat", "0"], args].concat());
        report["classification"]["predictions"].clone()
    };
    let expected = predictions(&["--backend", "host"]);
    assert_eq!(expected.as_array().expect("a list").len(), 360);
    // 360 is no multiple of 77: the last batch is filled up.
    assert_eq!(predictions(&["--backend", "host", "--batch", "77"]), expected);
    assert_eq!(predictions(&["--backend", "mock:5"]), expected);
}

#[test]
fn the_report_shows_digits_accuracy_and_steps() {
    let report = succeeds(&["run", "examples/digits", "--backend", "host", "--check", "--repeat", "1"]);
    for part in [
        "device    host",
        "accuracy  9",
        "images/s",
        "wrong predictions",
        "conv1 + relu1",
        "check     passed",
        "\u{2588}",
    ] {
        assert!(report.contains(part), "{part:?} is not in\n{report}");
    }
    assert!(!report.contains('\x1b'), "colours that nobody asked for");
}

#[test]
fn a_bare_graph_runs_on_random_data() {
    let run = |seed: &str| {
        json(&[
            "run",
            "examples/attention/graph.json",
            "--backend",
            "host",
            "--check",
            "--json",
            "--seed",
            seed,
        ])
    };
    let (one, again, other) = (run("1"), run("1"), run("2"));
    assert_eq!(one["check"]["passed"], true);
    assert_eq!(one["outputs"], again["outputs"]);
    assert_ne!(one["outputs"], other["outputs"]);
    assert_eq!(one["outputs"][0]["not_finite"], 0);
    assert!(one["random_constants"].as_u64().expect("a number") > 0);
}

#[test]
fn inputs_come_from_files() {
    let folder = scratch();
    let graph = write(&folder, "relu.json", &relu(&[]));
    let data = write(&folder, "x.json", "[[-1, 2, -3], [4, -5, 6]]");
    let report = json(&["run", &graph, "--backend", "host", "--json", "--input", &format!("t0={data}")]);
    assert_eq!((&report["outputs"][0]["max"], &report["outputs"][0]["mean"]), (&6.0.into(), &2.0.into()));
    assert_eq!(report["random_inputs"], Value::Array(Vec::new()));
    // Three rows set the batch.
    let data = write(&folder, "x.bin", &"\0".repeat(3 * 3 * 4));
    let report = json(&["run", &graph, "--backend", "host", "--json", "--input", &format!("t0={data}")]);
    assert_eq!(report["outputs"][0]["shape"], serde_json::json!([3, 3]));
}

#[test]
fn wrong_inputs_are_refused() {
    let folder = scratch();
    let graph = write(&folder, "relu.json", &relu(&[]));
    let short = write(&folder, "short.json", "[1, 2]");
    let words = write(&folder, "words.json", "[1, \"two\"]");
    let input = |name: &str, file: &str| format!("{name}={file}");
    fails(
        &["run", &graph, "--backend", "host", "--input", &input("y", &short)],
        2,
        &["--input", "\"y\"", "t0"],
    );
    fails(&["run", &graph, "--backend", "host", "--input", &input("t0", &short)], 2, &["--input t0"]);
    fails(
        &["run", &graph, "--backend", "host", "--input", &input("t0", &words)],
        2,
        &["words.json", "\"two\""],
    );
    fails(&["run", &graph, "--backend", "host", "--input", &input("t0", "nowhere.bin")], 2, &["nowhere.bin"]);
}

#[test]
fn malformed_graphs_are_refused() {
    let folder = scratch();
    let cases = [
        ("cut.json", relu(&[]).split_at(100).0.to_owned(), "line"),
        ("kind.json", relu(&[("ReLU", "RealLU")]), "RealLU"),
        (
            "shape.json",
            relu(&[(
                "\"shape\": [2, 3], \"stride\": [3, 1], \"layout_type\": \"strided\", \"property_type\": \"variable\"}]}]",
                "\"shape\": [2, 4], \"stride\": [4, 1], \"layout_type\": \"strided\", \"property_type\": \"variable\"}]}]",
            )]),
            "act",
        ),
        ("cycle.json", relu(&[("\"id\": 1, \"dtype\"", "\"id\": 0, \"dtype\"")]), ""),
    ];
    for (name, content, word) in cases {
        let graph = write(&folder, name, &content);
        fails(&["run", &graph, "--backend", "host"], 2, &[name, word]);
        fails(&["graph", &graph], 2, &[name, word]);
    }
}

#[test]
fn incomplete_models_are_refused() {
    let folder = scratch();
    let copy = |name: &str| {
        std::fs::copy(root().join("examples/digits").join(name), folder.path().join(name)).expect("a copy");
    };
    for name in ["model.json", "graph.json", "heldout.safetensors"] {
        copy(name);
    }
    let model = folder.path().to_str().expect("a path in UTF-8");
    fails(&["run", model, "--backend", "host"], 2, &["weights.safetensors"]);
    let weights = std::fs::read(root().join("examples/digits/weights.safetensors")).expect("weights");
    std::fs::write(folder.path().join("weights.safetensors"), &weights[..weights.len() - 8]).expect("a file");
    fails(&["run", model, "--backend", "host"], 2, &["weights.safetensors"]);
    fails(&["run", "examples/nothing", "--backend", "host"], 2, &["examples/nothing"]);
}

#[test]
fn backends_that_are_not_there_have_an_exit_code_of_their_own() {
    fails(
        &["run", "examples/digits", "--backend", "opencl:no-such-platform"],
        4,
        &["opencl:no-such-platform"],
    );
    fails(&["run", "examples/digits", "--backend", "erased"], 4, &["erased"]);
    fails(&["run", "examples/digits", "--backend", "cuda"], 2, &["--backend", "\"cuda\"", "opencl:PLATFORM"]);
}

#[test]
fn wrong_usage_exits_with_two() {
    for args in [
        &["run"][..],
        &["frobnicate"],
        &["run", "x", "--batch", "0"],
        &["run", "x", "--input", "name"],
        &["graph", "x", "--dot", "a", "--svg", "b"],
    ] {
        let output = anydnn(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text(&output.stderr).starts_with("error: "), "{args:?}");
    }
}

#[test]
fn devices_are_listed_with_their_memory() {
    let report = json(&["devices", "--json"]);
    let candidates = report["candidates"].as_array().expect("a list");
    let host = candidates.iter().find(|candidate| candidate["name"] == "host").expect("the host");
    assert_eq!(host["unavailable"], Value::Null);
    assert!(!host["capabilities"]["memory_kinds"].as_array().expect("a list").is_empty());
    let chosen = report["chosen"].as_str().expect("a name");
    assert!(candidates.iter().any(|candidate| candidate["name"] == chosen));
    let words = succeeds(&["devices"]);
    assert!(words.contains("memory kinds") && words.contains(&format!("chosen: {chosen}")), "{words}");
}

#[test]
fn devices_follow_the_environment() {
    let output = Command::new(env!("CARGO_BIN_EXE_anydnn"))
        .args(["devices", "--json"])
        .env("ANYDNN_BACKEND", "mock")
        .output()
        .expect("the program starts");
    let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!(report["chosen"], "mock");
}

#[test]
fn without_opencl_the_host_runs_and_says_how_to_get_a_device() {
    let folder = scratch();
    let mut command = Command::new(env!("CARGO_BIN_EXE_anydnn"));
    command.current_dir(root()).args(["run", "examples/digits", "--repeat", "0"]);
    command.env_remove("ANYDNN_BACKEND").env("OPENCL_DYLIB_PATH", folder.path());
    command.env("OCL_ICD_VENDORS", folder.path()).env("OPENCL_VENDOR_PATH", folder.path());
    let output = command.output().expect("the program starts");
    let report = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    for part in ["device    host", "accuracy  9", "install an OpenCL driver"] {
        assert!(report.contains(part), "{part:?} is not in\n{report}");
    }
}

#[test]
fn logs_go_to_standard_error_when_asked_for() {
    let logged = |filter: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_anydnn"));
        command.current_dir(root()).args([
            "run",
            "examples/attention/graph.json",
            "--backend",
            "host",
            "--json",
        ]);
        command.env("ANYDNN_LOG", filter).output().expect("the program starts")
    };
    let output = logged("anydnn=info");
    assert!(text(&output.stderr).contains("chosen candidate=host"), "{}", text(&output.stderr));
    assert!(serde_json::from_slice::<Value>(&output.stdout).is_ok());
    let output = logged("anydnn=shout");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).starts_with("error: ANYDNN_LOG"), "{}", text(&output.stderr));
}

#[test]
fn a_batch_beyond_memory_is_refused() {
    let graph = "examples/attention/graph.json";
    fails(&["run", graph, "--backend", "host", "--batch", "4000000000"], 1, &["out of memory"]);
}

#[test]
fn partitions_are_explained() {
    let words = succeeds(&["graph", "examples/digits"]);
    assert!(words.contains("conv/post_ops") && words.contains("ends here"), "{words}");
    let report = json(&["graph", "examples/digits", "--json"]);
    let partitions = report["partitions"].as_array().expect("a list");
    let ops: usize = partitions.iter().map(|p| p["ops"].as_array().expect("a list").len()).sum();
    assert_eq!(Value::from(ops), report["ops"]);
    assert!(partitions.iter().any(|partition| partition["stopped"].is_string()));
}

#[test]
fn pictures_show_every_operation() {
    let folder = scratch();
    let svg = folder.path().join("digits.svg");
    succeeds(&["graph", "examples/digits", "--svg", svg.to_str().expect("a path in UTF-8")]);
    let svg = std::fs::read_to_string(svg).expect("a picture");
    let dot = succeeds(&["graph", "examples/digits", "--dot", "-"]);
    for op in ["conv1", "bn2", "residual", "softmax", "images", "probabilities"] {
        assert!(svg.contains(&format!(">{op}</text>")), "{op} is not in the SVG");
        assert!(dot.contains(&format!("label=\"{op}\\n")), "{op} is not in the DOT file:\n{dot}");
    }
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    fails(&["graph", "examples/digits", "--svg", "no/such/folder/x.svg"], 2, &["no/such/folder/x.svg"]);
}

#[test]
fn the_book_shows_what_the_program_draws_and_prints() {
    let (digits, attention) = ("examples/digits", "examples/attention/graph.json");
    for (args, name) in [
        (["graph", digits].as_slice(), "digits.txt"),
        (&["graph", digits, "--svg", "-"], "digits.svg"),
        (&["graph", attention], "attention.txt"),
        (&["graph", attention, "--svg", "-"], "attention.svg"),
    ] {
        let (file, made) = (root().join("docs/guide/made").join(name), succeeds(args));
        if std::env::var_os("ANYDNN_BLESS").is_some() {
            std::fs::write(&file, &made).expect("the folder is there");
        }
        let known = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(
            known == made,
            "docs/guide/made/{name} is stale: ANYDNN_BLESS=1 cargo test -p anydnn-cli --test program the_book"
        );
    }
}

#[test]
fn a_primitive_is_measured_and_explained() {
    let folder = scratch();
    let file = folder.path().join("report.json");
    let file = file.to_str().expect("a path in UTF-8");
    for backend in backends() {
        let case = "matmul 24x40:40x72 +bias+gelu";
        let args = ["bench", case, "--backend", &backend, "--rounds", "2", "--explain", "--json", file];
        let words = succeeds(&[&args[..], &["--specialize", "never"]].concat());
        for part in ["case", "time", "alone", "GFLOP/s", case, "matmul+post0: "] {
            assert!(words.contains(part), "{part:?} is not in\n{words}");
        }
        let report: Value =
            serde_json::from_str(&std::fs::read_to_string(file).expect("a report")).expect("JSON");
        let row = &report["cases"][0];
        assert_eq!((&row["case"], &row["flops"]), (&case.into(), &(2.0 * 24.0 * 40.0 * 72.0).into()));
        // Source, weights, bias and result.
        assert_eq!(row["bytes"], 4.0 * f64::from(24 * 40 + 40 * 72 + 72 + 24 * 72));
        assert_eq!(row["samples"].as_array().expect("a list").len(), 2);
        for number in ["seconds", "alone_seconds", "enqueue_seconds"] {
            assert!(row[number].as_f64().is_some_and(|seconds| seconds > 0.0), "{number}: {row}");
        }
        let step = &row["steps"][0];
        assert!(step["implementation"].as_str().is_some_and(|name| !name.is_empty()), "{row}");
        if backend != "host" {
            let candidates = step["candidates"].as_array().expect("a list");
            assert!(candidates.len() > 1 && candidates[0]["name"] == step["implementation"], "{row}");
            assert!(report["ceilings"]["flops"].as_f64().is_some_and(|rate| rate > 1e9), "{report}");
            assert!(report["specialize"] == "never" && words.contains("for one shape: never"), "{words}");
        }
    }
}

#[test]
fn every_implementation_is_measured_where_it_can_be_forced() {
    for backend in backends().into_iter().filter(|backend| backend != "host") {
        let words = succeeds(&[
            "bench",
            "matmul 24x40:40x72 +relu",
            "--backend",
            &backend,
            "--rounds",
            "1",
            "--each",
        ]);
        let measured = words.lines().filter(|line| line.contains(", difference ")).count();
        assert!(measured > 1 && words.contains("ocl:matmul:ref"), "{words}");
    }
}

/// Every primitive computes what oneDNN's own library does, which also proves that the peer is asked for the same.
#[test]
fn a_peer_runs_beside_us_and_agrees() {
    if std::env::var_os("ANYDNN_ONEDNN_LIBRARY").is_none() {
        let required = std::env::var("ANYDNN_REQUIRE").is_ok_and(|names| !names.is_empty());
        assert!(!required, "ANYDNN_ONEDNN_LIBRARY does not name oneDNN's library; `cargo xtask setup` tells");
        return;
    }
    let folder = scratch();
    let file = folder.path().join("report.json");
    let file = file.to_str().expect("a path in UTF-8");
    let graph = "examples/attention/graph.json";
    let args = [
        "bench",
        "--suite",
        "smoke",
        graph,
        "--backend",
        "host",
        "--peer",
        "onednn",
        "--rounds",
        "1",
        "--json",
        file,
    ];
    succeeds(&args);
    let report: Value =
        serde_json::from_str(&std::fs::read_to_string(file).expect("a report")).expect("JSON");
    let rows = report["cases"].as_array().expect("a list");
    assert!(rows.len() > 10);
    for row in rows {
        let peer = &row["peers"][0];
        assert_eq!((&peer["agrees"], &peer["name"]), (&true.into(), &"onednn".into()), "{row}");
        assert!(peer["ratio"].as_f64().is_some_and(|ratio| ratio > 0.0), "{row}");
    }
}

#[test]
fn other_backends_run_beside_us_and_agree() {
    let folder = scratch();
    let file = folder.path().join("report.json");
    let file = file.to_str().expect("a path in UTF-8");
    let cases = ["softmax 24x40", "matmul 24x40:40x72 +bias+gelu"];
    let options =
        ["--backend", "host", "--beside", "mock,host", "--unfused", "--rounds", "2", "--json", file];
    let words = succeeds(&[&["bench", "--explain"], &cases[..], &options].concat());
    assert!(words.contains("geometric mean of the ratios to mock"), "{words}");
    // By one operation after the other the function behind the product is a launch of its own.
    assert!(words.contains("unfused: host:panels, host:streaming"), "{words}");
    let report: Value =
        serde_json::from_str(&std::fs::read_to_string(file).expect("a report")).expect("JSON");
    for row in report["cases"].as_array().expect("a list") {
        for (i, name) in ["mock", "host", "unfused"].into_iter().enumerate() {
            let peer = &row["peers"][i];
            assert_eq!((&peer["agrees"], &peer["name"]), (&true.into(), &name.into()), "{row}");
            assert_eq!(peer["samples"].as_array().map(Vec::len), Some(2), "{row}");
            assert!(peer["ratio"].as_f64().is_some_and(|ratio| ratio > 0.0), "{row}");
            assert!(peer["alone_seconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{row}");
        }
    }
    fails(&["bench", "softmax 3x4", "--backend", "host", "--beside", "nowhere"], 2, &["--beside", "nowhere"]);
}

#[test]
fn several_backends_share_the_executions_of_a_case_and_agree() {
    let folder = scratch();
    let file = folder.path().join("report.json");
    let file = file.to_str().expect("a path in UTF-8");
    let cases = ["softmax 24x40", "matmul 24x40:40x72 +bias+gelu"];
    let options = ["--backend", "host", "--pool", "mock,host", "--rounds", "2", "--json", file];
    let words = succeeds(&[&["bench"], &cases[..], &options].concat());
    assert!(words.contains("peer      pool of host ("), "{words}");
    let report: Value =
        serde_json::from_str(&std::fs::read_to_string(file).expect("a report")).expect("JSON");
    for (row, case) in report["cases"].as_array().expect("a list").iter().zip(cases) {
        let pool = &row["peers"][0];
        assert_eq!((&pool["agrees"], &pool["name"]), (&true.into(), &"pool".into()), "{row}");
        assert_eq!(pool["samples"].as_array().map(Vec::len), Some(2), "{row}");
        let speed_up = 1.0 / pool["ratio"].as_f64().expect("a ratio");
        let shares = pool["note"].as_str().expect("shares");
        let told = format!("{case}: on all devices at once {speed_up:.2} times one ({shares})");
        assert!(words.contains(&told), "{told}: {words}");
        let percent = |share: &str| share.rsplit(' ').nth(1).and_then(|number| number.parse::<f64>().ok());
        let shares: Vec<f64> = shares.split(", ").filter_map(percent).collect();
        assert!(shares.len() == 3 && (98.0..102.0).contains(&shares.iter().sum()), "{shares:?}");
    }
    fails(&["bench", "softmax 3x4", "--backend", "host", "--pool", "nowhere"], 2, &["--pool", "nowhere"]);
}

#[test]
fn wrong_cases_and_peers_are_refused() {
    fails(&["bench", "frobnicate 3x3", "--backend", "host"], 2, &["frobnicate", "matmul", "bert4"]);
    fails(&["bench", "matmul 3x4:5x6", "--backend", "host"], 2, &["3x4 and 5x6", "[.., K, N]"]);
    fails(&["bench", "no-such-graph.json", "--backend", "host"], 2, &["no-such-graph.json"]);
    fails(&["bench", "--backend", "host"], 2, &["--suite"]);
    let output = anydnn(&["bench", "softmax 3x4", "--specialize", "always"]);
    let error = text(&output.stderr);
    assert!(output.status.code() == Some(2) && error.contains("background, never or eager"), "{error}");
    let output = anydnn(&["bench", "softmax 3x4", "--backend", "host", "--peer", "cudnn"]);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("cudnn") && error.contains("onnxruntime"), "{error}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_anydnn"));
    command.args(["bench", "softmax 3x4", "--backend", "host", "--peer", "onednn"]);
    let output = command.env("ANYDNN_ONEDNN_LIBRARY", "/no/such/libdnnl.so.3").output().expect("it starts");
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{error}");
    assert!(error.contains("/no/such/libdnnl.so.3") && error.contains("cargo xtask setup"), "{error}");
}

#[test]
fn help_is_stable() {
    for command in ["", "devices", "run", "warm", "graph", "bench", "sweep"] {
        let args: Vec<&str> = [command, "--help"].into_iter().filter(|word| !word.is_empty()).collect();
        insta::assert_snapshot!(
            format!("help_{}", if command.is_empty() { "all" } else { command }),
            succeeds(&args)
        );
    }
}

#[test]
fn absurd_sizes_and_files_are_errors_at_once() {
    let folder = scratch();
    for (name, shape, property) in [
        ("input.json", "[100000000000]", "variable"),
        ("constant.json", "[100000000000]", "constant"),
        ("both.json", "[100000, 1000000]", "variable"),
    ] {
        let place = r#""shape": [2, 3], "stride": [3, 1], "layout_type": "strided", "property_type": "variable"}],
         "outputs""#;
        let absurd = format!(
            r#""shape": {shape}, "property_type": "{property}"}}],
         "outputs""#
        );
        let made = r#""id": 1, "dtype": "f32", "shape": [2, 3], "stride": [3, 1], "layout_type": "strided", "property_type": "variable""#;
        let text = relu(&[(place, &absurd), (made, r#""id": 1, "dtype": "f32""#)]);
        fails(
            &["run", &write(&folder, name, &text), "--backend", "host"],
            1,
            &["out of memory", "400000000000"],
        );
    }
    let graph = write(&folder, "relu.json", &relu(&[]));
    fails(&["run", &graph, "--backend", "host", "--batch", "4294967295"], 1, &["out of memory"]);
    let path = folder.path().to_str().expect("a path in UTF-8");
    fails(
        &["run", &graph, "--backend", "host", "--input", &format!("t0={path}")],
        2,
        &["a folder", "regular file"],
    );
    #[cfg(unix)]
    {
        fails(&["run", &graph, "--input", "t0=/dev/zero"], 2, &["/dev/zero", "pipe or device"]);
        fails(&["run", "/dev/zero"], 2, &["/dev/zero", "pipe or device"]);
        let link = folder.path().join("loop.json");
        std::os::unix::fs::symlink(&link, &link).expect("a link to itself");
        fails(&["graph", link.to_str().expect("a path in UTF-8")], 2, &["loop.json"]);
    }
}

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

/// A sweep whose worker plants a fault.
fn sweep(plant: &str, args: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anydnn"));
    command.env_remove("ANYDNN_BACKEND").env_remove("ANYDNN_LOG").env("ANYDNN_SWEEP_PLANT", plant);
    command.args(["sweep", "--backend", "host", "--no-color"]).args(args);
    let output = command.output().expect("the program starts");
    (output.status.code(), text(&output.stdout))
}

#[test]
fn a_sweep_passes_on_the_host_and_follows_from_its_seed() {
    let args = ["--cases", "12", "--seed", "5", "--family", "reorder,select,gather"];
    let (status, report) = sweep("", &args);
    assert_eq!(status, Some(0), "{report}");
    assert!(report.contains("sweep of host") && report.contains("12 cases in"), "{report}");
    let counts = |report: &str| report.lines().filter(|line| line.contains("gather")).count();
    assert_eq!(counts(&sweep("", &args).1), counts(&report));
    // The number that the word became is told.
    let (status, report) = sweep("", &["--cases", "1", "--seed", "today", "--family", "reorder"]);
    let seed: u64 =
        report.split("seed ").nth(1).and_then(|rest| rest.lines().next()?.parse().ok()).expect("a seed");
    assert!(status == Some(0) && seed > 20_000, "{report}");
}

/// The others go on, and the case that is told is the smallest of its family.
#[test]
fn a_worker_that_aborts_or_is_wrong_is_survived() {
    let args = ["--cases", "9", "--family", "softmax,reorder,select"];
    for (plant, ending, why) in
        [("abort:softmax", "crashed", "SIGABRT"), ("wrong:softmax", "wrong", "planted")]
    {
        let (status, report) = sweep(plant, &args);
        assert_eq!(status, Some(3), "{report}");
        for part in [ending, why, "replay  softmax:\n", "small   softmax src0=f32:1 dst0=f32:1"] {
            assert!(report.contains(part), "{part} not in {report}");
        }
        let row = |family: &str| {
            report.lines().find(|line| line.starts_with(&format!("  {family} "))).map(str::to_owned)
        };
        let numbers = |family: &str| -> Vec<String> {
            row(family).expect("a row").split_whitespace().skip(1).take(6).map(str::to_owned).collect()
        };
        let failed =
            if ending == "wrong" { ["0", "0", "3", "0", "0", "0"] } else { ["0", "0", "0", "0", "3", "0"] };
        assert_eq!(numbers("softmax"), failed, "{report}");
        assert_eq!(numbers("reorder"), ["3", "0", "0", "0", "0", "0"], "{report}");
    }
}

#[test]
fn a_worker_that_hangs_is_ended() {
    let (status, report) = sweep(
        "hang:select",
        &["--cases", "2", "--seed", "5", "--family", "select,reorder", "--patience", "30", "--no-shrink"],
    );
    assert_eq!(status, Some(3), "{report}");
    assert!(report.contains("hung  select  no answer in 30 s"), "{report}");
    let row = |family: &str| -> Vec<&str> {
        let row = report.lines().find(|line| line.starts_with(&format!("  {family} ")));
        row.expect("a row").split_whitespace().skip(1).take(6).collect()
    };
    assert_eq!(row("select"), ["0", "0", "0", "0", "0", "1"], "{report}");
    assert_eq!(row("reorder"), ["1", "0", "0", "0", "0", "0"], "{report}");
}

#[test]
fn a_case_is_run_again_by_its_text() {
    let (status, report) = sweep("", &["--replay", "matmul:4,191,67"]);
    assert_eq!(status, Some(0), "{report}");
    assert!(report.contains("matmul src0=f32:5x192 weights=f32:192x68 dst0=f32:5x68"), "{report}");
    fails(&["sweep", "--backend", "host", "--replay", "matmull:1"], 2, &["matmull:1", "a family among"]);
    fails(&["sweep", "--backend", "host", "--family", "mat"], 2, &["--family mat", "matmul, convolution"]);
    fails(&["sweep", "--backend", "opencl:none-such", "--cases", "1"], 4, &["opencl:none-such"]);
}

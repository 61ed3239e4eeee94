//! What models and graphs compute, their inputs, and what is refused.

use std::process::Command;

use serde_json::Value;

use super::{backends, fails, json, relu, root, scratch, succeeds, text, write};
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

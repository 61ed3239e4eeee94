//! `anydnn bench`, beside peers and other backends.

use std::process::Command;

use serde_json::Value;

use super::{anydnn, backends, fails, scratch, succeeds, text};
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

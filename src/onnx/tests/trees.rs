//! Ensembles of trees: their attributes are read once, many rows are shared among threads.

use super::control::{compile, outputs};
use super::*;

/// Rows of two features to sums of two trees: 1 or 2 by the first feature, 10, 20 or 40 by both.
fn forest(aggregate: &str) -> Draft {
    let leaf = "LEAF";
    let modes = ["BRANCH_LEQ", leaf, leaf, "BRANCH_LT", leaf, "BRANCH_GTE", leaf, leaf];
    let words = AttributeProto {
        strings: modes.iter().map(|mode| mode.as_bytes().to_vec().into()).collect(),
        ..attribute("nodes_modes", 8)
    };
    let reals = |name: &str, values: &[f32]| AttributeProto { floats: values.to_vec(), ..attribute(name, 6) };
    let mut draft = Draft::new(13)
        .input("x", &["n", "2"])
        .node(
            "y = TreeEnsembleRegressor(x)",
            vec![
                ints("nodes_treeids", &[7, 7, 7, 9, 9, 9, 9, 9]),
                ints("nodes_nodeids", &[0, 1, 2, 0, 1, 2, 3, 4]),
                ints("nodes_featureids", &[0, 0, 0, 1, 0, 0, 0, 0]),
                reals("nodes_values", &[0.5, 0.0, 0.0, 0.0, 0.0, 0.25, 0.0, 0.0]),
                ints("nodes_truenodeids", &[1, 0, 0, 1, 0, 3, 0, 0]),
                ints("nodes_falsenodeids", &[2, 0, 0, 2, 0, 4, 0, 0]),
                words,
                // The leaves of the second tree are listed first.
                ints("target_treeids", &[9, 9, 9, 7, 7]),
                ints("target_nodeids", &[4, 3, 1, 2, 1]),
                ints("target_ids", &[0; 5]),
                reals("target_weights", &[40.0, 20.0, 10.0, 2.0, 1.0]),
                word("aggregate_function", aggregate),
            ],
        )
        .output("y");
    draft.graph.node[0].domain = Some("ai.onnx.ml".into());
    draft
}

fn by_hand(row: &[f32]) -> (f32, f32) {
    let second = if row[1] < 0.0 {
        10.0
    } else if row[0] >= 0.25 {
        20.0
    } else {
        40.0
    };
    (if row[0] <= 0.5 { 1.0 } else { 2.0 }, second)
}

#[test]
fn rows_lead_to_the_leaves_that_their_features_say() {
    for (aggregate, of) in [
        ("SUM", (|(a, b)| a + b) as fn((f32, f32)) -> f32),
        ("AVERAGE", |(a, b)| f32::midpoint(a, b)),
        ("MIN", |(a, _)| a),
        ("MAX", |(_, b)| b),
    ] {
        let session = compile(&forest(aggregate));
        // The second number of rows is beyond what one thread does, with a rest for the last one.
        for rows in [3_usize, 9001, 1] {
            let values: Vec<f32> = (0..2 * rows).map(|at| (at * 37 % 101) as f32 / 50.0 - 1.0).collect();
            let x = HostTensor::from_f32([rows, 2], &values).unwrap();
            let expected: Vec<f32> = values.chunks(2).map(|row| of(by_hand(row))).collect();
            assert_eq!(outputs(&session, &[("x", x)])[0].to_f32s(), expected, "{aggregate} of {rows}");
        }
    }
}

#[test]
fn rows_without_a_feature_that_nodes_compare_are_told() {
    let mut draft = forest("SUM");
    draft.graph.input[0] = Draft::new(13).input("x", &["n", "1"]).graph.input.remove(0);
    let refused = compile(&draft).run(&[("x", tensor([2, 1], &[0.0, 1.0]))]).unwrap_err().to_string();
    assert!(refused.contains("below 1") && refused.contains("TreeEnsembleRegressor"), "{refused}");
}

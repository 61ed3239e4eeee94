//! Partitions explained, and pictures.

use serde_json::Value;

use super::{fails, json, root, scratch, succeeds};
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

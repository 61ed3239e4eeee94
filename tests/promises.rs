//! `docs/design/promises.md` names a test for every promise; each of them exists.

use std::fs;
use std::path::Path;

#[test]
fn every_promise_names_a_test_that_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("docs/design/promises.md")).expect("the promises are there");
    let rows: Vec<&str> =
        text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| promise |")).collect();
    assert!(rows.len() >= 20, "only {} promises", rows.len());
    for row in rows {
        let quoted: Vec<&str> = row.split('`').skip(1).step_by(2).collect();
        let [.., file, name] = quoted[..] else { panic!("a promise without a test: {row}") };
        let source = fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        // A test of ours, or a check that a C program prints by its name.
        let is_there = source.contains(&format!("fn {name}(")) || source.contains(&format!("\"{name}\""));
        assert!(is_there, "{file} has no test {name}, which is to prove: {row}");
    }
}

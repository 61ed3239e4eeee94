//! The node tests of the `onnx` package: where they are, and what is as good as what they expect. Two programs of tests have this file.

use super::HostTensor;

/// Names the folder `onnx/backend/test/data` of the unpacked package.
const VARIABLE: &str = "ANYDNN_ONNX_TESTS";

/// Tests that are expected to give something else, with the reason.
pub(super) const EXCEPTIONS: [(&str, &str); 2] = [
    ("test_dft_inverse", "the expected file has 2e-7 where the exact result is zero"),
    ("test_dft_inverse_opset19", "the expected file has 2e-7 where the exact result is zero"),
];

/// The folder of the data. Where tests must not be left out, its absence fails.
pub(super) fn folder() -> Option<std::path::PathBuf> {
    let folder = std::env::var_os(VARIABLE);
    if folder.is_none() {
        let message =
            format!("{VARIABLE} does not name onnx/backend/test/data: `cargo xtask setup` provides it");
        assert!(std::env::var_os("ANYDNN_REQUIRE").is_none(), "{message}");
        eprintln!("NOT TESTED: {message}");
    }
    folder.map(Into::into)
}

/// The folders of the tests, by their names.
pub(super) fn cases(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder.join("node")).unwrap();
    let mut cases: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    cases
}

/// Whether the values of a test's outputs depend on a generator of random numbers.
pub(super) fn is_random(name: &str) -> bool {
    name.contains("bernoulli") || name.starts_with("test_training_dropout")
}

/// The tolerance of the package's own runner, and for narrow types one unit in the last place. Of random numbers only shape and type
/// count.
pub(super) fn compare(given: &HostTensor, expected: &HostTensor, random: bool) -> Result<(), String> {
    if given.dims() != expected.dims() || given.data_type() != expected.data_type() {
        return Err(format!("{} instead of {}", given.desc(), expected.desc()));
    }
    if random {
        return Ok(());
    }
    let relative = match given.data_type().bits() {
        16 if given.data_type().is_float() => 2e-3,
        8 if given.data_type().is_float() => 0.13,
        _ => 1e-3,
    };
    for (i, (a, b)) in given.to_f64s().into_iter().zip(expected.to_f64s()).enumerate() {
        let same = a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
        let near = (a - b).abs() <= 1e-7 + relative * b.abs();
        if !same && !near {
            return Err(format!("element {i} is {a} instead of {b}"));
        }
    }
    Ok(())
}

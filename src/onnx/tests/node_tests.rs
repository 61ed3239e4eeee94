//! The node tests of the `onnx` package: where they are, and what is as good as what they expect. Two programs of tests have this file.

use approx::relative_eq;

use super::{HostTensor, TensorValues, Tolerance};

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
    let tolerance = Tolerance { absolute: 1e-7, relative, scaled: false };
    let values = |tensor: &HostTensor| TensorValues::new(tensor.desc(), tensor.to_f64s());
    let (given, expected) = (values(given).unwrap(), values(expected).unwrap());
    relative_eq!(given, expected.within(tolerance)).then_some(()).ok_or_else(|| format!("{given:?}"))
}

//! The search for models that crash the importer.

use std::ffi::OsString;
use std::path::Path;

use anyhow::{Context, Result};

use crate::command::{cargo, root, stream};
use crate::{onnx, setup};

/// Names the folder of the node tests' data.
const TESTS: &str = "ANYDNN_ONNX_TESTS";

/// Runs `tests/onnx_fuzz` for some seconds of the processor's time; models are those of the tests, where the set-up put them, and those
/// of a folder. Returns whether no case failed.
pub(crate) fn fuzz(seconds: u64, seed: u64, models: Option<&Path>) -> Result<bool> {
    let mut command = cargo();
    let tests = onnx::data(setup::cache()?.parent().context("the cache has no folder around it")?);
    if std::env::var_os(TESTS).is_none() && tests.is_dir() {
        command.env(TESTS, tests);
    }
    command.args(ARGUMENTS).envs(variables(seconds, seed, models)?).current_dir(root());
    Ok(stream(&mut command, |_| {})?.success())
}

const ARGUMENTS: [&str; 10] = [
    "test",
    "--package",
    "anydnn",
    "--features",
    "onnx",
    "--test",
    "onnx_fuzz",
    "--",
    "--nocapture",
    "mutated_models_are_errors_or_models",
];

fn variables(seconds: u64, seed: u64, models: Option<&Path>) -> Result<Vec<(&'static str, OsString)>> {
    let mut variables = vec![
        ("ANYDNN_FUZZ_SECONDS", seconds.to_string().into()),
        ("ANYDNN_FUZZ_SEED", seed.to_string().into()),
    ];
    if let Some(models) = models {
        let models = models.canonicalize().with_context(|| format!("finding {}", models.display()))?;
        variables.push(("ANYDNN_FUZZ_MODELS", models.into()));
    }
    Ok(variables)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_is_found_from_the_root_of_the_repository() {
        let named = |path: &str| variables(5, 2, Some(Path::new(path)));
        let variables = named(".").unwrap();
        assert_eq!(variables[0], ("ANYDNN_FUZZ_SECONDS", "5".into()));
        assert_eq!(variables[1], ("ANYDNN_FUZZ_SEED", "2".into()));
        assert!(Path::new(&variables[2].1).is_absolute());
        assert!(named("/nonexistent/models").unwrap_err().to_string().contains("/nonexistent/models"));
    }
}

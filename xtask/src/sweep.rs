//! Random cases of every primitive on a backend.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX, EXE_SUFFIX};
use std::ffi::OsString;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::command::{cargo, root, run, stream};
use crate::{fence, sanitize, setup};

/// What the command line of `anydnn sweep` does not know, and the rest.
#[derive(Debug, PartialEq)]
struct Wanted {
    /// How the layer of guarded memory guards.
    fence: Option<String>,
    /// Whether the build is the one of tests.
    dev: bool,
    /// Whether the build has AddressSanitizer in it, by which a case that uses memory out of bounds ends its process.
    sanitize: bool,
    rest: Vec<OsString>,
}

/// Sets up, builds `anydnn` and starts `anydnn sweep` with the arguments; `--fence MODE` puts guarded memory between it and OpenCL, `--dev`
/// takes the build that tests have made, `--sanitize` one with AddressSanitizer. Returns whether no case failed.
pub(crate) fn sweep(args: &[OsString]) -> Result<bool> {
    let wanted = Wanted::parse(args)?;
    let ready = setup::setup()?;
    println!("{ready}");
    // Asked again, cargo would wait for the lints of a test run.
    if !wanted.dev && !wanted.sanitize {
        let mut build = cargo();
        build.args(["build", "--release", "--package", "anydnn-cli"]).current_dir(root());
        if wanted.fence.is_some() {
            build.args(["--package", "anydnn-fence"]);
        }
        run(&mut build)?;
    }
    let folder = fence::target().join(if wanted.dev { "debug" } else { "release" });
    let mut command = if wanted.sanitize {
        sanitize::program()?
    } else {
        Command::new(folder.join(format!("anydnn{EXE_SUFFIX}")))
    };
    command.arg("sweep").args(&wanted.rest).envs(&ready.variables).current_dir(root());
    if let Some(mode) = &wanted.fence {
        command.env("OPENCL_LAYERS", folder.join(format!("{DLL_PREFIX}anydnn_fence{DLL_SUFFIX}")));
        command.env(fence::MODE, mode).env("ANYDNN_FENCE_EXIT", BROKEN);
        command.env("ANYDNN_FENCE_ALIGN", "1").env("ANYDNN_TEMPORARIES", "apart");
    }
    Ok(stream(&mut command, |_| {})?.success())
}

/// The exit status of a process that changed bytes around its buffers.
const BROKEN: &str = "70";

/// How memory is guarded: no page after it, none before it, or bytes around it that must not change.
const MODES: [&str; 3] = ["over", "under", "canary"];

impl Wanted {
    fn parse(args: &[OsString]) -> Result<Self> {
        let mut wanted = Self { fence: None, dev: false, sanitize: false, rest: Vec::new() };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match arg.to_str() {
                Some("--dev") => wanted.dev = true,
                Some("--sanitize") => wanted.sanitize = true,
                Some("--fence") => {
                    let mode = args.next().and_then(|mode| mode.to_str()).context("--fence needs a mode")?;
                    wanted.fence = Some(mode.to_owned());
                }
                Some(text) if text.starts_with("--fence=") => {
                    wanted.fence = text.strip_prefix("--fence=").map(str::to_owned);
                }
                _ => wanted.rest.push(arg.clone()),
            }
        }
        if wanted.sanitize && (wanted.dev || wanted.fence.is_some()) {
            bail!("--sanitize builds for itself: expected neither --dev nor --fence beside it");
        }
        if let Some(mode) = wanted.fence.as_deref().filter(|mode| !MODES.contains(mode)) {
            bail!("--fence {mode}: expected one of {}", MODES.join(", "));
        }
        Ok(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Wanted> {
        Wanted::parse(&words.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn what_is_not_ours_goes_on() {
        let wanted = parse(&["--cases", "5", "--fence", "under", "--backend", "host", "--dev"]).unwrap();
        assert_eq!((wanted.fence.as_deref(), wanted.dev), (Some("under"), true));
        assert_eq!(wanted.rest, ["--cases", "5", "--backend", "host"]);
        assert_eq!(parse(&["--fence=canary"]).unwrap().fence.as_deref(), Some("canary"));
        assert_eq!(
            parse(&[]).unwrap(),
            Wanted { fence: None, dev: false, sanitize: false, rest: Vec::new() }
        );
    }

    #[test]
    fn a_sanitizer_has_a_build_of_its_own() {
        let wanted = parse(&["--sanitize", "--backend", "host"]).unwrap();
        assert!(wanted.sanitize && wanted.rest == ["--backend", "host"]);
        assert!(
            parse(&["--sanitize", "--dev"]).is_err() && parse(&["--fence", "over", "--sanitize"]).is_err()
        );
    }

    #[test]
    fn modes_are_known() {
        let error = parse(&["--fence", "above"]).unwrap_err().to_string();
        assert!(error.contains("over, under, canary"), "{error}");
        assert!(parse(&["--fence"]).is_err());
    }
}

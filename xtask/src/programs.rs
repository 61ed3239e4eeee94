//! Test programs that cargo builds, to be started under other tools.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use wait_timeout::ChildExt;

use crate::command::shown;

/// A test program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// The name of the test or of the library whose unit tests it has.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    /// The folder of its package, in which cargo starts it.
    pub(crate) folder: PathBuf,
}

/// Programs that take longest, but for those under the fence.
const LONG: [&str; 8] = [
    "anydnn",
    "anydnn_opencl",
    "applications",
    "compare",
    "fault_sweep",
    "graph_ops",
    "onnx_nodes",
    "oracle",
];

/// The one that takes longest of all: last, it would run alone.
const LONGEST: &str = "anydnn_opencl";

/// Programs that a quick run leaves out: they sweep over faults, run whole applications, and test the caches on disk and the fence, which
/// few changes touch.
const SLOW: [&str; 4] = ["applications", "cache", "fault_sweep", "fence"];

/// Programs that take each case on one device at least in a whole run: they check a table of all cases, or have few.
const COMPLETE: [&str; 3] = ["objects", "onnx_nodes", "oracle"];

impl Program {
    /// Its name and that of its package's folder.
    pub(crate) fn title(&self) -> String {
        let package = self.folder.file_name().unwrap_or_default();
        format!("{} of {}", self.name, package.to_string_lossy())
    }

    /// Whether its name or its title is among these.
    pub(crate) fn is_one_of(&self, names: &[&str]) -> bool {
        names.contains(&&*self.name) || names.contains(&&*self.title())
    }

    /// Whether a quick run leaves it out.
    pub(crate) fn is_slow(&self) -> bool {
        SLOW.contains(&&*self.name)
    }

    /// Whether a whole run takes each of its cases on one device at least.
    pub(crate) fn is_complete(&self) -> bool {
        COMPLETE.contains(&&*self.name)
    }

    /// Whether it takes longest.
    pub(crate) fn is_longest(&self) -> bool {
        self.name == LONGEST
    }

    /// Whether it takes so long that it starts before others.
    pub(crate) fn is_long(&self) -> bool {
        LONG.contains(&&*self.name)
    }
}

/// Builds by a command such as `cargo test --no-run` and tells the programs.
pub(crate) fn build(command: &mut Command) -> Result<Vec<Program>> {
    command.arg("--message-format=json-render-diagnostics");
    println!("$ {}", shown(command));
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("`{}` does not start", shown(command)))?;
    if !output.status.success() {
        bail!("`{}` failed: {}", shown(command), output.status);
    }
    let programs = programs(&String::from_utf8_lossy(&output.stdout));
    if programs.is_empty() {
        bail!("`{}` built no test program", shown(command));
    }
    Ok(programs)
}

fn programs(messages: &str) -> Vec<Program> {
    let program = |line: &str| {
        let message: Value = serde_json::from_str(line).ok()?;
        let is_test = message["profile"]["test"].as_bool()?;
        let path = PathBuf::from(message["executable"].as_str()?);
        let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
        let name = message["target"]["name"].as_str()?.to_owned();
        is_test.then_some(Program { name, path, folder })
    };
    messages.lines().filter_map(program).collect()
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Success,
    Failure,
    /// It was ended when its time was over.
    TimeOut,
}

/// Shows a command and runs it for at most that long.
pub(crate) fn run_within(longest: Duration, command: &mut Command) -> Result<End> {
    println!("$ {}", shown(command));
    let child = command.stdin(Stdio::null()).spawn();
    let mut child = child.with_context(|| format!("`{}` does not start", shown(command)))?;
    let Some(status) = child.wait_timeout(longest)? else {
        child.kill()?;
        child.wait()?;
        return Ok(End::TimeOut);
    };
    Ok(if status.success() { End::Success } else { End::Failure })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_programs_are_told_from_what_else_is_built() {
        let messages = r#"
{"reason":"compiler-artifact","manifest_path":"/w/a/Cargo.toml","target":{"name":"a"},"profile":{"test":false},"executable":null}
{"reason":"compiler-artifact","manifest_path":"/w/a/Cargo.toml","target":{"name":"tool"},"profile":{"test":false},"executable":"/t/tool"}
{"reason":"compiler-artifact","manifest_path":"/w/a/Cargo.toml","target":{"name":"streams"},"profile":{"test":true},"executable":"/t/deps/streams-1"}
{"reason":"build-finished","success":true}
no JSON"#;
        let expected =
            Program { name: "streams".to_owned(), path: "/t/deps/streams-1".into(), folder: "/w/a".into() };
        assert_eq!(programs(messages), [expected]);
    }

    #[test]
    fn ends_are_told_apart() {
        let run = |script: &str| {
            run_within(Duration::from_millis(500), Command::new("sh").args(["-c", script])).unwrap()
        };
        assert_eq!(run("exit 0"), End::Success);
        assert_eq!(run("exit 3"), End::Failure);
        assert_eq!(run("exec sleep 60"), End::TimeOut);
    }
}

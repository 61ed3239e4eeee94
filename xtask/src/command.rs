//! Running other programs.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail};

/// The root of the repository.
pub(crate) fn root() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package)
}

/// The cargo that runs this program.
pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Shows a command, runs it without input, and fails unless it succeeds.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    println!("$ {}", shown(command));
    let status = command.stdin(Stdio::null()).status().with_context(|| cannot_start(command))?;
    if !status.success() {
        bail!("`{}` failed: {status}", shown(command));
    }
    Ok(())
}

/// The standard output of a command, or nothing if it does not start or does not succeed.
pub(crate) fn output(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether a command starts and succeeds.
pub(crate) fn succeeds(program: &str, args: &[&str]) -> bool {
    output(program, args).is_some()
}

/// Shows a command and runs it without input; its standard output appears live and goes line by line to `each`.
pub(crate) fn stream(command: &mut Command, mut each: impl FnMut(&str)) -> Result<ExitStatus> {
    println!("$ {}", shown(command));
    read(command, |line| {
        println!("{line}");
        each(line);
    })
}

/// Runs a command without input; its standard output goes line by line to `each` alone.
pub(crate) fn read(command: &mut Command, mut each: impl FnMut(&str)) -> Result<ExitStatus> {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().with_context(|| cannot_start(command))?;
    let mut lines = BufReader::new(child.stdout.take().context("the standard output is not piped")?);
    let mut bytes = Vec::new();
    while lines.read_until(b'\n', &mut bytes).context("reading the command's output")? > 0 {
        each(String::from_utf8_lossy(&bytes).trim_end());
        bytes.clear();
    }
    child.wait().context("waiting for the command")
}

fn cannot_start(command: &Command) -> String {
    format!("`{}` does not start", shown(command))
}

/// The command as one would type it, with the variables that it sets.
pub(crate) fn shown(command: &Command) -> String {
    let word = |text: &OsStr| {
        let text = text.to_string_lossy();
        if text.contains(' ') { format!("'{text}'") } else { text.into_owned() }
    };
    let variables = command
        .get_envs()
        .filter_map(|(name, value)| Some(format!("{}={}", name.to_string_lossy(), word(value?))));
    let words = std::iter::once(command.get_program()).chain(command.get_args()).map(word);
    variables.chain(words).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streamed_lines_arrive_whole_and_the_status_is_kept() {
        let mut lines = Vec::new();
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; printf two; exit 3"]);
        let status = stream(&mut command, |line| lines.push(line.to_owned())).unwrap();
        assert_eq!(lines, ["one", "two"]);
        assert_eq!(status.code(), Some(3));
    }

    #[test]
    fn a_failing_command_is_an_error_that_shows_it() {
        let error = run(Command::new("sh").args(["-c", "exit 4"]).env("WHY", "a test")).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("WHY='a test' sh -c 'exit 4'"), "{text}");
        assert!(text.contains('4'), "{text}");
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = run(&mut Command::new("anydnn-no-such-program")).unwrap_err();
        assert!(error.to_string().contains("anydnn-no-such-program"));
        assert!(!succeeds("anydnn-no-such-program", &[]));
    }

    #[test]
    fn the_root_holds_the_workspace() {
        assert!(root().join("Cargo.toml").is_file());
        assert!(root().join("xtask").is_dir());
    }
}

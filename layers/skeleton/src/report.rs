//! Settings from the environment, and reports at the end of the process.

use std::io::Write as _;
use std::path::PathBuf;

/// Where a report goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The standard error stream.
    Stderr,
    /// A file, which is written anew.
    File(PathBuf),
}

impl Target {
    /// The target that a variable of the environment names: `stderr`, or the path of a file. `None` when it is not set.
    pub fn from_variable(name: &str) -> Option<Self> {
        variable(name).map(|value| match value.as_str() {
            "stderr" => Self::Stderr,
            path => Self::File(path.into()),
        })
    }

    /// Writes a report of a layer. When that fails, the standard error stream says so in the layer's name.
    pub fn write(&self, layer: &str, text: &str) {
        match self {
            Self::Stderr => say(text),
            Self::File(path) => {
                if let Err(cause) = std::fs::write(path, text) {
                    say(&format!("{layer}: {}: {cause}\n", path.display()));
                }
            }
        }
    }
}

/// The value of a variable of the environment; `None` for one that is empty or not set.
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

/// The exit status that a variable of the environment gives; `None` when it is not set.
///
/// # Errors
/// What is wrong with the value, in words.
pub fn exit_status(name: &str) -> Result<Option<i32>, String> {
    let parse = |value: String| {
        value.trim().parse::<u8>().map_err(|_| format!("{name} is {value:?}, expected 0 to 255"))
    };
    variable(name).map(parse).transpose().map(|status| status.map(i32::from))
}

/// Writes a text to the standard error stream.
pub fn say(text: &str) {
    // There is nobody to tell when this fails.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Ends the process with a status. For a layer's function at the process's end: exit handlers do not run again.
pub fn end_process(status: i32) -> ! {
    // SAFETY: flushes what the program has written and ends the process, whose own exit handlers have run.
    unsafe {
        libc::fflush(std::ptr::null_mut());
        libc::_exit(status)
    }
}

/// Runs a function, an `extern "C" fn()`, after the exit handlers and static destructors of the program, which may still release
/// objects.
#[macro_export]
macro_rules! at_exit {
    ($function:path) => {
        #[used]
        #[cfg_attr(
            any(target_os = "linux", target_os = "android", target_os = "freebsd"),
            unsafe(link_section = ".fini_array")
        )]
        static AT_EXIT: extern "C" fn() = $function;
    };
}

//! Failures of the program: exit codes and advice.

use std::fmt;

use anydnn::backend::{Error, InvalidKind};

/// What a command ends with.
pub(crate) type Outcome = Result<(), Failure>;

/// What ends the program early.
#[derive(Debug)]
pub(crate) struct Failure {
    code: Code,
    message: String,
    help: String,
}

/// The program's exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Code {
    /// The work failed.
    Failed = 1,
    /// Wrong usage or bad input.
    Input = 2,
    /// A result is outside its tolerance.
    Check = 3,
    /// The backend or device is missing.
    Unavailable = 4,
}

impl Failure {
    /// A failure with advice.
    pub(crate) fn new(code: Code, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { code, message: message.into(), help: help.into() }
    }

    /// What went wrong, without advice.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// The code to exit with.
    pub(crate) fn code(&self) -> u8 {
        self.code as u8
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}\nhelp: {}", self.message, self.help)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let (code, help) = match error.root() {
            Error::Invalid(invalid) => (
                Code::Input,
                match invalid.kind {
                    InvalidKind::Graph | InvalidKind::GraphOp => "correct the graph at the place named above",
                    InvalidKind::Shape if invalid.given == "unknown" => {
                        "give the shape of the input or constant that it follows from, such as `--shape t0=4x3x8x8`"
                    }
                    InvalidKind::Shape => {
                        "make the shapes agree; `anydnn graph MODEL` shows those of every tensor"
                    }
                    InvalidKind::DataType => {
                        "make the data types agree, with a TypeCast where they must differ"
                    }
                    _ => "give what is expected; `anydnn --help` describes the command line",
                },
            ),
            Error::Io { .. } => (Code::Input, "check that the file exists and that you may read or write it"),
            Error::Mismatch { .. } => (Code::Input, "use objects of one engine together"),
            Error::Unavailable { .. } => {
                (Code::Unavailable, "`anydnn devices` lists what is there; `--backend host` needs nothing")
            }
            Error::Unsupported { .. } => {
                (Code::Failed, "try another backend with --backend; `anydnn devices` lists them")
            }
            Error::OutOfMemory { .. } => {
                (Code::Failed, "use a smaller --batch, or a device with more memory")
            }
            Error::Build(_) => {
                (Code::Failed, "try another backend with --backend, and report the build log above")
            }
            _ => (Code::Failed, "run again with ANYDNN_LOG=debug, or try another backend with --backend"),
        };
        Self::new(code, error.to_string(), help)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_become_codes_and_advice() {
        let of = |error: Error| Failure::from(error.at("x"));
        assert_eq!(of(Error::invalid("a", "b", "c", "d")).code(), 2);
        assert_eq!(of(Error::io("f", "missing")).code(), 2);
        assert_eq!(of(Error::unavailable("gpu", "none")).code(), 4);
        assert_eq!(of(Error::DeviceLost("gone".into())).code(), 1);
        let text = of(Error::unsupported("int4 matmul", "no kernel")).to_string();
        assert!(text.starts_with("error: x: int4 matmul") && text.contains("\nhelp: "), "{text}");
    }
}

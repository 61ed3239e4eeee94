//! Errors, grouped by cause.

use std::fmt;

/// The result of a fallible operation of the contract.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, grouped by cause. [`Error::status`] maps it to the C ABI's status.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An argument that can never be right: shapes, types, names, sizes, malformed input.
    #[error(transparent)]
    Invalid(#[from] Box<Invalid>),
    /// A valid request that this backend, device or version cannot fulfil.
    #[error("{what}: not supported: {why}")]
    Unsupported {
        /// The operation that was asked for.
        what: String,
        /// Why it cannot be done, and where known what to do instead.
        why: String,
    },
    /// Memory of the host or of the device ran out.
    #[error("out of memory: {what} ({bytes} bytes)")]
    OutOfMemory {
        /// What the memory was for.
        what: String,
        /// The bytes asked for; zero when the device did not say.
        bytes: usize,
    },
    /// A program did not build on a device.
    #[error(transparent)]
    Build(#[from] Box<BuildFailure>),
    /// A call to a device's driver failed.
    #[error(transparent)]
    Device(#[from] Box<DeviceFailure>),
    /// The device is gone; nothing of its context works any more.
    #[error("device lost: {0}")]
    DeviceLost(String),
    /// Work that this work depends on failed, so this did not run or its result is void.
    #[error("{operation}: a dependency failed: {cause}")]
    Dependency {
        /// The work that was to run.
        operation: String,
        /// Why the dependency failed.
        cause: String,
    },
    /// The caller ended the work before its end.
    #[error("{operation}: cancelled")]
    Cancelled {
        /// The work that was under way.
        operation: String,
    },
    /// Objects of different engines, contexts or backends were mixed.
    #[error("{operation}: {given} does not belong to {expected}")]
    Mismatch {
        /// The operation that was asked for.
        operation: String,
        /// The object that does not belong.
        given: String,
        /// What it should belong to.
        expected: String,
    },
    /// A backend, platform or device is missing.
    #[error("{what} is not available: {why}")]
    Unavailable {
        /// The backend or device.
        what: String,
        /// Why, and what to do about it.
        why: String,
    },
    /// A file or stream could not be read or written.
    #[error("{path}: {cause}")]
    Io {
        /// The file.
        path: String,
        /// The system's word on it.
        cause: String,
    },
    /// Another error, with the place where it happened.
    #[error("{place}: {source}")]
    At {
        /// The place: an operation's name, a line, a file.
        place: String,
        /// The error itself.
        source: Box<Error>,
    },
}

/// An argument that can never be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{operation}: {subject} is {given}, expected {expected}")]
pub struct Invalid {
    /// The operation that was asked for.
    pub operation: String,
    /// Which of its arguments.
    pub subject: String,
    /// What was given.
    pub given: String,
    /// What would have been right.
    pub expected: String,
    /// The group that the C ABI tells apart.
    pub kind: InvalidKind,
}

/// The groups of invalid arguments that the C ABI tells apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum InvalidKind {
    /// Any other argument.
    #[default]
    Argument,
    /// A graph that is not one: cycles, dangling or contradicting tensors.
    Graph,
    /// An operation of a graph with the wrong inputs, outputs or attributes.
    GraphOp,
    /// A shape that does not fit.
    Shape,
    /// A data type that does not fit.
    DataType,
}

/// A program that did not build.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("program {program:?} does not build on {device} ({call} returned {code}); build log:\n{log}")]
pub struct BuildFailure {
    /// The program or kernel.
    pub program: String,
    /// The device.
    pub device: String,
    /// The driver's call.
    pub call: String,
    /// The code it returned.
    pub code: i32,
    /// What the compiler said.
    pub log: String,
}

/// A driver's call that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{operation}: {call} returned {code} ({name})")]
pub struct DeviceFailure {
    /// The operation that was asked for.
    pub operation: String,
    /// The driver's call.
    pub call: String,
    /// The raw code it returned.
    pub code: i32,
    /// The code's name.
    pub name: String,
    /// The status this maps to.
    pub status: Status,
}

/// The status of the C ABI that an error maps to (`dnnl_status_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
#[non_exhaustive]
pub enum Status {
    /// No error.
    Success = 0,
    /// Memory ran out.
    OutOfMemory = 1,
    /// An argument is wrong.
    InvalidArguments = 2,
    /// Valid but not available here.
    Unimplemented = 3,
    /// A driver or device failed.
    RuntimeError = 5,
    /// The graph is wrong.
    InvalidGraph = 7,
    /// An operation of the graph is wrong.
    InvalidGraphOp = 8,
    /// A shape is wrong.
    InvalidShape = 9,
    /// A data type is wrong.
    InvalidDataType = 10,
}

impl Error {
    /// An invalid argument.
    pub fn invalid(
        operation: impl Into<String>,
        subject: impl Into<String>,
        given: impl Into<String>,
        expected: impl Into<String>,
    ) -> Self {
        Self::invalid_kind(InvalidKind::Argument, operation, subject, given, expected)
    }

    /// An invalid argument of a group that the C ABI tells apart.
    pub fn invalid_kind(
        kind: InvalidKind,
        operation: impl Into<String>,
        subject: impl Into<String>,
        given: impl Into<String>,
        expected: impl Into<String>,
    ) -> Self {
        Self::Invalid(Box::new(Invalid {
            operation: operation.into(),
            subject: subject.into(),
            given: given.into(),
            expected: expected.into(),
            kind,
        }))
    }

    /// A valid request that cannot be fulfilled here.
    pub fn unsupported(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Unsupported { what: what.into(), why: why.into() }
    }

    /// Objects that do not belong together.
    pub fn mismatch(
        operation: impl Into<String>,
        given: impl Into<String>,
        expected: impl Into<String>,
    ) -> Self {
        Self::Mismatch { operation: operation.into(), given: given.into(), expected: expected.into() }
    }

    /// A backend or device that is missing.
    pub fn unavailable(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Unavailable { what: what.into(), why: why.into() }
    }

    /// A file that could not be read or written.
    pub fn io(path: impl fmt::Display, cause: impl fmt::Display) -> Self {
        Self::Io { path: path.to_string(), cause: cause.to_string() }
    }

    /// The same error with the place where it happened in front.
    pub fn at(self, place: impl Into<String>) -> Self {
        Self::At { place: place.into(), source: Box::new(self) }
    }

    /// The error without the places in front of it.
    pub fn root(&self) -> &Self {
        match self {
            Self::At { source, .. } => source.root(),
            other => other,
        }
    }

    /// The status of the C ABI.
    pub fn status(&self) -> Status {
        match self.root() {
            Self::Invalid(invalid) => match invalid.kind {
                InvalidKind::Argument => Status::InvalidArguments,
                InvalidKind::Graph => Status::InvalidGraph,
                InvalidKind::GraphOp => Status::InvalidGraphOp,
                InvalidKind::Shape => Status::InvalidShape,
                InvalidKind::DataType => Status::InvalidDataType,
            },
            Self::Mismatch { .. } | Self::Io { .. } => Status::InvalidArguments,
            Self::Unsupported { .. } | Self::Unavailable { .. } => Status::Unimplemented,
            Self::OutOfMemory { .. } => Status::OutOfMemory,
            Self::Device(failure) => failure.status,
            Self::Build(_)
            | Self::DeviceLost(_)
            | Self::Dependency { .. }
            | Self::Cancelled { .. }
            | Self::At { .. } => Status::RuntimeError,
        }
    }
}

/// Adds the place to the error of a result.
pub trait ResultExt<T> {
    /// The result with the place in front of its error; the place is made only when there is one.
    ///
    /// # Errors
    /// The result's own error.
    fn at<P: Into<String>>(self, place: impl FnOnce() -> P) -> Result<T>;
}

impl<T> ResultExt<T> for Result<T> {
    fn at<P: Into<String>>(self, place: impl FnOnce() -> P) -> Result<T> {
        self.map_err(|error| error.at(place()))
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    /// One error of each cause, in the order of the enumeration, with parts in capitals.
    fn one_of_each() -> Vec<Error> {
        let device = DeviceFailure {
            operation: "OPERATION".into(),
            call: "CALL".into(),
            code: -5,
            name: "NAME".into(),
            status: Status::OutOfMemory,
        };
        let build = BuildFailure {
            program: "PROGRAM".into(),
            device: "DEVICE".into(),
            call: "CALL".into(),
            code: -11,
            log: "LOG".into(),
        };
        let all = vec![
            Error::invalid("OPERATION", "SUBJECT", "GIVEN", "EXPECTED"),
            Error::unsupported("WHAT", "WHY"),
            Error::OutOfMemory { what: "WHAT".into(), bytes: 64 },
            Error::Build(Box::new(build)),
            Error::Device(Box::new(device)),
            Error::DeviceLost("WHY".into()),
            Error::Dependency { operation: "OPERATION".into(), cause: "CAUSE".into() },
            Error::Cancelled { operation: "OPERATION".into() },
            Error::mismatch("OPERATION", "GIVEN", "EXPECTED"),
            Error::unavailable("WHAT", "WHY"),
            Error::io("PATH", "CAUSE"),
            Error::unsupported("WHAT", "WHY").at("PLACE"),
        ];
        // A new cause does not compile before it has a place here.
        let place = |error: &Error| match error {
            Error::Invalid(_) => 0,
            Error::Unsupported { .. } => 1,
            Error::OutOfMemory { .. } => 2,
            Error::Build(_) => 3,
            Error::Device(_) => 4,
            Error::DeviceLost(_) => 5,
            Error::Dependency { .. } => 6,
            Error::Cancelled { .. } => 7,
            Error::Mismatch { .. } => 8,
            Error::Unavailable { .. } => 9,
            Error::Io { .. } => 10,
            Error::At { .. } => 11,
        };
        assert_eq!(all.iter().map(place).collect::<Vec<_>>(), (0..all.len()).collect::<Vec<_>>());
        all
    }

    /// What this file says of a variant of [`Error`].
    fn said_of(variant: &str) -> String {
        let lines: Vec<&str> = include_str!("error.rs").lines().map(str::trim).collect();
        let starts = [format!("{variant}("), format!("{variant} {{")];
        let at = lines.iter().position(|line| starts.iter().any(|start| line.starts_with(start))).unwrap();
        let attribute = lines[..at].iter().rposition(|line| line.starts_with("#[error")).unwrap();
        lines[attribute - 1].strip_prefix("/// ").unwrap().to_owned()
    }

    #[test]
    fn docs_list_every_error() {
        let mut page = String::from(
            "# Errors\n\n\
             The causes of `anydnn::backend::Error`, the form of their messages, and the status that each becomes in the C ABI. Written by the\n\
             test `docs_list_every_error` (`ANYDNN_BLESS=1 cargo test -p anydnn-backend --lib docs_list` writes it anew).\n\n\
             | cause | what went wrong | message | status |\n|---|---|---|---|\n",
        );
        for error in one_of_each() {
            let debug = format!("{error:?}");
            let variant: String = debug.chars().take_while(char::is_ascii_alphanumeric).collect();
            let message = error.to_string().replace('\n', " ");
            let status = match &error {
                Error::Invalid(_) => "by its kind, as below".to_owned(),
                Error::Device(_) => "by the driver's code".to_owned(),
                Error::At { .. } => "that of the error itself".to_owned(),
                error => format!("`{}`", c_name(error.status())),
            };
            let _ = writeln!(page, "| `{variant}` | {} | `{message}` | {status} |", said_of(&variant));
        }
        page += "\n| kind of `Invalid` | status |\n|---|---|\n";
        let kinds = [
            InvalidKind::Argument,
            InvalidKind::Graph,
            InvalidKind::GraphOp,
            InvalidKind::Shape,
            InvalidKind::DataType,
        ];
        for kind in kinds {
            let status = Error::invalid_kind(kind, "", "", "", "").status();
            let _ = writeln!(page, "| `{kind:?}` | `{}` |", c_name(status));
        }
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/errors.md");
        if std::env::var_os("ANYDNN_BLESS").is_some() {
            std::fs::write(file, &page).unwrap();
        }
        let known = std::fs::read_to_string(file).unwrap_or_default();
        assert!(
            known == page,
            "docs/reference/errors.md is stale: ANYDNN_BLESS=1 cargo test -p anydnn-backend --lib docs_list"
        );
    }

    /// The status in C: its name in lower case, words apart.
    fn c_name(status: Status) -> String {
        let mut name = String::from("dnnl");
        for letter in format!("{status:?}").chars() {
            if letter.is_ascii_uppercase() {
                name.push('_');
            }
            name.push(letter.to_ascii_lowercase());
        }
        name
    }

    #[test]
    fn places_do_not_hide_the_status() {
        let error =
            Error::invalid_kind(InvalidKind::Shape, "matmul", "k", "3", "4").at("op \"fc\"").at("graph.json");
        assert_eq!(error.status(), Status::InvalidShape);
        assert_eq!(error.to_string(), "graph.json: op \"fc\": matmul: k is 3, expected 4");
    }
}

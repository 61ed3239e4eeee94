//! Errors as exceptions, one class for each cause. The classes are written in Python, in `anydnn/errors.py`.

use std::path::Path;

use anydnn::backend::{Error, InvalidKind, Status};
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict};

/// The exception for an error.
pub(crate) fn exception(error: &Error) -> PyErr {
    Python::attach(|py| {
        let details = PyDict::new(py);
        details
            .set_item("status", status(error.status()))
            .and_then(|()| class(error, &details))
            .and_then(|class| raise(py, class, &error.to_string(), &details))
            .unwrap_or_else(|failed| failed)
    })
}

/// An exception of a class of `anydnn.errors` that no error of the library stands for.
pub(crate) fn own(class: &str, message: &str) -> PyErr {
    Python::attach(|py| raise(py, class, message, &PyDict::new(py)).unwrap_or_else(|failed| failed))
}

/// Results with exceptions.
pub(crate) trait OrRaise<T> {
    /// The value, or the error as an exception.
    fn or_raise(self) -> PyResult<T>;
}

impl<T> OrRaise<T> for Result<T, Error> {
    fn or_raise(self) -> PyResult<T> {
        self.map_err(|error| exception(&error))
    }
}

fn raise(py: Python<'_>, class: &str, message: &str, details: &Bound<'_, PyDict>) -> PyResult<PyErr> {
    let class = py.import("anydnn.errors")?.getattr(class)?;
    Ok(PyErr::from_value(class.call((message,), Some(details))?))
}

/// The name of the class; what the error tells apart goes to the details.
fn class(error: &Error, details: &Bound<'_, PyDict>) -> PyResult<&'static str> {
    let add = |pairs: &[(&str, &str)]| details.update(pairs.into_py_dict(details.py())?.as_mapping());
    Ok(match error.root() {
        Error::Invalid(invalid) => {
            add(&[
                ("operation", &invalid.operation),
                ("subject", &invalid.subject),
                ("given", &invalid.given),
                ("expected", &invalid.expected),
            ])?;
            match invalid.kind {
                InvalidKind::Graph | InvalidKind::GraphOp => "InvalidGraphError",
                InvalidKind::Shape => "InvalidShapeError",
                InvalidKind::DataType => "InvalidDataTypeError",
                _ => "InvalidArgumentError",
            }
        }
        Error::Unsupported { .. } => "UnsupportedError",
        Error::OutOfMemory { .. } => "OutOfMemoryError",
        Error::Build(failure) => {
            add(&[("log", &failure.log), ("program", &failure.program)])?;
            "BuildError"
        }
        Error::Device(failure) => {
            add(&[("call", &failure.call), ("name", &failure.name)])?;
            details.set_item("code", failure.code)?;
            "DeviceError"
        }
        Error::DeviceLost(_) => "DeviceLostError",
        Error::Dependency { .. } => "DependencyError",
        Error::Cancelled { .. } => "CancelledError",
        Error::Mismatch { given, expected, .. } => {
            add(&[("given", given), ("expected", expected)])?;
            "MismatchError"
        }
        Error::Unavailable { .. } => "UnavailableError",
        Error::Io { path, .. } => {
            add(&[("path", path)])?;
            if Path::new(path).exists() { "FileError" } else { "MissingFileError" }
        }
        _ => "Error",
    })
}

/// The C ABI's name of a status.
fn status(status: Status) -> &'static str {
    match status {
        Status::OutOfMemory => "out_of_memory",
        Status::InvalidArguments => "invalid_arguments",
        Status::Unimplemented => "unimplemented",
        Status::InvalidGraph => "invalid_graph",
        Status::InvalidGraphOp => "invalid_graph_op",
        Status::InvalidShape => "invalid_shape",
        Status::InvalidDataType => "invalid_data_type",
        _ => "runtime_error",
    }
}

"""Exceptions, one for each cause.

All of them are :class:`Error`. Where Python has an exception of the same meaning, they are that one too, so that
``except ValueError`` or ``except FileNotFoundError`` works as it does elsewhere.
"""

from __future__ import annotations

__all__ = [
    "BuildError",
    "CancelledError",
    "ClosedError",
    "DependencyError",
    "DeviceError",
    "DeviceLostError",
    "Error",
    "FileError",
    "ForkError",
    "InvalidArgumentError",
    "InvalidDataTypeError",
    "InvalidGraphError",
    "InvalidShapeError",
    "MismatchError",
    "MissingFileError",
    "OutOfMemoryError",
    "UnavailableError",
    "UnsupportedError",
]


class Error(Exception):
    """What went wrong in anydnn."""

    status: str = "runtime_error"
    """The status that the cause is in oneDNN's C interface, without its prefix."""

    def __init__(self, message: str, **details: object) -> None:
        super().__init__(message)
        for name, value in details.items():
            setattr(self, name, value)


class InvalidArgumentError(Error, ValueError):
    """An argument that can never be right."""

    status = "invalid_arguments"
    operation: str = ""
    """The operation that was asked for."""
    subject: str = ""
    """Which of its arguments."""
    given: str = ""
    """What was given."""
    expected: str = ""
    """What would have been right."""


class InvalidShapeError(InvalidArgumentError):
    """A shape, or the inputs of a model, do not fit."""

    status = "invalid_shape"


class InvalidDataTypeError(InvalidArgumentError, TypeError):
    """A type of elements does not fit."""

    status = "invalid_data_type"


class InvalidGraphError(InvalidArgumentError):
    """A graph that is not one, or an operation with wrong inputs, outputs or attributes."""

    status = "invalid_graph"


class UnsupportedError(Error, NotImplementedError):
    """A valid request that this backend, device or version cannot fulfil."""

    status = "unimplemented"


class OutOfMemoryError(Error, MemoryError):
    """Memory of the host or of the device ran out."""

    status = "out_of_memory"


class BuildError(Error, RuntimeError):
    """A program did not build on a device."""

    program: str = ""
    """The program or kernel."""
    log: str = ""
    """What the compiler said."""


class DeviceError(Error, RuntimeError):
    """A call to a device's driver failed."""

    call: str = ""
    """The driver's call."""
    code: int = 0
    """The code it returned."""
    name: str = ""
    """The code's name."""


class DeviceLostError(DeviceError):
    """The device is gone; nothing on it works any more."""


class DependencyError(Error, RuntimeError):
    """Work that this work waits for has failed, so it did not run."""


class CancelledError(Error, RuntimeError):
    """The run was cancelled before its end."""


class MismatchError(Error, ValueError):
    """Objects of different contexts, devices or backends were mixed."""

    status = "invalid_arguments"
    given: str = ""
    """The object that does not belong."""
    expected: str = ""
    """What it should belong to."""


class UnavailableError(Error, RuntimeError):
    """A backend, platform or device is missing."""

    status = "unimplemented"


class FileError(Error, OSError):
    """A file cannot be read or written."""

    status = "invalid_arguments"
    path: str = ""
    """The file."""


class MissingFileError(FileError, FileNotFoundError):
    """A file is not there."""


class ClosedError(Error, ValueError):
    """The session is closed."""

    status = "invalid_arguments"


class ForkError(Error, RuntimeError):
    """The process is a fork of one that has used devices."""

"""ONNX models and deep-learning graphs on any OpenCL device, or on the host without any.

>>> import anydnn
>>> session = anydnn.InferenceSession("model.onnx")  # doctest: +SKIP
>>> outputs = session.run(None, {"x": x})  # doctest: +SKIP

``anydnn.opencl`` works on OpenCL objects of ``pyopencl``, ``anydnn.backend`` is a backend of the package ``onnx``.
"""

from __future__ import annotations

import atexit

from . import _native
from ._devices import Device, backends, devices
from ._native import __version__
from .errors import (
    BuildError,
    CancelledError,
    ClosedError,
    DependencyError,
    DeviceError,
    DeviceLostError,
    Error,
    FileError,
    ForkError,
    InvalidArgumentError,
    InvalidDataTypeError,
    InvalidGraphError,
    InvalidShapeError,
    MismatchError,
    MissingFileError,
    OutOfMemoryError,
    UnavailableError,
    UnsupportedError,
)
from .graph import CompiledGraph, Graph, GraphBuilder, Model, Partition, TensorInfo, TensorRef, load_model
from .pool import PoolResult, SessionPool
from .session import InferenceSession, ModelMetadata, NodeArg, RunOptions, StepTime

__all__ = [
    "BuildError",
    "CancelledError",
    "ClosedError",
    "CompiledGraph",
    "DependencyError",
    "Device",
    "DeviceError",
    "DeviceLostError",
    "Error",
    "FileError",
    "ForkError",
    "Graph",
    "GraphBuilder",
    "InferenceSession",
    "InvalidArgumentError",
    "InvalidDataTypeError",
    "InvalidGraphError",
    "InvalidShapeError",
    "MismatchError",
    "MissingFileError",
    "Model",
    "ModelMetadata",
    "NodeArg",
    "OutOfMemoryError",
    "Partition",
    "PoolResult",
    "RunOptions",
    "SessionPool",
    "StepTime",
    "TensorInfo",
    "TensorRef",
    "UnavailableError",
    "UnsupportedError",
    "__version__",
    "backends",
    "devices",
    "load_model",
]

# Runs that Ctrl-C left behind end before the drivers do.
atexit.register(_native.join)

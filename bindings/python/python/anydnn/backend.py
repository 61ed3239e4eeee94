"""anydnn as a backend of the package ``onnx``: ``prepare``, ``run_model``, ``run_node``, ``supports_device``.

    import onnx, anydnn.backend
    outputs = anydnn.backend.run_model(onnx.load("model.onnx"), [x])

Devices are ``"CPU"`` (an OpenCL processor or the host, or what ``ANYDNN_BACKEND`` names) and every name that
:class:`anydnn.InferenceSession` takes as ``backend``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import onnx
from onnx.backend.base import Backend, BackendRep

from ._devices import devices
from .errors import Error, InvalidArgumentError
from .session import InferenceSession


class AnydnnRep(BackendRep):  # type: ignore[misc]
    """A model that is prepared to run."""

    def __init__(self, session: InferenceSession) -> None:
        super().__init__()
        self.session = session

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Runs on inputs in the model's order, or by name, and returns the outputs in its order."""
        _no_more(kwargs)
        return tuple(self.session.run(None, _feed(self.session, inputs)))


class AnydnnBackend(Backend):  # type: ignore[misc]
    """The backend."""

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether the model can be read and its first stage compiled."""
        try:
            cls.prepare(model, device, **kwargs)
        except Error:
            return False
        return True

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> AnydnnRep:
        """Reads and compiles a model; ``precision``, ``dims``, ``plans`` and ``startup`` are those of :class:`anydnn.InferenceSession`."""
        options = {
            name: kwargs.pop(name) for name in ("precision", "dims", "plans", "startup") if name in kwargs
        }
        _no_more(kwargs)
        return AnydnnRep(InferenceSession(model.SerializeToString(), backend=_backend(device), **options))

    @classmethod
    def run_model(
        cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any
    ) -> tuple[Any, ...]:
        """Prepares a model and runs it once."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[Any, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Runs one node on inputs in its order."""
        import numpy as np

        given = [np.asarray(value) for value in inputs]
        names = [name for name in node.input if name]
        element = onnx.helper.np_dtype_to_tensor_dtype
        infos = [
            onnx.helper.make_tensor_value_info(name, element(value.dtype), value.shape)
            for name, value in zip(names, given)
        ]
        made = [onnx.helper.make_empty_tensor_value_info(name) for name in node.output if name]
        opset = kwargs.pop("opset_version", None)
        opsets = [onnx.helper.make_opsetid("", opset)] if opset else None
        graph = onnx.helper.make_graph([node], node.op_type, infos, made)
        return cls.run_model(onnx.helper.make_model(graph, opset_imports=opsets), given, device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether there is such a device."""
        if device.upper() == "CPU":
            return True
        try:
            name = _backend(device)
        except InvalidArgumentError:
            return False
        if name == "host":
            return True
        words = name.split(":")[1:]
        found = [one for one in devices() if one.available and one.backend == "opencl"]
        return any(all(word in (one.kind or "", *one.name.split(":")) for word in words) for one in found)


def _backend(device: str) -> str:
    """The name of a backend for that of a device."""
    name = device.lower()
    if name == "cpu":
        return os.environ.get("ANYDNN_BACKEND") or "opencl:cpu,host"
    if name.split(":")[0] in ("opencl", "host"):
        return name
    expected = "CPU, HOST, or a name such as OPENCL:GPU"
    raise InvalidArgumentError(
        f"device is {device!r}, expected {expected}", subject="device", given=repr(device), expected=expected
    )


def _feed(session: InferenceSession, inputs: Any) -> dict[str, Any]:
    if isinstance(inputs, Mapping):
        return dict(inputs)
    names = [arg.name for arg in session.get_inputs()]
    if not isinstance(inputs, (list, tuple)):
        inputs = [inputs]
    if len(inputs) != len(names):
        given, expected = str(len(inputs)), f"{len(names)}: {', '.join(names)}"
        message = f"number of inputs is {given}, expected {expected}"
        raise InvalidArgumentError(message, subject="number of inputs", given=given, expected=expected)
    return dict(zip(names, inputs))


def _no_more(options: Mapping[str, Any]) -> None:
    if options:
        given, expected = ", ".join(options), "precision, dims, plans or startup"
        raise InvalidArgumentError(
            f"options is {given}, expected {expected}", subject="options", given=given, expected=expected
        )


is_compatible = AnydnnBackend.is_compatible
prepare = AnydnnBackend.prepare
run_model = AnydnnBackend.run_model
run_node = AnydnnBackend.run_node
supports_device = AnydnnBackend.supports_device

"""Graphs of operations: building them, their partitions, and running them."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from . import _native
from ._arrays import to_array, to_tensor
from ._types import own_of
from .errors import InvalidArgumentError, InvalidGraphError


class TensorRef(NamedTuple):
    """A tensor of a graph under construction."""

    id: int
    builder: GraphBuilder


class TensorInfo(NamedTuple):
    """A tensor of a graph."""

    name: str
    """The name."""
    data_type: str | None
    """The library's name of the type, as ``f32``; none where it is not known."""
    shape: list[int | None] | None
    """The extents, where they are known."""


class Partition(NamedTuple):
    """Operations that run as one."""

    id: int
    """The number."""
    pattern: str
    """The pattern that takes them, as ``matmul`` with what follows."""
    ops: list[str]
    """The names of the operations."""
    stopped: str | None
    """Why it ends where it does; none at the end of the graph."""


class GraphBuilder:
    """Builds a graph of operations of oneDNN's graph interface.

    >>> import anydnn, numpy as np
    >>> g = anydnn.GraphBuilder()
    >>> x = g.input("x", "float32", (2, 3))
    >>> w = g.constant("w", np.ones((3, 2), np.float32))
    >>> y = g.op("ReLU", [g.op("MatMul", [x, w])], name="y")
    >>> graph = g.build()
    >>> [partition.ops for partition in graph.partitions()]
    [['MatMul', 'y']]
    >>> graph.compile("host").run({"x": np.ones((2, 3), np.float32)})["y"].tolist()
    [[3.0, 3.0], [3.0, 3.0]]
    """

    def __init__(self) -> None:
        self._native = _native.Builder()
        self._constants: list[tuple[int, _native.Tensor]] = []
        self._names: dict[str, int] = {}

    def input(self, name: str, dtype: npt.DTypeLike, shape: Sequence[int]) -> TensorRef:
        """Adds a tensor that each run is given. Types are NumPy's, or names of the library's such as ``"bf16"``."""
        return TensorRef(self._native.input(name, own_of(dtype, f"input {name!r}"), list(shape)), self)

    def constant(self, name: str, value: object) -> TensorRef:
        """Adds a tensor with its elements."""
        tensor = to_tensor(name, value)
        number = self._native.constant(name, tensor.data_type, tensor.dims)
        self._constants.append((number, tensor))
        return TensorRef(number, self)

    def op(
        self, kind: str, inputs: Sequence[TensorRef], name: str | None = None, **attrs: object
    ) -> TensorRef:
        """Adds an operation with one output, and returns that.

        Attributes are truth values, numbers, words and lists of numbers, under oneDNN's names: ``transpose_b=True``, ``axis=-1``. Where
        one is a float, write it as ``2.0``.
        """
        return self.op_multi(kind, inputs, 1, name, **attrs)[0]

    def op_multi(
        self, kind: str, inputs: Sequence[TensorRef], outputs: int, name: str | None = None, **attrs: object
    ) -> list[TensorRef]:
        """Adds an operation with several outputs, and returns them."""
        for given in inputs:
            if given.builder is not self:
                message = f"{kind}: input is a tensor of another graph, expected one of this graph"
                raise InvalidGraphError(
                    message, operation=kind, subject="input", given="a tensor of another graph"
                )
        if name is None:
            count = self._names.get(kind, 0)
            self._names[kind] = count + 1
            name = f"{kind}.{count}" if count else kind
        numbers = self._native.op(kind, name, [given.id for given in inputs], list(attrs.items()), outputs)
        return [TensorRef(number, self) for number in numbers]

    def output(self, tensor: TensorRef) -> None:
        """Makes a tensor an output. Without any, those that no operation reads are."""
        self._native.output(tensor.id)

    def build(self) -> Graph:
        """Finishes the graph: checks it and infers shapes and types."""
        return Graph(self._native.build(), self._constants)


class Graph:
    """A finished graph. Notebooks show its partitions as a picture."""

    def __init__(self, native: _native.Graph, constants: list[tuple[int, _native.Tensor]]) -> None:
        self._native = native
        self._constants = constants

    @classmethod
    def from_json(cls, text: str) -> Graph:
        """A graph from oneDNN's graph JSON, whose constants have no elements."""
        return cls(_native.Graph.from_json(text), [])

    def to_json(self) -> str:
        """The graph as oneDNN's graph JSON, without elements of constants."""
        return self._native.to_json()

    def with_batch(self, batch: int) -> Graph:
        """The same graph with ``batch`` as the first extent of every input."""
        return Graph(self._native.with_batch(batch), self._constants)

    @property
    def inputs(self) -> list[TensorInfo]:
        """What each run is given."""
        return [TensorInfo(*told[1:]) for told in self._native.inputs()]

    @property
    def outputs(self) -> list[TensorInfo]:
        """What each run makes."""
        return [TensorInfo(*told[1:]) for told in self._native.outputs()]

    @property
    def constants(self) -> list[TensorInfo]:
        """What is given once."""
        return [TensorInfo(*told[1:]) for told in self._native.constants()]

    def partitions(self, policy: str = "fusion") -> list[Partition]:
        """The partitions, each after those that it depends on; with the policy ``"debug"`` each operation is one."""
        return [Partition(*told) for told in self._native.partitions(policy)]

    def describe(self, policy: str = "fusion") -> str:
        """The partitions in words, and why each ends where it does."""
        return self._native.describe(policy)

    def to_dot(self, policy: str = "fusion") -> str:
        """The partitions in Graphviz's DOT language."""
        return self._native.draw(policy, True)

    def to_svg(self, policy: str = "fusion") -> str:
        """The partitions as an SVG picture."""
        return self._native.draw(policy, False)

    def compile(
        self,
        backend: str | None = None,
        constants: Mapping[str, object] | None = None,
        policy: str = "fusion",
    ) -> CompiledGraph:
        """Compiles the graph for a device, chosen as by :class:`anydnn.InferenceSession`.

        ``constants`` gives elements, by name, that the graph has not.
        """
        ids = {told[1]: told[0] for told in self._native.constants()}
        given = dict(self._constants)
        for name, value in (constants or {}).items():
            if name not in ids:
                expected = ", ".join(ids) or "none"
                message = f"constants is {name!r}, which the graph has not, expected {expected}"
                raise InvalidArgumentError(message, subject="constants", given=repr(name), expected=expected)
            given[ids[name]] = to_tensor(name, value)
        return CompiledGraph(self._native, self._native.compile(backend, policy, list(given.items())))

    def _repr_svg_(self) -> str:
        return self.to_svg()

    def __repr__(self) -> str:
        return f"<anydnn.Graph of {self._native.op_count()} operations>"


class Model(NamedTuple):
    """A graph with what belongs to it."""

    graph: Graph
    """The graph, with the elements of its constants."""
    data: dict[str, npt.NDArray[Any]]
    """Examples: arrays of rows by the names of inputs; empty where there are none."""
    labels: npt.NDArray[np.int64] | None
    """The right answer for each row: the number of its class."""
    classes: list[str]
    """The names of the classes."""


def load_model(path: str | os.PathLike[str]) -> Model:
    """Reads a model in the library's own form: a folder with ``model.json``, such a file, or a file of graph JSON.

    ONNX models are for :class:`anydnn.InferenceSession`.
    """
    graph, constants, rows, labels, classes = _native.load_model(os.fspath(path))
    data = {name: to_array(tensor) for name, tensor in rows}
    return Model(Graph(graph, constants), data, None if labels is None else np.array(labels), classes)


class CompiledGraph:
    """A graph compiled for a device: runs from any number of threads."""

    def __init__(self, graph: _native.Graph, native: _native.Compiled) -> None:
        self._native = native
        self._inputs = {told[1]: told for told in graph.inputs()}
        self._outputs = [told[1] for told in graph.outputs()]

    @property
    def device(self) -> tuple[str, str, str]:
        """What it runs on: the name that chooses it, the device's own, and its platform's."""
        return self._native.device()

    @property
    def steps(self) -> list[tuple[str, str]]:
        """The steps: names of operations, and how they are computed."""
        return self._native.steps()

    def run(self, feed: Mapping[str, object]) -> dict[str, npt.NDArray[Any]]:
        """Runs the graph on arrays by name, and returns its outputs by name."""
        inputs = []
        for name, value in feed.items():
            if name not in self._inputs:
                expected = ", ".join(self._inputs) or "none"
                message = f"inputs is {name!r}, which the graph has not, expected {expected}"
                raise InvalidArgumentError(message, subject="inputs", given=repr(name), expected=expected)
            number, _, data_type, _ = self._inputs[name]
            inputs.append((number, to_tensor(name, value, data_type)))
        is_main = threading.current_thread() is threading.main_thread()
        made = self._native.run(inputs, is_main)
        return {name: to_array(tensor) for name, tensor in zip(self._outputs, made)}

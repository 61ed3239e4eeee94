"""Small models for tests."""

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Dims = Optional[Sequence[Any]]


def model(nodes: Sequence[Any], inputs: Any, outputs: Any, weights: Any = (), opset: int = 21) -> bytes:
    """A model of nodes; inputs and outputs are names with ONNX's type and dimensions."""
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        list(nodes),
        "test",
        [info(name, kind, dims) for name, kind, dims in inputs],
        [info(name, kind, dims) for name, kind, dims in outputs],
        [numpy_helper.from_array(value, name) for name, value in weights],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], producer_name="tests")
    made.domain, made.model_version, made.doc_string = "com.example", 7, "for tests"
    helper.set_model_props(made, {"labels": "cat,dog"})
    return bytes(made.SerializeToString())


WEIGHTS = np.array([[1, -1], [2, -2], [3, 3]], np.float32)


def dense() -> bytes:
    """``y = relu(x w)`` and ``s = softmax(y)`` of ``[n, 3]``."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Relu", ["a"], ["y"]),
        helper.make_node("Softmax", ["y"], ["s"]),
    ]
    return model(
        nodes,
        [("x", TensorProto.FLOAT, ["n", 3])],
        [("y", TensorProto.FLOAT, ["n", 2]), ("s", TensorProto.FLOAT, ["n", 2])],
        [("w", WEIGHTS)],
    )


def dense_expected(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    y = np.maximum(x @ WEIGHTS, 0)
    e = np.exp(y - y.max(axis=-1, keepdims=True))
    return y, e / e.sum(axis=-1, keepdims=True)


def identity(kind: int) -> bytes:
    node = helper.make_node("Identity", ["x"], ["y"])
    return model([node], [("x", kind, ["a", "b"])], [("y", kind, None)], opset=23)


def endless() -> bytes:
    """A loop that goes on until it is cancelled."""
    return counting([("most", np.array(np.iinfo(np.int64).max))])


def counting(weights: Any = ()) -> bytes:
    """The sum of ``v`` and the numbers below ``most``, by a loop."""
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Add", ["v", "i"], ["w"])],
        "body",
        [info("i", TensorProto.INT64, []), info("c", TensorProto.BOOL, []), info("v", TensorProto.INT64, [])],
        [info("d", TensorProto.BOOL, []), info("w", TensorProto.INT64, [])],
    )
    node = helper.make_node("Loop", ["most", "", "v"], ["w"], body=body)
    integer = TensorProto.INT64
    inputs = [(name, integer, []) for name in ("v", "most") if name not in dict(weights)]
    return model([node], inputs, [("w", integer, [])], weights, opset=13)


def parsed(made: bytes) -> onnx.ModelProto:
    return onnx.load_model_from_string(made)


def assert_close(made: np.ndarray, expected: np.ndarray, terms: int = 1) -> None:
    """Compares results with sums of so many terms.

    Either side rounds each term and each of a few functions once, relative to the largest value; integers differ by one unit at most
    where a half is rounded.
    """
    assert (made.dtype, made.shape) == (expected.dtype, expected.shape)
    if made.dtype.kind in "iu":
        assert np.abs(made.astype(np.int64) - expected.astype(np.int64)).max(initial=0) <= 1
        return
    largest = max(1.0, float(np.abs(expected).max(initial=0)))
    np.testing.assert_allclose(
        made, expected, rtol=0, atol=np.finfo(np.float32).eps * (2 * terms + 16) * largest
    )

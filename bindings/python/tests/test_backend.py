"""anydnn as a backend of the package onnx."""

import anydnn
import anydnn.backend
import models
import numpy as np
import onnx
import pytest
from onnx import helper

X = np.array([[1, 2, 3]], np.float32)


def test_a_model_is_prepared_and_run(backend: str) -> None:
    model = models.parsed(models.dense())
    prepared = anydnn.backend.prepare(model, backend, dims={"n": 1})
    assert prepared.session.device[0].startswith(backend)
    for inputs in ([X], (X,), X, {"x": X}):
        y, s = prepared.run(inputs)
        expected = models.dense_expected(X)
        models.assert_close(y, expected[0], terms=3)
        models.assert_close(s, expected[1], terms=3)
    assert len(anydnn.backend.run_model(model, [X], backend)) == 2
    assert anydnn.backend.is_compatible(model, backend)


def test_a_node_is_run() -> None:
    node = helper.make_node("Clip", ["x", "", "most"], ["y"])
    (y,) = anydnn.backend.run_node(node, [X, np.float32(2)], "HOST", opset_version=13)
    np.testing.assert_array_equal(y, [[1, 2, 2]])


def test_devices_are_known(backend: str) -> None:
    assert anydnn.backend.supports_device("CPU")
    assert anydnn.backend.supports_device(backend.upper())
    assert not anydnn.backend.supports_device("CUDA")
    assert not anydnn.backend.supports_device("OPENCL:NOSUCH")


def test_what_does_not_fit_is_told() -> None:
    model = models.parsed(models.dense())
    prepared = anydnn.backend.prepare(model, "HOST")
    for use, match in [
        (lambda: anydnn.backend.prepare(model, "CUDA:0"), "device is 'CUDA:0', expected CPU, HOST"),
        (lambda: anydnn.backend.prepare(model, "HOST", colour="red"), "options is colour"),
        (lambda: prepared.run([X, X]), "number of inputs is 2, expected 1: x"),
    ]:
        with pytest.raises(anydnn.InvalidArgumentError, match=match):
            use()
    strange = helper.make_model(helper.make_graph([helper.make_node("Strange", ["x"], ["y"])], "g", [], []))
    strange.graph.output.append(onnx.ValueInfoProto(name="y"))
    assert not anydnn.backend.is_compatible(strange, "HOST")

"""Wrong input is an exception that names what was given and what was expected."""

from pathlib import Path

import anydnn
import models
import numpy as np
import pytest
from onnx import TensorProto, helper


@pytest.fixture
def session() -> anydnn.InferenceSession:
    return anydnn.InferenceSession(models.dense(), "host")


X = np.ones((2, 3), np.float32)


@pytest.mark.parametrize(
    ("feed", "error", "given", "expected"),
    [
        ({"x": X.astype(np.float64)}, anydnn.InvalidDataTypeError, "2x3 of f64", "x: f32 [n, 3]"),
        ({"x": X.astype(np.int32)}, TypeError, "2x3 of s32", "x: f32 [n, 3]"),
        ({"x": np.ones((2, 4), np.float32)}, anydnn.InvalidShapeError, "2x4 of f32", "x: f32 [n, 3]"),
        ({"x": np.ones(3, np.float32)}, ValueError, "3 of f32", "x: f32 [n, 3]"),
        ({}, anydnn.InvalidShapeError, "missing", "x: f32 [n, 3]"),
        ({"x": X, "z": X}, anydnn.InvalidArgumentError, '"z", which the model has not', "x: f32 [n, 3]"),
        ({"x": np.array(["a"])}, anydnn.InvalidDataTypeError, "<U1", "float32"),
        ({"x": X.astype(np.complex64)}, anydnn.InvalidDataTypeError, "complex64", "float32"),
        ({"x": X.astype(object)}, anydnn.InvalidDataTypeError, "object", "float32"),
    ],
)
def test_inputs_that_do_not_fit(
    session: anydnn.InferenceSession, feed: dict[str, object], error: type, given: str, expected: str
) -> None:
    with pytest.raises(error) as raised:
        session.run(None, feed)
    assert isinstance(raised.value, anydnn.InvalidArgumentError)
    assert (raised.value.given, expected in raised.value.expected) == (given, True)
    assert given in str(raised.value)
    assert expected in str(raised.value)
    # It still works.
    np.testing.assert_array_equal(session.run(["y"], {"x": X})[0], models.dense_expected(X)[0])


def test_ragged_lists_are_refused(session: anydnn.InferenceSession) -> None:
    with pytest.raises(ValueError, match="inhomogeneous"):
        session.run(None, {"x": [[1, 2, 3], [4]]})


def test_a_closed_session_says_so(session: anydnn.InferenceSession) -> None:
    with session as own:
        own.run(None, {"x": X})
    for use in (
        lambda: session.run(None, {"x": X}),
        lambda: session.profile({"x": X}),
        lambda: session.warm_up(n=1),
        session.describe,
        session.to_svg,
        session.memory,
        lambda: session.run_async(None, {"x": X}).result(),
    ):
        with pytest.raises(anydnn.ClosedError, match="the session is closed, expected an open one"):
            use()
    session.close()
    assert repr(session) == "<anydnn.InferenceSession, closed>"
    assert session.get_inputs()[0].name == "x"


def test_a_model_that_is_not_there(tmp_path: Path) -> None:
    missing = tmp_path / "no.onnx"
    with pytest.raises(anydnn.MissingFileError, match="no.onnx") as raised:
        anydnn.InferenceSession(missing, "host")
    assert isinstance(raised.value, FileNotFoundError)
    assert raised.value.path == str(missing)
    with pytest.raises(anydnn.InvalidArgumentError, match="a folder, expected a regular file"):
        anydnn.InferenceSession(tmp_path, "host")
    with pytest.raises(TypeError, match="int"):
        anydnn.InferenceSession(7, "host")  # type: ignore[arg-type]


@pytest.mark.parametrize("part", [0, 1, 7, 40, 100, -1])
def test_a_truncated_model(tmp_path: Path, part: int) -> None:
    whole = models.dense()
    file = tmp_path / "part.onnx"
    file.write_bytes(whole[:part])
    for source in (whole[:part], file):
        with pytest.raises(anydnn.InvalidArgumentError, match=r"ONNX model: .*expected a ModelProto"):
            anydnn.InferenceSession(source, "host")


def test_operators_that_nothing_computes() -> None:
    node = helper.make_node("NoSuchOperator", ["x"], ["y"], name="strange")
    made = models.model([node], [("x", TensorProto.FLOAT, [2])], [("y", TensorProto.FLOAT, [2])])
    with pytest.raises(anydnn.UnsupportedError, match="NoSuchOperator") as raised:
        anydnn.InferenceSession(made, "host").run(None, {"x": np.ones(2, np.float32)})
    assert isinstance(raised.value, NotImplementedError)
    assert raised.value.status == "unimplemented"


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"backend": "openkl"}, 'backend is "openkl", expected a comma-separated list of host, opencl'),
        ({"backend": "opencl:nosuch"}, "opencl:nosuch"),
        ({"precision": "f8"}, 'precision is "f8", expected model, f16 or bf16'),
        ({"dims": {"m": 1}}, 'name is "m", expected an open dimension of the model\'s inputs: n'),
    ],
)
def test_options_that_do_not_fit(options: dict[str, object], match: str) -> None:
    with pytest.raises((anydnn.Error, ValueError), match=match):
        anydnn.InferenceSession(models.dense(), **{"backend": "host", **options})  # type: ignore[arg-type]
    if "openkl" not in match and "backend" in options:
        with pytest.raises(anydnn.UnavailableError):
            anydnn.InferenceSession(models.dense(), **options)  # type: ignore[arg-type]


def test_every_exception_is_one_of_the_package() -> None:
    own = [getattr(anydnn, name) for name in anydnn.__all__ if name.endswith("Error")]
    assert all(issubclass(error, anydnn.Error) for error in own)
    for error, known in [
        (anydnn.InvalidArgumentError, ValueError),
        (anydnn.InvalidDataTypeError, TypeError),
        (anydnn.UnsupportedError, NotImplementedError),
        (anydnn.OutOfMemoryError, MemoryError),
        (anydnn.MissingFileError, FileNotFoundError),
        (anydnn.DeviceLostError, RuntimeError),
    ]:
        assert issubclass(error, known)


def test_memory_that_is_not_there(backend: str) -> None:
    node = helper.make_node("Add", ["x", "y"], ["z"])
    vectors = [("x", TensorProto.FLOAT, ["n", 1]), ("y", TensorProto.FLOAT, [1, "n"])]
    made = models.model([node], vectors, [("z", TensorProto.FLOAT, ["n", "n"])])
    x = np.ones((1 << 22, 1), np.float32)
    with pytest.raises(anydnn.OutOfMemoryError) as raised:
        anydnn.InferenceSession(made, backend).run(None, {"x": x, "y": x.T})
    assert isinstance(raised.value, MemoryError)

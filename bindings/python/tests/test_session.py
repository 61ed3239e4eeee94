import asyncio
import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anydnn
import ml_dtypes
import models
import numpy as np
import pytest
from anydnn._arrays import to_array, to_tensor
from onnx import TensorProto, helper


def inputs(rows: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((rows, 3)).astype(np.float32)


def check(outputs: list[np.ndarray], x: np.ndarray) -> None:
    for made, expected in zip(outputs, models.dense_expected(x)):
        models.assert_close(made, expected, terms=3)


def test_a_session_runs_any_shapes_that_fit(backend: str) -> None:
    session = anydnn.InferenceSession(models.dense(), backend=backend)
    for rows in (1, 5, 2, 5):
        x = inputs(rows, rows)
        check(session.run(None, {"x": x}), x)
    assert session.device[0].startswith(backend)
    assert session.get_providers() == [session.device[0]]


def test_a_session_reads_files(tmp_path: Path) -> None:
    file = tmp_path / "dense.onnx"
    file.write_bytes(models.dense())
    x = inputs(2)
    for source in (file, str(file), bytearray(models.dense())):
        check(anydnn.InferenceSession(source, backend="host").run(None, {"x": x}), x)


def test_outputs_are_chosen_by_name() -> None:
    session = anydnn.InferenceSession(models.dense(), "host")
    x = inputs(2)
    y, s = session.run(None, {"x": x})
    for names, expected in [(["s"], [s]), (["s", "y"], [s, y]), (["y", "y"], [y, y]), ([], [y, s])]:
        for made, wanted in zip(session.run(names, {"x": x}), expected):
            np.testing.assert_array_equal(made, wanted)
    with pytest.raises(
        anydnn.InvalidArgumentError, match="outputs is 'z', which the model has not, expected y, s"
    ):
        session.run(["z"], {"x": x})


def test_a_model_tells_about_itself() -> None:
    session = anydnn.InferenceSession(models.dense(), "host")
    (x,) = session.get_inputs()
    assert (x.name, x.shape, x.type, x.data_type) == ("x", ["n", 3], "tensor(float)", "f32")
    assert [(o.name, o.shape, o.type) for o in session.get_outputs()] == [
        ("y", ["n", 2], "tensor(float)"),
        ("s", ["n", 2], "tensor(float)"),
    ]
    assert session.get_modelmeta() == anydnn.ModelMetadata(
        "tests", "test", "com.example", "for tests", "", 7, {"labels": "cat,dog"}
    )
    assert "x: tensor(float) ['n', 3]" in repr(session)


TYPES = {
    TensorProto.FLOAT: np.float32,
    TensorProto.DOUBLE: np.float64,
    TensorProto.FLOAT16: np.float16,
    TensorProto.BFLOAT16: ml_dtypes.bfloat16,
    TensorProto.INT8: np.int8,
    TensorProto.INT16: np.int16,
    TensorProto.INT32: np.int32,
    TensorProto.INT64: np.int64,
    TensorProto.UINT8: np.uint8,
    TensorProto.UINT16: np.uint16,
    TensorProto.UINT32: np.uint32,
    TensorProto.UINT64: np.uint64,
    TensorProto.BOOL: np.bool_,
    TensorProto.FLOAT8E4M3FN: ml_dtypes.float8_e4m3fn,
    TensorProto.FLOAT8E5M2: ml_dtypes.float8_e5m2,
    TensorProto.FLOAT8E4M3FNUZ: ml_dtypes.float8_e4m3fnuz,
    TensorProto.FLOAT8E5M2FNUZ: ml_dtypes.float8_e5m2fnuz,
    TensorProto.INT4: ml_dtypes.int4,
    TensorProto.UINT4: ml_dtypes.uint4,
    TensorProto.FLOAT4E2M1: ml_dtypes.float4_e2m1fn,
}


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("shape", [(3, 5), (0, 5), (1, 1)])
def test_every_type_goes_in_and_out(backend: str, kind: int, shape: tuple[int, int]) -> None:
    values = np.arange(np.prod(shape)).reshape(shape) % 8 - (4 if kind in (3, 5, 6, 7, 22) else 0)
    x = values.astype(TYPES[kind])
    (y,) = anydnn.InferenceSession(models.identity(kind), backend=backend).run(None, {"x": x})
    assert (y.dtype, y.shape) == (x.dtype, x.shape)
    np.testing.assert_array_equal(y.astype(np.float64), x.astype(np.float64))
    assert y.flags.writeable


@pytest.mark.parametrize("name", ["int4", "uint4", "int2", "uint2", "float4_e2m1fn"])
def test_elements_that_share_bytes_are_packed_and_unpacked(name: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name))
    bits = 2 if name.endswith("2") else 4
    every = np.arange(1 << bits, dtype=np.uint8)
    if name.startswith("int"):
        every = np.where(every >= 1 << (bits - 1), every | np.uint8(256 - (1 << bits)), every).astype(
            np.uint8
        )
    x = np.concatenate([every, every[:1]]).view(dtype)
    tensor = to_tensor("x", x)
    assert np.asarray(tensor).nbytes == -(-x.size * bits // 8)
    np.testing.assert_array_equal(to_array(tensor).view(np.uint8), x.view(np.uint8))


def test_results_share_no_memory_with_later_ones(backend: str) -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    relu = models.model([node], [("x", TensorProto.FLOAT, ["n"])], [("y", TensorProto.FLOAT, ["n"])])
    session = anydnn.InferenceSession(relu, backend=backend)
    kept = []
    for number in range(6):
        x = np.full(50_000, number, np.float32)
        (y,) = session.run(None, {"x": x})
        # Of every third one the memory is given back at once.
        if number % 3 != 1:
            kept.append((number, y))
        assert (x == number).all()
    for number, y in kept:
        np.testing.assert_array_equal(y, np.full(50_000, number, np.float32))


def test_sizes_that_depend_on_values_may_change(backend: str) -> None:
    node = helper.make_node("NonZero", ["x"], ["y"])
    where = models.model([node], [("x", TensorProto.FLOAT, [8])], [("y", TensorProto.INT64, [1, "k"])])
    session = anydnn.InferenceSession(where, backend=backend)
    for count in (2, 2, 5, 0, 8):
        x = (np.arange(8) < count).astype(np.float32)
        np.testing.assert_array_equal(session.run(None, {"x": x})[0], [np.arange(count)])


def test_contiguous_arrays_are_not_copied() -> None:
    x = inputs(4)
    assert np.asarray(to_tensor("x", x)).ctypes.data == x.ctypes.data
    held = sys.getrefcount(x)
    tensor = to_tensor("x", x)
    assert sys.getrefcount(x) == held + 1
    del tensor
    assert sys.getrefcount(x) == held


@pytest.mark.parametrize(
    "change",
    [
        lambda x: np.asfortranarray(x),
        lambda x: np.repeat(x, 2, axis=0)[::2],
        lambda x: x[::-1].copy()[::-1],
        lambda x: x.astype(">f4"),
        lambda x: x.tolist(),
        lambda x: np.lib.stride_tricks.as_strided(x, x.shape, x.strides, writeable=False),
    ],
)
def test_arrays_of_any_order_mean_the_same(change: "object") -> None:
    x = inputs(4)
    given = change(x)  # type: ignore[operator]
    check(anydnn.InferenceSession(models.dense(), "host").run(None, {"x": given}), x)


class Dlpack:
    """An array of another package."""

    def __init__(self, array: np.ndarray, device: tuple[int, int] = (1, 0)) -> None:
        self.array, self.device = array, device

    def __dlpack__(self, **options: object) -> object:
        return self.array.__dlpack__(**options)  # type: ignore[arg-type]

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


def test_dlpack_in_memory_of_the_host_is_read_in_place() -> None:
    x = inputs(3)
    assert np.asarray(to_tensor("x", Dlpack(x))).ctypes.data == x.ctypes.data
    session = anydnn.InferenceSession(models.dense(), "host")
    outputs = session.run(None, {"x": Dlpack(x)})
    check(outputs, x)
    np.testing.assert_array_equal(np.from_dlpack(outputs[0]), outputs[0])
    with pytest.raises(
        anydnn.MismatchError,
        match="'x' is in memory of DLPack's device type 2, .*expected memory of the host",
    ):
        session.run(None, {"x": Dlpack(x, (2, 1))})


def test_results_outlive_their_session() -> None:
    session = anydnn.InferenceSession(models.dense(), "host")
    x = inputs(100)
    outputs = session.run(None, {"x": x})
    del session
    check(outputs, x)
    outputs[0][:] = 0
    assert not outputs[0].any()


def test_threads_share_a_session(backend: str) -> None:
    session = anydnn.InferenceSession(models.dense(), backend=backend)

    def work(seed: int) -> None:
        for rows in (1, 3, 7):
            x = inputs(rows, seed)
            check(session.run(None, {"x": x}), x)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(32)))


def test_other_threads_run_meanwhile() -> None:
    session = anydnn.InferenceSession(models.endless(), "host")
    options = anydnn.RunOptions()
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(session.run, None, {"v": 0}, options)
        # This thread would not get here if that one held the interpreter's lock.
        assert not run.done()
        options.terminate = True
        with pytest.raises(anydnn.CancelledError, match="session: cancelled$"):
            run.result(20)
    assert options.terminate
    options.terminate = False
    assert not options.terminate


def test_run_async_calls_back() -> None:
    session = anydnn.InferenceSession(models.dense(), "host")
    x, called, told = inputs(2), threading.Event(), []

    def callback(outputs: object, data: object, error: str) -> None:
        told.append((outputs, data, error))
        called.set()

    future = session.run_async(["y"], {"x": x}, callback, "mine")
    assert called.wait(20)
    assert told[0][1:] == ("mine", "")
    np.testing.assert_array_equal(told[0][0][0], future.result()[0])
    called.clear()
    failing = session.run_async(None, {}, callback, 2)
    assert called.wait(20)
    assert (told[1][0], told[1][1]) == (None, 2)
    assert 'input "x" is missing' in told[1][2]
    assert isinstance(failing.exception(), anydnn.InvalidShapeError)


def test_runs_are_awaited_and_cancelled() -> None:
    async def work() -> None:
        session = anydnn.InferenceSession(models.dense(), "host")
        feeds = [inputs(2, seed) for seed in range(4)]
        for outputs, x in zip(
            await asyncio.gather(*(session.run_asyncio(None, {"x": x}) for x in feeds)), feeds
        ):
            check(outputs, x)
        task = asyncio.ensure_future(
            anydnn.InferenceSession(models.endless(), "host").run_asyncio(None, {"v": 0})
        )
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(work())


def test_steps_are_timed(backend: str, tmp_path: Path) -> None:
    session = anydnn.InferenceSession(models.dense(), backend=backend)
    steps = session.profile({"x": inputs(2)}, trace=tmp_path / "trace.json")
    assert any("MatMul" in step.operator for step in steps)
    assert all(step.time is not None and step.time >= 0 and not step.on_host for step in steps)
    events = json.loads((tmp_path / "trace.json").read_text())
    assert [event["name"] for event in events if event["ph"] == "X"] == [step.operator for step in steps]


@pytest.mark.parametrize(("precision", "least"), [("f16", 1e-5), ("bf16", 1e-4)])
def test_narrow_types_compute_in_place_of_f32(backend: str, precision: str, least: float) -> None:
    session = anydnn.InferenceSession(models.dense(), backend=backend, precision=precision)
    x = inputs(64)
    y, _ = session.run(None, {"x": x})
    assert y.dtype == np.float32
    off = np.abs(y - models.dense_expected(x)[0]).max()
    assert least < off < 0.1, "it would be off less in f32, and more if it were wrong"


def test_dimensions_that_are_given_compile_ahead(backend: str) -> None:
    session = anydnn.InferenceSession(models.dense(), backend=backend, dims={"n": 3}, plans=1)
    assert "stage n=3" in session.describe()
    assert session._repr_svg_() == session.to_svg()
    assert session.to_svg().startswith("<svg ")
    assert "MatMul" in session.to_dot()
    session.warm_up(n=4)
    assert "stage n=4" in session.describe()
    assert session.memory()["weights"] + session.memory()["prepared"] > 0
    assert anydnn.InferenceSession(models.dense(), backend=backend)._repr_svg_() is None


def test_the_host_answers_first_where_that_is_wanted(backend: str) -> None:
    x = inputs(3)
    session = anydnn.InferenceSession(models.dense(), backend=backend, startup="host")
    for _ in range(3):
        check(session.run(None, {"x": x}), x)
    session.wait_for_device()
    assert not session.is_starting
    check(session.run(None, {"x": x}), x)
    assert "stage n=3" in session.describe()

    assert not anydnn.InferenceSession(models.dense(), backend=backend, startup="device").is_starting
    with pytest.raises(anydnn.InvalidArgumentError, match="host or device"):
        anydnn.InferenceSession(models.dense(), backend=backend, startup="both")


def test_scalars_are_inputs() -> None:
    node = helper.make_node("Add", ["x", "x"], ["y"])
    made = models.model([node], [("x", TensorProto.FLOAT, [])], [("y", TensorProto.FLOAT, [])])
    session = anydnn.InferenceSession(made, "host")
    for value in (1.5, np.float32(1.5), np.array(1.5, np.float32)):
        (y,) = session.run(None, {"x": value})
        assert (y.shape, y) == ((), 3)

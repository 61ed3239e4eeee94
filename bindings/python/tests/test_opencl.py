"""Sessions on a user's OpenCL objects, which come from pyopencl."""

import os
import warnings
from collections.abc import Iterator
from typing import Any

import anydnn
import anydnn.opencl
import models
import numpy as np
import pytest
from onnx import TensorProto, helper

cl = (
    pytest.importorskip("pyopencl")
    if "opencl" not in os.environ.get("ANYDNN_REQUIRE", "")
    else __import__("pyopencl")
)
import pyopencl.array as cl_array  # noqa: E402

# Of the sums behind a score, one after the other.
TERMS = 64 + 32
NAMES = [name for name in os.environ.get("ANYDNN_REQUIRE", "").split(",") if name.startswith("opencl")]

PROGRAM = """
kernel void prepare(global const uchar* pixels, global float* images) {
    images[get_global_id(0)] = pixels[get_global_id(0)] / 16.0f - 0.5f;
}
kernel void pick(global const float* scores, const int classes, global int* best) {
    const size_t row = get_global_id(0);
    int winner = 0;
    for (int c = 1; c < classes; c++)
        if (scores[row * classes + c] > scores[row * classes + winner]) winner = c;
    best[row] = winner;
}
kernel void wait_long(global float* images) {
    float x = images[get_global_id(0)];
    for (int i = 0; i < 300000; i++) x = x * 0.999999f + 1e-9f;
    images[get_global_id(0)] = x == 12345.0f ? x : images[get_global_id(0)] + 1.0f;
}
"""


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        # What compilers say, which is not ours.
        warnings.simplefilter("ignore", cl.CompilerWarning)
        # Older versions do not know it.
        warnings.simplefilter("ignore", getattr(cl, "RepeatedKernelRetrieval", UserWarning))
        yield


@pytest.fixture(params=NAMES)
def context(request: pytest.FixtureRequest) -> Any:
    named = {one.platform for one in anydnn.devices() if one.name.startswith(f"{request.param}:")}
    (platform,) = [one for one in cl.get_platforms() if one.name in named]
    return cl.Context([platform.get_devices()[0]])


OUT_OF_ORDER = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE


@pytest.fixture(params=["in-order", "out-of-order"])
def queue(request: pytest.FixtureRequest, context: Any) -> Any:
    return cl.CommandQueue(context, properties=OUT_OF_ORDER if request.param == "out-of-order" else 0)


def network(rng: np.random.Generator) -> tuple[bytes, Any]:
    """A network of two layers of 64 inputs and 10 classes, and what it computes."""
    w = rng.standard_normal((64, 32)).astype(np.float32)
    v = rng.standard_normal((32, 10)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["images", "w"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "v"], ["scores"]),
    ]
    made = models.model(
        nodes,
        [("images", TensorProto.FLOAT, ["n", 64])],
        [("scores", TensorProto.FLOAT, ["n", 10])],
        [("w", w), ("v", v)],
    )
    return made, lambda images: np.maximum(images @ w, 0) @ v


def test_a_network_between_two_kernels(queue: Any) -> None:
    rng, rows = np.random.default_rng(0), 50
    made, expected = network(rng)
    pixels = rng.integers(0, 17, (rows, 64), np.uint8)
    program = cl.Program(queue.context, PROGRAM).build()
    prepare, pick = program.prepare, program.pick
    flags = cl.mem_flags
    raw = cl.Buffer(queue.context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=pixels)
    images = cl.Buffer(queue.context, flags.READ_WRITE, rows * 64 * 4)
    scores = cl.Buffer(queue.context, flags.READ_WRITE, rows * 10 * 4)
    best = cl.Buffer(queue.context, flags.READ_WRITE, rows * 4)

    # ANCHOR: between
    session = anydnn.InferenceSession(made, queue=queue)
    prepared = prepare(queue, (rows * 64,), None, raw, images)
    outputs, done = session.run_on({"images": (images, (rows, 64))}, {"scores": scores}, wait_for=[prepared])
    assert isinstance(done, cl.Event)
    picked = pick(queue, (rows,), None, scores, np.int32(10), best, wait_for=[done])
    # ANCHOR_END: between

    made_best = np.empty(rows, np.int32)
    cl.enqueue_copy(queue, made_best, best, wait_for=[picked])
    wanted = expected(pixels.astype(np.float32) / 16 - 0.5)
    np.testing.assert_array_equal(made_best, wanted.argmax(1))
    assert outputs["scores"].base_data.int_ptr == scores.int_ptr
    models.assert_close(outputs["scores"].get(), wanted, TERMS)


def test_events_alone_order_the_work(context: Any) -> None:
    queue = cl.CommandQueue(context, properties=OUT_OF_ORDER)
    other = cl.CommandQueue(context, properties=OUT_OF_ORDER)
    rng, rows = np.random.default_rng(1), 8
    made, expected = network(rng)
    session = anydnn.InferenceSession(made, queue=queue, dims={"n": rows})
    images = rng.standard_normal((rows, 64)).astype(np.float32)
    slow = cl.Program(context, PROGRAM).build().wait_long
    for _ in range(3):
        buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=images)
        # The kernel adds one when it ends, which is long after the network has been enqueued.
        changed = slow(other, (images.size,), None, buffer)
        other.flush()
        outputs, done = session.run_on({"images": (buffer, images.shape)}, wait_for=[changed])
        scores = np.empty((rows, 10), np.float32)
        cl.enqueue_copy(queue, scores, outputs["scores"].base_data, wait_for=[done])
        models.assert_close(scores, expected(images + 1), TERMS)


def test_a_user_event_holds_the_work_back(context: Any) -> None:
    queue = cl.CommandQueue(context)
    made, expected = network(np.random.default_rng(2))
    session = anydnn.InferenceSession(made, queue=queue, dims={"n": 1})
    images = cl_array.to_device(queue, np.ones((1, 64), np.float32))
    session.run_on({"images": images})[1].wait()
    gate = cl.UserEvent(context)
    outputs, done = session.run_on({"images": images}, wait_for=[gate])
    assert done.command_execution_status != cl.command_execution_status.COMPLETE
    gate.set_status(cl.command_execution_status.COMPLETE)
    done.wait()
    models.assert_close(outputs["scores"].get(), expected(images.get()), TERMS)


def test_arrays_go_in_and_come_out(queue: Any) -> None:
    made, expected = network(np.random.default_rng(3))
    session = anydnn.InferenceSession(made, queue=queue)
    whole = np.random.default_rng(4).standard_normal((9, 64)).astype(np.float32)
    images = cl_array.to_device(queue, whole)
    for part in (images, images[2:5], images * 2):
        target = cl_array.zeros(queue, (20, 10), np.float32)
        outputs, done = session.run_on({"images": part}, {"scores": target[1:]})
        wanted = expected(part.get())
        made_scores = outputs["scores"]
        assert (made_scores.shape, made_scores.dtype) == (wanted.shape, np.float32)
        models.assert_close(made_scores.get(), wanted, TERMS)
        models.assert_close((made_scores + 1).get(), wanted + 1, TERMS)
        done.wait()
        given = target.get()
        models.assert_close(given[1 : 1 + len(wanted)], wanted, TERMS)
        assert not given[0].any()
        assert not given[1 + len(wanted) :].any()
    # The session's own memory also serves arrays of the host.
    (scores,) = session.run(None, {"images": whole})
    models.assert_close(scores, expected(whole), TERMS)


def test_references_are_kept_and_given_back(context: Any) -> None:
    queue = cl.CommandQueue(context)
    made, expected = network(np.random.default_rng(5))
    images = np.ones((3, 64), np.float32)
    buffer = cl.Buffer(context, cl.mem_flags.COPY_HOST_PTR, hostbuf=images)

    def counts() -> list[int]:
        return [context.reference_count, queue.reference_count, buffer.reference_count]

    before = counts()
    session = anydnn.InferenceSession(made, queue=queue)
    for _ in range(3):
        outputs, done = session.run_on({"images": (buffer, (3, 64))})
        done.wait()
    session.close()
    models.assert_close(outputs["scores"].get(), expected(images), TERMS)
    queue.finish()
    del outputs, done, session
    assert buffer.reference_count == before[2]
    # PoCL's buffers keep their last command, and it the queue.
    buffer.release()
    assert queue.reference_count == before[1]


def test_the_users_objects_may_go_first(context: Any) -> None:
    made, expected = network(np.random.default_rng(6))
    session = anydnn.InferenceSession(made, queue=cl.CommandQueue(context))
    images = np.ones((3, 64), np.float32)
    own = cl.CommandQueue(context)
    outputs, done = session.run_on({"images": cl_array.to_device(own, images)}, queue=own)
    del own, context
    done.wait()
    models.assert_close(outputs["scores"].get(), expected(images), TERMS)


def test_a_session_lends_its_own_context() -> None:
    for name in NAMES:
        made, expected = network(np.random.default_rng(7))
        session = anydnn.InferenceSession(made, name)
        context, device = anydnn.opencl.context_of(session)
        assert device in context.devices
        queue = cl.CommandQueue(context, device)
        images = cl_array.to_device(queue, np.ones((2, 64), np.float32))
        outputs, _ = session.run_on({"images": images}, queue=queue)
        models.assert_close(outputs["scores"].get(), expected(images.get()), TERMS)


def test_objects_of_another_context_are_refused(context: Any) -> None:
    queue = cl.CommandQueue(context)
    session = anydnn.InferenceSession(network(np.random.default_rng(8))[0], queue=queue)
    stranger = cl.Context(context.devices)
    other = cl.CommandQueue(stranger)
    mine = cl_array.zeros(queue, (2, 64), np.float32)
    theirs = cl_array.zeros(other, (2, 64), np.float32)
    other.finish()
    theirs.events.clear()
    event = cl.enqueue_marker(other)
    target = cl.Buffer(stranger, cl.mem_flags.READ_WRITE, 80)
    for use in (
        lambda: session.run_on({"images": theirs}),
        lambda: session.run_on({"images": mine}, {"scores": target}),
        lambda: session.run_on({"images": mine}, queue=other),
        lambda: session.run_on({"images": mine}, wait_for=[event]),
    ):
        with pytest.raises(
            anydnn.MismatchError, match="of context 0x.* does not belong to the engine's context 0x"
        ):
            use()


def test_what_does_not_fit_is_told(context: Any) -> None:
    queue = cl.CommandQueue(context)
    session = anydnn.InferenceSession(network(np.random.default_rng(9))[0], queue=queue)
    images = cl_array.zeros(queue, (2, 64), np.float32)
    small = cl.Buffer(context, cl.mem_flags.READ_WRITE, 79)
    refused = [
        (
            lambda: session.run_on({"images": images.get()}),
            "input 'images' is a numpy.ndarray, expected a pyopencl.array",
        ),
        (
            lambda: session.run_on({"images": small}),
            "without extents of n, expected a pair of a buffer and its shape",
        ),
        (lambda: session.run_on({"images": (small, (2, 64))}), "is 79 bytes, expected 512 bytes"),
        (lambda: session.run_on({"images": images.T}), "strides .*, expected one in the order of its rows"),
        (lambda: session.run_on({"images": images.astype(np.float64)}), "2x64 of f64, expected images: f32"),
        (lambda: session.run_on({"images": images}, {"scores": small}), "is 79 bytes, expected at least 80"),
        (
            lambda: session.run_on({"images": images}, {"best": small}),
            '"best", which the model has not, expected scores',
        ),
        (lambda: session.run_on({"images": images}, {"scores": images}), "images|scores"),
        (lambda: session.run_on({}), '"images" is missing'),
        (lambda: session.run_on({"images": images}, wait_for=[queue]), "wait_for is a pyopencl"),
        (
            lambda: session.run_on({"images": images}, queue=context),
            "queue is a pyopencl.*expected a pyopencl.CommandQueue",
        ),
        (lambda: anydnn.InferenceSession(models.dense(), queue=7), "queue is a builtins.int"),
        (
            lambda: anydnn.InferenceSession(models.dense(), "host", queue=queue),
            "backend is 'host' beside a queue",
        ),
    ]
    for use, match in refused:
        with pytest.raises(anydnn.InvalidArgumentError, match=match):
            use()
    hosts = anydnn.InferenceSession(models.dense(), "host")
    with pytest.raises(anydnn.MismatchError, match="not on an OpenCL device"):
        hosts.run_on({"x": (small, (1, 3))}, queue=queue)
    without = anydnn.InferenceSession(models.dense(), NAMES[0])
    with pytest.raises(anydnn.InvalidArgumentError, match="queue is missing"):
        without.run_on({})


def test_models_with_steps_of_the_host(queue: Any) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("NonZero", ["a"], ["k"])]
    made = models.model(nodes, [("x", TensorProto.FLOAT, ["n"])], [("k", TensorProto.INT64, None)])
    session = anydnn.InferenceSession(made, queue=queue)
    x = np.array([1, -1, 0, 2, 3], np.float32)
    outputs, _ = session.run_on({"x": cl_array.to_device(queue, x)})
    np.testing.assert_array_equal(outputs["k"].get(), [[0, 3, 4]])
    outputs, _ = session.run_on({"x": cl_array.to_device(queue, -np.abs(x))})
    assert outputs["k"].shape == (1, 0)


def test_memory_of_opencl_goes_in_and_out_by_dlpack(context: Any) -> None:
    queue = cl.CommandQueue(context)
    session = anydnn.InferenceSession(models.dense(), queue=queue)
    x = np.random.default_rng(3).standard_normal((4, 3)).astype(np.float32)
    whole = cl_array.to_device(queue, np.concatenate([np.zeros_like(x), x]))
    kept = len(anydnn.opencl._dlpack._out)
    outputs, done = session.run_on({"x": anydnn.opencl.DLPackArray(whole[4:])})
    done.wait()
    models.assert_close(outputs["y"].get(), models.dense_expected(x)[0], terms=3)
    capsule = anydnn.opencl.DLPackArray(outputs["y"]).__dlpack__()
    taken = anydnn.opencl._dlpack.taken("y", capsule)
    assert (taken.pointer, taken.own, taken.dims) == (outputs["y"].base_data.int_ptr, "f32", [4, 2])
    del capsule
    assert len(anydnn.opencl._dlpack._out) == kept
    with pytest.raises(anydnn.InvalidArgumentError, match="expected one in the order of its rows"):
        session.run_on({"x": anydnn.opencl.DLPackArray(whole[:, ::-1][:, ::2])})

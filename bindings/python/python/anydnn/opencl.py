"""Sessions on OpenCL objects of your own, which come from ``pyopencl``.

A session that is made with your queue computes on the queue's context and device. Its :meth:`anydnn.InferenceSession.run_on` enqueues
the model between your own commands; events alone order them, and nothing is copied to the host::

    session = anydnn.InferenceSession("model.onnx", queue=queue)
    prepared = program.prepare(queue, (n,), None, raw, images)
    outputs, done = session.run_on({"images": images_array}, wait_for=[prepared])
    program.pick(queue, (n,), None, outputs["scores"].data, best, wait_for=[done])

Everything is retained while it is needed: you may release what is yours as soon as you like.

Inputs are ``pyopencl.array.Array`` in the order of their rows, ``pyopencl.Buffer``, a pair of a buffer and its shape, or other
packages' arrays in memory of OpenCL by DLPack's protocol; :class:`DLPackArray` hands arrays to them. A buffer alone has the shape
that the model declares for the input, whose dimensions must be fixed. Pending events of arrays are waited for, and theirs is the
event of the run afterwards, as with every operation of ``pyopencl`` on arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from . import _dlpack
from ._types import BITS, dtype_of, own_of
from .errors import InvalidArgumentError, InvalidShapeError, UnsupportedError

if TYPE_CHECKING:
    from .session import InferenceSession

_Given = tuple[int, int, str, list[int]]


class DLPackArray:
    """A ``pyopencl.array.Array`` for packages that take memory of OpenCL by DLPack's protocol. Commands on it have ended when it is taken.

    >>> import anydnn.opencl
    >>> theirs.from_dlpack(anydnn.opencl.DLPackArray(outputs["scores"]))  # doctest: +SKIP
    """

    def __init__(self, array: Any) -> None:
        import pyopencl.array as cl_array

        self.array = _checked(array, cl_array.Array, "array", "a pyopencl.array.Array")

    def __dlpack__(self, **options: object) -> Any:
        for event in self.array.events:
            event.wait()
        return _dlpack.capsule_of(self.array)

    def __dlpack_device__(self) -> tuple[int, int]:
        return _dlpack.OPENCL, 0


def objects_of(queue: object) -> tuple[int, int, int]:
    """The addresses of the device, the context and the queue itself of a ``pyopencl.CommandQueue``."""
    import pyopencl as cl

    own = _checked(queue, cl.CommandQueue, "queue")
    return own.device.int_ptr, own.context.int_ptr, own.int_ptr


def context_of(session: InferenceSession) -> tuple[Any, Any]:
    """The ``pyopencl.Context`` and ``pyopencl.Device`` of a session on an OpenCL device, also where anydnn has made them."""
    import pyopencl as cl

    device, context = session._native.opencl_objects()
    return cl.Context.from_int_ptr(context, True), cl.Device.from_int_ptr(device, True)


def run_on(
    session: InferenceSession,
    feed: Mapping[str, object],
    outputs: Mapping[str, object],
    queue: object | None,
    wait_for: Iterable[object],
) -> tuple[dict[str, Any], Any]:
    """Enqueues a model on your queue (that of the session, if none), behind events.

    Returns its outputs as arrays and the ``pyopencl.Event`` of all of it. Outputs for which arrays or buffers are given, large
    enough, are written there. Nothing is waited for where all of the model runs on the device (see
    :meth:`anydnn.InferenceSession.describe`).
    """
    import pyopencl as cl
    import pyopencl.array as cl_array

    if queue is not None:
        _checked(queue, cl.CommandQueue, "queue")
    events = {event.int_ptr: event for event in (_checked(event, cl.Event, "wait_for") for event in wait_for)}
    declared = {arg.name: arg for arg in session.get_inputs()}
    inputs, capsules = [], []
    for name, value in feed.items():
        if _is_opencl(value):
            # They last until the session has retained the memory.
            capsules.append(cast(Any, value).__dlpack__())
            taken = _dlpack.taken(f"input {name!r}", capsules[-1])
            inputs.append((name, (taken.pointer, taken.offset, taken.own, taken.dims)))
        else:
            inputs.append((name, _input(name, value, declared)))
    targets = [(name, _output(name, value)) for name, value in outputs.items()]
    arrays = [value for value in (*feed.values(), *outputs.values()) if isinstance(value, cl_array.Array)]
    for array in arrays:
        events.update((event.int_ptr, event) for event in array.events)
    own_queue: Any = queue if queue is not None else session._queue
    pointer = None if queue is None else own_queue.int_ptr
    made, end = session._native.run_on(pointer, inputs, targets, list(events))
    event = cl.Event.from_int_ptr(end, False)
    for array in arrays:
        array.add_event(event)
    return {name: _array(own_queue, given, event) for name, given in made}, event


def _is_opencl(value: Any) -> bool:
    if not (hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__")):
        return False
    return int(value.__dlpack_device__()[0]) == _dlpack.OPENCL


def _input(name: str, value: object, declared: Mapping[str, Any]) -> _Given:
    import pyopencl as cl
    import pyopencl.array as cl_array

    if isinstance(value, cl_array.Array):
        return _of_array(f"input {name!r}", value)
    if isinstance(value, tuple) and len(value) == 2:
        buffer, shape = value
    else:
        buffer, shape = value, None
    expected = "a pyopencl.array.Array, a pyopencl.Buffer, or a pair of a buffer and its shape"
    buffer = _checked(buffer, cl.MemoryObject, f"input {name!r}", expected)
    port = declared.get(name)
    # One that the model has not is refused by the session.
    own = (port.data_type if port else None) or "u8"
    if shape is None:
        shape = (port.shape if port else None) or []
        open_dims = [extent for extent in shape if isinstance(extent, str)]
        if open_dims:
            given = f"without extents of {', '.join(open_dims)}"
            raise InvalidShapeError(
                f"input {name!r} is a buffer {given}, expected a pair of a buffer and its shape",
                subject=f"input {name!r}",
                given=given,
                expected="a pair of a buffer and its shape",
            )
    return buffer.int_ptr, 0, own, [int(extent) for extent in shape]


def _output(name: str, value: object) -> _Given:
    import pyopencl as cl
    import pyopencl.array as cl_array

    if isinstance(value, cl_array.Array):
        pointer, offset, _, _ = _of_array(f"output {name!r}", value)
        return pointer, offset, "u8", [value.nbytes]
    expected = "a pyopencl.array.Array or a pyopencl.Buffer"
    buffer = _checked(value, cl.MemoryObject, f"output {name!r}", expected)
    return buffer.int_ptr, 0, "u8", [buffer.size]


def _of_array(subject: str, array: Any) -> _Given:
    import pyopencl as cl

    own = own_of(array.dtype, subject)
    if own in BITS:
        raise UnsupportedError(
            f"{subject}: arrays of {array.dtype} have a byte for each element: give a buffer"
        )
    if not array.flags.c_contiguous:
        given = f"an array of strides {array.strides}"
        raise InvalidArgumentError(
            f"{subject} is {given}, expected one in the order of its rows",
            subject=subject,
            given=given,
            expected="one in the order of its rows",
        )
    if array.size == 0:
        return 0, 0, own, list(array.shape)
    buffer = _checked(array.base_data, cl.MemoryObject, subject, "an array in a pyopencl.Buffer")
    return buffer.int_ptr, array.offset, own, list(array.shape)


def _array(queue: Any, given: _Given, event: Any) -> Any:
    import pyopencl as cl
    import pyopencl.array as cl_array

    pointer, offset, own, dims = given
    if pointer == 0:
        return cl_array.empty(queue, tuple(dims), dtype_of(own))
    buffer = cl.MemoryObject.from_int_ptr(pointer, False)
    if own in BITS:
        # Elements share bytes, which is how they are handed out.
        count = 1
        for extent in dims:
            count *= extent
        own, dims = "u8", [(count * BITS[own] + 7) // 8]
    return cl_array.Array(queue, tuple(dims), dtype_of(own), data=buffer, offset=offset, events=[event])


def _checked(value: Any, wanted: type, subject: str, expected: str | None = None) -> Any:
    if isinstance(value, wanted):
        return value
    expected = expected or f"a pyopencl.{wanted.__name__}"
    given = f"a {type(value).__module__}.{type(value).__qualname__}"
    raise InvalidArgumentError(
        f"{subject} is {given}, expected {expected}", subject=subject, given=given, expected=expected
    )

"""Sessions of ONNX models, with the methods that users of ONNX Runtime know."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional, Union

from . import _native
from ._arrays import to_array, to_tensor
from .errors import InvalidArgumentError

if TYPE_CHECKING:
    from types import TracebackType


Array = "npt.NDArray[Any]"
Source = Union[str, bytes, "os.PathLike[str]"]
Callback = Callable[[Optional[list[Any]], Any, str], None]


class NodeArg(NamedTuple):
    """An input or output of a model."""

    name: str
    """The name."""
    shape: list[int | str] | None
    """The extents; the name of an open dimension in its place. None where the file does not say it."""
    type: str
    """The type, as ``tensor(float)``."""
    data_type: str | None
    """The library's name of the type, as ``f32``; none where the file does not say it."""


class ModelMetadata(NamedTuple):
    """What a model's file says of itself."""

    producer_name: str
    graph_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    custom_metadata_map: dict[str, str]


class StepTime(NamedTuple):
    """How long one step of a run took."""

    stage: str
    """The stage, behind the loops around it."""
    name: str
    """The names of the operations, or of the node."""
    operator: str
    """The kinds of the operations, or the node's operator."""
    implementation: str
    """How it was computed; ``host`` for a step of the host."""
    on_host: bool
    """Whether the host computed it, as the device cannot."""
    started: int | None
    """Nanoseconds from the beginning of the run; none where the device does not tell."""
    time: int | None
    """Nanoseconds that it took; none where the device does not tell."""


class RunOptions:
    """Ends runs early: from another thread, set ``terminate``."""

    def __init__(self) -> None:
        self._cancel = _native.Cancel()

    @property
    def terminate(self) -> bool:
        """Whether runs with these options end, with :class:`anydnn.CancelledError`."""
        return self._cancel.is_cancelled()

    @terminate.setter
    def terminate(self, value: bool) -> None:
        if value:
            self._cancel.cancel()
        elif self.terminate:
            self._cancel = _native.Cancel()


class InferenceSession:
    """An ONNX model compiled for a device: runs on any shapes that fit it, from any number of threads.

    :param path_or_bytes: the model's file, or its bytes.
    :param backend: what it runs on, as ``"opencl:gpu"``, ``"opencl:pocl"`` or ``"host"``; several with commas, the most
        wanted first. Without it ``ANYDNN_BACKEND`` decides, else a GPU comes before other OpenCL devices, these before the host.
    :param precision: ``"f16"`` or ``"bf16"`` computes with that type in place of f32; inputs and outputs keep theirs.
    :param dims: extents of open dimensions by name; where all are given, the model is compiled for them here, not in the first run.
    :param plans: for how many combinations of shapes compiled plans are kept, 16 if not given.
    :param startup: who answers while the device's programs are compiled, which takes seconds where no cache has them: ``"host"``, the
        default, or ``"device"``, which all runs then wait for. Results of the two differ by rounding. Without it ``ANYDNN_STARTUP``
        decides.
    :param queue: a ``pyopencl.CommandQueue`` of yours, on whose context and device the session computes.

    >>> import anydnn
    >>> session = anydnn.InferenceSession("model.onnx")  # doctest: +SKIP
    >>> scores, = session.run(None, {"x": x})  # doctest: +SKIP
    """

    def __init__(
        self,
        path_or_bytes: Source,
        backend: str | None = None,
        precision: str | None = None,
        dims: Mapping[str, int] | None = None,
        *,
        plans: int | None = None,
        startup: str | None = None,
        queue: object | None = None,
    ) -> None:
        source = bytes(path_or_bytes) if isinstance(path_or_bytes, (bytes, bytearray, memoryview)) else None
        objects = None
        if queue is not None:
            from . import opencl

            if backend is not None:
                message = f"backend is {backend!r} beside a queue, expected one of the two"
                raise InvalidArgumentError(message, subject="backend", given=backend, expected="None")
            objects = opencl.objects_of(queue)
        self._queue = queue
        self._native = _native.Session(
            os.fspath(path_or_bytes) if source is None else source,
            backend,
            precision,
            sorted((dims or {}).items()),
            plans,
            startup,
            objects,
        )
        self._inputs = [_node_arg(port) for port in self._native.inputs()]
        self._outputs = [_node_arg(port) for port in self._native.outputs()]
        self._declared = {arg.name: arg.data_type for arg in self._inputs}
        self._places = {arg.name: place for place, arg in enumerate(self._outputs)}

    # What users of ONNX Runtime know.

    def get_inputs(self) -> list[NodeArg]:
        """The inputs that a run needs, in the order of the file."""
        return list(self._inputs)

    def get_outputs(self) -> list[NodeArg]:
        """The outputs, in the order of the file."""
        return list(self._outputs)

    def get_modelmeta(self) -> ModelMetadata:
        """What the file says of itself."""
        return ModelMetadata(**self._native.about())

    def get_providers(self) -> list[str]:
        """The name of the backend and device in use, as the only element."""
        return [self.device[0]]

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, object],
        run_options: RunOptions | None = None,
    ) -> list[Any]:
        """Runs the model and returns outputs as arrays: those of the names, in their order, or all for ``None``.

        Inputs are arrays (of NumPy, of any package with DLPack's protocol in memory of the host), numbers or lists. Arrays that are
        contiguous are read where they are: nobody may change them until the run has ended. Other Python threads run meanwhile. In the
        main thread Ctrl-C ends the run.

        :raises anydnn.InvalidShapeError: an input is missing or unknown, or its type or shape does not fit.
        :raises anydnn.ClosedError: the session is closed.
        """
        wanted = self._wanted(output_names)
        cancel = run_options._cancel if run_options else None
        return _chosen(wanted, self._native.run(self._feed(input_feed), cancel, _is_main()))

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, object],
        callback: Callback | None = None,
        user_data: object = None,
        run_options: RunOptions | None = None,
    ) -> Future[list[Any]]:
        """Begins a run on another thread, and returns a future of its outputs.

        ``callback(outputs, user_data, error)`` is called there when it has ended: ``error`` is empty, or ``outputs`` is ``None`` and it
        says what went wrong.
        """
        wanted, feed = self._wanted(output_names), self._feed(input_feed)
        cancel = run_options._cancel if run_options else None

        def work() -> list[Any]:
            try:
                outputs = _chosen(wanted, self._native.run(feed, cancel, False))
            except Exception as error:
                if callback:
                    callback(None, user_data, str(error))
                raise
            if callback:
                callback(outputs, user_data, "")
            return outputs

        return _pool().submit(work)

    async def run_asyncio(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, object]
    ) -> list[Any]:
        """Runs as :meth:`run` does while the event loop goes on. Cancelling the task cancels the run."""
        options = RunOptions()
        future = self.run_async(output_names, input_feed, run_options=options)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            options.terminate = True
            raise

    # What is more.

    def profile(
        self, input_feed: Mapping[str, object], trace: str | os.PathLike[str] | None = None
    ) -> list[StepTime]:
        """Runs the model and tells how long each step took, in the order in which they ran.

        ``trace`` names a file to write them to, for the viewers of Chrome's trace events such as https://ui.perfetto.dev.
        """
        steps = [StepTime(*step) for step in self._native.profile(self._feed(input_feed))]
        if trace is not None:
            with open(trace, "w", encoding="utf-8") as file:
                json.dump(_trace(steps), file)
        return steps

    def warm_up(self, **dims: int) -> None:
        """Compiles all that runs with these extents of the open dimensions need, by running once on zeros."""
        self._native.warm_up(sorted(dims.items()))

    @property
    def is_starting(self) -> bool:
        """Whether the host answers at the moment, as programs of the device are being compiled."""
        return self._native.is_starting()

    def wait_for_device(self) -> None:
        """Waits until the device answers. Where nothing was run so far, the first run waits for what is still compiled."""
        self._native.wait_for_device()

    @property
    def device(self) -> tuple[str, str, str]:
        """What it runs on: the name that chooses it, the device's own, and its platform's."""
        return self._native.device()

    def describe(self) -> str:
        """The stages that were compiled so far: what the device computes, and what the host and why."""
        return self._native.describe()

    def to_dot(self) -> str:
        """The graph of the largest stage that was compiled, in Graphviz's DOT language."""
        return self._native.draw(True)

    def to_svg(self) -> str:
        """The graph of the largest stage that was compiled, as an SVG picture."""
        return self._native.draw(False)

    def memory(self) -> dict[str, int]:
        """Bytes held: weights on the device, what was prepared from them, weights on the host, temporaries of the plans."""
        return dict(zip(("weights", "prepared", "host", "temporaries"), self._native.memory()))

    def run_on(
        self,
        input_feed: Mapping[str, object],
        outputs: Mapping[str, object] | None = None,
        *,
        queue: object | None = None,
        wait_for: Iterable[object] | None = None,
    ) -> tuple[dict[str, Any], Any]:
        """Enqueues the model between commands of your own, on memory of your context; see :mod:`anydnn.opencl`."""
        from . import opencl

        return opencl.run_on(self, input_feed, outputs or {}, queue, wait_for or ())

    def close(self) -> None:
        """Gives up the session and its memory; runs that are under way end. Closing twice is allowed."""
        self._native.close()

    def __enter__(self) -> InferenceSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._native.is_closed():
            return "<anydnn.InferenceSession, closed>"
        inputs = ", ".join(f"{arg.name}: {arg.type} {arg.shape}" for arg in self._inputs)
        return f"<anydnn.InferenceSession on {self.device[0]} ({self.device[1]}): {inputs}>"

    def _repr_svg_(self) -> str | None:
        """The picture that a notebook shows; none before anything was compiled."""
        from .errors import Error

        try:
            return self.to_svg()
        except Error:
            return None

    def _feed(self, feed: Mapping[str, object]) -> list[tuple[str, _native.Tensor]]:
        return [(name, to_tensor(name, value, self._declared.get(name))) for name, value in feed.items()]

    def _wanted(self, names: Sequence[str] | None) -> list[int] | None:
        """The places of outputs among the model's; none for all of them."""
        if names is None or len(names) == 0:
            return None
        if isinstance(names, str):
            names = [names]
        for name in names:
            if name not in self._places:
                given, expected = f"{name!r}, which the model has not", ", ".join(self._places)
                message = f"session: outputs is {given}, expected {expected}"
                raise InvalidArgumentError(
                    message, operation="session", subject="outputs", given=given, expected=expected
                )
        return [self._places[name] for name in names]


def _chosen(wanted: list[int] | None, made: list[_native.Tensor]) -> list[Any]:
    if wanted is None:
        return [to_array(tensor) for tensor in made]
    arrays = {place: to_array(made[place]) for place in set(wanted)}
    return [arrays[place] for place in wanted]


def _node_arg(port: tuple[str, str | None, list[int | str] | None]) -> NodeArg:
    from ._types import onnx_name

    name, data_type, shape = port
    return NodeArg(name, shape, onnx_name(data_type), data_type)


def _is_main() -> bool:
    return threading.get_ident() == threading.main_thread().ident


_pool_lock = threading.Lock()
_threads: ThreadPoolExecutor | None = None


def _pool() -> ThreadPoolExecutor:
    global _threads
    with _pool_lock:
        if _threads is None:
            _threads = ThreadPoolExecutor(thread_name_prefix="anydnn")
        return _threads


def _trace(steps: list[StepTime]) -> list[dict[str, object]]:
    tracks = [(1, "host"), (2, "device")]
    events: list[dict[str, object]] = [
        {"name": "thread_name", "ph": "M", "pid": 1, "tid": track, "args": {"name": name}}
        for track, name in tracks
    ]
    for step in steps:
        if step.started is not None and step.time is not None:
            args = {"implementation": step.implementation, "operations": step.name, "stage": step.stage}
            times = {"ts": step.started / 1e3, "dur": step.time / 1e3}
            track = 1 if step.on_host else 2
            events.append({"name": step.operator, "ph": "X", "pid": 1, "tid": track, "args": args, **times})
    return events

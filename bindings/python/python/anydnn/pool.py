"""Sessions of one model on several devices."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

from ._devices import devices
from .errors import DeviceLostError, Error, InvalidArgumentError
from .session import InferenceSession, Source

if TYPE_CHECKING:
    from types import TracebackType

# Runs that each session has under way: one is prepared while another one computes. For each of them so many inputs are read ahead.
_DEPTH = 2
_AHEAD = 2


class PoolResult(NamedTuple):
    """What became of one input."""

    outputs: list[Any] | None
    """The outputs as arrays; none where it failed."""
    error: Exception | None
    """Why it failed; none where it did not."""
    device: str | None
    """The name of the device that computed it."""


class SessionPool:
    """Sessions of one model on several devices, which share a row of inputs: whoever is free takes the next one.

    :param path_or_bytes: the model's file, or its bytes.
    :param backends: names of devices, as ``["opencl:gpu:0", "opencl:gpu:1"]``; all OpenCL devices if not given, else the host.
    :param options: those of :class:`anydnn.InferenceSession`, as ``precision`` and ``dims``. Without ``startup`` each device answers from
        the first input on: in place of several the one host would hold up the others.

    >>> import anydnn
    >>> with anydnn.SessionPool("model.onnx") as pool:  # doctest: +SKIP
    ...     for result in pool.map({"x": batch} for batch in batches):
    ...         print(result.outputs, result.error)
    """

    def __init__(self, path_or_bytes: Source, backends: Sequence[str] | None = None, **options: Any) -> None:
        if backends is None:
            found = [one.name for one in devices() if one.available and one.backend == "opencl"]
            backends = found or ["host"]
        if isinstance(backends, str) or not backends:
            expected = "at least one name in a list"
            message = f"backends is {backends!r}, expected {expected}"
            raise InvalidArgumentError(message, subject="backends", given=repr(backends), expected=expected)
        options.setdefault("startup", "device")
        self._sessions = [InferenceSession(path_or_bytes, backend, **options) for backend in backends]
        self._free = deque(session for _ in range(_DEPTH) for session in self._sessions)
        self._lost: set[int] = set()
        self._changed = threading.Condition()
        self._threads = ThreadPoolExecutor(len(self._free), thread_name_prefix="anydnn pool")

    @property
    def sessions(self) -> list[InferenceSession]:
        """The sessions."""
        return list(self._sessions)

    def map(
        self, feeds: Iterable[Mapping[str, object]], output_names: Sequence[str] | None = None
    ) -> Iterator[PoolResult]:
        """Runs the model on each of the inputs, and gives a result for each in their order, as soon as it is there.

        Inputs are read when there is room for them. One that is wrong fails alone. A device that is lost takes no more inputs, and others
        take those that it had; without any left they fail.
        """
        under_way: deque[Future[PoolResult]] = deque()
        try:
            for feed in feeds:
                under_way.append(self._threads.submit(self._run, output_names, feed))
                if len(under_way) >= len(self._sessions) * _DEPTH * _AHEAD:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        finally:
            for left in under_way:
                left.cancel()

    def close(self) -> None:
        """Waits for runs under way and gives up the sessions. Closing twice is allowed."""
        self._threads.shutdown(cancel_futures=True)
        for session in self._sessions:
            session.close()

    def __enter__(self) -> SessionPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<anydnn.SessionPool on {', '.join(session.device[0] for session in self._sessions)}>"

    def _run(self, names: Sequence[str] | None, feed: Mapping[str, object]) -> PoolResult:
        while True:
            session = self._take()
            if session is None:
                return PoolResult(None, DeviceLostError("no device is left in the pool"), None)
            try:
                return PoolResult(session.run(names, feed), None, session.device[0])
            except DeviceLostError:
                with self._changed:
                    self._lost.add(id(session))
            except (Error, TypeError, ValueError) as error:
                return PoolResult(None, error, session.device[0])
            finally:
                self._give_back(session)

    def _take(self) -> InferenceSession | None:
        with self._changed:
            while not self._free:
                if len(self._lost) == len(self._sessions):
                    return None
                self._changed.wait()
            return self._free.popleft()

    def _give_back(self, session: InferenceSession) -> None:
        with self._changed:
            if id(session) in self._lost:
                self._free = deque(other for other in self._free if other is not session)
            else:
                self._free.append(session)
            self._changed.notify_all()

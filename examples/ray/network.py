"""A network on a device of this machine, and the rows that the programs of this folder classify."""

from __future__ import annotations

import argparse
import fcntl
import tempfile
from pathlib import Path
from typing import IO

import anydnn
import numpy as np

DIGITS = Path(__file__).resolve().parent.parent / "digits"


class Network:
    """A session of an ONNX model, or the network of a folder such as ``examples/digits``, on a device of its own.

    Of ``backends`` it takes the first one that no other process of this machine has, and shares the last one if there is none. The
    operating system knows who has one, so that whoever follows a lost process takes the device that this one had.
    """

    def __init__(self, model: str, backends: list[str]) -> None:
        self.device, self._held = _device(backends)
        name = self.device or None
        if model.endswith(".onnx"):
            session = anydnn.InferenceSession(model, name)
            input_name = session.get_inputs()[0].name
            self._run = lambda images: session.run(None, {input_name: images})[0]
        else:
            graph = anydnn.load_model(model).graph
            compiled: dict[int, object] = {}

            def run(images: np.ndarray) -> np.ndarray:
                size = len(images)
                if size not in compiled:
                    compiled[size] = graph.with_batch(size).compile(name)
                (scores,) = compiled[size].run({graph.inputs[0].name: images}).values()
                return scores

            self._run = run

    def __call__(self, images: np.ndarray) -> np.ndarray:
        """The scores of images ``[N, ..]`` as ``[N, classes]``."""
        return self._run(np.ascontiguousarray(images, np.float32))


def model_path(text: str) -> str:
    """A folder with a model.json, or an ONNX file."""
    path = Path(text).resolve()
    if not (path / "model.json").is_file() and not (path.suffix == ".onnx" and path.is_file()):
        message = f"{text} is not there, expected a folder with a model.json, or an ONNX file"
        raise argparse.ArgumentTypeError(message)
    return str(path)


def images_of(model: str, rows: np.ndarray) -> np.ndarray:
    """The images of rows: the digits that were held out, over and over, or noise of an ONNX model's shape."""
    if not model.endswith(".onnx"):
        (images,) = anydnn.load_model(model).data.values()
        return images[rows % len(images)]
    shape = [224 if dim is None or isinstance(dim, str) else dim for dim in _shape(model)[1:]]
    noise = [np.random.default_rng(int(row)).random(shape, np.float32) for row in rows]
    return np.stack(noise)


def labels_of(model: str, rows: np.ndarray) -> np.ndarray | None:
    """What the images of rows show, where that is known."""
    if model.endswith(".onnx"):
        return None
    labels = anydnn.load_model(model).labels
    return labels[rows % len(labels)]


def _shape(model: str) -> list[object]:
    return anydnn.InferenceSession(model, "host").get_inputs()[0].shape


def _device(backends: list[str]) -> tuple[str, IO[str] | None]:
    for backend in backends:
        name = backend.replace(":", "-")
        held = open(Path(tempfile.gettempdir()) / f"anydnn-ray-{name}.lock", "w")  # noqa: SIM115 held by the process
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            held.close()
        else:
            return backend, held
    return backends[-1] if backends else "", None

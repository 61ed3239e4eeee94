"""Models as ONNX Runtime's own quantiser and optimiser write them, beside ONNX Runtime."""

import os
import subprocess
from pathlib import Path

import anydnn
import models
import numpy as np
import pytest
from conftest import REQUIRED
from onnx import TensorProto, helper
from test_microsoft import PEER

# Makes all kinds of every model of a folder, with what ONNX Runtime computes with each; none fuses what is left in floats around integers.
SCRIPT = """
import pathlib, sys
import numpy as np
import onnx
import onnxruntime as ort
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_dynamic, quantize_static
ort.set_default_logger_severity(3)
Level = ort.GraphOptimizationLevel

class Once(CalibrationDataReader):
    def __init__(self, feed):
        self.feeds = iter([feed])
    def get_next(self):
        return next(self.feeds, None)

def session(model, level, saved=None):
    options = ort.SessionOptions()
    options.graph_optimization_level = level
    if saved:
        options.optimized_model_filepath = str(saved)
    return ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])

def with_plain_layers(model):
    # LSTMs of the floats that their quantised weights stand for.
    constants = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type != "DynamicQuantizeLSTM":
            continue
        for index, scale in ((1, 8), (2, 10)):
            values, scale, zero = (constants[node.input[i]] for i in (index, scale, scale + 1))
            shape = (-1, 1, 1) if scale.size == values.shape[0] else (values.shape[0], 1, -1)
            floats = (values.astype(np.float32) - zero.reshape(shape)) * scale.reshape(shape)
            name = f"{node.name}.{index}"
            weights = np.ascontiguousarray(floats.transpose(0, 2, 1), np.float32)
            model.graph.initializer.append(onnx.numpy_helper.from_array(weights, name))
            node.input[index] = name
        del node.input[8:]
        node.op_type, node.domain = "LSTM", ""
    return model

folder = pathlib.Path(sys.argv[1])
for source in sorted(folder.glob("*.onnx")):
    feed = dict(np.load(source.with_suffix(".in.npz")))
    made = {kind: folder / f"{source.stem}.{kind}" for kind in ["dynamic", "operators", "pairs", "extended", "all"]}
    made["blocks"] = folder / f"{source.stem}.blocks"
    session(source, Level.ORT_ENABLE_ALL, made["blocks"])
    if source.stem == "images":
        made = {"blocks": made["blocks"]}
    elif source.stem == "recogniser":
        made = {kind: folder / f"recogniser.{kind}" for kind in ["dynamic", "plain"]}
        quantize_dynamic(source, made["dynamic"])
        onnx.save(with_plain_layers(onnx.load(made["dynamic"])), made["plain"])
    else:
        quantize_dynamic(source, made["dynamic"])
        for kind, form in [("operators", QuantFormat.QOperator), ("pairs", QuantFormat.QDQ)]:
            quantize_static(source, made[kind], Once(feed), quant_format=form)
        session(source, Level.ORT_ENABLE_EXTENDED, made["extended"])
        session(made["operators"], Level.ORT_ENABLE_ALL, made["all"])
    for kind, model in made.items():
        one = session(model, Level.ORT_DISABLE_ALL)
        (out,) = one.run(None, feed)
        np.save(folder / f"{source.stem}.{kind}.npy", out)
"""

RNG = np.random.default_rng(5)


def f(*dims: int) -> np.ndarray:
    return (RNG.standard_normal(dims) * 0.3).astype(np.float32)


def node(op: str, inputs: str, output: str, **attrs: object) -> object:
    return helper.make_node(op, inputs.split(), [output], **attrs)


def convolutions() -> "tuple[bytes, np.ndarray]":
    """Its means are of nine: one of four lies halfway between two steps often, where ONNX Runtime's sums of floats fall on either side."""
    nodes = [
        node("Conv", "x w b", "a", pads=[1] * 4),
        node("LeakyRelu", "a", "l", alpha=0.1),
        node("MaxPool", "l", "m", kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", "m v", "c", pads=[1] * 4),
        node("Sigmoid", "c", "s"),
        node("Mul", "c s", "d"),
        node("AveragePool", "d", "e", kernel_shape=[3, 3], strides=[2, 2]),
        node("AveragePool", "m", "n", kernel_shape=[3, 3], strides=[2, 2]),
        node("Concat", "n e", "k", axis=1),
        node("GlobalAveragePool", "k", "g"),
        node("Flatten", "g", "r"),
        node("Gemm", "r q p", "z", transB=1),
        node("Softmax", "z", "y"),
    ]
    weights = [("w", f(8, 3, 3, 3)), ("b", f(8)), ("v", f(8, 8, 3, 3)), ("q", f(5, 16)), ("p", f(5))]
    x, y = ("x", TensorProto.FLOAT, [1, 3, 16, 16]), ("y", TensorProto.FLOAT, [1, 5])
    return models.model(nodes, [x], [y], weights, opset=17), f(1, 3, 16, 16)


def attention() -> "tuple[bytes, np.ndarray]":
    nodes = [
        *(node("MatMul", f"x w{name}", name) for name in "qkv"),
        node("Transpose", "k", "t", perm=[0, 2, 1]),
        node("MatMul", "q t", "s"),
        node("Softmax", "s", "p", axis=-1),
        node("MatMul", "p v", "o"),
        node("MatMul", "o wo", "z"),
        node("Add", "z bo", "u"),
        node("Add", "u x", "r"),
        node("LayerNormalization", "r g b", "n"),
        node("MatMul", "n wy", "y"),
    ]
    weights = [(f"w{name}", f(16, 16)) for name in "qkvoy"] + [(name, f(16)) for name in ("bo", "g", "b")]
    x, y = ("x", TensorProto.FLOAT, [2, 9, 16]), ("y", TensorProto.FLOAT, [2, 9, 16])
    return models.model(nodes, [x], [y], weights, opset=17), f(2, 9, 16)


def recogniser() -> "tuple[bytes, np.ndarray]":
    """Columns of an image of text through an LSTM in both directions, to the scores of ten characters and a blank."""
    nodes = [
        node("Conv", "x w b", "a", pads=[1] * 4),
        node("Relu", "a", "r"),
        node("MaxPool", "r", "m", kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", "m v", "c", pads=[1] * 4),
        node("AveragePool", "c", "h", kernel_shape=[8, 1]),
        node("Squeeze", "h two", "q"),
        node("Transpose", "q", "t", perm=[2, 0, 1]),
        node("LSTM", "t wi wr wb", "l", hidden_size=6, direction="bidirectional"),
        node("Transpose", "l", "u", perm=[0, 2, 1, 3]),
        node("Reshape", "u shape", "f"),
        node("MatMul", "f wo", "o"),
        node("Add", "o bo", "z"),
        node("Softmax", "z", "y", axis=-1),
    ]
    weights = [("w", f(8, 1, 3, 3)), ("b", f(8)), ("v", f(8, 8, 3, 3)), ("wo", f(12, 11) * 9), ("bo", f(11))]
    weights += [("wi", f(2, 24, 8) * 9), ("wr", f(2, 24, 6) * 4), ("wb", f(2, 48))]
    weights += [("two", np.array([2])), ("shape", np.array([16, 1, 12]))]
    x, y = ("x", TensorProto.FLOAT, [1, 1, 16, 32]), ("y", TensorProto.FLOAT, [16, 1, 11])
    return models.model(nodes, [x], [y], weights, opset=17), f(1, 1, 16, 32) * 9


def images() -> "tuple[bytes, np.ndarray]":
    """Convolutions of all kinds, whose channels ONNX Runtime puts in blocks."""
    nodes = [
        node("Conv", "x w1 b1", "a0", pads=[1] * 4, strides=[2, 2]),
        node("Relu", "a0", "a"),
        node("Conv", "a wd", "d0", pads=[1] * 4, group=32),
        node("LeakyRelu", "d0", "d", alpha=0.2),
        node("Conv", "d wg", "g", pads=[1] * 4, group=2),
        node("Conv", "g wn", "n"),
        node("Conv", "a wm bm", "m"),
        node("Add", "n m", "s"),
        node("Abs", "s", "r"),
        node("Conv", "r wq", "q"),
        node("MaxPool", "a", "p", kernel_shape=[2, 2], strides=[2, 2]),
        node("AveragePool", "d", "v", kernel_shape=[2, 2], strides=[2, 2]),
        node("Concat", "p v", "c", axis=1),
        node(
            "Resize",
            "c  scales",
            "u",
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        ),
        node("Conv", "u we", "e"),
        node("GlobalAveragePool", "e", "ga"),
        node("GlobalMaxPool", "a", "gm"),
        node("Add", "ga gm", "o"),
        node("GlobalAveragePool", "q", "gq"),
        node("Concat", "o gq", "k", axis=1),
        node("Flatten", "k", "z"),
        node("Gemm", "z wz", "y"),
    ]
    nodes[13].input[:] = ["c", "", "scales"]
    shapes = {
        "w1": (32, 3, 3, 3),
        "b1": (32,),
        "wd": (32, 1, 3, 3),
        "wg": (32, 16, 3, 3),
        "wn": (24, 32, 1, 1),
        "wm": (24, 32, 1, 1),
        "bm": (24,),
        "wq": (20, 24, 1, 1),
        "we": (32, 64, 1, 1),
        "wz": (52, 5),
    }
    weights = [(name, f(*shape)) for name, shape in shapes.items()]
    weights.append(("scales", np.array([1, 1, 2, 2], np.float32)))
    x, y = ("x", TensorProto.FLOAT, [1, 3, 16, 16]), ("y", TensorProto.FLOAT, [1, 5])
    return models.model(nodes, [x], [y], weights, opset=17), f(1, 3, 16, 16)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if PEER is None:
        assert "ANYDNN_REQUIRE" not in os.environ, "ANYDNN_PEER_PYTHON names no Python with ONNX Runtime"
        pytest.skip("ANYDNN_PEER_PYTHON names no Python with ONNX Runtime")
    folder: Path = tmp_path_factory.mktemp("quantised")
    for make in (convolutions, attention, images, recogniser):
        model, x = make()
        (folder / f"{make.__name__}.onnx").write_bytes(model)
        np.savez(folder / f"{make.__name__}.in.npz", x=x)
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ended = subprocess.run(
        [PEER, "-c", SCRIPT, str(folder)], capture_output=True, text=True, env=variables, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return folder


KINDS = ["dynamic", "operators", "pairs", "extended", "all", "blocks"]
# The host runs all of them; devices what has an operator of its own for each.
PAIRS = [
    (backend, kind) for backend in REQUIRED for kind in KINDS if backend == "host" or kind == "operators"
]
# What stands for operators on blocks of channels.
IN_BLOCKS = {
    "Conv",
    "ReorderInput",
    "ReorderOutput",
    "MaxPool",
    "AveragePool",
    "GlobalAveragePool",
    "Upsample",
}


@pytest.mark.parametrize("name", ["attention", "convolutions"])
@pytest.mark.parametrize(("backend", "kind"), PAIRS)
def test_as_onnx_runtime_computes(folder: Path, backend: str, kind: str, name: str) -> None:
    feed = dict(np.load(folder / f"{name}.in.npz"))
    (made,) = anydnn.InferenceSession(folder / f"{name}.{kind}", backend).run(None, feed)
    models.assert_close(made, np.load(folder / f"{name}.{kind}.npy"), terms=72)


def test_channels_in_blocks(folder: Path, backend: str) -> None:
    written = models.parsed((folder / "images.blocks").read_bytes()).graph.node
    assert {node.op_type for node in written if node.domain == "com.microsoft.nchwc"} >= IN_BLOCKS
    feed = dict(np.load(folder / "images.in.npz"))
    (made,) = anydnn.InferenceSession(folder / "images.blocks", backend).run(None, feed)
    models.assert_close(made, np.load(folder / "images.blocks.npy"), terms=32 * 9)


def test_a_text_recogniser_with_quantised_layers(folder: Path, backend: str) -> None:
    written = models.parsed((folder / "recogniser.dynamic").read_bytes()).graph.node
    assert {node.op_type for node in written} >= {"DynamicQuantizeLSTM", "ConvInteger", "MatMulInteger"}
    feed = dict(np.load(folder / "recogniser.in.npz"))
    (made,) = anydnn.InferenceSession(folder / "recogniser.dynamic", backend).run(None, feed)
    # Sources and states of these layers stay floats here, which ONNX Runtime quantises, too.
    plain, theirs = (np.load(folder / f"recogniser.{kind}.npy") for kind in ("plain", "dynamic"))
    models.assert_close(made, plain, terms=72)
    # That is what it differs by from itself. The characters are the same.
    own = np.linalg.norm(theirs - plain)
    assert 0 < np.linalg.norm(made - theirs) <= own * 1.001
    assert len(set(made.argmax(-1).ravel())) > 2
    np.testing.assert_array_equal(made.argmax(-1), theirs.argmax(-1))

"""Makes the forms in which ONNX Runtime's own tools leave a model of floats, for `anydnn bench FORM --peer onnxruntime`.

    python benches/quantised.py MODEL.onnx FOLDER --dim batch=1 --dim sequence=128

writes NAME.float.onnx, NAME.dynamic.onnx (`quantize_dynamic`), NAME.qdq.onnx and NAME.qoperator.onnx (`quantize_static`, calibrated by one sample
at random) and NAME.all.onnx (optimised at the level ORT_ENABLE_ALL). Weights that are one number each, as the package `onnx` has its large
models, become random ones of the usual size. Python needs onnx and onnxruntime: `anydnn bench --peer onnxruntime` installs them into
~/.cache/anydnn/peers/onnxruntime.
"""

import argparse
import pathlib

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper, version_converter
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_dynamic, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

# What the quantiser needs for scales of channels.
OPSET = 13
RNG = np.random.default_rng(7)


class Once(CalibrationDataReader):
    """One sample."""

    def __init__(self, feed):
        self.feeds = iter([feed])

    def get_next(self):
        return next(self.feeds, None)


def normal(*dims):
    return RNG.standard_normal(dims).astype(np.float32)


def with_weights(model):
    """A model whose nodes ConstantOfShape have become weights at random."""
    graph = model.graph
    shapes = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
    roles = {}
    for node in graph.node:
        if node.op_type in ("Conv", "Gemm"):
            roles[node.input[1]] = lambda v: v * np.sqrt(2 / max(v[0].size, 1))
        if node.op_type == "BatchNormalization":
            roles[node.input[1]] = lambda v: 1 + 0.1 * v
            roles[node.input[4]] = lambda v: 1 + 0.1 * abs(v)
    made, kept = [], []
    for node in graph.node:
        if node.op_type == "ConstantOfShape" and node.input[0] in shapes:
            value = normal(*(int(dim) for dim in shapes[node.input[0]]))
            value = roles.get(node.output[0], lambda v: 0.1 * v)(value)
            made.append(numpy_helper.from_array(np.asarray(value, np.float32), node.output[0]))
        else:
            kept.append(node)
    if not made:
        return model
    used = {name for node in kept for name in node.input}
    constants = [one for one in graph.initializer if one.name in used] + made
    names = {one.name for one in constants}
    inputs = [one for one in graph.input if one.name in used and one.name not in names]
    for field, values in ((graph.node, kept), (graph.initializer, constants), (graph.input, inputs)):
        del field[:]
        field.extend(values)
    model.ir_version = 8
    return model


def sample(model, dims):
    """Values at random for each input: normal, whole numbers below 20,000, or bytes; a mask is ones."""
    constants = {one.name for one in model.graph.initializer}
    feed = {}
    for one in model.graph.input:
        if one.name in constants:
            continue
        tensor = one.type.tensor_type
        names = [(dim.dim_value, dim.dim_param, f"{one.name}.{at}") for at, dim in enumerate(tensor.shape.dim)]
        shape = [value if value > 0 else dims.get(name, dims.get(place)) for value, name, place in names]
        if None in shape:
            raise SystemExit(f"{one.name} has open dimensions, expected --dim for each of {names}")
        kind = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        if kind == np.float32:
            feed[one.name] = normal(*shape)
        elif "mask" in one.name:
            feed[one.name] = np.ones(shape, kind)
        elif "type" in one.name:
            feed[one.name] = np.zeros(shape, kind)
        else:
            feed[one.name] = np.asarray(RNG.integers(0, 20000 if kind == np.int64 and shape else 256, shape), kind)
    return feed


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("model", type=pathlib.Path)
    arguments.add_argument("folder", type=pathlib.Path)
    arguments.add_argument("--dim", action="append", default=[], metavar="NAME=N")
    given = arguments.parse_args()
    dims = {name: int(size) for name, size in (dim.rsplit("=", 1) for dim in given.dim)}
    given.folder.mkdir(parents=True, exist_ok=True)
    form = lambda kind: str(given.folder / f"{given.model.stem}.{kind}.onnx")

    model = with_weights(onnx.load(given.model))
    if model.opset_import[0].version < OPSET:
        model = version_converter.convert_version(model, OPSET)
    onnx.save(model, form("float"))
    feed = sample(model, dims)
    quant_pre_process(form("float"), form("folded"), skip_symbolic_shape=True)
    quantize_dynamic(form("folded"), form("dynamic"))
    for kind, layout in (("qdq", QuantFormat.QDQ), ("qoperator", QuantFormat.QOperator)):
        quantize_static(form("folded"), form(kind), Once(feed), quant_format=layout)
    pathlib.Path(form("folded")).unlink()
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.optimized_model_filepath = form("all")
    ort.InferenceSession(form("float"), options, providers=["CPUExecutionProvider"])


if __name__ == "__main__":
    ort.set_default_logger_severity(3)
    main()

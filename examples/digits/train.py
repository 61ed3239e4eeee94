"""Train the digits model and write every file of this example.

The model is a small convolutional network over the 1,797 real 8x8 handwritten
digits that scikit-learn carries.  One fifth of them (360 images, stratified)
is held out: it is neither trained on nor used to choose anything.

Run (Python 3.11 or newer, CPU only):

    python3 -m venv venv
    venv/bin/pip install -r requirements.txt   # jax, numpy, safetensors, scikit-learn
    venv/bin/python train.py

The last command takes about ten seconds on two cores.  It writes, next to itself:

    graph.json            the network as oneDNN graph JSON, shapes for batch 1
    weights.safetensors   every constant tensor of the graph
    heldout.safetensors   the held-out images and labels
    model.json            the manifest that ties the three together

and then reads the written files back, runs them with a plain-numpy interpreter
that shares no code with the training network, and prints the held-out accuracy.

    venv/bin/python train.py --validate

writes nothing: it trains on four fifths of the training part and prints the
accuracy on the rest.  That is the number to tune by.

Every seed is fixed: the same machine and package versions write the same bytes.
Another CPU may round differently and end with slightly different weights.
"""

import argparse
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.lib.stride_tricks import sliding_window_view
from safetensors.numpy import load_file, save_file
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

HERE = Path(__file__).resolve().parent

SEED = 0
EPOCHS = 80
BATCH = 64
PEAK_LEARNING_RATE = 3e-3
WEIGHT_DECAY = 1e-2
DROPOUT = 0.3
BN_EPSILON = 1e-5
BN_MOMENTUM = 0.95

HELDOUT_IMAGES = 360
PROBABILITY_TOLERANCE = 1e-5
CLASSES = 10


def main():
    parser = argparse.ArgumentParser(description="Train the digits model.")
    parser.add_argument(
        "--validate",
        action="store_true",
        help="train on a part of the training part, print the accuracy on the rest, write nothing",
    )
    validate = parser.parse_args().validate

    jax.config.update("jax_platforms", "cpu")
    digits = load_digits()
    images, labels = digits.images.astype(np.uint8), digits.target.astype(np.uint8)
    training, heldout = split(images, labels, HELDOUT_IMAGES)

    if validate:
        training, validation = split(*training, len(training[1]) // 5)
        weights = train(*training)
        print_report("validation", predict(weights, validation[0]), validation[1])
    else:
        weights = train(*training)
        write_model(weights, heldout)
        verify(weights)


def split(images, labels, size):
    """Two stratified parts, the second of `size` images: ((images, labels), (images, labels))."""
    a_images, b_images, a_labels, b_labels = train_test_split(
        images, labels, test_size=size, stratify=labels, random_state=0
    )
    return (a_images, a_labels), (b_images, b_labels)


# ---------------------------------------------------------------- training


def train(images, labels):
    """Every constant tensor of the graph, by name, after the last epoch."""
    rng = np.random.default_rng(SEED)
    params = initial_params(rng)
    running = {"bn2.mean": np.zeros(32, np.float32), "bn2.variance": np.ones(32, np.float32)}
    moments = (zeros_like(params), zeros_like(params))

    steps_per_epoch = len(images) // BATCH
    total_steps = EPOCHS * steps_per_epoch
    key = jax.random.key(SEED)
    step = 0
    for epoch in range(EPOCHS):
        # The incomplete last batch is dropped; the next epoch shuffles anew.
        order = rng.permutation(len(images))[: steps_per_epoch * BATCH]
        losses = []
        for batch in order.reshape(steps_per_epoch, BATCH):
            params, running, moments, loss = train_step(
                params,
                running,
                moments,
                shifted(images[batch], rng),
                labels[batch],
                jax.random.fold_in(key, step),
                step,
                learning_rate(step, total_steps),
            )
            losses.append(loss)
            step += 1
        if (epoch + 1) % 10 == 0:
            print(f"epoch {epoch + 1:3}  training loss {np.mean(losses):.4f}")

    weights = {"input_scale": np.array([1 / 16], np.float32), **params, **running}
    return {name: np.asarray(value, np.float32) for name, value in weights.items()}


def initial_params(rng):
    """He-normal weights, zero biases."""

    def he(*shape, fan_in):
        return rng.normal(0, np.sqrt(2 / fan_in), shape).astype(np.float32)

    return {
        "conv1.weight": he(16, 1, 3, 3, fan_in=9),
        "conv1.bias": np.zeros(16, np.float32),
        "conv2.weight": he(32, 16, 3, 3, fan_in=16 * 9),
        "bn2.gamma": np.ones(32, np.float32),
        "bn2.beta": np.zeros(32, np.float32),
        "conv3.weight": he(32, 32, 3, 3, fan_in=32 * 9),
        "conv3.bias": np.zeros(32, np.float32),
        "dense.weight": he(128, CLASSES, fan_in=128),
        "dense.bias": np.zeros(CLASSES, np.float32),
    }


def shifted(images, rng):
    """Each image moved by -1, 0 or 1 pixel along each axis, zeros moving in."""
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1)))
    dy, dx = rng.integers(0, 3, (2, len(images), 1, 1))
    row, column = np.arange(8)[None, :, None], np.arange(8)[None, None, :]
    return padded[np.arange(len(images))[:, None, None], row + dy, column + dx]


def learning_rate(step, total_steps):
    """A short linear warm-up, then half a cosine down to zero."""
    warm_up = min(1, (step + 1) / (0.05 * total_steps))
    return PEAK_LEARNING_RATE * warm_up * 0.5 * (1 + np.cos(np.pi * step / total_steps))


@jax.jit
def train_step(params, running, moments, images, labels, key, step, rate):
    """One AdamW step; the batch-norm statistics of the batch join the running ones."""

    def loss_of(params):
        logits, mean, variance = logits_of({**params, **running}, images, key)
        log_probability = jax.nn.log_softmax(logits)
        return -jnp.mean(log_probability[jnp.arange(BATCH), labels]), (mean, variance)

    (loss, (mean, variance)), grads = jax.value_and_grad(loss_of, has_aux=True)(params)

    # Inference divides by the population variance, so the running one is unbiased.
    samples = BATCH * 8 * 8
    batch_statistics = {"bn2.mean": mean, "bn2.variance": variance * samples / (samples - 1)}
    running = {
        name: BN_MOMENTUM * running[name] + (1 - BN_MOMENTUM) * batch_statistics[name]
        for name in running
    }

    first = {n: 0.9 * moments[0][n] + 0.1 * g for n, g in grads.items()}
    second = {n: 0.999 * moments[1][n] + 0.001 * g * g for n, g in grads.items()}
    first_scale, second_scale = 1 - 0.9 ** (step + 1), 1 - 0.999 ** (step + 1)

    def updated(name, value):
        change = first[name] / first_scale / (jnp.sqrt(second[name] / second_scale) + 1e-8)
        decay = WEIGHT_DECAY * value if name.endswith(".weight") else 0
        return value - rate * (change + decay)

    params = {name: updated(name, value) for name, value in params.items()}
    return params, running, (first, second), loss


def logits_of(weights, images, dropout_key=None):
    """Logits, and the mean and variance that the batch norm used.

    With a dropout key the network is in training mode: the batch norm uses the
    statistics of the batch and the flattened features pass a dropout.
    """
    x = images.astype(jnp.float32).reshape(-1, 1, 8, 8) / 16
    x = jax.nn.relu(conv3x3(x, weights["conv1.weight"]) + per_channel(weights["conv1.bias"]))

    x = conv3x3(x, weights["conv2.weight"])
    if dropout_key is None:
        mean, variance = weights["bn2.mean"], weights["bn2.variance"]
    else:
        mean, variance = jnp.mean(x, (0, 2, 3)), jnp.var(x, (0, 2, 3))
    x = (x - per_channel(mean)) / jnp.sqrt(per_channel(variance) + BN_EPSILON)
    x = jax.nn.relu(x * per_channel(weights["bn2.gamma"]) + per_channel(weights["bn2.beta"]))
    pooled = pool2x2(x, jnp.max)

    x = conv3x3(pooled, weights["conv3.weight"]) + per_channel(weights["conv3.bias"])
    x = pool2x2(jax.nn.relu(x + pooled), jnp.mean)

    x = x.reshape(-1, 128)
    if dropout_key is not None:
        keep = jax.random.bernoulli(dropout_key, 1 - DROPOUT, x.shape)
        x = jnp.where(keep, x / (1 - DROPOUT), 0)
    return x @ weights["dense.weight"] + weights["dense.bias"], mean, variance


def conv3x3(x, weight):
    return lax.conv_general_dilated(
        x, weight, (1, 1), ((1, 1), (1, 1)), dimension_numbers=("NCHW", "OIHW", "NCHW")
    )


def pool2x2(x, reduce):
    n, c, h, w = x.shape
    return reduce(x.reshape(n, c, h // 2, 2, w // 2, 2), axis=(3, 5))


def per_channel(vector):
    return vector[:, None, None]


def zeros_like(params):
    return {name: np.zeros_like(value) for name, value in params.items()}


def predict(weights, images):
    """Class probabilities of the training network in inference mode."""
    return np.asarray(jax.nn.softmax(logits_of(weights, images)[0]))


# ---------------------------------------------------------------- writing


def write_model(weights, heldout):
    graph = digits_graph(weights)
    (HERE / "graph.json").write_text(graph.to_json())
    save_file(weights, HERE / "weights.safetensors")
    images, labels = (np.ascontiguousarray(array) for array in heldout)
    save_file({"images": images, "labels": labels}, HERE / "heldout.safetensors")

    manifest = {
        "name": "digits",
        "description": "Classifies 8x8 images of handwritten digits, pixels 0 to 16.",
        "graph": "graph.json",
        "weights": "weights.safetensors",
        "constants": {name: graph.ids[name] for name in graph.constants},
        "inputs": {"images": graph.ids["images"]},
        "outputs": {"probabilities": graph.ids["probabilities"]},
        "dataset": {
            "file": "heldout.safetensors",
            "inputs": {"images": "images"},
            "labels": "labels",
        },
        "task": "classification",
        "classes": [str(digit) for digit in range(CLASSES)],
    }
    (HERE / "model.json").write_text(json.dumps(manifest, indent=2) + "\n")


def digits_graph(weights):
    """The network of `logits_of` in inference mode, as a graph for batch 1."""
    graph = Graph(weights)
    graph.declare("images", [1, 1, 8, 8])

    convolution = {
        "strides": [1, 1],
        "pads_begin": [1, 1],
        "pads_end": [1, 1],
        "dilations": [1, 1],
        "groups": 1,
        "auto_pad": "None",
        "data_format": "NCX",
        "weights_format": "OIX",
    }
    pool = {
        "strides": [2, 2],
        "pads_begin": [0, 0],
        "pads_end": [0, 0],
        "kernel": [2, 2],
        "rounding_type": "floor",
        "auto_pad": "None",
        "data_format": "NCX",
    }
    batch_norm = {"epsilon": BN_EPSILON, "data_format": "NCX"}
    numpy_broadcast = {"auto_broadcast": "numpy"}

    def op(kind, name, inputs, output, shape, attrs=None):
        graph.add(kind, name, inputs.split(), output, shape, attrs or {})

    wide, narrow = [1, 32, 8, 8], [1, 32, 4, 4]
    op("Multiply", "scale_input", "images input_scale", "scaled", [1, 1, 8, 8], numpy_broadcast)
    first = [1, 16, 8, 8]
    op("Convolution", "conv1", "scaled conv1.weight conv1.bias", "conv1", first, convolution)
    op("ReLU", "relu1", "conv1", "relu1", first)
    op("Convolution", "conv2", "relu1 conv2.weight", "conv2", wide, convolution)
    statistics = "bn2.gamma bn2.beta bn2.mean bn2.variance"
    op("BatchNormInference", "bn2", f"conv2 {statistics}", "bn2", wide, batch_norm)
    op("ReLU", "relu2", "bn2", "relu2", wide)
    op("MaxPool", "max_pool", "relu2", "max_pool", narrow, {**pool, "dilations": [1, 1]})
    op("Convolution", "conv3", "max_pool conv3.weight conv3.bias", "conv3", narrow, convolution)
    op("Add", "residual", "conv3 max_pool", "residual", narrow, numpy_broadcast)
    op("ReLU", "relu3", "residual", "relu3", narrow)
    op("AvgPool", "avg_pool", "relu3", "avg_pool", [1, 32, 2, 2], {**pool, "exclude_pad": False})
    # The zero copies the batch dimension, so the graph holds for any batch.
    flatten = {"shape": [0, 128], "special_zero": True}
    op("StaticReshape", "flatten", "avg_pool", "flat", [1, 128], flatten)
    transposes = {"transpose_a": False, "transpose_b": False}
    op("MatMul", "dense", "flat dense.weight", "dense", [1, CLASSES], transposes)
    op("BiasAdd", "dense_bias", "dense dense.bias", "logits", [1, CLASSES], {"data_format": "NXC"})
    op("SoftMax", "softmax", "logits", "probabilities", [1, CLASSES], {"axis": 1})
    return graph


class Graph:
    """Collects operations and writes them as oneDNN graph JSON.

    Tensors are known by name here and by number in the file; numbers follow the
    order of first use.  A name found among the weights is a constant.
    """

    def __init__(self, weights):
        self.weights = weights
        self.ids = {}
        self.shapes = {}
        self.ops = []

    @property
    def constants(self):
        return [name for name in self.ids if name in self.weights]

    def declare(self, name, shape):
        self.ids[name] = len(self.ids)
        self.shapes[name] = list(shape)

    def add(self, kind, name, inputs, output, shape, attrs):
        for tensor in inputs:
            if tensor not in self.ids:
                self.declare(tensor, self.weights[tensor].shape)
        self.declare(output, shape)
        self.ops.append((kind, name, attrs, inputs, [output]))

    def to_json(self):
        """One attribute or tensor per line, so that a diff of two graphs reads well."""
        produced = [tensor for *_, outputs in self.ops for tensor in outputs]
        consumed = [tensor for *_, inputs, _ in self.ops for tensor in inputs]
        # As in a dump by oneDNN, the constants are among the input ports.
        header = {
            "version": "3.14.0",
            "engine_kind": "cpu",
            "fpmath_mode": "strict",
            "fpmath_mode_apply_to_int": "false",
            "input_ports": [self.ids[t] for t in self.ids if t not in produced],
            "output_ports": [self.ids[t] for t in produced if t not in consumed],
        }
        lines = [f'  "{key}": {json.dumps(value)},' for key, value in header.items()]
        ops = ",\n".join(self._op_json(number, *op) for number, op in enumerate(self.ops))
        return "{\n" + "\n".join(lines) + '\n  "graph": [\n' + ops + "\n  ]\n}\n"

    def _op_json(self, number, kind, name, attrs, inputs, outputs):
        attr_lines = [
            f"{json.dumps(key)}: {json.dumps(typed(value))}" for key, value in attrs.items()
        ]
        fields = [
            f'"id": {number}',
            f'"name": {json.dumps(name)}',
            f'"kind": {json.dumps(kind)}',
            '"attrs": ' + block("{", attr_lines, "}"),
            '"inputs": ' + block("[", [self._tensor_json(t) for t in inputs], "]"),
            '"outputs": ' + block("[", [self._tensor_json(t) for t in outputs], "]"),
        ]
        return "    {\n      " + ",\n      ".join(fields) + "\n    }"

    def _tensor_json(self, name):
        shape = self.shapes[name]
        return json.dumps(
            {
                "id": self.ids[name],
                "dtype": "f32",
                "shape": shape,
                "stride": [int(np.prod(shape[axis + 1 :])) for axis in range(len(shape))],
                "layout_type": "strided",
                "property_type": "constant" if name in self.weights else "variable",
            }
        )


def block(opening, lines, closing):
    """A JSON list or object inside an operation, one entry per line."""
    if not lines:
        return opening + closing
    indent = "\n        "
    return opening + indent + ("," + indent).join(lines) + "\n      " + closing


def typed(value):
    """An attribute value with its type name; bools are written as 0 and 1."""
    if isinstance(value, bool):
        return {"type": "bool", "value": int(value)}
    names = {str: "string", int: "s64", float: "f32", list: "s64[]"}
    return {"type": names[type(value)], "value": value}


# ---------------------------------------------------------------- checking


def verify(weights):
    """Run the written files and hold them against the network that was trained."""
    manifest = json.loads((HERE / "model.json").read_text())
    graph = json.loads((HERE / manifest["graph"]).read_text())
    constants = load_file(HERE / manifest["weights"])
    heldout = load_file(HERE / manifest["dataset"]["file"])
    images, labels = heldout["images"], heldout["labels"]

    tensors = {number: constants[name] for name, number in manifest["constants"].items()}
    tensors[manifest["inputs"]["images"]] = images.astype(np.float32).reshape(-1, 1, 8, 8)
    missing = set(graph["input_ports"]) - set(tensors)
    assert not missing, f"no value for input ports {missing}"
    interpret(graph, tensors)
    probabilities = tensors[manifest["outputs"]["probabilities"]]

    expected = predict(weights, images)
    difference = np.abs(probabilities - expected).max()
    print(f"written graph against the trained network: largest difference {difference:.1e}")
    assert difference <= PROBABILITY_TOLERANCE
    assert (probabilities.argmax(1) == expected.argmax(1)).all()
    print_report("held-out", probabilities, labels)


def print_report(part, probabilities, labels):
    guesses = probabilities.argmax(1)
    right = int((guesses == labels).sum())
    print(f"{part} accuracy: {right} of {len(labels)} = {100 * right / len(labels):.2f} %")
    confusion = np.zeros((CLASSES, CLASSES), int)
    np.add.at(confusion, (labels, guesses), 1)
    np.fill_diagonal(confusion, 0)
    for label, guess in np.argwhere(confusion):
        print(f"  {label} taken for {guess}: {confusion[label, guess]}")


def interpret(graph, tensors):
    """Execute a graph in plain numpy, adding every output to `tensors` (id -> array).

    Covers the operations and attribute values that the digits graph uses, and
    asserts that it meets no others.  Shapes must agree with the written ones
    except for the batch.
    """
    for op in graph["graph"]:
        attrs = {name: attr["value"] for name, attr in op["attrs"].items()}
        inputs = [tensors[tensor["id"]] for tensor in op["inputs"]]
        (output,) = op["outputs"]
        result = NUMPY_OPS[op["kind"]](attrs, *inputs)
        assert list(result.shape[1:]) == output["shape"][1:], op["name"]
        assert result.dtype == np.float32, op["name"]
        tensors[output["id"]] = result


def numpy_convolution(attrs, src, weight, bias=None):
    assert attrs["groups"] == 1 and attrs["dilations"] == [1, 1]
    assert attrs["data_format"] == "NCX" and attrs["weights_format"] == "OIX"
    patches = windows(attrs, src, weight.shape[2:])
    dst = np.einsum("nchwij,ocij->nohw", patches, weight, optimize=True)
    return dst if bias is None else dst + bias[:, None, None]


def numpy_batch_norm(attrs, src, gamma, beta, mean, variance):
    assert attrs["data_format"] == "NCX"
    scale = gamma / np.sqrt(variance + np.float32(attrs["epsilon"]))
    return src * scale[:, None, None] + (beta - mean * scale)[:, None, None]


def numpy_max_pool(attrs, src):
    assert attrs["dilations"] == [1, 1]
    return pool_windows(attrs, src).max((4, 5))


def numpy_avg_pool(attrs, src):
    return pool_windows(attrs, src).mean((4, 5), dtype=np.float32)


def numpy_reshape(attrs, src):
    copy_zero = attrs["special_zero"]
    shape = [src.shape[i] if d == 0 and copy_zero else d for i, d in enumerate(attrs["shape"])]
    return src.reshape(shape)


def numpy_matmul(attrs, src, weight):
    a = src.swapaxes(-1, -2) if attrs["transpose_a"] else src
    b = weight.swapaxes(-1, -2) if attrs["transpose_b"] else weight
    return a @ b


def numpy_bias_add(attrs, src, bias):
    assert attrs["data_format"] == "NXC"
    return src + bias


def numpy_softmax(attrs, src):
    exponentials = np.exp(src - src.max(attrs["axis"], keepdims=True))
    return exponentials / exponentials.sum(attrs["axis"], keepdims=True)


def pool_windows(attrs, src):
    # Without padding, neither the pad value nor exclude_pad makes a difference.
    assert attrs["pads_begin"] == [0, 0] and attrs["pads_end"] == [0, 0]
    assert attrs["data_format"] == "NCX" and attrs["rounding_type"] == "floor"
    return windows(attrs, src, attrs["kernel"])


def windows(attrs, src, kernel):
    """The window under each output position: [N, C, OH, OW, KH, KW]."""
    assert attrs["auto_pad"] == "None"
    pads = zip(attrs["pads_begin"], attrs["pads_end"], strict=True)
    padded = np.pad(src, ((0, 0), (0, 0), *pads))
    down, right = attrs["strides"]
    return sliding_window_view(padded, kernel, axis=(2, 3))[:, :, ::down, ::right]


NUMPY_OPS = {
    "Add": lambda attrs, a, b: a + b,
    "AvgPool": numpy_avg_pool,
    "BatchNormInference": numpy_batch_norm,
    "BiasAdd": numpy_bias_add,
    "Convolution": numpy_convolution,
    "MatMul": numpy_matmul,
    "MaxPool": numpy_max_pool,
    "Multiply": lambda attrs, a, b: a * b,
    "ReLU": lambda attrs, src: np.maximum(src, 0),
    "SoftMax": numpy_softmax,
    "StaticReshape": numpy_reshape,
}


if __name__ == "__main__":
    main()

"""Operators of ONNX Runtime's own domain, each beside ONNX Runtime itself, in the Python that ``ANYDNN_PEER_PYTHON`` names."""

import math
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anydnn
import models
import numpy as np
import onnx
import pytest
from conftest import REQUIRED
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

PEER = os.environ.get("ANYDNN_PEER_PYTHON")
RNG = np.random.default_rng(7)

# Runs every model of a folder on the inputs beside it.
SCRIPT = """
import pathlib, sys
import numpy as np
import onnxruntime as ort
ort.set_default_logger_severity(3)
for file in sorted(pathlib.Path(sys.argv[1]).glob("*.onnx")):
    session = ort.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    feed = dict(np.load(file.with_suffix(".in.npz")))
    names = [out.name for out in session.get_outputs()]
    np.savez(file.with_suffix(".out.npz"), **dict(zip(names, session.run(names, feed))))
"""


def f(*dims: int) -> np.ndarray:
    return RNG.standard_normal(dims).astype(np.float32)


def i(low: int, high: int, *dims: int, dtype: Any = np.int32) -> np.ndarray:
    return RNG.integers(low, high, dims).astype(dtype)


def case(
    op: str,
    inputs: "list[Any]",
    outputs: int = 1,
    terms: int = 1,
    weights: "tuple[int, ...]" = (),
    domain: str = "com.microsoft",
    named: "tuple[int, ...]" = (),
    **attrs: Any,
) -> "tuple[str, bytes, dict[str, np.ndarray], int]":
    """A model of one node, whose weights are in the file; ``None`` is an input left out."""
    names = ["" if value is None else f"x{at}" for at, value in enumerate(inputs)]
    out = [f"y{at}" if not named or at in named else "" for at in range(outputs)]
    node = helper.make_node(op, names, out, domain=domain, **attrs)
    given = {n: v for at, (n, v) in enumerate(zip(names, inputs)) if v is not None and at not in weights}
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for n, v in given.items()
    ]
    made = [onnx.ValueInfoProto(name=name) for name in out if name]
    constants = [numpy_helper.from_array(inputs[at], names[at]) for at in weights]
    graph = helper.make_graph([node], op, infos, made, constants)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    if domain not in ("", "com.microsoft"):
        opsets.append(helper.make_opsetid(domain, 3 if domain == "ai.onnx.ml" else 1))
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    return op, bytes(model.SerializeToString()), given, terms


H = 16
ONE = np.array(1, np.float32)


def scale(value: float) -> np.ndarray:
    return np.array(value, np.float32)


def point(value: int, dtype: Any = np.uint8) -> np.ndarray:
    return np.array(value, dtype)


QUANTIZED = [scale(0.03), point(120)]
U8 = np.uint8
CASES = [
    case("Gelu", [f(3, 5)]),
    case("FastGelu", [f(3, 5)]),
    case("FastGelu", [f(3, 5), f(5)]),
    case("BiasGelu", [f(2, 3, 5), f(5)]),
    case("QuickGelu", [f(3, 5)], alpha=1.5),
    case("QuickGelu", [f(3, 5)]),
    case("FusedMatMul", [f(2, 4, 3), f(2, 4, 5)], terms=4, transA=1, alpha=0.5),
    case("FusedMatMul", [f(4, 3), f(5, 3)], terms=3, transB=1),
    case("FusedMatMul", [f(2, 3, 4), f(4, 5)], terms=4, weights=(1,)),
    case("FusedGemm", [f(3, 4), f(4, 5), f(5)], terms=4, activation="Relu"),
    case("FusedGemm", [f(3, 4), f(4, 5), f(5)], terms=4, activation="LeakyRelu", activation_alpha=0.2),
    case("FusedConv", [f(1, 3, 6, 6), f(4, 3, 3, 3), f(4)], terms=27, activation="Relu", pads=[1, 1, 1, 1]),
    case(
        "FusedConv",
        [f(1, 3, 6, 6), f(4, 3, 3, 3), f(4), f(1, 4, 4, 4)],
        terms=27,
        activation="LeakyRelu",
        activation_params=[0.1],
    ),
    case("SimplifiedLayerNormalization", [f(2, 3, H), f(H)], terms=H, domain="", axis=-1, epsilon=1e-5),
    case("SkipLayerNormalization", [f(2, 3, H), f(2, 3, H), f(H), f(H), f(H)], terms=H, epsilon=1e-5),
    case(
        "SkipLayerNormalization",
        [f(2, 3, H), f(2, 3, H), f(H)],
        outputs=4,
        named=(0, 3),
        terms=H,
        epsilon=1e-5,
    ),
    case("SkipSimplifiedLayerNormalization", [f(2, 3, H), f(2, 3, H), f(H), f(H)], terms=H, epsilon=1e-5),
    case(
        "SkipSimplifiedLayerNormalization",
        [f(2, 3, H), f(2, 3, H), f(H)],
        outputs=4,
        named=(0, 3),
        terms=H,
        epsilon=1e-5,
    ),
    case(
        "EmbedLayerNormalization",
        [
            i(0, 30, 2, 7),
            i(0, 2, 2, 7),
            f(30, H),
            f(9, H),
            f(2, H),
            f(H),
            f(H),
            (np.arange(14).reshape(2, 7) % 5 > 0).astype(np.int32),
        ],
        outputs=2,
        terms=H,
        weights=(2, 3, 4, 5, 6),
    ),
    case(
        "EmbedLayerNormalization",
        [i(0, 30, 2, 7), None, f(30, H), f(9, H), None, f(H), f(H)],
        outputs=2,
        terms=H,
        weights=(2, 3, 5, 6),
        epsilon=1e-6,
    ),
    case(
        "MatMulIntegerToFloat",
        [
            i(0, 255, 3, 8, dtype=U8),
            i(0, 255, 8, 5, dtype=U8),
            scale(0.1),
            scale(0.2),
            point(100),
            point(130),
            f(5),
        ],
        terms=8,
        weights=(1, 2, 3, 4, 5, 6),
    ),
    case(
        "MatMulIntegerToFloat",
        [
            i(0, 255, 3, 8, dtype=U8),
            i(-100, 100, 8, 5, dtype=np.int8),
            scale(0.1),
            np.abs(f(5)) + 0.1,
            point(3),
        ],
        terms=8,
        weights=(1, 2, 3, 4),
    ),
    case(
        "DynamicQuantizeMatMul",
        [f(3, 8), i(0, 255, 8, 5, dtype=U8), scale(0.02), point(120), f(5)],
        terms=8,
        weights=(1, 2, 3, 4),
    ),
    case(
        "QLinearAdd",
        [
            i(0, 255, 3, 5, dtype=U8),
            *QUANTIZED,
            i(0, 255, 3, 5, dtype=U8),
            scale(0.05),
            point(99),
            scale(0.1),
            point(128),
        ],
        weights=(1, 2, 4, 5, 6, 7),
    ),
    case(
        "QLinearMul",
        [
            i(0, 255, 3, 5, dtype=U8),
            *QUANTIZED,
            i(0, 255, 5, dtype=U8),
            scale(0.05),
            point(99),
            scale(0.2),
            point(128),
        ],
        weights=(1, 2, 4, 5, 6, 7),
    ),
    case(
        "QLinearSigmoid",
        [i(0, 255, 3, 5, dtype=U8), *QUANTIZED, scale(1 / 256), point(0)],
        weights=(1, 2, 3, 4),
    ),
    case(
        "QLinearLeakyRelu",
        [i(0, 255, 3, 5, dtype=U8), *QUANTIZED, scale(0.03), point(60)],
        weights=(1, 2, 3, 4),
        alpha=0.2,
    ),
    case(
        "QLinearGlobalAveragePool",
        [i(0, 255, 2, 3, 4, 4, dtype=U8), *QUANTIZED, scale(0.02), point(110)],
        weights=(1, 2, 3, 4),
    ),
    case("Attention", [f(2, 5, H), f(H, 3 * H), f(3 * H)], terms=H, num_heads=4, weights=(1, 2)),
    case(
        "Attention",
        [f(2, 5, H), f(H, 3 * H), f(3 * H)],
        terms=H,
        num_heads=2,
        unidirectional=1,
        weights=(1, 2),
    ),
    case(
        "Attention",
        [f(2, 5, H), f(H, 3 * H), f(3 * H), (np.arange(10).reshape(2, 5) % 5 < 3).astype(np.int32)],
        terms=H,
        num_heads=2,
        weights=(1, 2),
    ),
    case("MultiHeadAttention", [f(2, 5, H), f(2, 7, H), f(2, 7, H)], terms=H, num_heads=4),
    case(
        "MultiHeadAttention",
        [f(2, 5, H), f(2, 7, H), f(2, 7, H), f(3 * H)],
        terms=H,
        num_heads=2,
        scale=0.3,
        weights=(3,),
    ),
    case(
        "MultiHeadAttention",
        [f(2, 5, H), f(2, 5, H), f(2, 5, H), None, None, f(2, 4, 5, 5)],
        terms=H,
        num_heads=4,
    ),
    case(
        "RotaryEmbedding",
        [f(2, 5, H), i(0, 9, 2, 5, dtype=np.int64), f(9, 2), f(9, 2)],
        num_heads=4,
        weights=(2, 3),
    ),
    case(
        "RotaryEmbedding",
        [f(2, 5, H), i(0, 9, 2, 5, dtype=np.int64), f(9, 4), f(9, 4)],
        interleaved=1,
        weights=(2, 3),
    ),
    case("RotaryEmbedding", [f(2, 4, 5, 8), np.array([2], np.int64), f(9, 4), f(9, 4)], weights=(1, 2, 3)),
]


def in_blocks(bits: int, points: bool, bias: bool, terms: int = 64, order: bool = False) -> Any:
    columns, block = 6, 16
    blocks, bytes_of = -(-terms // block), block * bits // 8
    inputs = [f(3, terms), i(0, 256, columns, blocks, bytes_of, dtype=U8), np.abs(f(columns * blocks)) + 0.1]
    inputs.append(i(0, 256, columns * ((blocks * bits + 7) // 8), dtype=U8) if points else None)
    inputs.append(RNG.permutation(np.arange(terms) // block).astype(np.int32) if order else None)
    inputs += [f(columns)] if bias else []
    while inputs[-1] is None:
        inputs.pop()
    weights = tuple(at for at, value in enumerate(inputs) if at and value is not None)
    return case(
        "MatMulNBits", inputs, terms=terms, weights=weights, K=terms, N=columns, bits=bits, block_size=block
    )


def u8(*dims: int) -> np.ndarray:
    return i(0, 255, *dims, dtype=U8)


def grouped(past: int, batch: int, packed: bool = False, **attrs: Any) -> Any:
    """Four heads of queries, two of keys and values."""
    length, size = (1, 16) if past else (5, 16)
    total = past + length
    inputs = [f(batch, length, 8 * size), None, None]
    if not packed:
        inputs = [f(batch, length, 4 * size), f(batch, length, 2 * size), f(batch, length, 2 * size)]
    inputs += [f(batch, 2, past, size), f(batch, 2, past, size)] if past else [None, None]
    inputs += [np.full(batch, total - 1, np.int32), np.array(total, np.int32)]
    weights = (5, 6)
    if attrs.get("do_rotary"):
        inputs += [f(16, size // 2), f(16, size // 2)]
        weights = (5, 6, 7, 8)
    return case(
        "GroupQueryAttention",
        inputs,
        outputs=3,
        terms=4 * size,
        weights=weights,
        num_heads=4,
        kv_num_heads=2,
        **attrs,
    )


INTEGERS = (1, 2, 3, 4)
GEMM = [u8(3, 8), scale(0.05), point(100)]
CASES += [
    case(
        "QGemm",
        [
            *GEMM,
            i(-90, 90, 8, 5, dtype=np.int8),
            np.abs(f(5)) / 50,
            np.zeros(5, np.int8),
            i(-99, 99, 5),
            scale(0.3),
            point(120),
        ],
        terms=8,
        weights=(1, 2, 3, 4, 5, 6, 7, 8),
    ),
    case(
        "QGemm",
        [*GEMM, u8(5, 8), scale(0.02), point(130), i(-99, 99, 5)],
        terms=8,
        weights=(1, 2, 3, 4, 5, 6),
        transB=1,
        alpha=0.5,
    ),
    case("QLinearSoftmax", [u8(2, 3, 6), *QUANTIZED, scale(1 / 256), point(0)], weights=INTEGERS, opset=13),
    case(
        "QLinearSoftmax",
        [u8(2, 3, 6), *QUANTIZED, scale(1 / 256), point(0)],
        weights=INTEGERS,
        opset=12,
        axis=1,
    ),
    case(
        "QLinearWhere",
        [
            i(0, 2, 3, 5, dtype=bool),
            u8(3, 5),
            *QUANTIZED,
            u8(1, 5),
            scale(0.05),
            point(99),
            scale(0.06),
            point(80),
        ],
        weights=(2, 3, 5, 6, 7, 8),
    ),
    case(
        "QLinearConcat",
        [scale(0.04), point(110), u8(2, 3), *QUANTIZED, u8(2, 4), scale(0.05), point(99)],
        weights=(0, 1, 3, 4, 6, 7),
        axis=1,
    ),
    case(
        "QLinearAveragePool",
        [u8(1, 3, 6, 6), *QUANTIZED, scale(0.02), point(110)],
        weights=INTEGERS,
        kernel_shape=[3, 3],
        pads=[1, 1, 1, 1],
    ),
    case(
        "QLinearAveragePool",
        [u8(1, 6, 6, 3), *QUANTIZED, scale(0.02), point(110)],
        weights=INTEGERS,
        kernel_shape=[2, 2],
        strides=[2, 2],
        channels_last=1,
    ),
    case(
        "QLinearGlobalAveragePool",
        [u8(2, 4, 4, 3), *QUANTIZED, scale(0.02), point(110)],
        weights=INTEGERS,
        channels_last=1,
    ),
    case(
        "QLinearConv",
        [
            u8(1, 6, 6, 3),
            *QUANTIZED,
            i(-90, 90, 4, 3, 3, 3, dtype=np.int8),
            scale(0.02),
            point(0, np.int8),
            scale(0.2),
            point(128),
            i(-999, 999, 4),
        ],
        terms=27,
        weights=(1, 2, 3, 4, 5, 6, 7, 8),
        channels_last=1,
        pads=[1, 1, 1, 1],
    ),
    case("NhwcMaxPool", [u8(1, 6, 6, 3)], kernel_shape=[2, 2], strides=[2, 2]),
    case("MaxPool", [u8(1, 3, 6, 6)], domain="", kernel_shape=[2, 2], strides=[2, 2]),
    case(
        "QAttention",
        [u8(2, 5, H), u8(H, 3 * H), f(3 * H), scale(0.01), scale(0.02), None, point(100), point(130)],
        terms=H,
        num_heads=4,
        weights=(1, 2, 3, 4, 6, 7),
    ),
    case(
        "Attention",
        [f(2, 3, H), f(H, 3 * H), f(3 * H), None, f(2, 2, 4, 6, H // 4)],
        outputs=2,
        terms=H,
        num_heads=4,
        unidirectional=1,
        weights=(1, 2),
    ),
    case(
        "Attention",
        [f(2, 5, H), f(H, 3 * H), f(3 * H), np.array([3, 5], np.int32)],
        terms=H,
        num_heads=4,
        weights=(1, 2),
    ),
    case(
        "MultiHeadAttention",
        [f(2, 3, H), f(2, 3, H), f(2, 3, H), None, None, None, f(2, 4, 6, H // 4), f(2, 4, 6, H // 4)],
        outputs=3,
        terms=H,
        num_heads=4,
    ),
    case("MultiHeadAttention", [f(2, 3, H), f(2, 4, 7, H // 4), f(2, 4, 7, H // 4)], terms=H, num_heads=4),
    grouped(0, 2),
    grouped(0, 2, do_rotary=1),
    grouped(6, 1, do_rotary=1),
    grouped(0, 1, packed=True, do_rotary=1, rotary_interleaved=1),
    grouped(0, 2, local_window_size=3, softcap=2.0, scale=0.2),
    in_blocks(4, False, False, terms=40),
    in_blocks(4, False, True, terms=64, order=True),
    case(
        "GatherBlockQuantized",
        [u8(9, 16), i(0, 9, 2, 3), np.abs(f(9, 2)) + 0.1],
        weights=(0, 2),
        bits=4,
        block_size=16,
        quantize_axis=1,
    ),
    case(
        "GatherBlockQuantized",
        [u8(9, 32), i(0, 9, 2, 3), np.abs(f(9, 2)) + 0.1, u8(9, 2)],
        weights=(0, 2, 3),
        bits=8,
        block_size=16,
        quantize_axis=1,
    ),
    case("FusedMatMul", [f(4, 2, 3), f(2, 3, 5)], terms=3, transBatchA=1),
    case("Inverse", [f(2, 4, 4) + 4 * np.eye(4, dtype=np.float32)], terms=16),
    case("Trilu", [f(2, 4, 5)], upper=0),
    case("DequantizeLinear", [u8(3, 5), scale(0.03), point(120)], weights=(1, 2)),
    case("QuantizeLinear", [f(3, 5), scale(0.03), point(120)], weights=(1, 2)),
]
CASES += [in_blocks(4, False, False), in_blocks(4, True, True), in_blocks(8, True, False)]


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> "list[dict[str, np.ndarray]]":
    return peers_results(CASES, tmp_path_factory.mktemp("cases"))


def peers_results(cases: "list[Any]", folder: Path) -> "list[dict[str, np.ndarray]]":
    """What ONNX Runtime makes of each case."""
    if PEER is None:
        assert "ANYDNN_REQUIRE" not in os.environ, "ANYDNN_PEER_PYTHON names no Python with ONNX Runtime"
        pytest.skip("ANYDNN_PEER_PYTHON names no Python with ONNX Runtime")
    for number, (_, model, feed, _) in enumerate(cases):
        (folder / f"{number:03}.onnx").write_bytes(model)
        np.savez(folder / f"{number:03}.in.npz", **feed)
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ended = subprocess.run(
        [PEER, "-c", SCRIPT, str(folder)], capture_output=True, text=True, env=variables, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return [dict(np.load(folder / f"{number:03}.out.npz")) for number in range(len(cases))]


# A sample `n@k` is each n-th case from number k on, on every device from the next one on; the host has all.
STEP, _, FIRST = os.environ.get("ANYDNN_SAMPLE", "1").partition("@")
PAIRS = [
    pytest.param(backend, number, id=f"{backend}-{number}-{CASES[number][0]}")
    for at, backend in enumerate(REQUIRED)
    for number in range(len(CASES))
    if backend == "host" or (number - int(FIRST or 0) - at) % int(STEP) == 0
]


@pytest.mark.parametrize(("backend", "number"), PAIRS)
def test_as_onnx_runtime_computes(expected: "list[dict[str, np.ndarray]]", backend: str, number: int) -> None:
    _, model, feed, terms = CASES[number]
    session = anydnn.InferenceSession(model, backend)
    names = [out.name for out in session.get_outputs()]
    for name, made in zip(names, session.run(names, feed)):
        models.assert_close(made, expected[number][name], terms)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (
            lambda: case(
                "MatMulNBits",
                [f(3, 32), i(0, 256, 6, 2, 6, dtype=U8), f(12)],
                weights=(1, 2),
                K=32,
                N=6,
                bits=3,
                block_size=16,
            ),
            "weights of 3 bits are not read",
        ),
        (lambda: grouped(6, 2), "earlier keys and values are read for one sequence"),
        (
            lambda: case("Conv", [f(1, 8, 4, 4), f(12, 8, 1, 1)], domain="com.microsoft.nchwc", weights=(1,)),
            "expected channels in blocks of 8, as the processor has them",
        ),
        (
            lambda: case(
                "MatMulNBits",
                [f(3, 32), i(0, 256, 6, 2, 7, dtype=U8), f(12)],
                weights=(1, 2),
                K=32,
                N=6,
                bits=4,
                block_size=16,
            ),
            "bytes is 84, expected 96 for 6 rows",
        ),
        (
            lambda: case("FusedGemm", [f(3, 4), f(4, 5)], activation="Mystery"),
            'the activation "Mystery" is not read',
        ),
        (
            lambda: case("SkipLayerNormalization", [f(2, 3, H), f(2, 3, H), f(H)], outputs=2),
            "output 1, a statistic for training",
        ),
        (lambda: case("NoSuchOperator", [f(2)]), "the operator is not read"),
    ],
)
def test_what_is_not_read_is_told(change: Callable[[], Any], match: str) -> None:
    _, model, feed, _ = change()
    with pytest.raises(anydnn.Error, match=match):
        anydnn.InferenceSession(model, "host").run(None, feed)


def test_sums_of_three(backend: str) -> None:
    # ONNX Runtime's processors have none.
    _, model, feed, _ = case("BiasAdd", [f(2, 5, 8), f(8), f(2, 5, 8)])
    (made,) = anydnn.InferenceSession(model, backend).run(None, feed)
    models.assert_close(made, feed["x0"] + feed["x1"] + feed["x2"])


def erf_gelu(x: np.ndarray) -> np.ndarray:
    return x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2


def test_what_onnx_runtimes_processors_have_not(backend: str) -> None:
    def made(*told: Any, **attrs: Any) -> "tuple[np.ndarray, list[np.ndarray]]":
        _, model, feed, _ = case(*told, **attrs)
        (result,) = anydnn.InferenceSession(model, backend).run(None, feed)
        return result, list(feed.values())

    result, (x, bias) = made("BiasSplitGelu", [f(2, 3, 8), f(8)])
    x = x + bias
    models.assert_close(result, (x[..., :4] * erf_gelu(x[..., 4:])).astype(np.float32))

    result, (x, gamma, beta) = made("GroupNorm", [f(2, 3, 3, 8), f(8), f(8)], groups=2, activation=1)
    apart = x.reshape(2, 9, 2, 4)
    mean, var = apart.mean((1, 3), keepdims=True), apart.var((1, 3), keepdims=True)
    x = ((apart - mean) / np.sqrt(var + 1e-5)).reshape(x.shape) * gamma + beta
    models.assert_close(result, x / (1 + np.exp(-x)), terms=36)

    result, (x, w) = made("FusedMatMulActivation", [f(3, 4), f(4, 5)], activation="Relu", alpha=0.5)
    models.assert_close(result, np.maximum(x @ w * np.float32(0.5), 0), terms=4)

    scales = [scale(0.04), point(110), scale(0.02), point(120)]
    result, (x,) = made(
        "QLinearReduceMean", [u8(2, 3, 5), *scales], weights=(1, 2, 3, 4), axes=[1], keepdims=0
    )
    mean = (x.astype(np.float32) - 110).mean(1) * np.float32(0.04)
    models.assert_close(result, np.clip(np.rint(mean / np.float32(0.02)) + 120, 0, 255).astype(U8))

    given = [f(1, 4, 4, 3), f(2, 3, 1, 1), f(2), f(1, 4, 4, 2)]
    result, (x, w, b, z) = made("NhwcFusedConv", given, activation="Relu")
    models.assert_close(result, np.maximum(x @ w[:, :, 0, 0].T + b + z, 0), terms=3)

    result, (x, w) = made("GemmFastGelu", [f(3, 4), f(4, 5)])
    x = x @ w
    tanh = np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))
    models.assert_close(result, (x * (1 + tanh) / 2).astype(np.float32), terms=4)


def test_layers_with_scaled_integers_for_weights(backend: str) -> None:
    # ONNX Runtime quantises sources and states, too, which costs digits: the reference has the weights' floats.
    hidden, size = 4, 3
    x, bias = f(5, 2, size), f(1, 8 * hidden)
    w, r = i(-90, 90, 1, size, 4 * hidden, dtype=np.int8), u8(1, hidden, 4 * hidden)
    scales = [np.array([0.01], np.float32), np.zeros(1, np.int8)]
    scales += [np.abs(f(1, 4 * hidden)) / 100, np.full((1, 4 * hidden), 120, np.uint8)]
    inputs = [x, w, r, bias, None, None, None, None, *scales]
    _, model, feed, _ = case(
        "DynamicQuantizeLSTM", inputs, outputs=2, weights=(1, 2, 3, 8, 9, 10, 11), hidden_size=hidden
    )
    made = anydnn.InferenceSession(model, backend).run(None, feed)
    floats = [
        ((q.astype(np.float32) - zero[:, None]) * scale[:, None])
        for q, scale, zero in [(w, scales[0][:, None], scales[1][:, None]), (r, scales[2], scales[3])]
    ]
    transposed = [np.ascontiguousarray(value.transpose(0, 2, 1)) for value in floats]
    _, plain, feed, _ = case("LSTM", [x, *transposed, bias], outputs=2, domain="", hidden_size=hidden)
    expected = ReferenceEvaluator(models.parsed(plain)).run(None, feed)
    for own, wanted in zip(made, expected):
        models.assert_close(own, np.asarray(wanted, np.float32), terms=8 * hidden)

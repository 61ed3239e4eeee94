import json

import anydnn
import models
import numpy as np
import pytest


def built() -> anydnn.Graph:
    g = anydnn.GraphBuilder()
    x = g.input("x", np.float32, (2, 3))
    w = g.constant("w", np.arange(6, dtype=np.float32).reshape(3, 2) - 2)
    dense = g.op("MatMul", [x, w], name="dense")
    return_of = g.op("ReLU", [dense], name="positive")
    rows = g.op("ReduceSum", [return_of], name="rows", axes=[1], keep_dims=False)
    g.output(return_of)
    g.output(rows)
    return g.build()


def test_a_graph_runs(backend: str) -> None:
    graph = built()
    assert graph.inputs == [anydnn.TensorInfo("x", "f32", [2, 3])]
    assert [out.name for out in graph.outputs] == ["positive", "rows"]
    assert graph.outputs[1].shape == [2]
    assert [c.name for c in graph.constants] == ["w"]
    compiled = graph.compile(backend)
    x = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)
    made = compiled.run({"x": x})
    expected = np.maximum(x @ (np.arange(6, dtype=np.float32).reshape(3, 2) - 2), 0)
    models.assert_close(made["positive"], expected, terms=6)
    models.assert_close(made["rows"], expected.sum(1), terms=6)
    assert compiled.device[0].startswith(backend)
    assert "dense" in " ".join(name for name, _ in compiled.steps)


def test_partitions_are_told_and_drawn() -> None:
    graph = built()
    fused, apart = graph.partitions(), graph.partitions("debug")
    assert [partition.ops for partition in apart] == [["dense"], ["positive"], ["rows"]]
    assert fused[0].ops[:2] == ["dense", "positive"]
    assert "dense" in graph.describe()
    assert "digraph" in graph.to_dot()
    assert graph._repr_svg_() == graph.to_svg()
    assert all(name in graph.to_svg() for name in ("dense", "positive", "rows"))
    assert repr(graph) == "<anydnn.Graph of 3 operations>"
    with pytest.raises(anydnn.InvalidArgumentError, match='policy is "all", expected fusion or debug'):
        graph.partitions("all")


def test_json_goes_out_and_in() -> None:
    graph = built()
    text = graph.to_json()
    assert json.loads(text)["graph"]
    again = anydnn.Graph.from_json(text)
    assert [part.ops for part in again.partitions()] == [part.ops for part in graph.partitions()]
    assert again.to_json() == text
    name = again.constants[0].name
    w = np.ones((3, 2), np.float32)
    made = again.compile("host", constants={name: w}).run({again.inputs[0].name: np.ones((2, 3), np.float32)})
    np.testing.assert_array_equal(next(iter(made.values())), np.full((2, 2), 3, np.float32))
    with pytest.raises(anydnn.InvalidArgumentError, match="constants is 'v', which the graph has not"):
        again.compile("host", constants={"v": w})


def test_operations_have_attributes_and_several_outputs() -> None:
    g = anydnn.GraphBuilder()
    x = g.input("x", "f32", (4, 8))
    gamma, beta = (g.constant(name, np.ones(8, np.float32)) for name in ("gamma", "beta"))
    y, mean, variance = g.op_multi(
        "LayerNorm", [x, gamma, beta], 3, name="norm", epsilon=1e-5, keep_stats=True
    )
    for out in (y, mean, variance):
        g.output(out)
    made = g.build().compile("host").run({"x": np.eye(4, 8, dtype=np.float32)})
    assert len(made) == 3
    models.assert_close(made["norm.1"].ravel(), np.full(4, 1 / 8, np.float32), terms=8)


def test_what_is_wrong_is_told() -> None:
    g, other = anydnn.GraphBuilder(), anydnn.GraphBuilder()
    x = g.input("x", "float32", [2, 3])
    with pytest.raises(
        anydnn.InvalidDataTypeError, match="type of input 'z' is complex64, expected one of float32"
    ):
        g.input("z", np.complex64, [1])
    with pytest.raises(anydnn.InvalidArgumentError, match="Reluu"):
        g.op("Reluu", [x])
    with pytest.raises(anydnn.InvalidGraphError, match="MatMul"):
        g.op("MatMul", [x])
    with pytest.raises(anydnn.InvalidGraphError, match="a tensor of another graph"):
        g.op("ReLU", [other.input("x", "f32", [1])])
    w = g.constant("w", np.ones((4, 2), np.float32))
    g.op("MatMul", [x, w], name="dense")
    with pytest.raises(anydnn.InvalidArgumentError, match="dense") as raised:
        g.build()
    assert raised.value.given
    with pytest.raises(anydnn.InvalidGraphError, match="built already"):
        g.build()
    compiled = built().compile("host")
    with pytest.raises(
        anydnn.InvalidArgumentError, match="inputs is 'q', which the graph has not, expected x"
    ):
        compiled.run({"q": np.ones((2, 3), np.float32)})
    with pytest.raises(anydnn.Error, match="2x4"):
        compiled.run({"x": np.ones((2, 4), np.float32)})

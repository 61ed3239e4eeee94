"""Models of classical machine learning as scikit-learn's exporters write them, beside ONNX Runtime."""

from functools import partial
from typing import Any

import anydnn
import models
import numpy as np
import pytest
from test_microsoft import case, f, i, peers_results

learning = partial(case, domain="ai.onnx.ml")


def forest(
    trees: int, columns: int, what: str, one: "int | None" = None, low: float = 0.1
) -> "dict[str, Any]":
    """Trees of three branches and four leaves over five features, with a weight for each column, or for one alone."""
    rng = np.random.default_rng(trees + columns)
    ids = [(tree, node) for tree in range(trees) for node in range(7)]
    kinds = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT"]
    leaves = [(tree, node, column) for tree, node in ids if node > 2 for column in range(columns)]
    leaves = [leaf for leaf in leaves if one is None or leaf[2] == one]
    return {
        "nodes_treeids": [tree for tree, _ in ids],
        "nodes_nodeids": [node for _, node in ids],
        "nodes_featureids": [int(rng.integers(5)) if node < 3 else 0 for _, node in ids],
        "nodes_values": [float(np.float32(rng.standard_normal())) if node < 3 else 0.0 for _, node in ids],
        "nodes_modes": [kinds[(tree + node) % 4] if node < 3 else "LEAF" for tree, node in ids],
        "nodes_truenodeids": [2 * node + 1 if node < 3 else 0 for _, node in ids],
        "nodes_falsenodeids": [2 * node + 2 if node < 3 else 0 for _, node in ids],
        "nodes_missing_value_tracks_true": [node % 2 for _, node in ids],
        f"{what}_treeids": [leaf[0] for leaf in leaves],
        f"{what}_nodeids": [leaf[1] for leaf in leaves],
        f"{what}_ids": [leaf[2] for leaf in leaves],
        f"{what}_weights": [float(rng.uniform(low, 0.2)) for _ in leaves],
    }


def rows() -> np.ndarray:
    x = f(6, 5)
    x[0, 0] = x[1, 3] = np.nan
    return x


CLASSIFIER = partial(learning, "TreeEnsembleClassifier", outputs=2, terms=8)
LINEAR = {"coefficients": [float(v) for v in f(15)], "intercepts": [0.1, -0.2, 0.3]}
CASES = [
    learning("TreeEnsembleRegressor", [rows()], n_targets=1, **forest(4, 1, "target")),
    learning(
        "TreeEnsembleRegressor",
        [rows()],
        n_targets=2,
        aggregate_function="AVERAGE",
        base_values=[0.5, -0.5],
        **forest(3, 2, "target"),
    ),
    learning(
        "TreeEnsembleRegressor", [rows()], n_targets=2, aggregate_function="MAX", **forest(3, 2, "target")
    ),
    CLASSIFIER([rows()], classlabels_int64s=[3, 1, 2], **forest(4, 3, "class")),
    CLASSIFIER([rows()], classlabels_int64s=[0, 1], **forest(4, 2, "class")),
    CLASSIFIER(
        [rows()], classlabels_int64s=[0, 1, 2], post_transform="SOFTMAX", **forest(4, 3, "class", low=-0.2)
    ),
    # One column for two classes, as boosted trees have it.
    *(
        CLASSIFIER(
            [rows()],
            classlabels_int64s=[0, 1],
            post_transform=way,
            **({"base_values": [-0.1]} if low < 0 else {}),
            **forest(4, 2, "class", one=one, low=low),
        )
        for one, low, way in [
            (0, 0.1, "NONE"),
            (0, -0.2, "NONE"),
            (0, -0.2, "LOGISTIC"),
            (1, 0.1, "LOGISTIC"),
            (1, -0.2, "SOFTMAX"),
        ]
    ),
    learning("LinearRegressor", [f(4, 5)], terms=5, targets=3, **LINEAR),
    learning("LinearClassifier", [f(4, 5)], outputs=2, terms=5, classlabels_ints=[5, 6, 7], **LINEAR),
    learning(
        "LinearClassifier",
        [f(4, 5)],
        outputs=2,
        terms=5,
        classlabels_ints=[5, 6, 7],
        post_transform="SOFTMAX",
        multi_class=1,
        **LINEAR,
    ),
    learning(
        "LinearClassifier",
        [f(4, 5)],
        outputs=2,
        terms=5,
        classlabels_ints=[0, 1],
        coefficients=[-0.5, 0.2, 0.1, 1.0, -2.0, 0.5, -0.2, -0.1, -1.0, 2.0],
        intercepts=[0.1, -0.1],
        post_transform="LOGISTIC",
    ),
    learning("Scaler", [f(4, 3)], offset=[0.5, 1.0, -1.0], scale=[2.0, 0.1, 3.0]),
    learning("Scaler", [i(-9, 9, 4, 3, dtype=np.int64)], offset=[0.5], scale=[2.0]),
    *(learning("Normalizer", [np.abs(f(4, 3))], norm=norm, terms=3) for norm in ("MAX", "L1", "L2")),
    learning("Normalizer", [f(4, 3)], norm="L2", terms=3),
    learning(
        "Imputer", [rows()], imputed_value_floats=[1.0, 2.0, 3.0, 4.0, 5.0], replaced_value_float=np.nan
    ),
    learning("ArrayFeatureExtractor", [f(4, 5), np.array([0, 3, 1])]),
    learning("Binarizer", [f(4, 5)], threshold=0.3),
    learning("LabelEncoder", [i(0, 6, 7, dtype=np.int64)], keys_int64s=[1, 2, 4], values_int64s=[9, 8, 7]),
    learning(
        "LabelEncoder",
        [i(0, 6, 7, dtype=np.int64)],
        keys_int64s=[1, 2, 4],
        values_floats=[0.5, 1.5, 2.5],
        default_float=-7.0,
    ),
]


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> "list[dict[str, np.ndarray]]":
    return peers_results(CASES, tmp_path_factory.mktemp("learning"))


@pytest.mark.parametrize("number", range(len(CASES)), ids=[name for name, *_ in CASES])
def test_as_onnx_runtime_computes(expected: "list[dict[str, np.ndarray]]", number: int) -> None:
    # The host computes these, also beside a device.
    _, model, feed, terms = CASES[number]
    session = anydnn.InferenceSession(model, "host")
    names = [out.name for out in session.get_outputs()]
    for name, made in zip(names, session.run(names, feed)):
        wanted = expected[number][name]
        models.assert_close(made.astype(np.float32), wanted.astype(np.float32), terms)
        assert made.dtype == wanted.dtype


def test_beside_a_device(backend: str) -> None:
    _, model, feed, _ = CASES[0]
    (made,) = anydnn.InferenceSession(model, backend).run(None, feed)
    np.testing.assert_array_equal(made, anydnn.InferenceSession(model, "host").run(None, feed)[0])


@pytest.mark.parametrize(
    ("told", "match"),
    [
        (learning("ZipMap", [f(2, 3)], classlabels_int64s=[0, 1, 2]), "sequences of maps are not read"),
        (
            CLASSIFIER([f(2, 5)], classlabels_strings=["a", "b"], **forest(1, 2, "class")),
            "strings are not read",
        ),
        (CLASSIFIER([f(2, 3)], classlabels_int64s=[0, 1], **forest(2, 2, "class")), "feature of a node"),
        (
            learning("LinearRegressor", [f(2, 5)], targets=1, coefficients=[1.0], intercepts=[0.0]),
            "coefficients and intercepts is 1 and 1, expected 1 times 5, and 1",
        ),
    ],
)
def test_what_is_not_read_is_told(told: Any, match: str) -> None:
    _, model, feed, _ = told
    with pytest.raises(anydnn.Error, match=match):
        anydnn.InferenceSession(model, "host").run(None, feed)

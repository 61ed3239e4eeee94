"""The tests of the package onnx by its own runner: what passes, and what is out of scope and why.

Counts are those of a table in the README, which ``ANYDNN_BLESS=1`` writes anew.
"""

import os
import re
import unittest
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import anydnn.backend
import numpy as np
import onnx
import pytest

README = Path(__file__).parents[1] / "README.md"
BEGIN, END = (
    "<!-- Written by tests/test_onnx_suite.py: ANYDNN_BLESS=1 writes it anew. -->\n",
    "<!-- To here. -->\n",
)

# What tests are out of scope for, by what is said when they fail, or by their names.
REASONS = [
    (r"data type string: not supported", "strings"),
    (r"only tensors are read, no sequences", "sequences and optionals"),
    (r"(Sequence|Optional)\w+ .*: the operator is not read", "sequences and optionals"),
    (r"SplitToSequence .*: the operator is not read", "sequences and optionals"),
    (r"ImageDecoder .*: the operator is not read", "decoding of images"),
    (r"ai.onnx.preview.training", "training"),
]
NAMES = [
    (r"test_dft_inverse", "the expected file has 2e-7 where the exact result is zero"),
]
# Tests of random numbers: the files hold those of NumPy's generator, which ONNX does not ask for.
RANDOM = r"bernoulli|training_dropout"
# Models of a hundred megabytes and more, which take a while.
REAL = "OnnxBackendRealModelTest"
TITLES = {
    "OnnxBackendNodeModelTest": "node",
    "OnnxBackendSimpleModelTest": "simple",
    "OnnxBackendPyTorchConvertedModelTest": "pytorch-converted",
    "OnnxBackendPyTorchOperatorModelTest": "pytorch-operator",
    REAL: "models",
}


class OnBackend(anydnn.backend.AnydnnBackend):
    """Takes every model, so that none is left out quietly."""

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        return True


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Any:
    os.environ["ONNX_HOME"] = str(tmp_path_factory.mktemp("onnx"))
    os.environ["ANYDNN_BACKEND"] = "host"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test import BackendTest

        class Suite(BackendTest):  # type: ignore[misc]
            """The package's runner, but for what it asks of random numbers."""

            @classmethod
            def assert_similar_outputs(
                cls, ref_outputs: Any, outputs: Any, rtol: float, atol: float, model_dir: "str | None" = None
            ) -> None:
                if re.search(RANDOM, Path(model_dir or "").name):
                    ref_outputs = alike(ref_outputs, outputs)
                super().assert_similar_outputs(ref_outputs, outputs, rtol, atol, model_dir=model_dir)

        yield Suite(OnBackend, __name__).test_cases
    del os.environ["ANYDNN_BACKEND"]


def alike(expected: Any, made: Any) -> Any:
    """What is expected of random elements: zero, or what the file has there. Where that has zero, nothing says what else it may be."""
    drawn = []
    for wanted, given in zip(expected, made):
        if wanted.shape != given.shape or wanted.dtype != given.dtype:
            drawn.append(wanted)
            continue
        drawn.append(np.where((wanted == 0) | (given == 0), given, wanted))
    return drawn


def outcome(name: str, trace: str) -> "str | None":
    """What a test that failed is out of scope for."""
    named = [why for pattern, why in NAMES if re.search(pattern, name)]
    told = [why for pattern, why in REASONS if re.search(pattern, trace)]
    return next(iter([*named, *told]), None)


def run(cases: Any, category: str, step: int, first: int) -> "tuple[int, Counter[str], dict[str, str]]":
    loaded = [*unittest.defaultTestLoader.loadTestsFromTestCase(cases[category])]
    loaded = [test for test in loaded if test.id().endswith("_cpu")][first::step]
    suite, result = unittest.TestSuite(loaded), unittest.TestResult()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        suite.run(result)
    apart: Counter[str] = Counter()
    failed = {}
    for test, trace in (*result.failures, *result.errors):
        name = test.id().rpartition(".")[2]
        why = outcome(name, trace)
        if why:
            apart[why] += 1
        else:
            failed[name] = trace.strip().splitlines()[-1]
    assert not result.skipped
    return result.testsRun, apart, failed


def rows() -> "dict[str, str]":
    text = README.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    return {line.split("|")[1].strip(): line for line in text.splitlines() if line.startswith("|")}


@pytest.mark.parametrize("category", TITLES)
def test_the_packages_own_tests(cases: Any, category: str) -> None:
    # A sample `n@k` of long lists is each n-th case from number k on.
    step, _, first = os.environ.get("ANYDNN_SAMPLE", "1").partition("@")
    sample = (int(step), int(first or 0) % int(step)) if category == REAL else (1, 0)
    count, apart, failed = run(cases, category, *sample)
    assert not failed, failed
    if sample != (1, 0):
        assert count > 0
        return
    why = ", ".join(f"{reason} ({number})" for reason, number in sorted(apart.items()))
    row = f"| {TITLES[category]} | {count} | {count - sum(apart.values())} | {why} |"
    known = rows()
    if os.environ.get("ANYDNN_BLESS"):
        known[TITLES[category]] = row
        table = "\n".join(["", *known.values(), "", ""])
        before, rest = README.read_text(encoding="utf-8").split(BEGIN)
        README.write_text(before + BEGIN + table + END + rest.split(END)[1], encoding="utf-8")
    else:
        assert known.get(TITLES[category]) == row, "README.md has another row; ANYDNN_BLESS=1 writes it anew"

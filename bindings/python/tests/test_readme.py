"""The examples of the README run as they stand there."""

import re
from pathlib import Path

import anydnn
import models
import numpy as np
import pytest

HERE = Path(__file__).resolve().parents[1]
BLOCKS = re.findall(r"```python\n(.*?)```", (HERE / "README.md").read_text(encoding="utf-8"), re.DOTALL)


def block(word: str) -> str:
    (found,) = [text for text in BLOCKS if word in text]
    return str(found)


def test_five_lines_classify_the_digits(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(HERE.parents[1])
    text = block("load_model")
    assert len(text.splitlines()) == 5
    exec(text, {})
    assert float(capsys.readouterr().out) > 0.97


def test_a_session_runs_as_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "model.onnx").write_bytes(models.dense())
    monkeypatch.chdir(tmp_path)
    x = np.ones((2, 3), np.float32)
    exec(block('InferenceSession("model.onnx")'), {"x": x})
    assert str(models.dense_expected(x)[0]) in capsys.readouterr().out


def test_a_graph_runs_as_shown() -> None:
    names: dict[str, object] = {}
    exec(block("GraphBuilder"), names)
    assert isinstance(names["graph"], anydnn.Graph)


def test_every_exception_of_the_table_is_there() -> None:
    text = (HERE / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(\w+Error|Error)`", text))
    own = {name for name in anydnn.__all__ if name.endswith("Error")}
    assert own <= named

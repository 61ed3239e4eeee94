"""The programs of the example, with two actors and two replicas on this machine."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent.parent
REQUIRED = os.environ.get("ANYDNN_REQUIRE", "host").split(",")
# A device for each, where there are two.
DEVICES = [name for name in ("opencl:pocl", "opencl:intel") if name in REQUIRED] or ["host"]


def run(program: str, *arguments: str) -> str:
    command = [sys.executable, str(FOLDER / program), "--backends", ",".join(DEVICES), *arguments]
    # Ray kills an HTTP proxy whose process needs more than five seconds to start, which it does where other tests take the cores.
    patient = {**os.environ, "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "55"}
    ended = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, env=patient)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    print(ended.stdout)
    return ended.stdout


def test_no_row_is_lost_with_an_actor(tmp_path: Path) -> None:
    told = run("batch.py", "--rows", "10800", "--lose", str(tmp_path / "lost"))
    assert "an actor was lost: True" in told
    assert "every row once: True; as one process has them: True" in told
    assert "right: 99.72%" in told
    assert re.search(r"2 actors: [\d,]+ rows/s, [\d.]+ of one process", told)
    # Whoever followed the lost actor took its device.
    actors = re.findall(r"actor \S+ on (\S+): [\d,]+ rows", told)
    assert len(actors) >= 2
    assert set(actors) == set(DEVICES)


def test_requests_run_together(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    told = run("serving.py", "--requests", "720", "--port", str(port))
    assert "right: 99.72%" in told
    assert float(re.search(r"requests/s, ([\d.]+) at once", told)[1]) > 4
    assert len(re.findall(r"replica \d+: [\d,]+ requests", told)) == 2
    assert re.search(r'by HTTP: \{"label": ?\d, ?"together": ?\d+\}', told)


@pytest.mark.parametrize("program", ["batch.py", "serving.py"])
def test_a_model_that_is_not_there_is_told(program: str) -> None:
    command = [sys.executable, str(FOLDER / program), "--model", "nowhere"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 2
    assert "nowhere" in ended.stderr
    assert "a folder with a model.json, or an ONNX file" in ended.stderr

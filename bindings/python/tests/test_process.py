"""Signals, forks, and machines without OpenCL: each in a process of its own."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import models
import numpy as np
import pytest

HEAD = "import os, signal, sys, threading, time\nimport numpy as np\nimport anydnn, models\n"


def start(code: str, **variables: str) -> "subprocess.Popen[str]":
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    return subprocess.Popen(
        [sys.executable, "-c", HEAD + textwrap.dedent(code)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path, **variables},
    )


def finished(code: str, **variables: str) -> str:
    with start(code, **variables) as process:
        out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out


@pytest.mark.skipif(sys.platform == "win32", reason="signals are those of Unix")
def test_ctrl_c_ends_a_run() -> None:
    code = """
    session = anydnn.InferenceSession(models.endless(), "host")
    try:
        print("running", flush=True)
        session.run(None, {"v": 0})
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    x = np.ones((1, 3), np.float32)
    print(anydnn.InferenceSession(models.dense(), "host").run(["y"], {"x": x})[0].tolist())
    """
    with start(code) as process:
        assert process.stdout
        assert process.stdout.readline() == "running\n"
        time.sleep(0.3)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "interrupted\n"
        assert time.monotonic() - began < 5
        out, err = process.communicate(timeout=60)
    expected = models.dense_expected(np.ones((1, 3), np.float32))[0].tolist()
    assert (process.returncode, out, err) == (0, f"{expected}\n", "")


@pytest.mark.skipif(sys.platform == "win32", reason="signals are those of Unix")
def test_ctrl_c_ends_a_run_that_was_short_before() -> None:
    code = """
    session = anydnn.InferenceSession(models.counting(), "host")
    print([int(session.run(None, {"v": 1, "most": most})[0]) for most in (4, 5)], flush=True)
    try:
        session.run(None, {"v": 0, "most": np.iinfo(np.int64).max})
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    """
    with start(code) as process:
        assert process.stdout
        assert process.stdout.readline() == "[7, 11]\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "interrupted\n", "")


@pytest.mark.skipif(sys.platform == "win32", reason="signals are those of Unix")
def test_ctrl_c_that_nobody_catches_ends_the_process() -> None:
    with start(
        'print(1, flush=True); anydnn.InferenceSession(models.endless(), "host").run(None, {"v": 0})'
    ) as process:
        assert process.stdout
        process.stdout.readline()
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert err.rstrip().endswith("KeyboardInterrupt")
    assert process.returncode == -signal.SIGINT


def test_a_run_of_another_thread_is_not_the_main_threads_to_end() -> None:
    out = finished(
        """
        options = anydnn.RunOptions()
        session = anydnn.InferenceSession(models.endless(), "host")
        told = []
        def work():
            try:
                session.run(None, {"v": 0}, options)
            except anydnn.CancelledError as error:
                told.append(str(error).rpartition("body: ")[2])
        thread = threading.Thread(target=work)
        thread.start()
        time.sleep(0.2)
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            told.append("main")
        assert thread.is_alive()
        options.terminate = True
        thread.join()
        print(told)
        """
    )
    assert out == "['main', 'session: cancelled']\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_fork_is_refused(backend: str) -> None:
    out = finished(
        f"""
        import warnings
        warnings.simplefilter("ignore")
        session = anydnn.InferenceSession(models.dense(), {backend!r})
        x = np.ones((1, 3), np.float32)
        session.run(None, {{"x": x}})
        child = os.fork()
        if child == 0:
            uses = [
                lambda: session.run(None, {{"x": x}}),
                lambda: anydnn.InferenceSession(models.dense(), "host"),
                anydnn.devices,
                session.close,
            ]
            for use in uses:
                try:
                    use()
                    os._exit(2)
                except anydnn.ForkError as error:
                    message = str(error)
            assert "spawn" in message and "is a fork of process" in message, message
            del session, use, uses
            sys.exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        print(session.run(["y"], {{"x": x}})[0].shape)
        """
    )
    assert out == "(1, 2)\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_fork_before_the_first_use_works() -> None:
    finished(
        """
        child = os.fork()
        x = np.ones((1, 3), np.float32)
        anydnn.InferenceSession(models.dense(), "host").run(None, {"x": x})
        if child == 0:
            sys.exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        """
    )


def test_without_opencl_the_host_is_there() -> None:
    nowhere = {"OPENCL_DYLIB_PATH": "/nonexistent", "OCL_ICD_VENDORS": "/nonexistent"}
    out = finished(
        """
        assert not any("libOpenCL" in line for line in open("/proc/self/maps")) or sys.platform != "linux"
        found = anydnn.devices()
        assert [one.name for one in found if one.available] == ["host"] == anydnn.backends()
        print(next(one.reason for one in found if one.backend == "opencl"))
        x = np.ones((1, 3), np.float32)
        session = anydnn.InferenceSession(models.dense())
        session.run(None, {"x": x})
        print(session.device[0])
        """,
        **nowhere,
        ANYDNN_BACKEND="",
    )
    reason, chosen = out.rstrip().rsplit("\n", 1)
    assert "OpenCL" in reason
    assert chosen == "host"


def test_a_session_that_lives_to_the_end_of_the_process(backend: str) -> None:
    out = finished(
        f"""
        session = anydnn.InferenceSession(models.dense(), {backend!r})
        session.run(None, {{"x": np.ones((1, 3), np.float32)}})
        print("end")
        """
    )
    assert out == "end\n"

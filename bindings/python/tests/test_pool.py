import itertools
from collections.abc import Iterator

import anydnn
import models
import numpy as np
import pytest
from conftest import REQUIRED


def feeds(count: int, taken: "list[int]") -> "Iterator[dict[str, np.ndarray]]":
    for number in range(count):
        taken.append(number)
        yield {"x": np.full((1 + number % 3, 3), number, np.float32)}


def test_results_come_in_order_from_all_devices() -> None:
    with anydnn.SessionPool(models.dense(), REQUIRED) as pool:
        assert all(name in repr(pool) for name in REQUIRED)
        made = list(pool.map(feeds(60, []), ["y"]))
    for feed, result in zip(feeds(60, []), made):
        assert result.error is None
        models.assert_close(result.outputs[0], models.dense_expected(feed["x"])[0], terms=3)
    assert len(made) == 60
    assert {result.device.split(":0")[0] for result in made if result.device} == set(REQUIRED)


def test_a_wrong_input_fails_alone(backend: str) -> None:
    with anydnn.SessionPool(models.dense(), [backend]) as pool:
        wrong = {"x": np.zeros((2, 2), np.float32)}
        made = list(pool.map(itertools.chain(feeds(3, []), [wrong, {"z": 1}], feeds(3, []))))
    assert [result.error is None for result in made] == [True] * 3 + [False] * 2 + [True] * 3
    assert isinstance(made[3].error, anydnn.InvalidShapeError)
    assert made[3].outputs is None


def test_inputs_are_read_when_there_is_room() -> None:
    taken: list[int] = []
    with anydnn.SessionPool(models.dense(), ["host"]) as pool:
        results = pool.map(feeds(100, taken))
        next(results)
        assert len(taken) < 10
        results.close()
        assert len(taken) < 10


def test_others_take_what_a_lost_device_had(monkeypatch: pytest.MonkeyPatch) -> None:
    with anydnn.SessionPool(models.dense(), ["host", "host"]) as pool:
        first, second = pool.sessions

        def lost(*_: object) -> None:
            raise anydnn.DeviceLostError("gone")

        monkeypatch.setattr(first, "run", lost)
        assert all(result.error is None for result in pool.map(feeds(20, [])))
        monkeypatch.setattr(second, "run", lost)
        made = list(pool.map(feeds(5, [])))
    assert all(isinstance(result.error, anydnn.DeviceLostError) for result in made)


@pytest.mark.parametrize("backends", [[], "host"])
def test_devices_are_names_in_a_list(backends: object) -> None:
    with pytest.raises(anydnn.InvalidArgumentError, match="expected at least one name in a list"):
        anydnn.SessionPool(models.dense(), backends)  # type: ignore[arg-type]

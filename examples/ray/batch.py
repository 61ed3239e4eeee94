"""Batch inference over a data set: Ray Data, with one network for each actor, beside one process without Ray."""

from __future__ import annotations

import argparse
import logging
import os
import time
from pathlib import Path

import numpy as np
import ray

from network import DIGITS, Network, images_of, labels_of, model_path


class Classifier:
    """An actor: its network is made once and stays."""

    def __init__(self, model: str, backends: list[str], loses: str | None) -> None:
        self.network = Network(model, backends)
        self.loses = loses
        self.batches = 0

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Adds to rows with images the class of each, who computed it and when."""
        began = time.time()
        label = self.network(batch["image"]).reshape(len(batch["row"]), -1).argmax(1)
        self.batches += 1
        if self.loses and self.batches == 3 and _is_first(self.loses):
            os._exit(1)
        whole = np.ones(len(label))
        who = np.full(len(label), f"{ray.get_runtime_context().get_node_id()[:6]}/{os.getpid()}")
        device = np.full(len(label), self.network.device or "chosen by anydnn")
        times = {"began": whole * began, "ended": whole * time.time()}
        return {"row": batch["row"], "label": label, "actor": who, "device": device, **times}


def classified(arguments: argparse.Namespace, loses: str | None) -> dict[str, np.ndarray]:
    """All rows with their classes, by actors."""
    model, size = arguments.model, arguments.batch
    data = ray.data.range(arguments.rows, override_num_blocks=max(1, arguments.rows // size))
    data = data.map_batches(
        lambda batch: {"row": batch["id"], "image": images_of(model, batch["id"])}, batch_size=size
    )
    data = data.map_batches(
        Classifier,
        fn_constructor_args=(model, arguments.backends, loses),
        batch_size=size,
        # Ray starts an actor in place of one that is lost and gives it the rows that this one had.
        compute=ray.data.ActorPoolStrategy(size=arguments.actors),
    )
    made = data.to_pandas().sort_values("row")
    return {name: made[name].to_numpy() for name in made.columns}


def alone(arguments: argparse.Namespace) -> tuple[np.ndarray, float]:
    """The classes of all rows and the rows in a second, by this process."""
    network, rows = Network(arguments.model, arguments.backends[:1]), np.arange(arguments.rows)
    parts = [rows[at : at + arguments.batch] for at in range(0, len(rows), arguments.batch)]
    images = images_of(arguments.model, parts[0])
    network(images), network(images)
    made, taken = [], 0.0
    for part in parts:
        images = images_of(arguments.model, part)
        began = time.perf_counter()
        made.append(network(images).reshape(len(part), -1).argmax(1))
        taken += time.perf_counter() - began
    return np.concatenate(made), len(rows) / taken


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=model_path, default=str(DIGITS), help=model_path.__doc__)
    parser.add_argument("--rows", type=int, default=36_000)
    parser.add_argument("--batch", type=int, default=360, help="rows that run at once")
    parser.add_argument("--actors", type=int, default=2)
    parser.add_argument(
        "--backends", type=lambda names: names.split(","), default=[], help="a device for each actor"
    )
    parser.add_argument(
        "--lose", type=Path, help="end an actor's process once; a file that says that it happened"
    )
    parser.add_argument("--address", help="of a cluster; without it one is started on this machine")
    arguments = parser.parse_args()

    expected, rate = alone(arguments)
    print(f"one process without Ray: {rate:,.0f} rows/s")
    # Actors ask for one processor each and driver and readers need some as well, however few this machine has.
    more = {} if arguments.address else {"num_cpus": max(arguments.actors + 2, os.cpu_count() or 1)}
    ray.init(address=arguments.address, log_to_driver=False, include_dashboard=False, **more)
    ray.data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.WARNING)
    began = time.perf_counter()
    made = classified(arguments, str(arguments.lose) if arguments.lose else None)
    whole = time.perf_counter() - began
    computing = made["ended"].max() - made["began"].min()
    for actor in np.unique(made["actor"]):
        own = made["actor"] == actor
        print(f"actor {actor} on {made['device'][own][0]}: {own.sum():,} rows")
    by_actors = arguments.rows / computing
    ratio = by_actors / rate
    print(
        f"{arguments.actors} actors: {by_actors:,.0f} rows/s, {ratio:.2f} of one process; {whole:.1f} s with their start"
    )
    if arguments.lose:
        print(f"an actor was lost: {arguments.lose.exists()}")
    every = np.array_equal(made["row"], np.arange(arguments.rows))
    print(f"every row once: {every}; as one process has them: {np.array_equal(made['label'], expected)}")
    labels = labels_of(arguments.model, made["row"])
    if labels is not None:
        print(f"right: {(made['label'] == labels).mean():.2%}")
    ray.shutdown()


def _is_first(path: str) -> bool:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


if __name__ == "__main__":
    main()

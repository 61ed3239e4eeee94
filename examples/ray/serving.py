"""Serving with batching: Ray Serve, with one network for each replica, and a client that asks for one image at a time."""

from __future__ import annotations

import argparse
import asyncio
import collections
import json
import os
import time
import urllib.request

import numpy as np
import ray
from ray import serve

from network import DIGITS, Network, images_of, labels_of, model_path

LARGEST = 64


@serve.deployment(max_ongoing_requests=4 * LARGEST)
class Classifier:
    """A replica. Requests that arrive together run as one batch."""

    def __init__(self, model: str, backends: list[str]) -> None:
        self.network = Network(model, backends)

    @serve.batch(max_batch_size=LARGEST, batch_wait_timeout_s=0.005)
    async def classify(self, images: list[np.ndarray]) -> list[tuple[int, int, int]]:
        """The class of each image, with how many ran at once and in which process."""
        count = len(images)
        # A few sizes stand for all, as each is compiled once.
        size = 1 << (count - 1).bit_length()
        padded = np.stack(images + images[-1:] * (size - count))
        scores = await asyncio.to_thread(self.network, padded)
        return [(int(label), count, os.getpid()) for label in scores.reshape(size, -1)[:count].argmax(1)]

    async def __call__(self, request: object) -> dict[str, int]:
        """Answers a request by HTTP, whose body is an image as nested lists."""
        label, together, _ = await self.classify(np.array(await request.json(), np.float32))
        return {"label": label, "together": together}


async def ask(handle: object, images: np.ndarray, at_once: int) -> list[tuple[int, int, int]]:
    """Asks for each image, never for more than so many at once."""
    room = asyncio.Semaphore(at_once)

    async def one(image: np.ndarray) -> tuple[int, int, int]:
        async with room:
            return await handle.classify.remote(image)

    return await asyncio.gather(*(one(image) for image in images))


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=model_path, default=str(DIGITS), help=model_path.__doc__)
    parser.add_argument("--requests", type=int, default=3600)
    parser.add_argument("--at-once", type=int, default=256)
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument(
        "--backends", type=lambda names: names.split(","), default=[], help="a device for each replica"
    )
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--address", help="of a cluster; without it one is started on this machine")
    parser.add_argument("--stay", action="store_true", help="serve until Ctrl-C")
    arguments = parser.parse_args()
    model = arguments.model

    more = {} if arguments.address else {"num_cpus": max(arguments.replicas + 2, os.cpu_count() or 1)}
    ray.init(address=arguments.address, log_to_driver=False, include_dashboard=False, **more)
    serve.start(http_options={"port": arguments.port}, logging_config={"log_level": "ERROR"})
    app = Classifier.options(num_replicas=arguments.replicas).bind(model, arguments.backends)
    handle = serve.run(app)

    rows = np.arange(arguments.requests)
    images = images_of(model, rows)
    asyncio.run(ask(handle, images[: 4 * LARGEST], arguments.at_once))
    began = time.perf_counter()
    made = asyncio.run(ask(handle, images, arguments.at_once))
    taken = time.perf_counter() - began
    labels, together, processes = (np.array(part) for part in zip(*made))
    print(f"{len(rows) / taken:,.0f} requests/s, {together.mean():.1f} at once")
    for process, count in sorted(collections.Counter(processes.tolist()).items()):
        print(f"replica {process}: {count:,} requests")
    right = labels_of(model, rows)
    if right is not None:
        print(f"right: {(labels == right).mean():.2%}")
    body = json.dumps(images[0].tolist()).encode()
    with urllib.request.urlopen(f"http://127.0.0.1:{arguments.port}/", body) as answer:
        print(f"by HTTP: {answer.read().decode()}")
    if arguments.stay:
        print(f"serving on port {arguments.port}; Ctrl-C ends it")
        try:
            while True:
                time.sleep(1)
        except KeyboardInterrupt:
            pass
    serve.shutdown()
    ray.shutdown()


if __name__ == "__main__":
    main()

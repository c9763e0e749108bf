#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains two models with sqlite_emb and with nn.Embedding, and compares.

    training.py OUT [--ratings N] [--clicks N] [--users N]

Makes the samples in OUT, runs each program in a process of its own, and leaves the figures
in OUT/NAME.json and OUT/training.svg.  Ends with status 1 unless the losses are the same.
"""

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import plot

HERE = Path(__file__).parent
MODELS = {"factorize": "Matrix factorisation", "dlrm": "DLRM"}
RUNS: dict[str, tuple[str, list[str]]] = {
    "nn.Embedding": ("_nn", []),
    "sqlite_emb": ("", []),
    "sqlite_emb, memory a tenth": ("", ["--part", "0.1"]),
}
SAME = 1e-3  # allowed difference of two losses of a step, relative


def run(out: Path, model: str, name: str) -> Any:
    """Trains on a copy of the samples; returns the figures."""
    end, options = RUNS[name]
    program = HERE / f"{model}{end}.py"
    print(f"\n$ {program.name} {' '.join(options)}", flush=True)
    database, log = out / "run.db", out / f"{model}{end}{''.join(options)}.json"
    shutil.copy(out / "samples.db", database)
    command: list[Any] = [sys.executable, program, database, "--log", log, *options]
    subprocess.run(command, check=True)
    shutil.rmtree(out / "run.db-emb", ignore_errors=True)
    return {"name": name, **json.loads(log.read_text())}


def difference(runs: list[Any]) -> float:
    """The largest difference of the losses of any step from those of the first run."""
    first = runs[0]["losses"]
    found: float = max(
        abs(a / b - 1) for other in runs[1:] for a, b in zip(other["losses"], first)
    )
    return found


def conclude(title: str, runs: list[Any]) -> bool:
    """Prints the conclusion; returns whether the losses are the same."""
    nn, emb, tenth = runs
    found = difference(runs)
    print(
        f"{title}: the losses of all {len(nn['losses'])} steps are the same within {found:.1e}. "
        f"sqlite_emb has {emb['speed'] / nn['speed']:.0%} of the speed of nn.Embedding; with a "
        f"tenth of the memory for rows the process needs {tenth['memory'] / nn['memory']:.0%} "
        f"of the memory and has {tenth['speed'] / nn['speed']:.0%} of the speed."
    )
    return found <= SAME


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    for name in "ratings", "clicks", "users":
        parser.add_argument(f"--{name}", help="of samples.py")
    options = parser.parse_args()
    out = options.out
    print("Two models, each trained three times on the same samples from the same rows: with")
    print("nn.Embedding, with tables of sqlite_emb that have memory for all rows, and with")
    print("tables that have memory for a tenth.", flush=True)
    sizes = [
        f"--{key}={value}" for key, value in vars(options).items() if key != "out" and value
    ]
    subprocess.run(
        [sys.executable, HERE / "samples.py", out / "samples.db", *sizes], check=True
    )
    results = {
        title: [run(out, model, name) for name in RUNS] for model, title in MODELS.items()
    }
    (out / "training.svg").write_text(plot.picture(results))
    print(f"\n{'':48}{'samples/s':>10}{'MB':>6}{'held-out loss':>15}")
    for title, runs in results.items():
        for one in runs:
            print(
                f"{title:22}{one['name']:26}{one['speed']:10,.0f}{one['memory']:6.0f}"
                f"{one['held_out']:15.4f}"
            )
    print()
    same = [conclude(title, runs) for title, runs in results.items()]
    print(f"\nPicture: {out / 'training.svg'}")
    return not all(same)


if __name__ == "__main__":
    sys.exit(main())

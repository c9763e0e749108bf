# SPDX-License-Identifier: MIT
"""The options of the programs that train, and what they print and write."""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from samples import ROW

EVERY = 100  # steps from a line to the next


def arguments(text: str) -> Any:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=text.splitlines()[0])
    parser.add_argument("database", type=Path, help="of samples.py")
    parser.add_argument("--batch", type=int, default=1024, help="samples of a step")
    parser.add_argument(
        "--part", type=float, default=2, help="a table's memory, as a part of its rows"
    )
    parser.add_argument("--log", type=Path, help="a file for all figures, .json")
    return parser.parse_args()


def initial_rows(options: Any, name: str) -> torch.Tensor:
    """The rows with which the table of this name begins."""
    return torch.from_numpy(np.load(options.database.parent / f"{name}.npy"))


def memory(options: Any, name: str) -> int:
    """The memory of the table of this name, in bytes."""
    rows = np.load(options.database.parent / f"{name}.npy", mmap_mode="r").shape[0]
    return max(int(rows * ROW * options.part), 4 << 20)


def status(name: str) -> float:
    """A figure of this process from the kernel, in MB."""
    text = Path("/proc/self/status").read_text()
    found = re.search(rf"{name}:\s+(\d+) kB", text)
    return int(found[1]) * 1024 / 1e6 if found else 0.0


class Progress:
    """Prints the mean loss, the speed and the memory of the process, without what imports
    took."""

    def __init__(self, options: Any) -> None:
        Path("/proc/self/clear_refs").write_text("5")  # the peak so far is that of imports
        self.log = options.log
        self.imports = status("VmRSS")
        self.losses: list[float] = []
        self.times: list[float] = []
        self.samples = 0
        self.first = 0.0, 0  # when the first step ended, and its samples
        self.started = time.monotonic()

    def __call__(self, loss: torch.Tensor, samples: int) -> None:
        """A step was made."""
        if not self.losses:  # from the first step on
            self.first = time.monotonic(), samples
        self.losses.append(loss.item())
        self.samples += samples
        self.times.append(time.monotonic() - self.started)
        if len(self.losses) % EVERY == 0:
            print(
                f"step {len(self.losses):5}  loss {np.mean(self.losses[-EVERY:]):.4f}  "
                f"{self.speed():8,.0f} samples/s  {self.peak():4.0f} MB",
                flush=True,
            )

    def curve(self) -> list[tuple[float, float]]:
        """The mean loss of every few steps, by the time."""
        few = max(1, min(EVERY, len(self.losses) // 20))
        ends = range(few, len(self.losses) + 1, few)
        return [
            (self.times[end - 1], float(np.mean(self.losses[end - few : end]))) for end in ends
        ]

    def speed(self) -> float:
        """Samples per second since the first step."""
        then, samples = self.first
        return (self.samples - samples) / max(time.monotonic() - then, 1e-9)

    def peak(self) -> float:
        """The peak of the memory of this process, without imports, in MB."""
        return status("VmHWM") - self.imports

    def end(self, losses: Iterable[torch.Tensor]) -> None:
        """All steps were made; losses are those of batches that were not trained on."""
        speed = self.speed()
        held_out = float(np.mean([loss.item() for loss in losses]))
        figures = {
            "losses": self.losses,
            "curve": self.curve(),
            "speed": speed,
            "memory": self.peak(),
            "held_out": held_out,
        }
        print(f"held-out loss {held_out:.4f}", flush=True)
        if self.log:
            self.log.write_text(json.dumps(figures))

# SPDX-License-Identifier: MIT
"""Draws what training.py measured, as SVG."""

from __future__ import annotations

from typing import Any

COLOURS = ["#777", "#c8553d", "#1b6ca8"]
HEIGHT = 210  # of a program's row
LEFT, RIGHT = 50, 330  # of the curves
BARS = {"speed": (430, "samples per second"), "memory": (630, "memory, MB")}
LONGEST = 110  # of a bar


def text(x: float, y: float, what: str, anchor: str = "start", colour: str = "#222") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{what}</text>\n'
    )


def line(x: float, y: float, to_x: float, to_y: float) -> str:
    return f'<path d="M{x:.1f},{y:.1f} L{to_x:.1f},{to_y:.1f}" stroke="#ddd"/>\n'


def step_of(span: float) -> float:
    """The distance of ticks, of which three to seven are in the span."""
    step: float = 10.0 ** len(str(int(span)))  # longer than the span
    while True:
        for part in (1, 2, 5):
            if span * part / step >= 3:
                return step / part
        step /= 10


def ticks(low: float, high: float) -> list[float]:
    step = step_of(high - low)
    first = int(low / step)
    return [i * step for i in range(first, first + 9) if low <= i * step <= high]


def curves(runs: list[Any], top: float) -> str:
    """Loss over time."""
    points: list[list[tuple[float, float]]] = [run["curve"] for run in runs]
    end = max(curve[-1][0] for curve in points)
    losses = [loss for curve in points for _, loss in curve]
    low, high = min(losses), max(losses) + 1e-9
    bottom = top + HEIGHT - 70

    def x(seconds: float) -> float:
        return LEFT + (RIGHT - LEFT) * seconds / end

    def y(loss: float) -> float:
        return bottom - (bottom - top) * (loss - low) / (high - low)

    out = text(LEFT, top - 12, "loss, over seconds")
    for loss in ticks(low, high):
        out += line(LEFT, y(loss), RIGHT, y(loss))
        out += text(LEFT - 6, y(loss) + 4, f"{loss:.4g}", "end", "#666")
    for second in ticks(0, end):
        out += text(x(second), bottom + 18, f"{second:g}", "middle", "#666")
    for curve, colour in zip(points, COLOURS):
        path = " ".join(f"{x(seconds):.1f},{y(loss):.1f}" for seconds, loss in curve)
        out += f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>\n'
    return out


def bars(runs: list[Any], figure: str, top: float) -> str:
    """A bar for each run."""
    left, title = BARS[figure]
    most = max(run[figure] for run in runs)
    out = text(left, top - 12, title)
    for i, (run, colour) in enumerate(zip(runs, COLOURS)):
        y = top + 10 + 42 * i
        width = LONGEST * run[figure] / most
        out += f'<rect x="{left}" y="{y}" width="{width:.1f}" height="24" fill="{colour}"/>\n'
        out += text(left + width + 6, y + 17, f"{run[figure]:,.0f}", "start", "#444")
    return out


def picture(programs: dict[str, list[Any]]) -> str:
    """The runs of each program in a row; runs: name, curve, speed, memory."""
    out = ""
    runs = next(iter(programs.values()))
    for i, (run, colour) in enumerate(zip(runs, COLOURS)):
        x = LEFT + 200 * i
        out += f'<rect x="{x}" y="14" width="12" height="12" fill="{colour}"/>\n'
        out += text(x + 18, 25, run["name"])
    top = 80
    for title, runs in programs.items():
        out += text(10, top - 32, f"<tspan font-weight='bold'>{title}</tspan>")
        out += curves(runs, top) + "".join(bars(runs, figure, top) for figure in BARS)
        top += HEIGHT + 10
    size = f'width="800" height="{top - 50}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" '
        f'font-size="12">\n<rect {size} fill="white"/>\n{out}</svg>\n'
    )

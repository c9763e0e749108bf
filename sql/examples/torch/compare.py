#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Trains with one process, with two, and with PyTorch alone, and compares.

    compare.py DATABASE EXTENSION OUT [--steps N] [--seeds N ...] [--start fork|spawn]

Ends with status 1 unless the three loss curves are the same, within the
tolerances below.  Writes them to OUT/curves.tsv.
"""

import argparse
import pathlib
import subprocess
import sys

import numpy as np
import torch

from data import ADAGRAD, BATCH, load, loss_of, make_table

WINDOW = 50  # steps; curves are compared by their means over windows
ALONE = 1e-4  # of the loss: allowed difference of one process from PyTorch alone, any step
CURVE = 0.03  # allowed difference of two processes from one, in any window


def plain(options, seed):
    """The loss of the same model with nn.Embedding and PyTorch's own Adagrad, [steps]."""
    keys, vectors = make_table(options.database, options.extension, seed)
    table = torch.nn.Embedding.from_pretrained(torch.tensor(vectors), freeze=False, sparse=True)
    optimizer = torch.optim.Adagrad(
        table.parameters(),
        lr=ADAGRAD["lr"],
        eps=ADAGRAD["eps"],
        initial_accumulator_value=ADAGRAD["initial_accumulator"],
    )
    curve = []
    batches = load(options.database, options.extension, seed, range(options.steps), options.start)
    for wanted, where, _ in batches:
        loss = loss_of(table(torch.from_numpy(np.searchsorted(keys, wanted))), where)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        curve.append(loss.item() / BATCH)
    return np.array(curve)


def trained(options, seed, shares):
    """Runs a trainer for each share of the batches; returns their logs, see train.py."""
    make_table(options.database, options.extension, seed)
    here = pathlib.Path(__file__).parent
    trainers, logs = [], []
    for i, share in enumerate(shares):
        logs.append(options.out / f"trainer-{i + 1}.npy")
        trainers.append(
            subprocess.Popen(
                [sys.executable, here / "train.py", options.database, options.extension]
                + [f"--seed={seed}", f"--start={options.start}", f"--name=trainer {i + 1}"]
                + [f"--log={logs[-1]}", "--steps", *share]
                + ["--client"] * (i > 0)  # so the first owns the table
            )
        )
    if any([trainer.wait() for trainer in trainers]):
        raise SystemExit("a trainer has failed")
    return [np.load(log) for log in logs]


def in_order(*logs):
    """All steps in the order in which the table applied them: by the version of PROBE
    that each step wrote."""
    log = np.concatenate(logs)
    return log[log[:, 3].argsort()]


def alternations(first, second):
    """How often a step of one trainer came right after a step of the other."""
    by_first = np.isin(in_order(first, second)[:, 0], first[:, 0])
    return int((by_first[1:] != by_first[:-1]).sum())


def outdated(log):
    """How many lookups of the workers found an older row than the one written
    before they began; log: of train.py, [steps, 6]."""
    log = log[log[:, 2].argsort()]
    written = np.concatenate([[0], np.maximum.accumulate(log[:, 3])])
    return int((log[:, 5] < written[np.searchsorted(log[:, 2], log[:, 4])]).sum())


def smooth(curve):
    """Means over windows: [..., steps] becomes [..., steps / WINDOW]."""
    return curve.reshape(*curve.shape[:-1], -1, WINDOW).mean(-1)


def differences(curves):
    """The compared differences: (text, found, allowed).

    curves  float64 [seeds, 3, steps]: the loss of PyTorch alone, of one, of two
    """
    alone, one, two = curves.transpose(1, 0, 2)
    windows = np.abs(smooth(two) / smooth(one) - 1)
    return [
        ("one process and PyTorch alone, worst step", np.abs(one / alone - 1).max(), ALONE),
        ("two processes and one, worst window", windows.max(), CURVE),
        ("two processes and one, last window", windows[:, -1].max(), CURVE),
    ]


def same(checks):
    """Whether all found values are allowed; NaN is not."""
    return all(found <= allowed for _, found, allowed in checks)


def show(curves):
    """Prints the table: means over the seeds."""
    print(f"\nLoss per triple, means of {WINDOW} steps and of {len(curves)} seeds\n")
    print("    steps   triples   one process   two processes   PyTorch alone   seeds differ")
    means = smooth(curves)
    for i in range(means.shape[2]):
        alone, one, two = means[:, :, i].mean(0)
        spread = np.ptp(means[:, 1, i])
        end = (i + 1) * WINDOW
        print(f"{end:9}{end * BATCH:10}{one:14.4f}{two:16.4f}{alone:16.4f}{spread:15.4f}")


def compare(options):
    """Makes all runs; returns the exit status."""
    joint = options.steps * 4 // 5
    shares = [[f"0:{joint}:2"], [f"1:{joint}:2", f"{joint}:{options.steps}"]]
    curves, looks, late = [], 0, 0
    for seed in options.seeds:
        print(f"seed {seed}: PyTorch alone", flush=True)
        alone = plain(options, seed)
        print(f"seed {seed}: one process", flush=True)
        (one,) = trained(options, seed, [[f"0:{options.steps}"]])
        print(f"seed {seed}: two, the first of which ends after {joint // 2} steps", flush=True)
        first, second = trained(options, seed, shares)
        print(f"  {alternations(first, second)} times a step of the other came next", flush=True)
        two = in_order(first, second)
        for log in (one, two):
            looks, late = looks + len(log), late + outdated(log)
        curves.append([alone, one[:, 1], two[:, 1]])
    curves = np.array(curves)
    show(curves)
    write(options, curves)
    print(f"\n{late} of {looks} looks of the workers were outdated\n")
    checks = differences(curves)
    for text, found, allowed in checks:
        print(f"{text:42} {found:9.4%} of {allowed:.2%} allowed")
    return late > 0 or not same(checks)


def write(options, curves):
    """Writes each loss of each run."""
    with open(options.out / "curves.tsv", "w") as file:
        print("seed", "step", "alone", "one", "two", sep="\t", file=file)
        for seed, runs in zip(options.seeds, curves):
            for number, losses in enumerate(runs.T):
                print(seed, number + 1, *(f"{x:.6f}" for x in losses), sep="\t", file=file)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("database")
    parser.add_argument("extension")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=600, help=f"a multiple of {WINDOW}")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--start", choices=["fork", "spawn"], default="fork")
    options = parser.parse_args()
    torch.set_num_threads(1)
    sys.exit(compare(options))

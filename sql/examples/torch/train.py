#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Trains on the table `graph`; several processes may do so at the same time.

    train.py DATABASE EXTENSION --steps FIRST:END[:STRIDE] ...

Each step reads the rows of a batch, has PyTorch compute their gradients, and
sends these to the table, whose optimizer applies them.  There is no other state:
all parameters, including those of the relations, are rows of the table.
"""

import argparse
import time

import numpy as np
import torch

from data import BATCH, DIM, PROBE, connect, load, loss_of, owner_may_go, value


@owner_may_go
def step(db, keys, where):
    """Makes a step; returns its loss per triple, and the version of PROBE that it wrote."""
    blob = value(db, "SELECT emb_get('graph', ?)", keys.numpy())
    rows = torch.frombuffer(bytearray(blob), dtype=torch.float32).view(-1, DIM)
    rows.requires_grad_()
    loss = loss_of(rows, where)
    loss.backward()
    value(db, "SELECT emb_apply('graph', ?, ?)", keys.numpy(), rows.grad.numpy())
    versions = np.frombuffer(value(db, "SELECT emb_put_versions('graph')"), "<i8")
    return loss.item() / BATCH, versions[np.searchsorted(keys, PROBE)]


def train(options):
    """Makes the steps; returns a row for each, [steps, 6]: number of the batch, loss,
    time and version of PROBE when it was written, and when a worker read it."""
    numbers = [b for span in options.steps for b in range(*map(int, span.split(":")))]
    batches = load(options.database, options.extension, options.seed, numbers, options.start)
    db = connect(options.database, options.extension)  # after the workers were forked
    while options.client and not value(db, "SELECT count(*) FROM emb_clients('graph')"):
        time.sleep(0.01)
    log = np.empty((len(numbers), 6))
    for i, (keys, where, seen) in enumerate(batches):
        loss, version = step(db, keys, where)
        log[i] = numbers[i], loss, time.monotonic(), version, *seen
        if (i + 1) % 100 == 0:
            role = value(db, "SELECT iif(owner, 'owner', 'client') FROM emb_tables")
            mean = log[i - 99 : i + 1, 1].mean()
            print(f"  {options.name}: step {i + 1}, loss {mean:.3f}, {role}", flush=True)
    db.close()
    return log


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("database")
    parser.add_argument("extension")
    parser.add_argument("--steps", nargs="+", default=["0:600"], help="batches, as in range()")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--start", choices=["fork", "spawn"], default="fork", help="of workers")
    parser.add_argument("--client", action="store_true", help="begin when another process owns")
    parser.add_argument("--name", default="trainer")
    parser.add_argument("--log", help="a file for what was measured, .npy")
    options = parser.parse_args()
    torch.set_num_threads(1)
    log = train(options)
    if options.log:
        np.save(options.log, log)

# SPDX-License-Identifier: MIT
"""Triples of WordNet for PyTorch, read in SQL by the workers of a DataLoader."""

import sqlite3
import time

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info

BATCH = 512  # triples
NEGATIVES = 128  # wrong tails, the same for all triples of a batch
DIM = 64  # floats of a vector: 32 complex numbers
PROBE = 2  # the key whose versions are tracked: hypernym, which is in each batch
ADAGRAD = {"lr": 0.3, "eps": 1e-10, "initial_accumulator": 0.1}


def connect(path, extension, mode="rw"):
    """Opens the database; mode "ro": read only.  One connection per process."""
    db = sqlite3.connect(f"file:{path}?mode={mode}", uri=True, isolation_level=None, timeout=30)
    db.enable_load_extension(True)
    db.load_extension(extension)
    return db


def value(db, sql, *arguments):
    """The only value of the only row."""
    return db.execute(sql, arguments).fetchone()[0]


def owner_may_go(call):
    """Wraps a function to be called again if the table's owner went away during the call.

    Outside of transactions, the error code has no other cause.
    """

    def again(*arguments):
        while True:
            try:
                return call(*arguments)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_ABORT_ROLLBACK:
                    raise
                print(f"once more: {error}", flush=True)

    return again


def make_table(path, extension, seed):
    """Makes the table from scratch, with a row for each synset and relation of a triple.

    Returns the rows' keys, int64 [n], and vectors, float32 [n, DIM].
    """
    db = connect(path, extension)
    db.execute("DROP TABLE IF EXISTS graph")
    adagrad = ", ".join(f"{name}={number}" for name, number in ADAGRAD.items())
    db.execute(f"""
        CREATE VIRTUAL TABLE graph USING emb(
          key INTEGER PRIMARY KEY,
          vector FLOAT[{DIM}] initializer='normal(std=0.3)',
          optimizer='adagrad({adagrad})',
          staleness=4, memory='16MB', insert_on=lookup, seed={seed}
        )""")
    db.execute("""
        CREATE TABLE IF NOT EXISTS sample(
          id INTEGER PRIMARY KEY, head INTEGER, relation INTEGER, tail INTEGER)""")
    db.execute("""
        INSERT INTO sample(head, relation, tail)
        SELECT head, relation, tail FROM triple
         WHERE split = 'train' AND NOT EXISTS (SELECT 1 FROM sample)""")
    keys = value(db, """
        SELECT emb_pack(key) FROM (
          SELECT head AS key FROM sample UNION SELECT tail FROM sample
          UNION SELECT relation FROM sample ORDER BY 1)""")
    vectors = value(db, "SELECT emb_get('graph', ?)", keys)
    db.close()
    return np.frombuffer(keys, "<i8"), np.frombuffer(vectors, "<f4").reshape(-1, DIM)


class Batches(Dataset):
    """Item b is batch b of a run; the same seed gives the same batches.

    keys   int64 [n]                      of the rows that the batch needs, each once
    where  int64 [3 * BATCH + NEGATIVES]  places in keys: of head, relation and tail
                                          of each triple, then of the wrong tails
    seen   float64 [2]                    when the worker read the row PROBE,
                                          in seconds, and the version it found
    """

    def __init__(self, path, extension, seed):
        self.path, self.extension, self.seed = path, extension, seed
        self.db = None

    def open(self):
        """Opens this process's connection.  It is read-only, so it never owns the table."""
        self.db = connect(self.path, self.extension, "ro")
        self.samples = value(self.db, "SELECT max(id) FROM sample")

    @owner_may_go
    def look(self, keys):
        """Has the owner read ahead the rows on disk; reads the row PROBE."""
        self.db.execute("SELECT done FROM emb_lookahead('graph', ?)", (keys,)).fetchall()
        now = time.monotonic()
        version, vector = self.db.execute(
            "SELECT version, vector FROM graph WHERE key = ? AND mode = 'peek'", (PROBE,)
        ).fetchone()
        assert len(vector) == 4 * DIM
        return now, version

    def __getitem__(self, batch):
        random = np.random.default_rng([self.seed, batch])
        ids = random.integers(1, self.samples + 1, size=BATCH + NEGATIVES)
        rows = self.db.execute(
            "SELECT head, relation, tail FROM emb_keys(?) CROSS JOIN sample ON id = value", (ids,)
        ).fetchall()
        triples = np.array(rows, dtype="<i8")
        wanted = np.concatenate([triples[:BATCH].ravel(), triples[BATCH:, 2]])
        keys, where = np.unique(wanted, return_inverse=True)
        return keys, where, np.array(self.look(keys))


def open_in_worker(_):
    """Opens a connection of its own in each worker, after the fork."""
    get_worker_info().dataset.open()


def load(path, extension, seed, numbers, start):
    """Starts the workers; returns an iterator over these batches, as tensors."""
    return iter(
        DataLoader(
            Batches(path, extension, seed),
            sampler=numbers,
            batch_size=None,  # an item is a batch already
            num_workers=2,
            worker_init_fn=open_in_worker,
            multiprocessing_context=start,
        )
    )


def loss_of(rows, where):
    """ComplEx (Trouillon et al. 2016): sum over the triples of the cross entropy.

    rows   float32 [n, DIM]; where as above.  The score of a triple is
    Re(sum(head * relation * conj(tail))), of complex numbers.
    """
    head, relation, tail = rows[where[: 3 * BATCH].view(BATCH, 3)].unbind(1)
    wrong = rows[where[3 * BATCH :]]
    head, relation = (torch.view_as_complex(x.unflatten(1, (-1, 2))) for x in (head, relation))
    query = torch.view_as_real(head * relation).flatten(1)
    right = (query * tail).sum(1, keepdim=True)
    scores = torch.cat([right, query @ wrong.T], 1)  # [BATCH, 1 + NEGATIVES]
    return (scores.logsumexp(1) - right[:, 0]).sum()

# choose.py -- what bench/choose.c measures, in numpy: called by it, with BLAS on
# one thread.
#
#     choose.py METHOD FILE ROWS DIM CHOOSE FIRST
#
# FILE has ROWS * DIM float32.  Prints the seconds that it took and the rows that
# were chosen, in their order, or the discrepancy.  The algorithms are those of
# engine/data/choose/, in float32, with products of matrices; lazy greedy in batches
# of 64 candidates, as without it nothing ends.
import os
import sys
import time

for name in "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS":
    os.environ[name] = "1"
import numpy as np

BATCH = 64


def mmd(x):
    reference, other = x[: len(x) // 2], x[len(x) // 2 :]

    def square(a, b):
        d = (a * a).sum(axis=1)[:, None] + (b * b).sum(axis=1)[None, :] - 2 * a @ b.T
        return np.maximum(d, 0)

    inside = square(reference, reference)
    pairs = inside[np.triu_indices(len(reference), 1)]
    middle = (len(pairs) - 1) // 2
    gamma = 1 / np.partition(pairs, middle)[middle]
    n, m = len(reference), len(other)
    a, b, c = (np.exp(-gamma * d) for d in (inside, square(other, other), square(reference, other)))
    return [float((a.sum() - n) / n / (n - 1) + (b.sum() - m) / m / (m - 1) - 2 * c.mean())]


def k_center(x, k, first):
    squares = (x * x).sum(axis=1)
    taken, near = [first], np.full(len(x), np.inf, np.float32)
    while len(taken) < k:
        p = taken[-1]
        np.minimum(near, squares + squares[p] - 2 * (x @ x[p]), out=near)
        taken.append(int(near.argmax()))
    return taken


# gains(candidates): what each would add; start: bounds before the first.
def lazy(n, k, start, gains, chose):
    bound, fresh = start.astype(np.float64), np.zeros(n, np.int64)
    taken = []
    for round in range(k):
        while True:
            known = bound[fresh == round]
            best = known.max() if len(known) else -np.inf
            stale = np.flatnonzero((fresh != round) & (bound > best))
            if len(stale) == 0:
                break
            if len(stale) > BATCH:
                stale = stale[np.argpartition(-bound[stale], BATCH)[:BATCH]]
            bound[stale] = gains(stale)
            fresh[stale] = round
        p = int(np.where(fresh == round, bound, -np.inf).argmax())
        taken.append(p)
        chose(p)
        bound[p] = -np.inf
    return taken


def facility(x, k):
    x = x / np.sqrt((x * x).sum(axis=1))[:, None]
    has = np.full(len(x), -1, np.float32)

    def gains(rows):
        block = x @ x[rows].T
        block -= has[:, None]
        np.maximum(block, 0, out=block)
        return block.sum(axis=0) / 2

    def chose(p):
        np.maximum(has, x @ x[p], out=has)

    return lazy(len(x), k, (len(x) + x @ x.sum(axis=0)) / 2, gains, chose)


def craig(x, k):
    x = x - x.mean(axis=0)
    squares = (x * x).sum(axis=1)
    top = 2 * np.sqrt(squares.max()) + 1e-3

    def distances(rows):
        block = x @ x[rows].T
        block *= -2
        block += squares[:, None]
        block += squares[rows][None, :]
        np.maximum(block, 0, out=block)
        return np.sqrt(block, out=block)

    has = np.full(len(x), top, np.float32)

    def gains(rows):
        block = distances(rows)
        np.subtract(has[:, None], block, out=block)
        np.maximum(block, 0, out=block)
        return block.sum(axis=0)

    def chose(p):
        np.minimum(has, distances([p])[:, 0], out=has)

    start = np.concatenate([gains(np.arange(i, min(i + 256, len(x)))) for i in range(0, len(x), 256)])
    return lazy(len(x), k, start, gains, chose)


method, path, rows, dim, k, first = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
x = np.fromfile(path, np.float32, rows * dim).reshape(rows, dim)
begin = time.perf_counter()
answer = {
    "mmd": lambda: mmd(x),
    "k-center": lambda: k_center(x, k, first),
    "craig": lambda: craig(x, k),
    "facility": lambda: facility(x, k),
}[method]()
print(time.perf_counter() - begin, *answer)

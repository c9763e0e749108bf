#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Matrix factorisation: a rating is the product of the user's row and the item's.

    factorize.py DATABASE [--part 0.1]

factorize_nn.py is the same with nn.Embedding.
"""

import sqlite_emb
import torch
from progress import Progress, arguments, memory
from samples import BASE, DIM, INITIAL
from sqlite_emb.torch import Ahead, Embedding, Query
from torch.utils.data import DataLoader

options = arguments(__doc__)
progress = Progress(options)

db = sqlite_emb.connect(options.database)
adagrad = "adagrad(lr=0.03, eps=1e-10, initial_accumulator=0)"
settings = {"optimizer": adagrad, "insert_on": "lookup", "staleness": 0, **INITIAL}
users = Embedding.create(db, "users", DIM, memory=memory(options, "user"), **settings)
items = Embedding.create(db, "items", DIM, memory=memory(options, "item"), **settings)


def loss_of(user, item, rating):
    product = (users(user) * items(item)).sum(1)
    return (BASE + product - rating).square().mean()


ratings = Query(options.database, "SELECT user, item, rating FROM rating")
loader = DataLoader(ratings, options.batch)
for batch in Ahead(loader, lambda batch: {users: batch[0], items: batch[1]}):
    loss = loss_of(*batch)
    loss.backward()  # makes the steps of the tables' optimizers
    progress(loss, len(batch[0]))

held_out = Query(options.database, "SELECT user, item, rating FROM rating_held_out")
with torch.no_grad():
    progress.end(loss_of(*batch) for batch in DataLoader(held_out, options.batch))

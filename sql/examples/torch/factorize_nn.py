#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Matrix factorisation: a rating is the product of the user's row and the item's.

    factorize_nn.py DATABASE

factorize.py is the same with tables of SQLite.
"""

import torch
from progress import Progress, arguments, initial_rows
from samples import BASE
from sqlite_emb.torch import Query
from torch import nn
from torch.utils.data import DataLoader

options = arguments(__doc__)
progress = Progress(options)

users = nn.Embedding.from_pretrained(initial_rows(options, "user"), freeze=False, sparse=True)
items = nn.Embedding.from_pretrained(initial_rows(options, "item"), freeze=False, sparse=True)
adagrad = torch.optim.Adagrad([users.weight, items.weight], lr=0.03)


def loss_of(user, item, rating):
    product = (users(user) * items(item)).sum(1)
    return (BASE + product - rating).square().mean()


ratings = Query(options.database, "SELECT user, item, rating FROM rating")
loader = DataLoader(ratings, options.batch)
for batch in loader:
    loss = loss_of(*batch)
    adagrad.zero_grad()
    loss.backward()
    adagrad.step()
    progress(loss, len(batch[0]))

held_out = Query(options.database, "SELECT user, item, rating FROM rating_held_out")
with torch.no_grad():
    progress.end(loss_of(*batch) for batch in DataLoader(held_out, options.batch))

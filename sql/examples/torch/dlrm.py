#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""DLRM (Naumov et al. 2019): a click from four keys and four dense features.

    dlrm.py DATABASE [--part 0.1]

dlrm_nn.py is the same with nn.Embedding.
"""

import sqlite_emb
import torch
from progress import Progress, arguments, memory
from samples import DIM, INITIAL
from sqlite_emb.torch import Ahead, Collection, Embedding, Query
from torch import nn
from torch.utils.data import DataLoader

KEYS = ["user", "item", "page", "advertiser"]
COLUMNS = ", ".join(KEYS) + ", dense1, dense2, dense3, dense4, clicked"


class DLRM(nn.Module):
    def __init__(self, rows):
        super().__init__()
        self.rows = rows
        self.bottom = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, DIM), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(DIM + 10, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, keys, dense):
        x = self.bottom(dense)
        rows = self.rows(dict(zip(KEYS, keys)))
        vectors = torch.stack([x, *rows.values()], 1)
        i, j = torch.tril_indices(5, 5, -1)
        products = (vectors @ vectors.transpose(1, 2))[:, i, j]
        return self.top(torch.cat([x, products], 1)).squeeze(1)


options = arguments(__doc__)
progress = Progress(options)

db = sqlite_emb.connect(options.database)
adagrad = "adagrad(lr=0.03, eps=1e-10, initial_accumulator=0)"
settings = {"optimizer": adagrad, "insert_on": "lookup", "staleness": 0, **INITIAL}
layers = {
    name: Embedding.create(db, name, DIM, memory=memory(options, name), **settings)
    for name in KEYS
}
torch.manual_seed(1)
model = DLRM(Collection(layers))
adam = torch.optim.Adam(model.parameters())


def loss_of(*batch):
    dense = torch.stack(batch[4:8], 1).float()
    score = model(batch[:4], dense)
    return nn.functional.binary_cross_entropy_with_logits(score, batch[8].float())


clicks = Query(options.database, f"SELECT {COLUMNS} FROM click")
loader = DataLoader(clicks, options.batch)
for batch in Ahead(loader, lambda batch: dict(zip(layers.values(), batch))):
    loss = loss_of(*batch)
    adam.zero_grad()
    loss.backward()  # makes the steps of the tables' optimizers
    adam.step()
    progress(loss, len(batch[0]))

held_out = Query(options.database, f"SELECT {COLUMNS} FROM click_held_out")
model.eval()
with torch.no_grad():
    progress.end(loss_of(*batch) for batch in DataLoader(held_out, options.batch))

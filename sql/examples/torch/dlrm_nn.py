#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""DLRM (Naumov et al. 2019): a click from four keys and four dense features.

    dlrm_nn.py DATABASE

dlrm.py is the same with tables of SQLite.
"""

import torch
from progress import Progress, arguments, initial_rows
from samples import DIM
from sqlite_emb.torch import Query
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
        rows = [self.rows[name](of_name) for name, of_name in zip(KEYS, keys)]
        vectors = torch.stack([x, *rows], 1)
        i, j = torch.tril_indices(5, 5, -1)
        products = (vectors @ vectors.transpose(1, 2))[:, i, j]
        return self.top(torch.cat([x, products], 1)).squeeze(1)


options = arguments(__doc__)
progress = Progress(options)

layers = {
    name: nn.Embedding.from_pretrained(initial_rows(options, name), freeze=False, sparse=True)
    for name in KEYS
}
torch.manual_seed(1)
model = DLRM(nn.ModuleDict(layers))
adam = torch.optim.Adam([*model.bottom.parameters(), *model.top.parameters()])
adagrad = torch.optim.Adagrad(model.rows.parameters(), lr=0.03)


def loss_of(*batch):
    dense = torch.stack(batch[4:8], 1).float()
    score = model(batch[:4], dense)
    return nn.functional.binary_cross_entropy_with_logits(score, batch[8].float())


clicks = Query(options.database, f"SELECT {COLUMNS} FROM click")
loader = DataLoader(clicks, options.batch)
for batch in loader:
    loss = loss_of(*batch)
    adam.zero_grad()
    adagrad.zero_grad()
    loss.backward()
    adam.step()
    adagrad.step()
    progress(loss, len(batch[0]))

held_out = Query(options.database, f"SELECT {COLUMNS} FROM click_held_out")
model.eval()
with torch.no_grad():
    progress.end(loss_of(*batch) for batch in DataLoader(held_out, options.batch))

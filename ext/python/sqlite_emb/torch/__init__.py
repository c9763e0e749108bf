# SPDX-License-Identifier: MIT
"""Embedding tables as layers of PyTorch.

    users = sqlite_emb.torch.Embedding.create(db, "users", 32, optimizer="adagrad(lr=0.05)")
    items = sqlite_emb.torch.Embedding.create(db, "items", 32, optimizer="adagrad(lr=0.05)")
    for user, item, rating in loader:
        loss = ((users(user) * items(item)).sum(1) - rating).square().mean()
        loss.backward()        # applies the gradients to the tables

`Embedding` and `EmbeddingBag` are `nn.Module`s without parameters: their rows are in the
table, and the table's optimizer makes the step.  Dense layers have an optimizer of
PyTorch, as usual.
"""

from .ahead import Ahead
from .data import Query, Rows, Samples
from .embedding import Collection, Embedding, EmbeddingBag

__all__ = ["Ahead", "Collection", "Embedding", "EmbeddingBag", "Query", "Rows", "Samples"]

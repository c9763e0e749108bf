# SPDX-License-Identifier: MIT
"""Layers of PyTorch against those of PyTorch: the same values, gradients and steps."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sqlite_emb

torch = pytest.importorskip("torch")
layers = pytest.importorskip("sqlite_emb.torch")

ROWS, DIM = 30, 5


def pair(db: Any, name: str = "items", seed: int = 0, **options: Any) -> tuple[Any, Any, Any]:
    """A layer over a table with Adagrad; the same of PyTorch, and its optimizer."""
    rows = np.random.default_rng(seed).normal(size=(ROWS, DIM)).astype("f4")
    settings: Any = {
        "optimizer": "adagrad(lr=0.1, eps=1e-10, initial_accumulator=0)",
        **options,
    }
    table = sqlite_emb.Table.create(db, name, DIM, **settings)
    table.put(np.arange(ROWS), rows)
    weight = torch.nn.Parameter(torch.from_numpy(rows.copy()))
    return layers.Embedding(table), weight, torch.optim.Adagrad([weight], lr=0.1)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("how", ["plain", "ahead", "collection", "ahead 3"])
def test_training_is_that_of_torch(db: Any, seed: int, how: str) -> None:
    random = np.random.default_rng(seed)
    layer, weight, optimizer = pair(db, seed=seed, staleness=100)
    other, other_weight, other_optimizer = pair(db, "others", seed + 1)
    batches = [
        tuple(torch.from_numpy(random.integers(0, ROWS, (4, 3))) for _ in range(2))
        for _ in range(20)
    ]
    # What is read ahead lacks a step, unless no key of it is in the batch before.
    if "ahead" in how:
        batches = [
            (a % 5 + 5 * (i % 6), b % 5 + 5 * (i % 6)) for i, (a, b) in enumerate(batches)
        ]
    loader: Any = batches
    if "ahead" in how:
        depth = int(how[5:] or 1)
        loader = layers.Ahead(batches, lambda b: {layer: b[0], other: b[1]}, depth)
    both = layers.Collection({"a": layer, "b": other})
    for keys, others in loader:
        if how == "collection":
            rows = both({"a": keys, "b": others})
            x, y = rows["a"], rows["b"]
        else:
            x, y = layer(keys), other(others)
        loss = (x * y).sum(-1).tanh().square().mean()
        loss.backward()
        u, v = weight[keys], other_weight[others]
        expected = (u * v).sum(-1).tanh().square().mean()
        for one in (optimizer, other_optimizer):
            one.zero_grad()
        expected.backward()
        for one in (optimizer, other_optimizer):
            one.step()
        assert torch.allclose(x, u, atol=1e-5) and torch.allclose(y, v, atol=1e-5)
        assert torch.allclose(loss, expected, atol=1e-5)
    assert np.allclose(layer.table.to_numpy()[1], weight.detach().numpy(), atol=1e-5)
    assert layer.table.release() == 0


# torch has weights with a sum alone.
@pytest.mark.parametrize("mode, weighted", [("sum", False), ("mean", False), ("sum", True)])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("padding", [None, 3])
def test_bags_are_those_of_torch(
    db: Any, mode: str, seed: int, weighted: bool, padding: int | None
) -> None:
    random = np.random.default_rng(seed)
    layer, weight, _ = pair(db, seed=seed)
    bag = layers.EmbeddingBag(layer.table, mode, padding)
    oracle = torch.nn.EmbeddingBag(ROWS, DIM, mode=mode, padding_idx=padding, _weight=weight)
    optimizer = torch.optim.Adagrad(oracle.parameters(), lr=0.1)
    for step in range(6):
        lengths = random.integers(0, 6, 4)
        keys = torch.from_numpy(random.integers(0, ROWS, lengths.sum()))
        offsets = torch.from_numpy(np.cumsum(lengths) - lengths)
        if step % 3 == 2:
            keys, offsets = torch.from_numpy(random.integers(0, ROWS, (4, 5))), None
        factors = torch.from_numpy(random.normal(size=keys.shape).astype("f4"))
        arguments = (keys, offsets, factors if weighted else None)
        x, y = bag(*arguments), oracle(*arguments)
        assert torch.allclose(x, y, atol=1e-5)
        bag.eval()
        assert torch.allclose(bag(*arguments), y, atol=1e-5)
        bag.train()
        x.square().sum().backward()
        optimizer.zero_grad()
        y.square().sum().backward()
        optimizer.step()
        assert np.allclose(layer.table.to_numpy()[1], oracle.weight.detach().numpy(), atol=1e-5)


def test_include_last_offset(db: Any) -> None:
    layer, weight, _ = pair(db)
    keys, offsets = torch.tensor([3, 1, 3, 2]), torch.tensor([0, 2, 4])
    oracle = torch.nn.EmbeddingBag(
        ROWS, DIM, mode="sum", include_last_offset=True, padding_idx=3, _weight=weight
    )
    bag = layers.EmbeddingBag(layer.table, "sum", 3, True)
    assert torch.allclose(bag(keys, offsets), oracle(keys, offsets), atol=1e-6)


def test_padding(db: Any) -> None:
    layer, weight, _ = pair(db)
    padded = layers.Embedding(layer.table, padding_idx=3)
    before = layer.table.to_numpy()[1]
    keys = torch.tensor([[1, 3], [3, 2]])
    rows = padded(keys)
    assert (rows[keys == 3] == 0).all()
    assert torch.equal(rows[keys != 3], weight[keys][keys != 3])
    rows.sum().backward()
    changed = (layer.table.to_numpy()[1] != before).any(1)
    assert np.flatnonzero(changed).tolist() == [1, 2]
    assert (padded(torch.tensor([3, 3])) == 0).all()


def test_reads_without_a_step_are_not_counted(db: Any) -> None:
    layer, _, _ = pair(db, staleness=0)
    keys = torch.tensor([1, 2])
    layer.eval()
    assert not layer(keys).requires_grad
    layer.train()
    with torch.no_grad():
        layer(keys)
    assert layer.table.release() == 0
    rows = layer(keys)
    assert rows.requires_grad
    assert layer.table.release() == 2


def test_keys_of_texts(db: Any) -> None:
    layer = layers.Embedding.create(
        db, "words", 2, text_keys=True, optimizer="sgd(lr=1)", initializer="constant(value=1)"
    )
    layer(["a", "b", "a"]).sum().backward()
    assert layer.table.get(["a", "b"]).tolist() == [[-1, -1], [0, 0]]
    with pytest.raises(ValueError, match="texts"):
        layers.Embedding(layer.table, padding_idx=1)


def test_the_learning_rate_of_a_schedule(db: Any) -> None:
    layer = layers.Embedding.create(db, "items", 1, optimizer="sgd(lr=1)", lr=0.5)
    for lr in (0.5, 0.25, None):
        layer.lr = lr
        layer(torch.tensor([1])).sum().backward()
    assert layer.table.get(1).tolist() == [-1.75]


@pytest.mark.parametrize("wrong", [{"max_norm": 1.0}, {"scale_grad_by_freq": True}])
def test_arguments_of_torch_that_are_refused(db: Any, wrong: dict[str, Any]) -> None:
    layer, _, _ = pair(db)
    for kind in (layers.Embedding, layers.EmbeddingBag):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            kind(layer.table, **wrong)
    with pytest.raises(ValueError, match="maximum"):
        layers.EmbeddingBag(layer.table, "max")
    with pytest.raises(TypeError, match="num_embeddings"):
        layers.Embedding(1000, 64)


def test_wrong_calls(db: Any) -> None:
    layer, _, _ = pair(db)
    with pytest.raises(sqlite_emb.DTypeError, match="integers"):
        layer(torch.tensor([1.5]))
    with pytest.raises(sqlite_emb.DTypeError, match=r"pass keys.cpu\(\)"):
        layer(torch.tensor([1], device="meta"))
    with pytest.raises(RuntimeError, match="second derivative"):
        layer(torch.tensor([1])).sum().backward(create_graph=True)
    bag = layers.EmbeddingBag(layer.table, "sum")
    with pytest.raises(ValueError, match="per_sample_weights"):
        bag(torch.tensor([[1]]), None, torch.ones(1, 1, requires_grad=True))
    with pytest.raises(ValueError, match="batches"):
        layers.Ahead([], dict, 0)
    without = layers.Embedding.create(db, "without", 2)
    with pytest.raises(sqlite_emb.Error, match="optimizer="):
        without(torch.tensor([1])).sum().backward()


def test_bfloat16_and_gradients_of_odd_layout(db: Any) -> None:
    layer = layers.Embedding.create(db, "items", 2, optimizer="sgd(lr=1)")
    layer.table.put(torch.tensor([1]), torch.ones(1, 2, dtype=torch.bfloat16))
    rows = layer(torch.tensor([[1, 1]]))
    rows.to(torch.bfloat16).sum().backward()  # an expanded gradient
    assert layer.table.get(1).tolist() == [-1, -1]
    layer(torch.tensor([1])).double().t().sum().backward()
    assert layer.table.get(1).tolist() == [-2, -2]
    layer.table.put(1, torch.ones(2, requires_grad=True))


def test_state(tmp_path: Path) -> None:
    db = sqlite_emb.connect(tmp_path / "app.db")
    layer, _, _ = pair(db)
    model = torch.nn.Sequential(layer, torch.nn.Linear(DIM, 1))
    assert model.state_dict()["0._extra_state"]["snapshot"] is None
    model(torch.tensor([1, 2])).sum().backward()
    rows, state = layer.table.to_numpy()[1], layer.table.peek([1])
    layer.snapshot("best")
    file = tmp_path / "model.pt"
    torch.save(model.state_dict(), file)
    for _ in range(3):
        model(torch.tensor([1, 2, 77])).sum().backward()
    assert not np.array_equal(layer.table.peek([1]), state) and len(layer.table) == ROWS + 1
    model.load_state_dict(torch.load(file))
    assert np.array_equal(layer.table.to_numpy()[1], rows)
    other = layers.Embedding.create(db, "other", 2)
    with pytest.raises(Exception, match="2|5"):
        torch.nn.Sequential(other, torch.nn.Linear(DIM, 1)).load_state_dict(torch.load(file))
    assert len(layer.state_dict()) == 1 and list(layer.parameters()) == []


def test_copies_and_words(tmp_path: Path) -> None:
    db = sqlite_emb.connect(tmp_path / "app.db")
    layer, _, _ = pair(db)
    same = copy.deepcopy(layer)
    same(torch.tensor([1])).sum().backward()
    assert torch.equal(layer(torch.tensor([1])), same(torch.tensor([1])))
    assert "'items', 5" in repr(layer)
    assert layer.num_embeddings == ROWS and layer.embedding_dim == DIM


def test_a_batch_read_ahead_and_not_used(db: Any) -> None:
    layer, weight, _ = pair(db, staleness=10)
    batches = [torch.tensor([i, i + 1]) for i in range(6)]
    loader = layers.Ahead(batches, lambda batch: {layer: batch}, 2)
    for i, batch in enumerate(loader):
        if i == 3:
            break
        if i != 1:
            assert torch.equal(layer(batch), weight[batch])
            layer.table.put(batch, weight[batch])
    del loader
    assert not layer._begun
    layer.release()
    assert torch.equal(layer(batches[5]), weight[batches[5]])

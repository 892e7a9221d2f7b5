"""Context trees: the sparse form is the textbook's, and stays small."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentaccel.predict.tree import ALPHA, MOST_COUNTED, Mixture, Tree, fixed_share

SYMBOLS = ("a", "b", "c", "d")
PASTS = st.lists(st.sampled_from(SYMBOLS), max_size=60)


class Dense:
    """Context-tree weighting with every symbol scored in every context."""

    def __init__(self, symbols: tuple[str, ...], order: int) -> None:
        self.symbols, self.order = symbols, order
        self.counts: dict[tuple[str, ...], dict[str, int]] = {}
        self.odds: dict[tuple[str, ...], float] = {}

    def own(self, context: tuple[str, ...], symbol: str) -> float:
        counts = self.counts.get(context, {})
        return (counts.get(symbol, 0) + ALPHA) / (sum(counts.values()) + ALPHA * len(self.symbols))

    def weight(self, context: tuple[str, ...]) -> float:
        return 1 / (1 + math.exp(-max(-30.0, min(30.0, self.odds.get(context, 0.0)))))

    def contexts(self, past: list[str]) -> list[tuple[str, ...]]:
        return [tuple(past[len(past) - depth :]) for depth in range(min(self.order, len(past)), -1, -1)]

    def predict(self, past: list[str]) -> dict[str, float]:
        mixed: dict[str, float] | None = None
        for context in self.contexts(past):
            if context and context not in self.counts:
                continue
            w = self.weight(context)
            own = {symbol: self.own(context, symbol) for symbol in self.symbols}
            mixed = own if mixed is None else {one: w * own[one] + (1 - w) * mixed[one] for one in self.symbols}
        assert mixed is not None
        return mixed

    def update(self, past: list[str], symbol: str) -> None:
        deeper: float | None = None
        for context in self.contexts(past):
            own, w = self.own(context, symbol), self.weight(context)
            if deeper is None:
                deeper = own
            else:
                odds = self.odds.get(context, 0.0) + math.log(own) - math.log(deeper)
                self.odds[context] = max(-30.0, min(30.0, odds))
                deeper = w * own + (1 - w) * deeper
            counts = self.counts.setdefault(context, {})
            counts[symbol] = counts.get(symbol, 0) + 1


@given(PASTS, st.integers(0, 5))
def test_the_sparse_tree_says_what_the_dense_one_says(sequence: list[str], order: int) -> None:
    sparse, dense = Tree(SYMBOLS, order=order), Dense(SYMBOLS, order)
    for at, symbol in enumerate(sequence):
        told, expected = sparse.predict(sequence[:at]), dense.predict(sequence[:at])
        for one in SYMBOLS:
            assert told.of(one) == pytest.approx(expected[one])
        sparse.update(sequence[:at], symbol)
        dense.update(sequence[:at], symbol)


@given(PASTS)
def test_probabilities_sum_to_one_at_most(sequence: list[str]) -> None:
    tree = Tree(SYMBOLS)
    mixture = Mixture((tree, Tree(SYMBOLS)))
    for at, symbol in enumerate(sequence):
        assert sum(tree.predict(sequence[:at]).of(one) for one in SYMBOLS) <= 1 + 1e-9
        assert sum(mixture.predict(sequence[:at]).values()) <= 1 + 1e-9
        mixture.update(sequence[:at], [symbol])


def test_a_longer_context_tells_what_a_shorter_one_cannot() -> None:
    tree, past = Tree("abx"), list("axaxbxbx" * 20)
    for at, symbol in enumerate(past):
        tree.update(past[:at], symbol)
    assert tree.predict(list("bxax")).of("a") > 0.8
    assert tree.predict(list("axbx")).of("b") > 0.8


def test_a_tree_stays_within_its_bound_and_still_knows_what_comes_often() -> None:
    tree, chance, most = Tree(["often", "then"], most_nodes=300), random.Random(1), 0
    for _ in range(2000):
        noise = [f"n{chance.randrange(200)}" for _ in range(5)]
        tree.update(noise, f"n{chance.randrange(200)}")
        tree.update([*noise, "often"], "then")
        most = max(most, tree.nodes)
        assert all(len(node.counts) <= MOST_COUNTED + 16 for node in (tree.root, *tree.root.below.values()))
    assert 100 < most <= 300
    assert tree.nodes == sum(1 for _ in tree.walk())
    assert tree.predict(["often"]).of("then") > 0.9


def test_the_order_in_which_symbols_are_named_changes_nothing() -> None:
    one, other = Tree("abc"), Tree("cab")
    for tree in (one, other):
        for _ in range(5):
            tree.update("a", "b")
    assert one.predict("a").counted == other.predict("a").counted


def test_a_tree_that_has_been_wrong_for_long_comes_back() -> None:
    weights: tuple[float, ...] = (0.5, 0.5)
    for _ in range(200):
        weights = fixed_share(weights, (0.9, 0.1))
    assert weights[0] > 0.9
    for _ in range(5):
        weights = fixed_share(weights, (0.1, 0.9))
    assert weights[1] > 0.9
    assert sum(weights) == pytest.approx(1)

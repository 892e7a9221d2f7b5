"""Context-tree weighting over symbols: a Bayesian mixture over all prunings of a tree of contexts.

Willems, Shtarkov and Tjalkens, "The context-tree weighting method" (1995), with a Dirichlet estimator in each node, in
the sparse form: an update walks one path, and a prediction scores only the symbols that were counted on the path that
matches. All others share one base mass, so the time does not grow with the number of tools.

A node of depth d stands for the last d symbols. Its own estimate has the weight w, what lies deeper the rest; log(w /
(1 - w)) is the sum of log(own) - log(deeper) over all outcomes that it has seen.

**Memory.** A tree holds at most `MOST_NODES` nodes, and a node at most `MOST_COUNTED` counts and a few: some 500 bytes
a node, 10 MB a tree. Where it is full, the contexts that were met least often go, deepest first, until half of it is
free.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

ORDER = 5
ALPHA = 0.1
"""Weight of the prior on each symbol; orders 3 to 8 and weights 0.02 to 0.5 differ little."""
MOST_NODES = 20_000
MOST_COUNTED = 48
"""Outcomes counted in one node; the rarest are forgotten, and count among those never seen."""
_SPARE = 16
"""How far a node's counts run over before they are cut back: cutting costs a sort."""
MOST_SYMBOLS = 4096
_FIRM = 30.0
"""Bound of the log odds, beyond which the weight is 0 or 1 in all but name."""


class Node:
    """One context."""

    __slots__ = ("below", "counts", "odds", "total", "weight")

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.total = 0
        self.odds = 0.0
        self.weight = 0.5
        self.below: dict[str, Node] = {}


class Outlook:
    """What one tree expects next: a probability for every symbol, known or not."""

    __slots__ = ("_base", "counted")

    def __init__(self, counted: dict[str, float], base: float) -> None:
        self.counted = counted
        """The symbols that were counted in contexts like this one."""
        self._base = base

    def of(self, symbol: str) -> float:
        return self.counted.get(symbol, self._base)


class Tree:
    """Learns which symbol follows which context.

    >>> tree = Tree(["read", "write"])
    >>> for _ in range(20):
    ...     _ = tree.update(["read"], "write"), tree.update(["write"], "read")
    >>> tree.predict(["read"]).of("write") > 0.9
    True
    """

    __slots__ = ("_most", "nodes", "order", "root", "symbols")

    def __init__(self, symbols: Iterable[str] = (), *, order: int = ORDER, most_nodes: int = MOST_NODES) -> None:
        self.symbols = dict.fromkeys(sorted(symbols))
        """What may come next, as far as is known."""
        self.order = order
        self.root = Node()
        self.nodes = 1
        self._most = most_nodes

    def knows(self, symbols: Iterable[str]) -> None:
        """Let `symbols` be among what may come next."""
        for symbol in symbols:
            if symbol not in self.symbols and len(self.symbols) < MOST_SYMBOLS:
                self.symbols[symbol] = None

    def predict(self, past: Sequence[str]) -> Outlook:
        """What follows `past`, the newest symbol last. Probabilities of the known symbols sum to at most 1."""
        prior = ALPHA * max(len(self.symbols), 1)
        remaining, base = 1.0, 0.0
        counted: dict[str, float] = {}
        node, end = self.root, len(past)
        for depth in range(self.order + 1):
            deeper = node.below.get(past[end - 1 - depth]) if depth < self.order and depth < end else None
            share = remaining if deeper is None else remaining * node.weight
            each = share / (node.total + prior)
            base += ALPHA * each
            if share > 1e-9:
                get = counted.get
                for symbol, count in node.counts.items():
                    counted[symbol] = get(symbol, 0.0) + count * each
            if deeper is None:
                break
            remaining -= share
            node = deeper
        for symbol in counted:
            counted[symbol] += base
        return Outlook(counted, base)

    def update(self, past: Sequence[str], symbol: str) -> float:
        """Learn that `symbol` followed `past`; how probable it was held."""
        if symbol not in self.symbols:
            self.knows((symbol,))
        prior = ALPHA * len(self.symbols)
        path = [self.root]
        node, end = self.root, len(past)
        for depth in range(min(self.order, end)):
            before = past[end - 1 - depth]
            deeper = node.below.get(before)
            if deeper is None:
                deeper = node.below[before] = Node()
                self.nodes += 1
            path.append(deeper)
            node = deeper
        below = 0.0
        for node in reversed(path):
            counts = node.counts
            count = counts.get(symbol, 0)
            own = (count + ALPHA) / (node.total + prior)
            if below:
                odds = node.odds + math.log(own / below)
                below += node.weight * (own - below)
                node.odds = odds = max(-_FIRM, min(_FIRM, odds))
                node.weight = 1.0 / (1.0 + math.exp(-odds))
            else:
                below = own
            counts[symbol] = count + 1
            node.total += 1
            if len(counts) > MOST_COUNTED + _SPARE:
                node.counts = _most_frequent(counts)
        if self.nodes > self._most:
            self._make_room()
        return below

    def _make_room(self) -> None:
        """Forget the contexts met least often. A context goes only together with all that are deeper than it."""
        totals = sorted((node.total for path, node in self.walk() if path), reverse=True)
        least = totals[min(self._most // 2, len(totals) - 1)] + 1

        def cut(node: Node) -> int:
            node.below = {symbol: one for symbol, one in node.below.items() if one.total >= least}
            return 1 + sum(map(cut, node.below.values()))

        self.nodes = cut(self.root)

    def walk(self) -> Iterator[tuple[tuple[str, ...], Node]]:
        """Every context, the newest symbol first, each before those that are deeper."""
        stack: list[tuple[tuple[str, ...], Node]] = [((), self.root)]
        while stack:
            path, node = stack.pop()
            yield path, node
            stack += [((*path, symbol), one) for symbol, one in node.below.items()]

    def add(self, path: Sequence[str], counts: dict[str, int], odds: float) -> None:
        """Add what another tree has counted in one context, the newest symbol first; shallow contexts come first."""
        node = self.root
        for symbol in path[: self.order]:
            deeper = node.below.get(symbol)
            if deeper is None:
                deeper = node.below[symbol] = Node()
                self.nodes += 1
            node = deeper
        for symbol, count in counts.items():
            node.counts[symbol] = node.counts.get(symbol, 0) + count
        self.knows(counts)
        if len(node.counts) > MOST_COUNTED + _SPARE:
            node.counts = _most_frequent(node.counts)
        node.total += sum(counts.values())
        node.odds = max(-_FIRM, min(_FIRM, node.odds + odds))
        node.weight = 1.0 / (1.0 + math.exp(-node.odds))
        if self.nodes > self._most:
            self._make_room()


def _most_frequent(counts: dict[str, int]) -> dict[str, int]:
    """The symbols counted most, the newer of equal ones: a symbol that has just come must be able to gain ground."""
    newest = list(counts.items())[::-1]
    newest.sort(key=lambda one: -one[1])
    kept = dict(newest[:MOST_COUNTED])
    return {symbol: count for symbol, count in counts.items() if symbol in kept}


# --- Three trees that learn at three speeds, mixed by which of them has been right of late ----------------------------
# The *fleet* has seen everything, the *workload* what agents like this one did, the *session* only itself. Their
# weights follow fixed share (Herbster and Warmuth, "Tracking the best expert", 1998): each is multiplied by the
# probability that its tree gave to what happened, and a small share is then dealt out anew, so that a tree which was
# wrong for long can come back when the loop changes what it does.

SHARE = 0.01
"""Of the weight, dealt out anew after every outcome."""
_FIRST = (0.475, 0.475, 0.05)
"""Weights of fleet, workload and session before anything has happened: the session has seen nothing."""


class Mixture:
    """The trees of one session, and how much each is believed."""

    __slots__ = ("known", "trees", "weights")

    def __init__(self, trees: Sequence[Tree], weights: Sequence[float] = _FIRST, known: int = 0) -> None:
        self.trees = tuple(trees)
        self.weights = tuple(weights[: len(self.trees)])
        self.known = known
        """How many trees, the first ones, are asked and not taught."""

    def predict(self, past: Sequence[str]) -> dict[str, float]:
        """Probabilities of what may come next, for the symbols that some tree has counted in a context like this."""
        outlooks = [tree.predict(past) for tree in self.trees]
        mixed: dict[str, float] = {}
        base = 0.0
        for weight, outlook in zip(self.weights, outlooks, strict=True):
            floor = outlook.of("")
            base += weight * floor
            get = mixed.get
            for symbol, probability in outlook.counted.items():
                mixed[symbol] = get(symbol, 0.0) + weight * (probability - floor)
        for symbol in mixed:
            mixed[symbol] += base
        return mixed

    def update(self, past: Sequence[str], symbols: Iterable[str]) -> None:
        """Learn that `symbols` followed `past`: one, or the several that one reply asked for side by side."""
        for symbol in symbols:
            said = [tree.predict(past).of(symbol) for tree in self.trees[: self.known]]
            said += [tree.update(past, symbol) for tree in self.trees[self.known :]]
            self.weights = fixed_share(self.weights, said)


def fixed_share(weights: Sequence[float], said: Sequence[float], share: float = SHARE) -> tuple[float, ...]:
    """The weights after an outcome to which the experts had given the probabilities `said`.

    >>> [round(one, 2) for one in fixed_share([0.5, 0.5], [0.9, 0.1])]
    [0.9, 0.1]
    """
    gained = [weight * max(one, 1e-12) for weight, one in zip(weights, said, strict=True)]
    total = sum(gained)
    return tuple((1.0 - share) * one / total + share / len(gained) for one in gained)

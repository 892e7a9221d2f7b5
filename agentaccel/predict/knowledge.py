"""What was learned over all sessions: how calls follow one another, where arguments come from, what was right.

It holds counts and templates: names of tools and arguments, paths in results, shapes. Of values it holds constants
alone, those that at least two sessions gave the same argument, and never of an argument that is said to be sensitive.

**Memory.** The fleet's tree and two for each of `MOST_WORKLOADS` workloads, together at most 180,000 nodes (see
`tree`); the tables of sources (see `tables`); `MOST_RULES` patterns; `MOST_OPENINGS` hashes of how sessions began;
three models of a few dozen numbers each. A few MB where the agents of one application are learned, about 100 MB where
every bound is reached.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentaccel.hashing import digest
from agentaccel.locks import Lock
from agentaccel.predict import patterns as dumps
from agentaccel.predict import resources
from agentaccel.predict.calibrate import Calibration
from agentaccel.predict.offers import Sensitive
from agentaccel.predict.rank import Logistic, beginning
from agentaccel.predict.tables import Tables
from agentaccel.predict.tree import Tree

MOST_WORKLOADS = 16
"""Workloads that have a tree of their own; the one used longest ago goes."""
MOST_WORKLOAD_NODES = 5_000
"""Of each of a workload's two trees."""
MOST_RULES = 4096
STATED = ("next", "soon", "next again", "soon again")
"""What is calibrated, and apart what is stated in sessions that repeat others, where more comes true."""
MOST_OPENINGS = 4096
"""Beginnings of sessions that are remembered; a session that begins like none of them repeats none."""
_DIGITS = 16
"""Of a hash."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """A pattern that was learned, for people."""

    words: str
    """The tool, and where each of its arguments comes from."""
    met: int
    """How often it gave a candidate."""
    right: int
    """How often that was asked for next."""
    soon: int
    """How often it was asked for soon, before anything may have written."""


class Rule:
    """How a pattern fared."""

    __slots__ = ("expected", "met", "right", "soon")

    def __init__(self) -> None:
        self.met = self.right = self.soon = self.expected = 0.0


class Knowledge:
    """What was learned, shared by all sessions of a `Predictor`. Whoever reads or changes its parts holds `lock`.

    `sensitive(tool, argument)` says whether the values of an argument must not be learned; `key` is what the beginnings
    of sessions are hashed with, so that nobody who has a dump alone can tell whether a session began with some text.
    """

    def __init__(self, *, sensitive: Sensitive | None = None, key: bytes = b"") -> None:
        self.lock = Lock()
        self.sensitive = sensitive
        self.fleet = Tree()
        self.workloads: dict[str, Tree] = {}
        """The workload used last stands last."""
        self.tables = Tables()
        self.rules: dict[str, Rule] = {}
        self.models: dict[str, Logistic] = {"next": beginning(), "soon": beginning()}
        self.stated: dict[str, Calibration] = {name: Calibration() for name in STATED}
        self.resources = resources.beginning()
        self.again: dict[str, Tree] = {}
        """By workload, of sessions that began like an earlier one; the one used last stands last."""
        self.openings: dict[str, float] = {}
        """Keyed hashes of what sessions began with, the newest last, and how many did."""
        self._key = key
        self._sessions = 0

    def next_session(self) -> int:
        """A number for a session that begins."""
        self._sessions += 1
        return self._sessions

    def tree_of(self, workload: str) -> Tree:
        """The tree of a workload."""
        return _tree_in(self.workloads, workload)

    def tree_again(self, workload: str) -> Tree:
        """The tree of those sessions of a workload that began like an earlier one."""
        return _tree_in(self.again, workload)

    def opening_of(self, text: str) -> str:
        """The keyed hash of what a session begins with."""
        return digest(text.encode("utf-8", "surrogatepass"), self._key).hex()[:_DIGITS]

    def began(self, opening: str, count: float = 1.0) -> None:
        """Note that so many sessions began with what has this hash."""
        self.openings[opening] = self.openings.pop(opening, 0.0) + count
        if len(self.openings) > MOST_OPENINGS:
            del self.openings[next(iter(self.openings))]

    def calibration(self, of: str, *, repeats: bool) -> Calibration:
        """What "next" and "soon" are worth where they are stated; `repeats`: in a session that repeats another."""
        return self.stated[f"{of} again" if repeats else of]

    def rule(self, name: str) -> Rule:
        """How a pattern fared; the patterns met least often make room for new ones."""
        rule = self.rules.get(name)
        if rule is None:
            if len(self.rules) >= MOST_RULES:
                by_use = sorted(self.rules, key=lambda one: self.rules[one].met)
                for one in by_use[: MOST_RULES // 4]:
                    del self.rules[one]
            rule = self.rules[name] = Rule()
        return rule

    def patterns(self, most: int = 100) -> tuple[Pattern, ...]:
        """The patterns that were right most often, best first."""
        with self.lock:
            best = sorted(self.rules.items(), key=lambda one: (-one[1].right, -one[1].soon, one[0]))[:most]
            return tuple(
                Pattern(words=words, met=int(rule.met), right=int(rule.right), soon=int(rule.soon))
                for words, rule in best
                if rule.right or rule.soon
            )

    def dump(self, shared: int = dumps.SHARED) -> dict[str, Any]:
        """All of it as JSON values; `load` makes it again. Of constants, those that so many sessions have had."""
        with self.lock:
            return dumps.dump_of(self, shared)

    @classmethod
    def load(cls, dump: object, *, sensitive: Sensitive | None = None, key: bytes = b"") -> Knowledge:
        """What `dump` gave, in this version or another; empty where it is nothing of the kind."""
        knowledge = cls(sensitive=sensitive, key=key)
        dumps.read_into(knowledge, dump)
        return knowledge

    def merge(self, other: Mapping[str, Any], less: Mapping[str, Any] | None = None) -> None:
        """Add what another process has learned, given as its dump, without `less`: the dump that both began with."""
        with self.lock:
            dumps.read_into(self, dumps.added({}, other, less) if less else other)


def _tree_in(trees: dict[str, Tree], workload: str) -> Tree:
    tree = trees.pop(workload, None) or Tree(most_nodes=MOST_WORKLOAD_NODES)
    trees[workload] = tree
    if len(trees) > MOST_WORKLOADS:
        del trees[next(iter(trees))]
    return tree

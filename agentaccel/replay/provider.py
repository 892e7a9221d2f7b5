"""The provider of a replay: every entry that any run has written, without the bounds of a session's ledger.

The algorithm is that of `cache.ledger`, from the same guide, and of its arithmetic this uses the very function. What
the ledger leaves open is decided here as the vendor's text reads: only markers behind the place that was read write
an entry, and where two requests wrote the same prefix before either could be read, the earlier reply makes it
readable and the longer life counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from agentaccel.cache.ledger import Mark, bill, charge, reach_of
from agentaccel.cache.marks import reaching
from agentaccel.facts import CacheFacts
from agentaccel.replay.runs import Step
from agentaccel.types import Expected, Usage


@dataclass(slots=True)
class _Held:
    """One entry. Mutable: reading it re-arms it."""

    label: str
    seconds: float
    expires: float
    """Exclusive."""
    visible: float
    """Inclusive."""


@dataclass(slots=True)
class Provider:
    """One provider's cache. Mutable: it is the state of a simulation, which serves requests in order of their start."""

    _entries: dict[bytes, _Held] = field(default_factory=dict)

    def serve(self, step: Step, marks: Sequence[Mark]) -> Usage:
        """Bill the request of `step` sent with `marks` (ascending), and keep what it writes.

        Marks on prefixes below the model's minimum do nothing. The counts add up to `step.total`.
        """
        prefix, facts, now = step.prefix, step.prefix.facts, step.started
        valid = reaching(step.tokens_at, marks, facts.min_tokens)
        if not valid:
            return Usage(input=step.total, read=0, write={})
        hashes = prefix.hashes
        if facts.ages == "blocks":
            return self._serve_blocks(step, valid)
        done = bill(prefix, valid, lambda i: self._live(hashes[i], now), step.tokens_at, facts.positions)
        for held in filter(None, map(self._entries.get, hashes[: done.hit + 1])):
            if held.visible <= now < held.expires:
                held.expires = max(held.expires, now + held.seconds)
        read = step.tokens_at(done.hit)
        for mark in valid:
            if step.tokens_at(mark.at) > read:
                self._write(hashes[mark.at], mark.ttl, step)
        return _usage(done.expected, step.total)

    def _serve_blocks(self, step: Step, marks: Sequence[Mark]) -> Usage:
        """The same where every block has the lifetime that it was written with: what is read is the longest prefix of
        blocks that are all held, wherever it ends.
        """
        prefix, facts, now = step.prefix, step.prefix.facts, step.started
        hit = -1
        while hit < marks[-1].at and self._live(prefix.hashes[hit + 1], now):
            hit += 1
            held = self._entries[prefix.hashes[hit]]
            held.expires = max(held.expires, now + held.seconds)
        for i in range(hit + 1, marks[-1].at + 1):
            label = next(mark.ttl for mark in marks if mark.at >= i)
            self._write(prefix.hashes[i], label, step)
        reach = reach_of(marks, step.tokens_at)
        return _usage(charge(facts, reach, read=step.tokens_at(hit), total=step.total), step.total)

    def _live(self, hash_: bytes, now: float) -> bool:
        held = self._entries.get(hash_)
        return held is not None and held.visible <= now < held.expires

    def _write(self, hash_: bytes, label: str, step: Step) -> None:
        seconds = _seconds(step.prefix.facts, label)
        fresh = _Held(label, seconds, step.started + seconds, step.visible)
        old = self._entries.get(hash_)
        if old is not None and step.started < old.expires:
            fresh.visible = min(old.visible, fresh.visible)
            if old.expires > fresh.expires:
                fresh.label, fresh.seconds, fresh.expires = old.label, old.seconds, old.expires
        self._entries[hash_] = fresh


def _seconds(facts: CacheFacts, label: str) -> float:
    ttl = facts.ttl(label)
    return ttl.seconds if ttl is not None else 0.0


def _usage(expected: Expected, total: int) -> Usage:
    """Counts are whole, because the tokens of a step are."""
    write = {label: int(tokens) for label, tokens in expected.write.items() if tokens}
    return Usage(input=total, read=int(expected.read), write=write)

"""How many other conversations a server was asked for since it was last asked for this one: its reuse distance.

A server keeps as many prompts as it has room for, and gives up first what was used longest ago; so what decides whether
a prefix is still there is how much else was computed since (Mattson et al., "Evaluation techniques for storage
hierarchies", 1970). How much it can stand is learned (`Beliefs.alive`). Of this process alone: what other users of the
server ask for is not seen.

>>> reuse = Reuse()
>>> for conversation in ("a", "b", "c", "b"):
...     reuse.asked(("vllm", "qwen3"), conversation)
>>> [reuse.others(("vllm", "qwen3"), one) for one in ("a", "b", "c", "d")]
[2, 0, 1, None]
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field

from agentaccel.locks import Lock

_MOST_CONVERSATIONS = 1024
"""Conversations remembered of one model on one server; with more in between, nothing is known."""


@dataclass(slots=True)
class Reuse:
    """Which conversations one `Accel` has asked each model of each server for, the last one last. Thread-safe."""

    _asked: dict[Hashable, OrderedDict[str, None]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def asked(self, place: Hashable, conversation: str) -> None:
        """A request of the conversation goes out to a model on a server."""
        with self._lock:
            there = self._asked.setdefault(place, OrderedDict())
            there[conversation] = None
            there.move_to_end(conversation)
            if len(there) > _MOST_CONVERSATIONS:
                there.popitem(last=False)

    def others(self, place: Hashable, conversation: str) -> int | None:
        """How many others were asked for since it was; None where it never was, or too long ago."""
        with self._lock:
            there = self._asked.get(place, OrderedDict[str, None]())
            if conversation not in there:
                return None
            return next(n for n, one in enumerate(reversed(there)) if one == conversation)

"""What one session may take from the others of its process: prefixes that they have written or read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from agentaccel.cache.ledger import Entry, Ledger
from agentaccel.cache.state import State

Lent = Mapping[bytes, Entry]
"""Entries of other sessions, by the hash of their prefix."""


def with_lent(state: State, lent: Lent) -> State:
    """What a session holds once it knows what others do."""
    return replace(state, ledger=Ledger({**state.ledger.entries, **lent})) if lent else state


def without_unread(state: State, lent: Lent) -> State:
    """The same without what it was lent and did not read: that is for the others to tell."""
    if not lent:
        return state

    def kept(ledger: Ledger) -> Ledger:
        return Ledger({hash_: one for hash_, one in ledger.entries.items() if lent.get(hash_) is not one})

    shadow = kept(state.shadow)
    return replace(state, ledger=shadow if state.shadow is state.ledger else kept(state.ledger), shadow=shadow)

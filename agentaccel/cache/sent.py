"""One request as it went out and came back: what settling it starts from."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from agentaccel.cache.ledger import Entry, Mark
from agentaccel.cache.prefix import Prefixes
from agentaccel.cache.standing import Standing
from agentaccel.types import Usage

Held = Mapping[int, Entry]
"""Entries by the segment of this prompt that they end with."""


class Sent(NamedTuple):
    """One request as it went out and came back."""

    prefix: Prefixes
    """The prompt as sent; markers are no part of it."""
    marks: tuple[Mark, ...]
    """All markers as sent."""
    written_marks: tuple[Mark, ...]
    """The user's markers alone."""
    started: float
    visible: float
    """When the reply began; entries can be read from then on."""
    usage: Usage
    ours: bool
    """Whether a marker of ours was among them, or the prompt was arranged."""
    written: Prefixes | None = None
    """The prompt as the user wrote it, where it was arranged before it was sent; `written_marks` stand in it."""
    awaits: str = ""
    """As in `State`: what its reply asked for."""

    first: bool = False
    """Whether it is the first of its session that was answered, which may know what another one has come to."""

    standing: Standing | None = None
    """The decision that it was sent by, where that may stand."""

    lent: Mapping[bytes, Entry] = MappingProxyType({})
    """Of what the session holds, what is only known from others, by the hash of the prefix."""

    intact: int = 0
    """Bytes of it in front of all that was arranged."""

    @property
    def as_written(self) -> Prefixes:
        """The prompt as the user wrote it."""
        return self.written if self.written is not None else self.prefix

"""One request as it went out and came back: what settling it starts from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from agentaccel.cache.ledger import Entry, Mark
from agentaccel.cache.prefix import Prefixes
from agentaccel.types import Usage

Held = Mapping[int, Entry]
"""Entries by the segment of this prompt that they end with."""


class Sent(NamedTuple):
    """One request as it went out and came back."""

    prefix: Prefixes
    """The prompt as sent, which is the prompt as written: markers are no part of it."""
    marks: tuple[Mark, ...]
    """All markers as sent."""
    written_marks: tuple[Mark, ...]
    """The user's markers alone."""
    started: float
    visible: float
    """When the reply began; entries can be read from then on."""
    usage: Usage
    ours: bool
    """Whether a marker of ours was among them."""

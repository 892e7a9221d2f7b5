"""The forms of a request on its way to an edited one, and what they are weighed by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from agentaccel.cache.prefix import Prefixes
from agentaccel.cache.scale import Scale
from agentaccel.facts import Wire
from agentaccel.loop.edits import Terms
from agentaccel.types import Prompt, Request


class Form(NamedTuple):
    """A request, and as it reads."""

    request: Request
    prompt: Prompt


class Shape(NamedTuple):
    """A prompt as its provider is believed to see it before it is edited."""

    prefix: Prefixes
    tokens: Scale
    terms: Terms


class Summary(NamedTuple):
    """A text that stands for the messages before `cut`."""

    cut: int
    """The first message that is kept, in the list as the user wrote it."""
    identity: bytes
    """What the messages before it are known by."""
    text: str
    """Empty where it was asked for and is not there yet."""


class Edits(NamedTuple):
    """What stands in the place of parts of a history since earlier requests, where only this process knows it."""

    distilled: Mapping[bytes, str] = {}
    """Texts by what the results are known by whose place they take."""
    summary: Summary | None = None


class Written(NamedTuple):
    """A request as the user wrote it, with what is known of summaries for it."""

    prompt: Prompt
    wire: Wire
    summary: Summary | None
    """The one that is in use."""
    pending: Summary | None
    """The one that was asked for last."""
    ready: Mapping[bytes, str | None]
    """What the user's functions have made by now, None where they made nothing."""

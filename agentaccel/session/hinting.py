"""What a plan says of text that keeps changing, and of a tool list in another order, where nobody consented to more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from agentaccel.cache.beliefs import PARAMETERS, TAIL
from agentaccel.cache.observe import Observed
from agentaccel.cache.prefix import Prefixes
from agentaccel.facts import priors
from agentaccel.policy import CachePolicy
from agentaccel.prompt.drift import Print, drift
from agentaccel.prompt.shapes import stamps
from agentaccel.providers.arranging import texts_of
from agentaccel.types import Drift, Request

_LIKELY = 0.5
"""The prior from which text is named by its shape alone, before anything was compared."""

_LONGEST = 1 << 16
"""Characters of a text that are looked at."""


class Seen(NamedTuple):
    """What is at hand when a request is planned."""

    request: Request
    prefix: Prefixes
    observed: Observed
    print: Print | None
    """Of the prompt before; None on a first request."""
    now: float


class Hints(NamedTuple):
    """What is said."""

    reasons: tuple[str, ...] = ()
    drift: Drift | None = None
    """Where the prompt leaves the one before, as far as it had to be found out for that."""


NO_HINTS = Hints()


def hints(seen: Seen, policy: CachePolicy) -> Hints:
    """What the beginning of the prompt loses by changing, and the consent that would mend it. Of a prompt that only
    grew, nobody asks."""
    prompt, facts = seen.prefix.prompt, seen.prefix.facts
    if prompt.held or prompt.illegal or not prompt.messages or not facts.operator_message:
        return NO_HINTS
    if seen.print is None:
        return Hints(() if policy.move_volatile else tuple(_by_shape(seen)))
    places = [one.topic.partition("/")[2] for one in seen.observed.stability if not one.yes]
    if not any([place != TAIL and not place.startswith((PARAMETERS, "messages", "input")) for place in places]):
        return NO_HINTS
    found = drift(seen.print, prompt, seen.request, facts)
    if found is None or found.level not in ("tools", "system"):
        return Hints(drift=found)
    return Hints(tuple(_of_drift(found, seen, policy)), found)


def _by_shape(seen: Seen) -> Iterator[str]:
    known = priors().moves
    for text in texts_of(seen.request, seen.prefix.prompt):
        found = next((s for s in stamps(text.text[:_LONGEST], seen.now) if known.get(s.shape, 0.0) >= _LIKELY), None)
        if found is not None:
            behind = _behind(seen, text.segment)
            yield (
                f"{text.name} has a {found.shape}: where it changes, about {behind:.0f} tokens behind it are not read; "
                "CachePolicy(move_volatile=True) consents to moving it to the end"
            )
            return


def _of_drift(found: Drift, seen: Seen, policy: CachePolicy) -> Iterator[str]:
    if found.where == "tools" or found.likely == "key order":
        if not policy.freeze_tools:
            yield (
                f"{found.likely} in {found.where}: about {_behind(seen, 0):.0f} tokens from there on are not read; "
                "CachePolicy(freeze_tools=True) consents to keeping what came first"
            )
    elif not policy.move_volatile:
        start = 0 if found.level == "tools" else seen.prefix.starts[1]
        yield (
            f"{found.where} changed ({found.likely}): about {_behind(seen, start):.0f} tokens from there on are not "
            "read; CachePolicy(move_volatile=True) consents to moving what changes to the end"
        )


def _behind(seen: Seen, segment: int) -> float:
    before = seen.prefix.sizes[segment - 1] if segment else 0
    return (seen.prefix.size - before) / seen.prefix.facts.bytes_per_token

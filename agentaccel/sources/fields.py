"""Reading fields of logs that nobody specified: a value of the wrong kind is as good as absent."""

from __future__ import annotations

import functools
import re
from collections.abc import Hashable, Mapping
from collections.abc import Set as AbstractSet
from datetime import datetime

from agentaccel.facts import PROVIDERS, cache_facts, platforms
from agentaccel.types import MOST_TOKENS, UNSPLIT, Metered, Usage
from agentaccel.values import maker
from agentaccel.wire.anthropic.usage import DETAILS, READ, WRITTEN
from agentaccel.wire.anthropic.usage import metered as metered_beside
from agentaccel.wire.openai.usage import metered as metered_inside

_EARLIEST, _LATEST = 946_684_800.0, 4_102_444_800.0
"""2000 and 2100: a time outside was not a time."""

_usage = maker(Usage)


def text(holder: Mapping[str, object], key: str) -> str | None:
    """A string that is not empty."""
    value = holder.get(key)
    return value if isinstance(value, str) and value else None


def mapping(holder: Mapping[str, object], key: str) -> Mapping[str, object]:
    """An object; an empty one where there is none."""
    value = holder.get(key)
    return value if isinstance(value, dict) else {}


def count(holder: Mapping[str, object], key: str) -> int | None:
    """A status, or a number of times."""
    value = holder.get(key)
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else None


def blocks(message: Mapping[str, object]) -> list[Mapping[str, object]]:
    """The content blocks of a message; none where its content is a string."""
    content = message.get("content")
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def seconds(value: object) -> float | None:
    """Seconds since the epoch, from such a number or from ISO 8601."""
    if isinstance(value, str):
        try:
            at = datetime.fromisoformat(value).timestamp()
        except (ValueError, OverflowError, OSError):
            return None
    elif type(value) is float or type(value) is int:
        at = value
    else:
        return None
    return float(at) if _EARLIEST <= at <= _LATEST else None


def lifetimes_told(reported: Mapping[str, object]) -> set[str]:
    """The labels of the lifetimes that a usage says to have written for."""
    found = set[str]()
    splits = [reported.get("cache_creation")]
    splits += [mapping(reported, place).get("cache_write_tokens_details") for place in DETAILS if place in reported]
    for split in splits:
        if isinstance(split, dict):
            found.update(
                label
                for name, told in split.items()
                if told and type(told) is int and told > 0 and (label := _label(name)) is not None
            )
    return found


_TTL_KEY = re.compile(r"(?:ephemeral|ttl)_(\w+?)(?:_input)?_tokens")
"""How the providers name the tokens written with one lifetime."""


@functools.lru_cache(maxsize=256)
def _label(key: str) -> str | None:
    """The lifetime that a field is about; None where it is about none."""
    match = _TTL_KEY.fullmatch(key)
    return match[1] if match else None


def lifetime_among(*told: AbstractSet[str], default: str) -> str:
    """The label of what was written where nobody says for how long: that of the other requests, the nearest first.

    `UNSPLIT` where those have written for several; `default` where nothing tells.

    >>> [lifetime_among(own, {"1h"}, default="5m") for own in (set(), {"5m"}, {"5m", "1h"})]
    ['1h', '5m', 'unsplit']
    """
    for labels in told:
        if labels:
            return UNSPLIT if len(labels) > 1 else next(iter(labels))
    return default


def usual_lifetime(provider: str, platform: str, model: str) -> str:
    """The label of the lifetime for which the provider writes where nothing else is asked for."""
    if provider not in PROVIDERS or platform not in platforms(provider):
        return "5m"
    facts = cache_facts(model, provider=provider, platform=platform)
    return facts.ttls[0].label if facts is not None and facts.ttls else "5m"


_BESIDE = frozenset({READ, WRITTEN, "cache_creation", "iterations"})


def metered_of(reported: Mapping[str, object], default_ttl: str) -> Metered:
    """What a reply with that usage was billed for.

    Two shapes are known: cache counters beside an `input_tokens` that leaves them out, and details inside a total.
    """
    if "input_tokens" in reported and not _BESIDE.isdisjoint(reported):
        return metered_beside(reported, default_ttl)
    return metered_inside(reported, default_ttl)


# --- Telling what an import has met before, in copies that may lack a part of what names it ---------------------------


class Identities:
    """Things met before, by the names that each has: the first kind of name that two of them both have says whether
    they are the same.

    Kept is a number for each name, made of it and of which kinds stand before it.

    >>> seen = Identities()
    >>> [seen.met(*one) for one in (("m1", "r1"), (None, "r1"), ("m2", "r1"), ("m1",))]
    [False, True, False, True]
    >>> [seen.met(*one) for one in (("m3", None, "u3"), (None, "r3", "u3"), (None, None, "u3"), (None, None, None))]
    [False, True, True, False]
    """

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def met(self, *names: Hashable | None) -> bool:
        """True if what has these names, one of each kind, has been met before; from now on it has been."""
        seen, before, own, found = self._seen, 0, 1, []
        for name in names:
            if name is not None:
                hashed = hash(name)
                if hashed + own in seen or (before != own - 1 and self._told(hashed, own, before)):
                    for place, other in enumerate(names):
                        self.also(other, place)
                    return True
                found.append(hashed + (own | before))
                before |= own
            own <<= 1
        seen.update(found)
        return False

    def also(self, name: Hashable | None, place: int) -> None:
        """A thing that has been met has this name, too, of the kind `place`; it has names of the kinds before."""
        if name is not None:
            self._seen.add(hash(name) + (2 << place) - 1)

    def _told(self, hashed: int, own: int, before: int) -> bool:
        """True if that name of the kind `own` is one of a thing that has no name of the kinds in `before`."""
        return any(hashed + (own | others) in self._seen for others in range(own) if not others & before)

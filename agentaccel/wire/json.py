"""Looking at JSON values that a sender made: what is not of the expected form is nothing, never an error."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from enum import Enum
from sys import intern
from typing import Any, NamedTuple, Protocol, TypeGuard, TypeVar

import orjson

from agentaccel.types import MOST_TOKENS, NO_USAGE, Metered, Path, Usage


def is_object(value: Any) -> TypeGuard[Mapping[str, Any]]:
    """Whether `value` is a JSON object. What decoders make is told by its type: a check against `Mapping` takes four
    times as long."""
    kind = type(value)
    return kind is dict or (kind not in _NO_OBJECTS and isinstance(value, Mapping))


_NO_OBJECTS = frozenset({list, str, int, float, bool, type(None)})


def items(value: Any) -> list[Any] | tuple[Any, ...]:
    """`value` where it is a list, else nothing."""
    return value if type(value) is list or isinstance(value, list | tuple) else ()


def name_of(value: Any) -> str:
    """A name that every part of agentaccel can write down; lone surrogates in it are replaced.

    An enumeration's member is what encoders write for it.

    >>> class Role(str, Enum):
    ...     USER = "user"
    >>> name_of(Role.USER)
    'user'
    """
    if type(value) is str and value.isascii():
        return value
    if isinstance(value, Enum):
        return name_of(value.value)
    return str(value).encode("utf-8", "replace").decode()


def kind_of(block: Any) -> str:
    """The type that a block names."""
    return word(block.get("type") or "opaque") if is_object(block) else "opaque"


def word(value: Any) -> str:
    """A name of which thousands of segments hold the same: as one object, where it is plain."""
    return intern(value) if type(value) is str and value.isascii() else name_of(value)


def count_of(raw: Mapping[str, Any], name: str) -> int | None:
    """The count that a provider reports under `name`; None where it reports none, or one that cannot be.

    >>> count_of({"tokens": 5}, "tokens"), count_of({"tokens": -1}, "tokens"), count_of({"tokens": 2**62}, "tokens")
    (5, None, None)
    """
    value = raw.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_TOKENS else None


def seconds_of(raw: Mapping[str, Any], name: str) -> float | None:
    """The milliseconds under `name`, in seconds; None where there are none, or none that a clock can have told."""
    value = raw.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 1e-3 <= value < 1e12:  # to thirty years
        return None
    return value / 1000.0


def agreed(
    counts: Mapping[str, int | None], fits: Callable[[int], bool] = lambda count: False
) -> tuple[int | None, tuple[str, ...]]:
    """The count that several names of one thing tell, and the names where they contradict one another.

    Of counts that differ, the one that `fits` all the rest of what was reported is taken; else none is.

    >>> agreed({"a": 5, "b": None, "c": 5}), agreed({"a": 5, "b": 0}), agreed({"a": 5, "b": 0}, lambda count: count < 3)
    ((5, ()), (None, ('a', 'b')), (0, ()))
    """
    told = {name: count for name, count in counts.items() if count is not None}
    values = set(told.values())
    if len(values) > 1:
        values = set(filter(fits, values))
    if len(values) == 1:
        return values.pop(), ()
    return None, tuple(told)


def below(whole: int | None, *parts: int | None) -> bool:
    """True if a sum is told that is less than its parts, as far as those are told: one of the counts is wrong.

    >>> below(50, 90, 10), below(90, 90, None), below(None, 90, 10)
    (True, False, False)
    """
    return whole is not None and whole < sum(part or 0 for part in parts)


def possible(usage: Usage, whole: int | None = None) -> Usage:
    """`usage`, whose input is said to be inclusive of what the cache did, as far as that can be.

    The counters of the cache stand beside the input if the provider's own sum of all is the `whole` with them. Where
    the cache did more than the input has room for, nobody knows else what they count.

    >>> possible(Usage(input=100, read=5000, output=1), 5101)
    Usage(input=5100, read=5000, write=None, output=1)
    >>> possible(Usage(input=100, read=5000, output=1), 101)
    Usage(input=100, read=None, write=None, output=1)
    """
    cached = (usage.read or 0) + (usage.written or 0)
    if usage.input is None or not cached:
        return usage
    if whole == usage.input + cached + (usage.output or 0):
        return replace(usage, input=usage.input + cached)
    if cached <= usage.input:
        return usage
    return replace(usage, read=None, write=None)


def with_unread(found: Metered, raw: Mapping[str, Any]) -> Metered:
    """`found`, the reading of the usage object `raw`, with the names of counters that nobody understood as its doubts:
    all of them where nothing was understood, those of the cache where nothing of that was.

    >>> with_unread(Metered(NO_USAGE), {"promptTokens": 5, "cost": 0.1, "details": {"audio": 2, "text": 0}}).doubts
    ('promptTokens', 'details.audio')
    >>> with_unread(Metered(Usage(input=5)), {"prompt_tokens": 5, "cache_read": 4}).doubts
    ('cache_read',)
    """
    usage = found.usage
    if found.doubts or found.besides or usage.read is not None or usage.write is not None:
        return found
    of = _ANY if usage == NO_USAGE else _OF_CACHE
    names = [name_of(name)[:_LONGEST] for name in _counted(raw, _DEEPEST) if of.search(name)]
    return found._replace(doubts=tuple(names[:_MOST])) if names else found


def _counted(raw: Mapping[str, Any], deepest: int, within: str = "") -> Iterator[str]:
    """The names in a usage object that count something, or would if they were numbers."""
    for name, value in raw.items():
        where = f"{within}{name}"
        if is_object(value):
            yield from _counted(value, deepest - 1, f"{where}.") if deepest else ()
        elif (type(value) is int and value) or (isinstance(value, str | float) and value and _TOKENS.search(where)):
            yield where


_ANY, _TOKENS = re.compile(""), re.compile("token|prompt|completion|input|output", re.IGNORECASE)
_OF_CACHE = re.compile("cach(?!.*miss)", re.IGNORECASE)
"""Of names; what was not read is no word on what was."""
_DEEPEST, _MOST = 4, 5
"""Levels of a usage object, and names of it that are kept."""


def terms_of(raw: Mapping[str, Any]) -> dict[str, str]:
    """What a reply, or a request, says that tokens are priced by: its tier, its speed, where it was made.

    >>> terms_of({"service_tier": "flex", "speed": "standard"}), terms_of({"inference_geo": 5}), terms_of({})
    ({'service_tier': 'flex', 'speed': 'standard'}, {'inference_geo': 'unreadable'}, {})
    """
    found = {
        name: name_of(value)[:_LONGEST] if isinstance(value, str) else "unreadable"
        for name in _TERMS
        if name in raw and (value := raw[name]) is not None
    }
    if raw.get("is_byok") is True:
        found["is_byok"] = "true"
    credit = raw.get("fallback_credit")
    status = credit.get("status") if is_object(credit) else None
    if is_object(status) and status.get("type") == "redeemed":
        found["fallback_credit"] = "redeemed"
    return found


def unusual(terms: Mapping[str, str]) -> dict[str, str]:
    """Those of `terms` that are not the usual ones.

    >>> unusual({"service_tier": "Default", "speed": "fast"})
    {'speed': 'fast'}
    """
    return {name: value for name, value in terms.items() if value.lower() not in _USUAL}


_TERMS = ("service_tier", "speed", "inference_geo")
"""As the providers and the price list name them. Beside them: OpenRouter bills requests with keys of one's own
otherwise, and Anthropic moves tokens from writing to reading where the credit of a refused request is redeemed."""
_USUAL = frozenset(
    {"", "standard", "default", "auto", "on_demand", "global", "not_available", "normal", "standard_only"}
)
_LONGEST = 64
"""Characters of a term that are kept."""


TERMS = frozenset({*_TERMS, "is_byok", "fallback_credit"})
"""Where they stand, in a reply or in its usage."""


def text_or_none(value: Any) -> str | None:
    """`value` where it is a string."""
    return value if isinstance(value, str) else None


def loaded(data: bytes) -> dict[str, Any] | None:
    """The JSON object that `data` holds, quickly; None where it holds anything else. For what we read, such as usage.

    Integers beyond 64 bits come back as floats: what is handed on to a tool is read by `exactly`.
    """
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return exactly(data)  # a lone surrogate is JSON to the SDKs and not to orjson
    return value if isinstance(value, dict) else None


def exactly(text: str | bytes) -> dict[str, Any] | None:
    """The JSON object that `text` holds with every value as `json.loads` has it, as loops do; None for anything else.

    Strict: NaN and infinities, which `json.loads` takes, are no JSON.

    >>> exactly('{"id": 18446744073709551617}'), exactly('{"x": NaN}')
    ({'id': 18446744073709551617}, None)
    """
    try:
        value = _EXACT.decode(text if isinstance(text, str) else text.decode())
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _refused(constant: str) -> Any:
    raise ValueError(constant)


def _finite(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise ValueError(digits)
    return value


_EXACT = json.JSONDecoder(parse_constant=_refused, parse_float=_finite)


def name_or_none(value: Any) -> str | None:
    """`value` as `name_of` has it, where it is a string."""
    return (value if value.isascii() else name_of(value)) if isinstance(value, str) else None


def with_texts(value: Any, texts: Iterable[tuple[Path, str]]) -> Any:
    """A copy of `value` with other texts in those places; everything beside them is shared.

    >>> with_texts({"a": ["x", "y"]}, [(("a", 1), "z")])
    {'a': ['x', 'z']}
    """
    return changed_all(value, _instead, [_Text(path, text) for path, text in texts])


class _Text(NamedTuple):
    """A text, and where it goes."""

    path: Path
    text: str


def _instead(was: Any, text: _Text) -> str:
    return text.text


class Located(Protocol):
    """Something that goes to a path."""

    @property
    def path(self) -> Path: ...


P = TypeVar("P", bound=Located)


def changed_all(value: Any, change: Callable[[Any, P], Any], ours: Iterable[P]) -> Any:
    """A copy of `value` in which what stands at the path of each of `ours` became what `change` makes of the two, one
    after another; everything beside them is shared.

    >>> from agentaccel.types import Marker
    >>> body = {"a": [1, 2, 3], "b": {}}
    >>> made = changed_all(body, lambda was, marker: f"{was} for {marker.ttl}", [Marker(path=("a", 0), ttl="5m")])
    >>> made, body["a"], made["b"] is body["b"]
    ({'a': ['1 for 5m', 2, 3], 'b': {}}, [1, 2, 3], True)
    """
    made = value
    for one in ours:
        path = one.path
        if not path:
            made = change(made, one)
            continue
        at = made = _copied(value) if made is value else made
        *heads, last = path
        for head in heads:
            below = at[head]
            at[head] = at = below.copy() if type(below) in _PLAIN else _copied(below)
        at[last] = change(at[last], one)
    return made


def _copied(value: Any) -> Any:
    """A copy of an object or a list."""
    return {**value} if is_object(value) else list(value)


_PLAIN = frozenset({dict, list})

"""Reading fields of logs that nobody specified: a value of the wrong kind is as good as absent."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from datetime import datetime

from agentaccel.providers.values import possible
from agentaccel.types import Usage
from agentaccel.values import maker

_TTL_KEY = re.compile(r"(?:ephemeral|ttl)_(\w+?)(?:_input)?_tokens")
"""How the providers name the tokens written with one lifetime."""

_EARLIEST, _LATEST = 946_684_800.0, 4_102_444_800.0
"""2000 and 2100: a time outside was not a time."""


_MOST = 10**12
"""No request has as many tokens: a larger number was not a count."""

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
    """A number of tokens."""
    value = holder.get(key)
    return value if type(value) is int and 0 <= value <= _MOST else None


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


def usage_of(reported: Mapping[str, object], default_ttl: str) -> Usage:
    """The provider's usage as our noun; `default_ttl` labels writes whose lifetime was not told.

    Two shapes are known: cache counters beside an `input_tokens` that leaves them out, and details inside a total.
    """
    if "cache_read_input_tokens" in reported or "cache_creation_input_tokens" in reported:
        return _beside(reported, default_ttl)
    return _inside(reported, default_ttl)


def _beside(reported: Mapping[str, object], default_ttl: str) -> Usage:
    plain, read = count(reported, "input_tokens"), count(reported, "cache_read_input_tokens")
    created = count(reported, "cache_creation_input_tokens")
    split = _by_ttl(mapping(reported, "cache_creation"))
    write = _written(created, split, default_ttl)
    total = None if plain is None else plain + (read or 0) + (sum(write.values()) if write else 0)
    return _usage(input=total, read=read, write=write, output=count(reported, "output_tokens"))


def _inside(reported: Mapping[str, object], default_ttl: str) -> Usage:
    kind = "prompt" if "prompt_tokens" in reported else "input"
    total = count(reported, f"{kind}_tokens")
    output = count(reported, "completion_tokens" if kind == "prompt" else "output_tokens")
    details = mapping(reported, f"{kind}_tokens_details")
    read = count(details, "cached_tokens")
    if read is None or total is None:
        return Usage(input=total, output=output)
    split = _by_ttl(mapping(details, "cache_write_tokens_details"))
    # Providers of this shape that do not mention writes do not charge for them.
    write = _written(count(details, "cache_write_tokens") or 0, split, default_ttl)
    return possible(Usage(input=total, read=read, write=write, output=output), count(reported, "total_tokens"))


def _by_ttl(details: Mapping[str, object]) -> dict[str, int]:
    return {
        label: told
        for key, told in details.items()
        if type(told) is int and 0 < told <= _MOST and (label := _label(key)) is not None
    }


@functools.lru_cache(maxsize=256)
def _label(key: str) -> str | None:
    """The lifetime that a field is about; None where it is about none."""
    match = _TTL_KEY.fullmatch(key)
    return match[1] if match else None


def _written(total: int | None, split: dict[str, int], default_ttl: str) -> dict[str, int] | None:
    """Writes by lifetime; what the breakdown does not cover of the total has the default lifetime."""
    if total is None:
        return split or None
    rest = total - sum(split.values())
    if rest > 0:
        split[default_ttl] = split.get(default_ttl, 0) + rest
    return split

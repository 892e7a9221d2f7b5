"""Usage of both OpenAI wires, in the dialects that servers and gateways speak, as `Usage`.

Rules (recorded exchanges of 25 providers, 2024 to 2026): the input count is inclusive of what the cache did. A key that
is absent or null was not reported, which is not zero. Where the total is more than prompt and completion together, the
rest is reasoning (xAI, some of Azure), which belongs to the output, or audio (Mistral), which belongs to the input.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentaccel.providers.values import count_of, is_object, possible
from agentaccel.types import Usage

_READ = ("prompt_cache_hit_tokens", "cached_tokens", "num_cached_tokens", "cache_read_input_tokens")
"""Where the tokens that were read stand outside of the details, in order of preference."""

_SPLITS = (("ttl_", "_tokens"), ("ephemeral_", "_input_tokens"))
"""How a split by lifetime names its fields: OpenAI's, and Anthropic's behind a gateway."""

_TTL = "30m"
"""The lifetime of what OpenAI writes."""
_ANTHROPIC_TTL = "5m"
"""The lifetime of what was written where a gateway names it as Anthropic does and does not split it."""


def usage_of(raw: Mapping[str, Any], ttl: str = "") -> Usage:
    """A usage object of either wire; `ttl` labels what was written where no split says; by default
    it is OpenAI's own.

    >>> usage_of({"prompt_tokens": 90, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 64}})
    Usage(input=90, read=64, write=None, output=5)
    >>> usage_of({"input_tokens": 90, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 80}})
    Usage(input=90, read=0, write={'30m': 80}, output=None)
    """
    responses = "input_tokens" in raw and "prompt_tokens" not in raw
    names = ("input_tokens", "output_tokens") if responses else ("prompt_tokens", "completion_tokens")
    details = raw.get(f"{names[0]}_details")
    details = details if is_object(details) else {}
    read = count_of(details, "cached_tokens")
    if read is None:
        read = next((count for name in _READ if (count := count_of(raw, name)) is not None), None)
    input_, output = _with_rest(raw, count_of(raw, names[0]), count_of(raw, names[1]), details)
    usage = Usage(input=input_, read=read, write=_written(raw, details, ttl), output=output)
    return possible(usage, count_of(raw, "total_tokens"))


def _with_rest(
    raw: Mapping[str, Any], input_: int | None, output: int | None, details: Mapping[str, Any]
) -> tuple[int | None, int | None]:
    """Input and output with what the total holds beyond them."""
    total = count_of(raw, "total_tokens")
    if total is None or input_ is None or output is None or total <= input_ + output:
        return input_, output
    rest = total - input_ - output
    made = raw.get("completion_tokens_details") or raw.get("output_tokens_details")
    if (is_object(made) and count_of(made, "reasoning_tokens") == rest) or count_of(raw, "reasoning_tokens") == rest:
        return input_, output + rest
    if count_of(details, "audio_tokens") == rest or count_of(raw, "audio_tokens") == rest:
        return input_ + rest, output
    return input_, output


def _written(raw: Mapping[str, Any], details: Mapping[str, Any], ttl: str) -> dict[str, int] | None:
    total, ttl = count_of(details, "cache_write_tokens"), ttl or _TTL
    if total is None:
        total, ttl = count_of(raw, "cache_creation_input_tokens"), _ANTHROPIC_TTL
    if total is None:
        return None
    write = _split(details.get("cache_write_tokens_details")) or _split(raw.get("cache_creation"))
    missing = total - sum(write.values())
    if missing > 0:
        write[ttl] = write.get(ttl, 0) + missing
    return write if missing >= 0 else {ttl: total}


def _split(raw: Any) -> dict[str, int]:
    """Tokens written by lifetime; empty where they are not split."""
    found: dict[str, int] = {}
    for name in raw if is_object(raw) else ():
        for before, after in _SPLITS:
            if name.startswith(before) and name.endswith(after):
                count = count_of(raw, name)
                if count:
                    found[name[len(before) : -len(after)]] = count
    return found

"""Usage of both OpenAI wires, in the dialects that servers and gateways speak, as `Usage`.

Rules (recorded exchanges of 25 providers, 2024 to 2026): the input count is inclusive of what the cache did. A key that
is absent or null was not reported, which is not zero. Where the total is more than prompt and completion together, the
rest is reasoning (xAI, some of Azure), which belongs to the output, or audio (Mistral), which belongs to the input.
Nothing is less than its parts: where a total is, neither is believed, but for one that fits all the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from agentaccel.types import EngineWork, Metered, Usage
from agentaccel.wire.json import agreed, below, count_of, is_object, possible, seconds_of, with_unread

_INPUT, _OUTPUT = ("prompt_tokens", "input_tokens"), ("completion_tokens", "output_tokens")
_DETAILS = ("prompt_tokens_details", "input_tokens_details")
_READ = ("prompt_cache_hit_tokens", "cached_tokens", "num_cached_tokens", "cache_read_input_tokens")
"""Where the tokens that were read stand outside of the details."""
_WRITTEN = ("cache_write_tokens", "cache_creation_input_tokens", "cache_creation_tokens")
"""What was written, in the details or beside them: OpenAI's name, Anthropic's, and that of a gateway."""
_SPLIT_BY_LIFETIME = ("cache_write_tokens_details", "cache_creation")
_MISSED, _TOTAL = "prompt_cache_miss_tokens", "total_tokens"
"""Where DeepSeek has the rest of the prompt, and everybody the sum of prompt and completion."""
_KINDS = ("text_tokens", "audio_tokens", "image_tokens", "video_tokens")
"""Kinds of tokens in the details of a prompt; none is of two kinds."""
_MADE, _MADE_KINDS = ("completion_tokens_details", "output_tokens_details"), ("reasoning_tokens", *_KINDS)
"""The details of an output, and kinds of tokens in them; servers differ in whether reasoning is text as well."""

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
    return metered(raw, ttl).usage


def metered(raw: Mapping[str, Any], ttl: str = "") -> Metered:
    """What the reply with this usage object was billed for.

    Counters that contradict one another are None, but for one that fits all the rest; their names are the doubts, and
    those of counters that nobody understood.

    >>> metered({"prompt_tokens": 90, "cached_tokens": 64, "prompt_tokens_details": {"cached_tokens": 0}}).doubts
    ('prompt_tokens_details.cached_tokens', 'cached_tokens')
    """
    total = count_of(raw, _TOTAL)
    details = {name: of for name in _DETAILS if is_object(of := raw.get(name))}
    asked, made = (tuple(count_of(raw, name) for name in names) for names in (_INPUT, _OUTPUT))
    reads = {f"{name}.cached_tokens": count_of(of, "cached_tokens") for name, of in details.items()}
    reads |= {name: count_of(raw, name) for name in _READ}
    missed = count_of(raw, _MISSED)
    read, of_read = agreed(reads, lambda count: missed is not None and count + missed in asked)
    write, of_write = _written(raw, details, ttl)
    inputs = _inputs(raw, asked, read, sum(write.values()) if write else 0)
    output, of_output = agreed(dict(zip(_OUTPUT, made, strict=True)), lambda count: _less(total, count) in asked)
    input_, of_input = agreed(inputs, lambda count: _less(total, count) == output)
    if None not in (read, missed, input_) and (read or 0) + (missed or 0) != input_:
        read, of_read = None, (*(name for name, count in reads.items() if count is not None), _MISSED)
    of_total: tuple[str, ...] = ()
    if not of_input and not of_output:
        input_, output, of_total = _whole(raw, input_, output, details, sure=None not in (read, missed))
    usage = Usage(input=input_, read=read, write=write, output=output)
    told, impossible = possible(usage, total), tuple[str, ...]()
    if (told.read, told.write) != (read, write):
        impossible = tuple(name for name, count in (reads | _writes(raw, details)).items() if count)
    doubts = dict.fromkeys((*of_read, *of_write, *of_input, *of_output, *of_total, *impossible))
    return with_unread(Metered(told, (), tuple(doubts)), raw)


def _inputs(
    raw: Mapping[str, Any], asked: tuple[int | None, ...], read: int | None, written: int
) -> dict[str, int | None]:
    """All counts of the whole input, by name."""
    inputs = dict(zip(_INPUT, asked, strict=True))
    whole, fresh = asked
    if whole is not None and fresh is not None and whole == fresh + (read or 0) + written:
        inputs[_INPUT[1]] = None  # as Anthropic counts it: without what the cache did
    hit, missed = count_of(raw, _READ[0]), count_of(raw, _MISSED)
    if hit is not None and read is not None:
        hit = read  # of several counts of what was read, the one that fits
    if hit is not None and missed is not None:
        inputs[f"{_READ[0]} + {_MISSED}"] = hit + missed
    return inputs


def _less(total: int | None, part: int | None) -> int | None:
    return None if total is None or part is None else total - part


def _with_rest(
    raw: Mapping[str, Any], input_: int | None, output: int | None, details: Mapping[str, Mapping[str, Any]]
) -> tuple[int | None, int | None]:
    """Input and output with what the total holds beyond them."""
    total = count_of(raw, _TOTAL)
    if total is None or input_ is None or output is None or total <= input_ + output:
        return input_, output
    rest = total - input_ - output
    made = raw.get("completion_tokens_details") or raw.get("output_tokens_details")
    if (is_object(made) and count_of(made, "reasoning_tokens") == rest) or count_of(raw, "reasoning_tokens") == rest:
        return input_, output + rest
    if any(count_of(of, "audio_tokens") == rest for of in (*details.values(), raw)):
        return input_ + rest, output
    return input_, output


def _whole(
    raw: Mapping[str, Any],
    input_: int | None,
    output: int | None,
    details: Mapping[str, Mapping[str, Any]],
    *,
    sure: bool,
) -> tuple[int | None, int | None, tuple[str, ...]]:
    """Input and output with what the total holds beyond them, as far as no sum is less than its parts; and the names of
    counters where one is.

    `sure`: what was read and what was not add up to the input.
    """
    whole = _with_rest(raw, input_, output, details)
    total, names = count_of(raw, _TOTAL), list[str]()
    if whole != (input_, output) or (total is not None and total == (input_ or 0) + (output or 0)):
        return (*whole, ())  # where the total fits, only the kinds of tokens can be wrong
    results = {place: of for place in _MADE if is_object(of := raw.get(place))}
    kinds, made = _kinds(details, _KINDS), _kinds(results, _MADE_KINDS)
    asked = max((sum(of.values()) for of in kinds.values()), default=0)
    if input_ is not None and asked > input_ and asked != _less(total, output):
        names += [*_told(raw, _INPUT), *(f"{place}.{kind}" for place, of in kinds.items() for kind in of)]
        input_ = None
    elif input_ is not None:
        input_, sure = max(input_, asked), sure or asked == input_
    if output is not None and (
        doubted := [f"{place}.{kind}" for place, of in made.items() for kind in of if of[kind] > output]
    ):
        names += [*_told(raw, _OUTPUT), *doubted]
        output = None
    if below(total, input_, output):
        names += [*_told(raw, (*_INPUT, *_OUTPUT)), _TOTAL]
        input_, output = (input_ if sure else None), None
    return input_, output, tuple(names)


def _kinds(details: Mapping[str, Mapping[str, Any]], names: tuple[str, ...]) -> dict[str, dict[str, int]]:
    """How many tokens of each of these kinds the details count, by where they stand."""
    return {place: {kind: count for kind in names if (count := count_of(of, kind))} for place, of in details.items()}


def _told(raw: Mapping[str, Any], names: tuple[str, ...]) -> list[str]:
    """Those of `names` that count anything."""
    return [name for name in names if count_of(raw, name) is not None]


def _written(
    raw: Mapping[str, Any], details: Mapping[str, Mapping[str, Any]], ttl: str
) -> tuple[dict[str, int] | None, tuple[str, ...]]:
    """What was written, by lifetime, and the names of counters of it that contradict one another, or are none."""
    places, told = _places(raw, details), _writes(raw, details)
    totals = {name: count_of(told, name) for name in told}
    unread = tuple(name for name, count in totals.items() if count is None)
    splits = [_split(of.get(name)) for of in reversed(places.values()) for name in _SPLIT_BY_LIFETIME]
    write = next(filter(None, splits), {})
    sum_ = sum(write.values())
    if write and (not totals or any(count is not None and count < sum_ for count in totals.values())):
        totals["the split by lifetime"] = sum_
    total, doubts = agreed(totals)
    if total is None:
        return None, doubts or unread
    if total > sum_:
        label = ttl or (_TTL if any(f"{place}.{_WRITTEN[0]}" in told for place in details) else _ANTHROPIC_TTL)
        write[label] = write.get(label, 0) + total - sum_
    return write, ()


def _places(raw: Mapping[str, Any], details: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Where counters of the cache stand, by what their names begin with there."""
    return {"": raw, **{f"{name}.": of for name, of in details.items()}}


def _writes(raw: Mapping[str, Any], details: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What is told of all that was written, by name."""
    places = _places(raw, details).items()
    return {f"{at}{name}": of[name] for at, of in places for name in _WRITTEN if of.get(name) is not None}


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


# --- What servers that people run say of their work, beside the usage -------------------------------------------------

WORK = frozenset({"timings", "metrics", "nvext"})
"""Where it stands in a reply: llama.cpp, vLLM with --enable-per-request-metrics, Dynamo where it was asked for."""


def work_of(told: Mapping[str, Any]) -> EngineWork | None:
    """What a reply, or the last chunk of one, says of the work that it took; None where it says nothing.

    Source: exchanges with llama.cpp 0c1e570, vLLM 0.32.0 and Dynamo 1.6.1, recorded 2026-11.

    >>> work_of({"timings": {"prompt_n": 63, "prompt_ms": 9.0, "predicted_ms": 53.0, "draft_n": 85}})
    EngineWork(computed=63, prefill=0.009, decode=0.053, queued=None, steps=None, drafted=85, accepted=None)
    """
    timings, metrics, extended = (
        of if is_object(of := told.get(name)) else {} for name in ("timings", "metrics", "nvext")
    )
    drafts = of if is_object(of := metrics.get("speculative_decoding")) else {}
    timing = of if is_object(of := extended.get("timing")) else {}
    first, queued = seconds_of(metrics, "time_to_first_token_ms"), seconds_of(metrics, "queue_time_ms")
    work = EngineWork(
        computed=count_of(timings, "prompt_n"),
        prefill=_first(
            seconds_of(timings, "prompt_ms"),
            seconds_of(timing, "prefill_time_ms"),
            first - (queued or 0.0) if first is not None and first > (queued or 0.0) else None,
        ),
        decode=_first(seconds_of(timings, "predicted_ms"), seconds_of(metrics, "generation_time_ms")),
        queued=_first(queued, seconds_of(timing, "prefill_wait_time_ms")),
        steps=count_of(drafts, "num_spec_steps"),
        drafted=_first(count_of(timings, "draft_n"), count_of(drafts, "num_draft_tokens")),
        accepted=_first(count_of(timings, "draft_n_accepted"), count_of(drafts, "num_accepted_draft_tokens")),
    )
    return None if work == EngineWork() else work


T = TypeVar("T")


def _first(*told: T | None) -> T | None:
    return next((one for one in told if one is not None), None)

"""Usage of the Anthropic Messages API, as Anthropic and servers that speak its protocol report it.

Rules (recorded exchanges of real APIs, 2024 to 2026; types of the SDK 2.14): `input_tokens` excludes what the cache
did, so the three counters are added. Where the split by lifetime sums to less than the total, the total wins. A key
that is absent or null was not reported, which is not zero. A reply of several samplings lists them in `iterations`; the
counters beside them are those of the answer, and leave out compactions and advisors, which are billed as well
(compaction guide, *Understanding usage*; advisor tool, *Usage and billing*).

A server that names what was read as OpenAI does (`prompt_tokens_details`) counts as OpenAI does: its input holds it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from agentaccel.types import NO_USAGE, UNSPLIT, BilledPart, Metered, Usage, sum_of
from agentaccel.values import maker
from agentaccel.wire.anthropic.edit import DEFAULT_TTL
from agentaccel.wire.json import agreed, below, count_of, is_object, items, name_or_none, with_unread

READ, WRITTEN = "cache_read_input_tokens", "cache_creation_input_tokens"
"""The counters of the cache."""

_SPLIT_PREFIX, _SPLIT_SUFFIX = "ephemeral_", "_input_tokens"
DETAILS = ("prompt_tokens_details", "input_tokens_details")
"""Where OpenAI has what its input consists of."""

_FOREIGN = frozenset({*DETAILS, "prompt_tokens", "total_tokens", "cached_tokens"})
"""Names that are no part of the protocol, of servers that count as OpenAI does."""

_ANSWERS = frozenset({"message", "fallback_message"})
"""Samplings whose text is the reply's."""
_ASIDE = frozenset({"compaction", "advisor_message"})
"""Those that make a summary, or give advice. Of another kind nobody knows, unless its counters are the reply's."""
_NAMELESS = "unknown"
"""The kind of a sampling that has no name."""
_FALLBACK = "fallback_message"
_LONGEST = 64
"""Characters of a kind of sampling that are kept."""


def usage_of(raw: Mapping[str, Any], ttl: str = "") -> Usage:
    """The provider's usage object as `Usage`; fields that are absent, null, no numbers or contradict one another are
    None. `ttl` labels what was written where no split says.

    >>> usage_of({"input_tokens": 5, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 5})
    Usage(input=100, read=90, write={'5m': 5}, output=None)
    >>> usage_of({"input_tokens": 5, "output_tokens": 2})
    Usage(input=5, read=None, write=None, output=2)
    """
    return metered(raw, ttl).usage


def metered(raw: Mapping[str, Any], ttl: str = "", *, unsure: bool = False) -> Metered:
    """What the reply with this usage object was billed for.

    `unsure`: its input was told before what the cache did, and not again, so that nobody knows whether the one holds
    the other.
    """
    usage, doubts = _counters(raw, ttl, unsure=unsure)
    rounds = items(raw["iterations"]) if "iterations" in raw else ()
    return _sampled(usage, doubts, rounds, ttl) if rounds else with_unread(Metered(usage, (), doubts), raw)


def _sampled(usage: Usage, doubts: tuple[str, ...], rounds: Sequence[Any], ttl: str) -> Metered:
    """What a reply of several samplings was billed for; `usage` and `doubts` are of the counters beside them."""
    labels = [label for label, tokens in (usage.write or {}).items() if tokens]
    uncached = usage.read == 0 and usage.write == {}
    parts, more = _parts(rounds, labels[0] if len(labels) == 1 else ttl, uncached=uncached)
    top = NO_USAGE if doubts else usage
    answers = [part for part in parts if part.kind not in _ASIDE]
    if answers and top.input and not _consistent(top, parts, answers):
        return Metered(NO_USAGE, (), ("iterations",))
    last = _answer(top, answers)
    if last is None:
        # The counters beside the samplings are of an answer that is not listed, or add up those that are.
        listed = not top.input or (bool(parts) and top.input == sum_of([part.usage for part in parts]).input)
        return Metered(NO_USAGE if listed and parts else usage, tuple(parts), (*doubts, *more))
    told = top if top.input is not None and _same(top, last.usage) else last.usage
    if told.output != last.usage.output is not None and told.output == sum_of([part.usage for part in parts]).output:
        told = replace(told, output=last.usage.output)  # outputs alone were added up
    elif told.output is not None and told.output < (last.usage.output or 0):
        told, more = replace(told, output=None), (*more, "output_tokens", "iterations")
    besides = tuple(part for part in parts if part is not last and not _declined(part, last))
    return Metered(told, besides, more if told.input is not None else (*doubts, *more), last.model)


def cached(raw: Mapping[str, Any]) -> tuple[int, int]:
    """Tokens that this usage object says to have been read and written, as far as it says so."""
    return count_of(raw, READ) or 0, max(count_of(raw, WRITTEN) or 0, sum(_split(raw.get("cache_creation")).values()))


def _parts(rounds: Sequence[Any], ttl: str, *, uncached: bool) -> tuple[list[BilledPart], tuple[str, ...]]:
    """The samplings that are named or counted. Where the counters beside them say that the cache did nothing, one that
    says nothing of it was `uncached`."""
    parts, doubts = list[BilledPart](), list[str]()
    for one in filter(is_object, rounds):
        usage, contradicted = _counters(one, ttl, unsure=False)
        if uncached and usage.input is not None and usage.read is None and usage.write is None and not contradicted:
            usage = replace(usage, read=0, write={})
        kind = name_or_none(one.get("type"))
        if kind or usage != NO_USAGE:
            kind = (kind or _NAMELESS)[:_LONGEST]
            parts.append(BilledPart(kind=kind, usage=usage, model=name_or_none(one.get("model"))))
            doubts += with_unread(Metered(usage, (), contradicted), one).doubts
    return parts, tuple(dict.fromkeys(doubts))


def _consistent(usage: Usage, parts: Sequence[BilledPart], answers: Sequence[BilledPart]) -> bool:
    """Whether the counters beside the samplings are those of the answer: all its rounds, or the one that was served
    (a stream's first figures are of the first). Some gateways add up all samplings."""
    if any(_same(usage, part.usage) for part in answers):
        return True
    named = [part for part in answers if part.kind in _ANSWERS]
    return any(_same(usage, sum_of([part.usage for part in some])) for some in (named, answers, parts))


def _answer(usage: Usage, answers: Sequence[BilledPart]) -> BilledPart | None:
    """The sampling that made the reply: the last that says so, else the last of which the counters beside it are."""
    named = [part for part in answers if part.kind in _ANSWERS]
    if named or not answers or not usage.input:
        return named[-1] if named else None
    return next((part for part in reversed(answers) if part.usage.input == usage.input), answers[-1])


def _same(told: Usage, other: Usage) -> bool:
    """Whether both say the same of the input, as far as both say it."""
    pairs = ((told.input, other.input), (told.read, other.read), (told.written, other.written))
    return all(one is None or two is None or one == two for one, two in pairs)


def _declined(part: BilledPart, last: BilledPart) -> bool:
    """Whether a model declined before it had said anything, and another one was asked: that is not billed (Claude
    Platform release notes: "You are not billed for a request refused before any output is generated")."""
    others = part.model is not None and part.model != last.model
    return last.kind == _FALLBACK and part.kind == "message" and others and not part.usage.output


def _counters(raw: Mapping[str, Any], ttl: str, *, unsure: bool) -> tuple[Usage, tuple[str, ...]]:
    """One set of counters, and the names of those that contradict one another."""
    fresh, read, created = count_of(raw, "input_tokens"), count_of(raw, READ), count_of(raw, WRITTEN)
    split = _split(raw.get("cache_creation"))
    told = sum(split.values()) if split else 0
    if (
        unsure
        or not _FOREIGN.isdisjoint(raw)
        or (created is not None and created < told)
        or ((read is None or created is None) and _unread(raw, read, created, split))
    ):
        return _doubted(raw, split, ttl, unsure=unsure)
    if not ttl and created is not None and created > told and _is_wrong(raw.get("cache_creation")):
        ttl = UNSPLIT
    write = None if created is None and not split else _labelled(max(created or 0, told), split, ttl)
    total = None if fresh is None else fresh + (read or 0) + (sum(write.values()) if write else 0)
    output, doubts = _output(raw)
    return _usage(input=total, read=read, write=write, output=output), doubts


_usage = maker(Usage)


def _output(raw: Mapping[str, Any]) -> tuple[int | None, tuple[str, ...]]:
    """Tokens of the output, and the counters that contradict one another: it is no less than what was thought."""
    output, details = count_of(raw, "output_tokens"), raw.get("output_tokens_details")
    thought = count_of(details, "thinking_tokens") if is_object(details) else None
    if output is None or thought is None or thought <= output:
        return output, ()
    return None, ("output_tokens", "output_tokens_details.thinking_tokens")


def _doubted(raw: Mapping[str, Any], split: dict[str, int], ttl: str, *, unsure: bool) -> tuple[Usage, tuple[str, ...]]:
    """The same where a thing has several names, or nobody knows whether one count holds another."""
    fresh, (output, of_sums) = count_of(raw, "input_tokens"), _output(raw)
    inside = {place: details for place in DETAILS if is_object(details := raw.get(place))}
    written = {f"{place}.cache_write_tokens": count_of(of, "cache_write_tokens") for place, of in inside.items()}
    written[WRITTEN] = count_of(raw, WRITTEN)
    if any(count is not None and count < sum(split.values()) for count in written.values()) or not any(
        count is not None for count in written.values()
    ):
        written["cache_creation"] = sum(split.values()) if split else None
    reads = {f"{place}.cached_tokens": count_of(of, "cached_tokens") for place, of in inside.items()}
    reads |= {name: count_of(raw, name) for name in (READ, "cached_tokens")}
    prompt, whole = count_of(raw, "prompt_tokens"), count_of(raw, "total_tokens")
    if below(whole, max(fresh or 0, prompt or 0), output):
        counts = {"input_tokens": fresh, "prompt_tokens": prompt, "output_tokens": output, "total_tokens": whole}
        of_sums += tuple(name for name, count in counts.items() if count is not None)
        fresh = prompt = output = None
    if prompt is None and whole is not None and output is not None:
        whole -= output
    else:
        whole = prompt

    def fits(one: int, other: int | None) -> bool:
        return fresh is not None and fresh + one + (other or 0) == whole

    created, of_write = agreed(written, lambda count: fits(count, reads[READ]))
    read, of_read = agreed(reads, lambda count: fits(count, created))
    write = None if created is None else _labelled(created, split, ttl)
    doubts = tuple(dict.fromkeys((*of_read, *of_write, *_unread(raw, read, created, split), *of_sums)))
    if prompt is not None and prompt < (read or 0) + (created or 0):
        doubts, prompt = (*doubts, "prompt_tokens"), None
    if doubts:
        return Usage(input=prompt, read=read, write=write, output=output), doubts
    inclusive = bool(inside) or reads["cached_tokens"] is not None
    total = _total(fresh, (read or 0) + (created or 0), whole, inclusive=inclusive, unsure=unsure)
    if fresh is None:
        total = prompt
    elif total is None or (total != prompt and prompt is not None):
        total, doubts = None, ("input_tokens",)
    return Usage(input=total, read=read, write=write, output=output), doubts


def _unread(raw: Mapping[str, Any], read: int | None, created: int | None, split: Mapping[str, int]) -> tuple[str, ...]:
    """Names of what the cache did that are told as no count can be, where no other name tells the same: what stands
    beside them is then not all of the input."""
    wrong = _is_wrong(raw.get("cache_creation"))
    found = {READ: read is None and raw.get(READ) is not None}
    if created is None:
        found |= {WRITTEN: raw.get(WRITTEN) is not None and not split, "cache_creation": wrong}
    return tuple(name for name, is_so in found.items() if is_so)


def _is_wrong(split: Any) -> bool:
    """True if a split by lifetime is there, and is none."""
    return split is not None and (
        not is_object(split) or any(split[name] is not None and count_of(split, name) is None for name in split)
    )


def _total(fresh: int | None, cached: int, whole: int | None, *, inclusive: bool, unsure: bool) -> int | None:
    """All input tokens; None where nobody knows whether `fresh` holds what the cache did.

    `whole` is what another name says of all of them; `inclusive`: the server names its counters as those do whose
    input holds what was read.
    """
    if fresh is None or not cached:
        return fresh
    beside, inside = fresh + cached, fresh if cached <= fresh else None
    if whole is not None and whole in (beside, inside):
        return whole
    if inclusive or unsure:
        return inside if inclusive and whole is None else None
    # A total of the two plain counters was made by somebody who did not know of the others.
    return beside if whole is None or (inside is None and whole == fresh) else None


def _split(raw: Any) -> dict[str, int]:
    """Tokens written by lifetime."""
    if not is_object(raw):
        return {}
    return {label: count for name in raw if (label := _lifetime(name)) is not None and (count := count_of(raw, name))}


@functools.lru_cache(maxsize=256)
def _lifetime(name: str) -> str | None:
    """The lifetime that a field of the split is about; None where it is about none."""
    ours = name.startswith(_SPLIT_PREFIX) and name.endswith(_SPLIT_SUFFIX)
    return name[len(_SPLIT_PREFIX) : -len(_SPLIT_SUFFIX)] if ours else None


def _labelled(created: int, split: dict[str, int], ttl: str) -> dict[str, int]:
    """All that was written, by lifetime; what no split tells has the one that the request asks for."""
    told = sum(split.values())
    if told > created:
        return {ttl or DEFAULT_TTL: created}
    if told < created:
        label = ttl or DEFAULT_TTL
        split[label] = split.get(label, 0) + created - told
    return split

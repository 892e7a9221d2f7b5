"""What instrumentations call things: the rows of `dialects.toml`, and what a span's attributes say under our names."""

from __future__ import annotations

import contextlib
import functools
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import orjson

from agentaccel import semconv
from agentaccel.sources.fields import lifetimes_told, metered_of
from agentaccel.types import MOST_TOKENS, Metered, Usage
from agentaccel.wire.json import agreed, below, possible

# --- What a span counts, as the usage that its reply was billed for ---------------------------------------------------

CACHE = frozenset({"read", "write"})

WRITE_FOR = "write_"
"""Begins our words for what was written for one lifetime, which its label ends."""

KIND = "kind_"
"""Begins those for one kind of tokens in the input, such as audio; no token is of two kinds."""


@dataclass(frozen=True, slots=True)
class Counters:
    """The counters of one span, under our words for them: `input`, `read`, `write`, `write_` and a lifetime, `output`,
    `total`, `kind_` and a kind of tokens in the input."""

    told: Mapping[str, int] = field(default_factory=dict)
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The attributes that tell of each, whether or not a count came of it."""
    doubted: frozenset[str] = frozenset()
    """Those whose attributes contradict one another, or tell what is no count."""
    beside: tuple[str, ...] = ()
    """The providers of which `input` leaves the cache out; "*" for all."""
    raw: Mapping[str, object] | None = None
    """The usage as the provider reports it, where the span has that whole."""

    def __bool__(self) -> bool:
        """True if a counter was understood, or would be if its names agreed."""
        return bool(self.told or self.doubted)

    @property
    def cached(self) -> bool:
        """True if anything tells what the cache did."""
        return not CACHE.isdisjoint(self.told) or not CACHE.isdisjoint(self.doubted)

    @property
    def lifetimes(self) -> set[str]:
        """The labels of the lifetimes that tokens are said to be written for."""
        return set(self._split()) if self.raw is None else lifetimes_told(self.raw)

    def metered(self, provider: str, lifetime: str) -> Metered:
        """What the reply was billed for; `lifetime` labels what was written where nothing says for how long.

        Input is inclusive of the cache, of some dialects and where the total says so without it. Anthropic's counters
        that cannot be inside the input stand beside it, whatever the dialect says; those of others contradict it.
        """
        if self.raw is not None:
            found = metered_of(self.raw, lifetime)
            if found.usage.output is None:
                found = found._replace(usage=replace(found.usage, output=self.told.get("output")))
            return found
        read, write, doubted = self._of_the_cache(provider, lifetime)
        usage = Usage(input=self.told.get("input"), read=read, write=write, output=self.told.get("output"))
        cached = (usage.read or 0) + (usage.written or 0)
        apart = "*" in self.beside or provider in self.beside
        if usage.input is None:
            told = usage
        elif apart and not CACHE.isdisjoint(doubted):
            told = replace(usage, input=None)
        elif apart or (cached > usage.input and provider == "anthropic"):
            told = replace(usage, input=usage.input + cached)
        else:
            told = possible(usage, self.told.get("total"))
            if told.read is None and told.write is None and cached:
                doubted |= {word for word in CACHE if self.told.get(word)}
        told, of_sums = self._not_below(told)
        doubted |= of_sums
        return Metered(told, (), tuple(name for word in self.names if word in doubted for name in self.names[word]))

    def _not_below(self, told: Usage) -> tuple[Usage, frozenset[str]]:
        """`told` as far as no sum is less than its parts, and the counters that say that one is.

        A total may be that of the two plain counters, of somebody who did not know of the cache.
        """
        total, plain, output = self.told.get("total"), self.told.get("input", 0), told.output or 0
        if below(total, plain, output):
            return replace(told, input=None, output=None), frozenset({"input", "output", "total"})
        if told.input is None or total == told.input + output:
            return told, frozenset()
        if total is not None and plain + output < total < told.input + output:
            return replace(told, input=None), frozenset({"input", "total"})
        kinds = [word for word in self.told if word.startswith(KIND)]
        if sum(self.told[word] for word in kinds) > told.input:
            return replace(told, input=None), frozenset({"input", *kinds})
        return told, frozenset()

    def _of_the_cache(self, provider: str, lifetime: str) -> tuple[int | None, dict[str, int] | None, frozenset[str]]:
        """What was read and written, and which counters contradict one another.

        Some instrumentations leave zeros out. Where one of Anthropic's two cache counters is told, so would the other
        be, if it were not 0; but what nobody counts as written, as before GPT-5.6, is not known to be 0.
        """
        read, written, split = self.told.get("read"), self.told.get("write"), self._split()
        doubted = self.doubted
        if written is None and split and "write" not in doubted:
            written = sum(split.values())
        if written is not None and sum(split.values()) > written:
            doubted |= {"write", *(WRITE_FOR + label for label in split)}
        if not CACHE.isdisjoint(doubted) or any(word.startswith(WRITE_FOR) for word in doubted):
            written = None if any(word.startswith("write") for word in doubted) else written
        elif read is not None or written is not None:
            read = 0 if read is None else read
            written = 0 if written is None and provider == "anthropic" else written
        if written is None:
            return read, None, doubted
        rest = written - sum(split.values())
        return read, {**split, lifetime: split.get(lifetime, 0) + rest} if rest else split, doubted

    def _split(self) -> dict[str, int]:
        """What was written, by lifetime."""
        words = (word for word in self.told if word.startswith(WRITE_FOR) and self.told[word])
        return {word.removeprefix(WRITE_FOR): self.told[word] for word in words}


Kind = Literal["turn", "tool", "agent", "other"]
"""What a span is of; "other" for what counts tokens and is no request for an answer, such as an embedding."""

ARGUMENTS = "gen_ai.tool.call.arguments"
"""Of these only a hash is kept."""

WITHIN, WITHIN_PARENT, REQUEST = "within", "within_parent", "request"
"""The sub-agent that a span names, the one that this works for, and the provider's name for the request."""

OWN = {
    "session": semconv.CONVERSATION,
    "agent": semconv.AGENT,
    "model": semconv.REQUEST_MODEL,
    "provider": semconv.PROVIDER,
    "stop": semconv.FINISH_REASONS,
    "tool": semconv.TOOL_NAME,
    "arguments": ARGUMENTS,
    "status": semconv.HTTP_STATUS,
}
"""Our names for what rows name; what is not here goes by the row's own word."""

ALWAYS = frozenset(
    {
        semconv.REQUEST_STREAM,
        semconv.FIRST_CHUNK,
        semconv.ERROR_TYPE,
        semconv.HTTP_STATUS,
        semconv.OUTCOME,
        semconv.MODE,
        semconv.SPECULATIVE,
        semconv.SERVED_FROM,
        semconv.HIDDEN,
        semconv.RESPONSE_MODEL,
        semconv.BILLED,
        semconv.DOUBTS,
        semconv.SERVER_ADDRESS,
    }
)
"""Attributes that have one name everywhere, our own included."""

_COUNTER = re.compile(r"token|usage\b.*(?:prompt|completion|input|output|cach)", re.IGNORECASE)
_NO_COUNTER = re.compile(r"max|limit|budget|second|cost|price", re.IGNORECASE)
"""Names that tell of tokens, and those among them that do not count what a request used."""

_UNTOLD = ("", "NaN")
"""What stands for a counter that is not there."""

_DEEPEST = 4
"""Levels of an attribute that is JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanDialect:
    """One row of `dialects.toml`, which says what its fields mean."""

    name: str
    source: str
    date: object
    spans: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    unpack: tuple[str, ...] = ()
    kind: tuple[str, ...] = ()
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    failed: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    agent: str | None = None
    sub_agent: str | None = None
    provider: str | None = None
    usage: str | None = None
    counters: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def holds(self, span: str, told: Mapping[str, object]) -> bool:
        """True if the span called `span` is written in this dialect."""
        if self.spans and span.startswith(self.spans):
            return True
        return bool(self.marks) and any(name.startswith(self.marks) for name in told)

    def count(self, told: Mapping[str, object]) -> Counters:
        """The counters that this row understands; a total decides between inputs that contradict one another."""
        counts = dict[str, dict[str, int | None]]()
        for word, names in self.counters.items():
            for name in names:
                if (value := told.get(name)) is not None and value not in _UNTOLD:
                    counts.setdefault(word, {})[name] = _whole(value)
        if not counts:
            return _NOTHING
        total, output = (next(filter(None, counts.get(word, {}).values()), None) for word in ("total", "output"))
        rest = None if total is None or output is None else total - output
        found, doubted = dict[str, int](), set[str]()
        for word, several in counts.items():
            value, _ = agreed(several, rest.__eq__) if word == "input" and rest is not None else agreed(several)
            if value is not None:
                found[word] = value
            elif word != "total":
                doubted.add(word)
        raw = told.get(self.usage) if self.usage else None
        said = {word: tuple(several) for word, several in counts.items()}
        return Counters(found, said, frozenset(doubted), self.beside, raw if isinstance(raw, dict) else None)


_NOTHING = Counters()


class SpanFields(NamedTuple):
    """What a span says."""

    kind: Kind | None
    said: dict[str, object]
    """Under today's names."""
    counters: Counters
    unread: tuple[str, ...]
    """Attributes that look like counters of tokens and are in no row that holds."""
    failed: bool
    called: str = ""
    """What it says to be, where that is no kind that is known."""


@functools.cache
def dialects() -> tuple[SpanDialect, ...]:
    """All rows, the most particular first."""
    raw = tomllib.loads(Path(__file__).with_name("dialects.toml").read_text(encoding="utf-8"))
    rows = [_row(row) for row in raw["dialects"]]
    return tuple(SpanDialect(**{**row, "kinds": _folded(row.get("kinds", {}))}) for row in rows)


def _folded(kinds: Mapping[str, Kind]) -> dict[str, Kind]:
    """By names in lower case: instrumentations of one dialect write them either way."""
    return {name.casefold(): kind for name, kind in kinds.items()}


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row with tuples for its lists, at any depth."""
    return {
        name: tuple(value) if isinstance(value, list) else _row(value) if isinstance(value, dict) else value
        for name, value in row.items()
    }


@functools.cache
def _unpacked_names() -> frozenset[str]:
    return frozenset(name for row in dialects() for name in row.unpack)


@functools.cache
def _whole_usages() -> frozenset[str | None]:
    return frozenset(row.usage for row in dialects())


@functools.cache
def _names_of_row(name: str) -> frozenset[str]:
    row = next(one for one in dialects() if one.name == name)
    return frozenset(one for named in (row.counters, row.names) for names in named.values() for one in names)


def said_by(span: str, told: Mapping[str, object]) -> SpanFields:
    """What the span or event called `span` says with the attributes `told`."""
    told = _unpacked(told)
    rows = [row for row in dialects() if row.holds(span, told)]
    said: dict[str, object] = {
        name: value for name, value in told.items() if name in ALWAYS or name.startswith(semconv.TERM)
    }
    for row in rows:
        for word, names in row.names.items():
            value = next((told[name] for name in names if told.get(name) not in (None, "")), None)
            if value is not None:
                said.setdefault(OWN.get(word, word), value)
    kind, called = _kind(span, told, rows, said)
    for row in rows:
        if row.agent is not None:
            said.setdefault(semconv.AGENT, row.sub_agent if said.get(WITHIN) else row.agent)
        if row.provider is not None:
            said.setdefault(semconv.PROVIDER, row.provider)
    if kind == "tool" and semconv.TOOL_NAME not in said and "entity" in said:
        said[semconv.TOOL_NAME] = said["entity"]
    if kind == "agent" and semconv.AGENT not in said and "entity" in said:
        said[semconv.AGENT] = said["entity"]
    _times(said)
    counters = _counted([row.count(told) for row in rows]) if kind != "other" else Counters()
    known = ALWAYS.union(*(_names_of_row(row.name) for row in rows))
    unread = tuple(name for name, value in told.items() if name not in known and _looks_like_a_counter(name, value))
    failed = said.get("success") in (False, "false") or any(span in row.failed for row in rows)
    return SpanFields(kind, said, counters, unread if kind != "other" else (), failed, called)


def _kind(
    span: str, told: Mapping[str, object], rows: list[SpanDialect], said: Mapping[str, object]
) -> tuple[Kind | None, str]:
    """What the span is of; where no row knows that, what it calls itself."""
    called = ""
    for row in rows:
        for name in row.kind:
            value = told.get(name) if name else span
            if not isinstance(value, str) or not value:
                continue
            if (kind := row.kinds.get(value.casefold())) is not None:
                return kind, ""
            called = called or f"{name} {value}".strip()
    if called or not rows:
        return None, called
    # Older spans name no operation; a request names a model and who offers it.
    model = said.get(semconv.REQUEST_MODEL) or said.get(semconv.RESPONSE_MODEL)
    return ("turn" if model and semconv.PROVIDER in said else None), ""


def _counted(rows: list[Counters]) -> Counters:
    """The counters of the first row that knows of the cache, else of the first that counts anything. What was read and
    written means the same in all of them: where they contradict one another, it is not known."""
    found = [one for one in rows if one]
    best = next((one for one in found if "input" in one.told and one.cached), None)
    best = best or next((one for one in found if one.cached), None)
    best = best or next((one for one in found if "input" in one.told), None) or next(iter(found), Counters())
    if best.raw is not None:
        return best
    for word in CACHE:
        if len({one.told[word] for one in found if word in one.told}) > 1:
            names = dict.fromkeys(name for one in found for name in one.names.get(word, ()))
            told = {name: count for name, count in best.told.items() if name != word}
            best = replace(best, told=told, names={**best.names, word: tuple(names)}, doubted=best.doubted | {word})
    return best


def _times(said: dict[str, object]) -> None:
    """What is told in milliseconds, in seconds."""
    for word, name in (("first_ms", semconv.FIRST_CHUNK), ("duration_ms", "duration")):
        value = _number(said.pop(word, None))
        if value is not None:
            said.setdefault(name, value / 1000)


def _looks_like_a_counter(name: str, value: object) -> bool:
    return _whole(value) is not None and _COUNTER.search(name) is not None and _NO_COUNTER.search(name) is None


def _unpacked(told: Mapping[str, object]) -> Mapping[str, object]:
    """`told`, and the members of the attributes that are objects, or JSON where it is looked for, as attributes."""
    packed = {
        name: value
        for name, value in told.items()
        if isinstance(value, dict) or (isinstance(value, str) and (name in _unpacked_names() or _is_usage(name, value)))
    }
    if not packed:
        return told
    whole = {name: value for name, value in told.items() if name not in packed}
    for name, value in packed.items():
        if isinstance(value, str):
            with contextlib.suppress(ValueError):
                value = orjson.loads(value)
        whole.update(_leaves(name, value, _DEEPEST))
    return whole


def _is_usage(name: str, value: str) -> bool:
    return "usage" in name and value.startswith("{")


def _leaves(name: str, value: object, deepest: int) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        if name in _whole_usages():
            yield name, value
        if deepest:
            for key, inner in value.items():
                yield from _leaves(f"{name}.{key}", inner, deepest - 1)
    else:
        yield name, value


def _whole(value: object) -> int | None:
    """A count, also where an exporter wrote it as a string or with a decimal point."""
    digits = isinstance(value, str) and len(value) < 20 and value.isascii() and value.isdigit()
    if digits or (isinstance(value, float) and value.is_integer()):
        value = int(value)  # type: ignore[call-overload]  # either can be
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else None


def _number(value: object) -> float | None:
    if isinstance(value, str) and len(value) < 20 and value.isascii() and value.replace(".", "", 1).isdigit():
        return float(value)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None

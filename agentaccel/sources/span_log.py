"""Spans of requests and tools as records: each call once, in the session and below the agent that it belongs to.

A parent ends after its children and may be in another file, so everything is read before the first record is made.
Where two instrumentations report the same request, one inside the other, the inner span counts: it is nearer to what
was sent and billed, and a retry is one of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import NamedTuple, get_args

import orjson

from agentaccel import semconv
from agentaccel.facts import PROVIDERS, cache_facts, platform_of_name, platforms, priced_region
from agentaccel.records import Outcome, ServedFrom, ToolRecord, TurnRecord
from agentaccel.sources.dialects import ARGUMENTS, REQUEST, WITHIN, WITHIN_PARENT
from agentaccel.sources.fields import Identities, count, lifetime_among, mapping, text, usual_lifetime
from agentaccel.sources.infer import Arrival, LoggedConversation, settle
from agentaccel.sources.lines import parse
from agentaccel.sources.runs import provider_of
from agentaccel.sources.spans import Span, joined, spans_of
from agentaccel.sources.tally import ImportTally
from agentaccel.types import BilledPart, Usage
from agentaccel.values import kept_name, kept_name_or_none
from agentaccel.wire.json import terms_of, unusual

# --- One span as a record: of a request, with its usage and who answered, or of a tool --------------------------------

_PROVIDERS = {name: place for place, name in reversed(semconv.PROVIDERS.items())}
"""Whom the conventions' names mean; where several of our platforms have one name, the first."""


class SpanPlace(NamedTuple):
    """Where a request or a tool run belongs."""

    session: str
    parent: str | None
    agent: str | None


def turn_record(span: Span, place: SpanPlace, pasts: dict[str, LoggedConversation], told: Set[str]) -> TurnRecord:
    """`told`: the labels of the lifetimes that the session's requests say to have written for."""
    said = span.said
    model = text(said, semconv.REQUEST_MODEL) or text(said, semconv.RESPONSE_MODEL) or "unknown"
    provider, platform = _provider(text(said, semconv.PROVIDER) or "", model)
    facts = cache_facts(model, platform=platform) if provider == "anthropic" else None
    default = usual_lifetime(provider, platform, model)
    metered = span.counters.metered(provider, lifetime_among(told, default=default))
    usage = metered.usage
    reusable, misses = settle(pasts[place.session], Arrival(model, usage, span.start), facts)
    waited, outcome = said.get(semconv.FIRST_CHUNK), _outcome(span)
    known = isinstance(waited, int | float) and not isinstance(waited, bool) and 0 <= waited < 86_400
    return TurnRecord(
        session=place.session,
        provider=provider,
        platform=platform,
        model=model,
        started=span.start,
        first_byte=span.start + float(waited) if known and span.start else None,  # type: ignore[arg-type]  # see `known`
        finished=span.end,
        agent=place.agent,
        parent=place.parent,
        outcome=outcome,
        status=count(said, semconv.HTTP_STATUS) if outcome == "failed" else None,
        error=text(said, semconv.ERROR_TYPE),
        mode=mode if (mode := said.get(semconv.MODE)) in _MODES else "log",
        streamed=said.get(semconv.REQUEST_STREAM) is True,
        usage=usage,
        answered_by=metered.model or text(said, semconv.RESPONSE_MODEL),
        besides=metered.besides or _besides(said.get(semconv.BILLED)),
        doubts=metered.doubts + _names(said.get(semconv.DOUBTS)),
        terms=_terms(span, provider, platform),
        stop=_first(said.get(semconv.FINISH_REASONS)),
        reusable=reusable,
        misses=misses,
    )


def _names(told: object) -> tuple[str, ...]:
    return tuple(kept_name(one) for one in told if isinstance(one, str)) if isinstance(told, list) else ()


def _terms(span: Span, provider: str, platform: str) -> dict[str, str]:
    """What the request is priced by: as told, and by the host that was asked."""
    said, host = span.said, text(span.said, semconv.SERVER_ADDRESS) or ""
    known = provider in PROVIDERS and platform in platforms(provider)
    region = priced_region(provider, platform, host) if host and known else ""
    told = terms_of(said) | terms_of(span.counters.raw or {}) | _own_terms(said)
    return unusual({"region": region, **told})


def _own_terms(said: Mapping[str, object]) -> dict[str, str]:
    """What agentaccel's own spans say that the request is priced by."""
    told = {name.removeprefix(semconv.TERM): text(said, name) for name in said if name.startswith(semconv.TERM)}
    return {kept_name(name): kept_name(value) for name, value in told.items() if value is not None}


_MODES = ("on", "observe", "holdout", "bypass")
"""What agentaccel's own spans say of how the request was sent."""


def tool_record(span: Span, place: SpanPlace) -> ToolRecord:
    served, hidden = span.said.get(semconv.SERVED_FROM), span.said.get(semconv.HIDDEN)
    return ToolRecord(
        session=place.session,
        name=text(span.said, semconv.TOOL_NAME) or "unknown",
        key=text(span.said, ARGUMENTS) or "",
        started=span.start,
        finished=span.end,
        outcome=_outcome(span),
        error=text(span.said, semconv.ERROR_TYPE),
        agent=place.agent,
        speculative=span.said.get(semconv.SPECULATIVE) is True,
        served_from=next((one for one in get_args(ServedFrom) if one == served), None),
        hidden=hidden if isinstance(hidden, float) and hidden >= 0 else None,
    )


def _besides(told: object) -> tuple[BilledPart, ...]:
    """What agentaccel's own spans say that the reply was billed for beside its answer; a part of which nobody knows
    anything where that cannot be read."""
    if told is None:
        return ()
    parts = _json(told)
    return (BilledPart(kind="unknown", usage=Usage()),) if parts is None else tuple(map(_part, parts))


def _json(told: object) -> list[Mapping[str, object]] | None:
    """The objects of a list that is written as JSON; None where it is none."""
    try:
        found = orjson.loads(told) if isinstance(told, str) else None
    except ValueError:
        return None
    return found if isinstance(found, list) and all(isinstance(one, dict) for one in found) else None


def _part(raw: Mapping[str, object]) -> BilledPart:
    told, model = mapping(raw, "usage"), text(raw, "model")
    split = told.get("write")
    write = (
        {kept_name(label): tokens for label in split if (tokens := count(split, label))}
        if isinstance(split, dict)
        else None
    )
    usage = Usage(input=count(told, "input"), read=count(told, "read"), write=write, output=count(told, "output"))
    return BilledPart(kind=kept_name(text(raw, "kind") or "unknown"), usage=usage, model=kept_name_or_none(model))


def _provider(name: str, model: str) -> tuple[str, str]:
    """Provider and platform, as we call them."""
    name = semconv.provider_told(name)
    if name not in _PROVIDERS and name in platforms("compatible"):
        return "compatible", name
    provider, platform = _PROVIDERS[name] if name in _PROVIDERS else (provider_of(model), "api")
    if platform in ("bedrock", "vertex") and provider_of(model) != provider:
        provider, platform = provider_of(model), "api"
    return provider, platform_of_name(provider, model) if (provider, platform) == ("anthropic", "api") else platform


def _outcome(span: Span) -> Outcome:
    told = span.said.get(semconv.OUTCOME)
    for outcome in get_args(Outcome):
        if told == outcome:
            return outcome  # type: ignore[no-any-return]
    return "failed" if span.failed or text(span.said, semconv.ERROR_TYPE) else "ok"


def _first(value: object) -> str | None:
    found = value[0] if isinstance(value, list) and value else value
    return found if isinstance(found, str) and found else None


_DEEPEST = 1000
"""Ancestors looked at, at most; who has more is in a loop."""

_OTHER_SIGNALS = {"resourceMetrics", "scopeMetrics", "resource_metrics", "scope_metrics"}
"""Batches that the same exporters write, and that tell of no single request."""

_NAMES = {"turn": REQUEST, "tool": "call"}
"""What names a request, and a call of a tool."""

_ENDINGS = (semconv.ERROR_TYPE, semconv.HTTP_STATUS, semconv.OUTCOME)
"""How a span ended, which is its own affair."""


class SpanLog:
    """The spans of all files of one import."""

    def __init__(self, tally: ImportTally) -> None:
        self._tally = tally
        self._parents: dict[int, int] = {}
        """Of every span, whatever it is of: the chain from a request to its agent may lead over others."""
        self._spans: dict[int, Span] = {}
        """Those of requests, tools and agents, in the order in which they were read."""
        self._named: dict[str, str | None] = {}
        """The one conversation that each trace names; None where it names several."""
        self._odd: dict[int, Span] = {}
        """Spans of no known kind that count tokens, or seem to."""
        self._told: set[int] = set()
        """Requests whose counters were understood."""
        self._around: set[int] = set()
        """All spans above those."""

    def take(self, lines: Iterable[bytes]) -> None:
        """The lines of one file."""
        for line in joined(lines):
            self._tally.lines += 1
            entry = parse(line, self._tally)
            if entry is None:
                continue
            found = spans_of(entry)
            if found is None:
                self._tally.skipped += _OTHER_SIGNALS.isdisjoint(entry)
                continue
            for span in found:
                self._take(span)

    def _take(self, span: Span) -> None:
        key = hash((span.trace, span.id)) if span.id else hash(("no id", len(self._spans) + len(self._odd)))
        if span.parent:
            self._parents[key] = hash((span.trace, span.parent))
        before = self._spans.get(key)
        if span.kind is None or span.kind == "other":
            if before is None and (span.unread or span.counters):
                self._odd[key] = span
            return
        if before is not None:
            self._tally.duplicates += 1
            span = _fuller(before, span)
        self._spans[key] = span
        self._odd.pop(key, None)
        named = text(span.said, semconv.CONVERSATION)
        if named is not None and span.trace and self._named.setdefault(span.trace, named) != named:
            self._named[span.trace] = None

    def records(self) -> Iterator[TurnRecord | ToolRecord]:
        """All of them, in the order in which they began."""
        chains = {key: self._ancestors(key) for key in self._spans}
        self._count_once(chains)
        self._without_events(chains)
        self._name_the_rest(chains)
        pasts: dict[str, LoggedConversation] = defaultdict(LoggedConversation)
        placed = [(self._spans[key], self._place_of(self._spans[key], chain)) for key, chain in chains.items()]
        lifetimes: dict[str, set[str]] = defaultdict(set)
        for span, place in placed:
            lifetimes[place.session] |= span.counters.lifetimes
        for span, place in sorted(placed, key=lambda one: one[0].start):
            if span.kind == "turn":
                yield turn_record(span, place, pasts, lifetimes[place.session])
            elif span.kind == "tool":
                yield tool_record(span, place)

    def _without_events(self, chains: dict[int, list[Span]]) -> None:
        """Take out of `chains` the events that tell of what a span, or another event, tells of, too."""
        seen, told = Identities(), defaultdict[object, list[Span]](list)
        for key in sorted(chains, key=lambda key: self._spans[key].event):
            span = self._spans[key]
            session, name, used = text(span.said, semconv.CONVERSATION), _name_of(span), _counted(span)
            when = (session, span.trace, span.end, span.said.get(semconv.TOOL_NAME), used)
            known = seen.met((span.kind, name) if name else None, when if span.event and span.end else None)
            if not span.event:
                told[session, used].append(span)
                continue
            above = self._spans.get(self._parents.get(key, 0))
            inside = above if above is not None and above.kind == span.kind else None
            if inside is not None:
                _complete(inside, span)
            several = told[session, used] if used else []
            other = inside or next((one for one in several if _may_be(one, span)), None)
            told[session, used] = [one for one in several if one is not other]
            if known or other is not None:
                self._tally.nested += 1
                del chains[key]

    def _name_the_rest(self, chains: dict[int, list[Span]]) -> None:
        """Say of which spans no request was made because their counters are not understood, or are sums."""
        odd = dict(self._odd)
        for key in [key for key in chains if self._spans[key].kind == "turn"]:
            span = self._spans[key]
            if span.unread and not span.counters:
                odd[key] = span
                del chains[key]
                continue
            if span.unread and not span.counters.cached:
                self._tally.half_read.update(name for name in span.unread if "cach" in name.lower())
            self._mark(key)
        told = {_counted(self._spans[key]) for key in self._told}
        for key, span in odd.items():
            if self._tells_again(key) or (span.event and span.counters.told and _counted(span) in told):
                continue
            if span.counters:
                self._tally.kindless[kept_name(span.called or "no name of a kind")] += 1
            else:
                self._tally.unread_spans += 1
                self._tally.unread_names.update(span.unread)
        self._tally.sums += sum(
            span.kind == "agent" and bool(span.counters) and key not in self._around
            for key, span in self._spans.items()
        )

    def _mark(self, key: int) -> None:
        self._told.add(key)
        for above in self._above(key):
            if above in self._around:
                break
            self._around.add(above)

    def _tells_again(self, key: int) -> bool:
        """True if a request whose counters are understood is inside the span or, with no tool or agent between them,
        around it."""
        if key in self._around or key in self._told:
            return True
        for above in self._above(key):
            if above in self._told:
                return True
            if (span := self._spans.get(above)) is not None and span.kind != "turn":
                return False
        return False

    def _above(self, key: int) -> Iterator[int]:
        """The keys of the spans that one is in, the nearest first."""
        for _ in range(_DEEPEST):
            if key not in self._parents:
                return
            key = self._parents[key]
            yield key

    def _place_of(self, span: Span, chain: list[Span]) -> SpanPlace:
        return _place_of(span, chain, self._named.get(span.trace) or span.trace or "no trace")

    def _ancestors(self, key: int) -> list[Span]:
        """The requests, tools and agents that a span is in, the nearest first."""
        found: list[Span] = []
        above = self._parents.get(key)
        for _ in range(_DEEPEST):
            if above is None:
                break
            if above == key:
                return []  # in a loop, where nobody is above anybody
            span = self._spans.get(above)
            if span is not None:
                found.append(span)
            above = self._parents.get(above)
        return found

    def _count_once(self, chains: dict[int, list[Span]]) -> None:
        """Take out of `chains` the spans that repeat one inside them; what only they say of the call, that one gets."""
        inner: dict[int, list[Span]] = defaultdict(list)
        keys = {id(span): key for key, span in self._spans.items()}
        for key, chain in chains.items():
            span = self._spans[key]
            for above in chain if not span.event else ():
                if above.kind != span.kind or span.kind == "agent" or not _same(above, span):
                    break
                inner[keys[id(above)]].append(span)
        for key, inside in inner.items():
            innermost = [span for span in inside if keys[id(span)] not in inner]
            if innermost:
                last = max(innermost, key=lambda span: (not span.failed, span.end or 0.0))
                _complete(last, self._spans[key])
            self._tally.nested += 1
            del chains[key]


def _same(outer: Span, inner: Span) -> bool:
    """Whether a span directly inside one of its kind tells of the same call."""
    return outer.kind == "turn" or outer.said.get(semconv.TOOL_NAME) == inner.said.get(semconv.TOOL_NAME)


def _counted(span: Span) -> tuple[tuple[str, int], ...]:
    """What tells it by what it used."""
    return tuple(sorted(span.counters.told.items()))


def _name_of(span: Span) -> str | None:
    """The name of the request, or of the call of a tool."""
    return text(span.said, _NAMES.get(span.kind or "", ""))


def _may_be(span: Span, event: Span) -> bool:
    """True if `event`, which counts the same, may tell of `span`: where both have a name or a trace, it is the same."""
    pairs = ((_name_of(span), _name_of(event)), (span.trace, event.trace))
    return all(not one or not other or one == other for one, other in pairs)


def _fuller(one: Span, other: Span) -> Span:
    """The copy of a span that tells more of it, with what only the other one tells: some are exported while they are
    open."""

    def told(span: Span) -> tuple[int, bool, int]:
        return len(span.counters.told), span.end is not None, len(span.said)

    less, more = sorted((other, one), key=told)
    more.said = {**less.said, **more.said}
    more.start, more.end, more.failed = more.start or less.start, more.end or less.end, more.failed or less.failed
    return more


def _complete(inner: Span, outer: Span) -> None:
    """Give `inner` what it lacks; usage as a whole, because counters of two sources may mean different things."""
    for name, value in outer.said.items():
        if name not in _ENDINGS:
            inner.said.setdefault(name, value)
    if not inner.counters:
        inner.counters, inner.unread = outer.counters, outer.unread


def _place_of(span: Span, chain: list[Span], default: str) -> SpanPlace:
    """The session, its parent and the agent, told from the outermost span inwards."""
    session, agent = default, None
    outer: list[str] = []
    inside = called = False
    for one in (*reversed(chain), span):
        named, own = text(one.said, semconv.CONVERSATION), text(one.said, semconv.AGENT)
        if one.kind == "agent":
            # An agent within an agent works for it, unless it is the same one, told of twice.
            if inside and (called or (own is not None and own != agent)):
                outer.append(session)
                session, agent = f"{session}/{own or 'agent'}-{one.id[:8]}", own
            else:
                agent = agent or own
            inside, called = True, False
        else:
            called |= one.kind == "tool"
            agent = own or agent
        if named is not None and named not in outer:
            session = named
    within, above = text(span.said, WITHIN), text(span.said, WITHIN_PARENT)
    if within is not None:
        return SpanPlace(f"{session}/{within}", f"{session}/{above}" if above else session, agent)
    return SpanPlace(session, outer[-1] if outer else None, agent)

"""Spans of requests and tools as records: each call once, in the session and below the agent that it belongs to.

A parent ends after its children and may be in another file, so everything is read before the first record is made.
Where two instrumentations report the same request, one inside the other, the inner span counts: it is nearer to what
was sent and billed, and a retry is one of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from agentaccel import semconv
from agentaccel.records import ToolRecord, TurnRecord
from agentaccel.trace.importers.dialects import REQUEST, WITHIN, WITHIN_PARENT
from agentaccel.trace.importers.fields import text
from agentaccel.trace.importers.identities import Identities
from agentaccel.trace.importers.infer import Conversation
from agentaccel.trace.importers.lines import parse
from agentaccel.trace.importers.span_records import Place, tool_record, turn_record
from agentaccel.trace.importers.spans import Span, joined, spans_of
from agentaccel.trace.tally import ImportTally
from agentaccel.values import kept_name

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
        pasts: dict[str, Conversation] = defaultdict(Conversation)
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

    def _place_of(self, span: Span, chain: list[Span]) -> Place:
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


def _place_of(span: Span, chain: list[Span], default: str) -> Place:
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
        return Place(f"{session}/{within}", f"{session}/{above}" if above else session, agent)
    return Place(session, outer[-1] if outer else None, agent)

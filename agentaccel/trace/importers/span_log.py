"""Spans of requests and tools as records: each call once, in the session and below the agent that it belongs to.

A parent ends after its children and may be in another file, so everything is read before the first record is made.
Where two instrumentations report the same request, one inside the other, the inner span counts: it is nearer to what
was sent and billed, and a retry is one of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple, get_args

from agentaccel import semconv
from agentaccel.facts import cache_facts, platforms
from agentaccel.records import Outcome, ServedFrom, ToolRecord, TurnRecord
from agentaccel.trace.importers.fields import count, text, usage_of
from agentaccel.trace.importers.infer import Arrival, Conversation, settle
from agentaccel.trace.importers.lines import ImportTally, parse
from agentaccel.trace.importers.runs import provider_of
from agentaccel.trace.importers.spans import ARGUMENTS, WRITTEN_FOR, Span, joined, spans_of
from agentaccel.types import Usage

_DEEPEST = 1000
"""Ancestors looked at, at most; who has more is in a loop."""

_OTHER_SIGNALS = {"resourceMetrics", "resourceLogs"}
"""Batches that the same exporters write, and that are none of spans."""

_PROVIDERS = {name: place for place, name in reversed(semconv.PROVIDERS.items())}
"""Whom the conventions' names mean; where several of our platforms have one name, the first."""

_ENDINGS = (semconv.ERROR_TYPE, semconv.HTTP_STATUS, semconv.OUTCOME)
"""How a span ended, which is its own affair."""

_USAGE = (
    semconv.INPUT_TOKENS,
    semconv.OUTPUT_TOKENS,
    semconv.CACHE_READ,
    semconv.CACHE_WRITE,
    *WRITTEN_FOR,
)


class _Place(NamedTuple):
    """Where a request or a tool run belongs."""

    session: str
    parent: str | None
    agent: str | None


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
        key = hash((span.trace, span.id)) if span.id else hash(("no id", len(self._spans)))
        if span.parent:
            self._parents[key] = hash((span.trace, span.parent))
        if span.kind is None:
            return
        if key in self._spans:
            self._tally.duplicates += 1
            return
        self._spans[key] = span
        named = text(span.said, semconv.CONVERSATION)
        if named is not None and self._named.setdefault(span.trace, named) != named:
            self._named[span.trace] = None

    def records(self) -> Iterator[TurnRecord | ToolRecord]:
        """All of them, in the order in which they began."""
        chains = {key: self._ancestors(key) for key in self._spans}
        self._count_once(chains)
        pasts: dict[str, Conversation] = defaultdict(Conversation)
        for key, span in sorted(self._spans.items(), key=lambda item: item[1].start):
            if span.kind == "turn" and key in chains:
                yield _turn_record(span, self._place_of(span, chains[key]), pasts)
            elif span.kind == "tool" and key in chains:
                yield _tool_record(span, self._place_of(span, chains[key]))

    def _place_of(self, span: Span, chain: list[Span]) -> _Place:
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
            for above in chain:
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


def _complete(inner: Span, outer: Span) -> None:
    """Give `inner` what it lacks; usage as a whole, because counters of two sources may mean different things."""
    counted = not inner.said.keys().isdisjoint(_USAGE)
    for name, value in outer.said.items():
        if name not in _ENDINGS and not (counted and name in _USAGE):
            inner.said.setdefault(name, value)


def _place_of(span: Span, chain: list[Span], default: str) -> _Place:
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
    return _Place(session, outer[-1] if outer else None, agent)


def _turn_record(span: Span, place: _Place, pasts: dict[str, Conversation]) -> TurnRecord:
    said = span.said
    model = text(said, semconv.REQUEST_MODEL) or text(said, semconv.RESPONSE_MODEL) or "unknown"
    provider, platform = _provider(text(said, semconv.PROVIDER) or "", model)
    facts = cache_facts(model, platform=platform) if provider == "anthropic" else None
    usage = _usage(span, provider, facts.ttls[0].label if facts is not None else "5m")
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
        stop=_first(said.get(semconv.FINISH_REASONS)),
        reusable=reusable,
        misses=misses,
    )


_MODES = ("on", "observe", "holdout", "bypass")
"""What agentaccel's own spans say of how the request was sent."""


def _tool_record(span: Span, place: _Place) -> ToolRecord:
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


def _usage(span: Span, provider: str, default_ttl: str) -> Usage:
    """The counters, whose input is inclusive; counters that cannot be inside it are taken to stand beside it.

    Some instrumentations leave zeros out. Where one of the two cache counters is told, so would the other be, if it
    were not 0; but what nobody counts as written, as before GPT-5.6, is not known to be 0.
    """
    said = span.said
    total, read = count(said, semconv.INPUT_TOKENS), count(said, semconv.CACHE_READ)
    written, output = count(said, semconv.CACHE_WRITE), count(said, semconv.OUTPUT_TOKENS)
    if read is None and written is None:
        return Usage(input=total, output=output)
    cached = (read or 0) + (written or 0)
    if written is None and provider != "anthropic":
        return Usage(input=total, read=read if total is not None and cached <= total else None, output=output)
    fresh = None if total is None else total - cached if total >= cached else total
    split = {f"ephemeral_{label}_input_tokens": said[name] for name, label in WRITTEN_FOR.items() if name in said}
    return usage_of(
        {
            "input_tokens": fresh,
            "cache_read_input_tokens": read or 0,
            "cache_creation_input_tokens": written or 0,
            "cache_creation": split,
            "output_tokens": output,
        },
        default_ttl,
    )


def _provider(name: str, model: str) -> tuple[str, str]:
    """Provider and platform, as we call them."""
    name = semconv.FORMER_PROVIDERS.get(name, name)
    if name in _PROVIDERS:
        provider, platform = _PROVIDERS[name]
        if platform in ("bedrock", "vertex") and provider_of(model) != provider:
            return provider_of(model), "api"
        return provider, platform
    return ("compatible", name) if name in platforms("compatible") else (provider_of(model), "api")


def _outcome(span: Span) -> Outcome:
    told = span.said.get(semconv.OUTCOME)
    for outcome in get_args(Outcome):
        if told == outcome:
            return outcome  # type: ignore[no-any-return]
    return "failed" if span.failed or text(span.said, semconv.ERROR_TYPE) else "ok"


def _first(value: object) -> str | None:
    found = value[0] if isinstance(value, list) and value else value
    return found if isinstance(found, str) and found else None

"""One span as a record: of a request, with its usage and who answered, or of a tool."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import NamedTuple, get_args

from agentaccel import semconv
from agentaccel.facts import cache_facts, platforms
from agentaccel.providers.values import terms_of
from agentaccel.records import Outcome, ServedFrom, ToolRecord, TurnRecord
from agentaccel.trace.importers.dialects import ARGUMENTS
from agentaccel.trace.importers.fields import count, lifetime_among, text, usage_of
from agentaccel.trace.importers.infer import Arrival, Conversation, settle
from agentaccel.trace.importers.runs import provider_of
from agentaccel.trace.importers.spans import Span
from agentaccel.types import Usage
from agentaccel.values import kept_name

_PROVIDERS = {name: place for place, name in reversed(semconv.PROVIDERS.items())}
"""Whom the conventions' names mean; where several of our platforms have one name, the first."""


class Place(NamedTuple):
    """Where a request or a tool run belongs."""

    session: str
    parent: str | None
    agent: str | None


WRITE_FOR = "write_"
"""Begins our words for what was written for one lifetime, which its label ends."""


def lifetimes_told(span: Span) -> set[str]:
    """The labels of the lifetimes that a request's span says to have written for."""
    return {
        word.removeprefix(WRITE_FOR) for word, tokens in span.counters.items() if tokens and word.startswith(WRITE_FOR)
    }


def turn_record(span: Span, place: Place, pasts: dict[str, Conversation], told: Set[str]) -> TurnRecord:
    """`told`: the labels of the lifetimes that the session's requests say to have written for."""
    said = span.said
    model = text(said, semconv.REQUEST_MODEL) or text(said, semconv.RESPONSE_MODEL) or "unknown"
    provider, platform = _provider(text(said, semconv.PROVIDER) or "", model)
    facts = cache_facts(model, platform=platform) if provider == "anthropic" else None
    default = facts.ttls[0].label if facts is not None else "5m"
    usage = _usage(span, provider, lifetime_among(told, default=default))
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
        answered_by=text(said, semconv.RESPONSE_MODEL),
        terms=terms_of(said) | _own_terms(said),
        stop=_first(said.get(semconv.FINISH_REASONS)),
        reusable=reusable,
        misses=misses,
    )


def _own_terms(said: Mapping[str, object]) -> dict[str, str]:
    """What agentaccel's own spans say that the request is priced by."""
    told = {name.removeprefix(semconv.TERM): text(said, name) for name in said if name.startswith(semconv.TERM)}
    return {kept_name(name): kept_name(value) for name, value in told.items() if value is not None}


_MODES = ("on", "observe", "holdout", "bypass")
"""What agentaccel's own spans say of how the request was sent."""


def tool_record(span: Span, place: Place) -> ToolRecord:
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
    """The counters as our noun, whose input is inclusive.

    Counters that cannot be inside the input stand beside it, whatever the dialect says. Some instrumentations leave
    zeros out. Where one of the two cache counters is told, so would the other be, if it were not 0; but what nobody
    counts as written, as before GPT-5.6, is not known to be 0.
    """
    told = span.counters
    total, read, written, output = (told.get(word) for word in ("input", "read", "write", "output"))
    split = {word.removeprefix(WRITE_FOR): tokens for word, tokens in told.items() if word.startswith(WRITE_FOR)}
    if written is None and split:
        written = sum(split.values())
    if read is None and written is None:
        return Usage(input=total, output=output)
    cached = (read or 0) + (written or 0)
    apart = "*" in span.beside or provider in span.beside
    if written is None and provider != "anthropic":
        whole = total if total is None or not apart else total + cached
        return Usage(input=whole, read=read if whole is not None and cached <= whole else None, output=output)
    fresh = None if total is None else total - cached if total >= cached and not apart else total
    return usage_of(
        {
            "input_tokens": fresh,
            "cache_read_input_tokens": read or 0,
            "cache_creation_input_tokens": written or 0,
            "cache_creation": {f"ephemeral_{label}_input_tokens": tokens for label, tokens in split.items()},
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

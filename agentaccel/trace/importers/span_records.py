"""One span as a record: of a request, with its usage and who answered, or of a tool."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import NamedTuple, get_args

import orjson

from agentaccel import semconv
from agentaccel.facts import PROVIDERS, cache_facts, platform_of_name, platforms, priced_region
from agentaccel.providers.values import terms_of, unusual
from agentaccel.records import Outcome, ServedFrom, ToolRecord, TurnRecord
from agentaccel.trace.importers.dialects import ARGUMENTS
from agentaccel.trace.importers.fields import count, lifetime_among, mapping, text, usual_lifetime
from agentaccel.trace.importers.infer import Arrival, Conversation, settle
from agentaccel.trace.importers.runs import provider_of
from agentaccel.trace.importers.spans import Span
from agentaccel.types import BilledPart, Usage
from agentaccel.values import kept_name, kept_name_or_none

_PROVIDERS = {name: place for place, name in reversed(semconv.PROVIDERS.items())}
"""Whom the conventions' names mean; where several of our platforms have one name, the first."""


class Place(NamedTuple):
    """Where a request or a tool run belongs."""

    session: str
    parent: str | None
    agent: str | None


def turn_record(span: Span, place: Place, pasts: dict[str, Conversation], told: Set[str]) -> TurnRecord:
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

"""Agent runs in one normalised format: a line is a run with its messages, and usage where the source had it."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping

from agentaccel.facts import CacheFacts, cache_facts
from agentaccel.hashing import digest, identity_bytes
from agentaccel.records import ToolRecord, TurnRecord
from agentaccel.sources.fields import (
    Identities,
    lifetime_among,
    lifetimes_told,
    mapping,
    metered_of,
    seconds,
    text,
    usual_lifetime,
)
from agentaccel.sources.infer import Arrival, LoggedConversation, settle
from agentaccel.sources.lines import parse
from agentaccel.sources.tally import ImportTally
from agentaccel.types import Metered, Usage
from agentaccel.wire.json import terms_of, unusual

Messages = list[Mapping[str, object]]


_SESSIONS = ("id", "run_id", "session_id", "sessionId", "conversation_id", "conversationId", "thread_id")
"""What a run may call itself by."""


_NAMES = ("id", "run_id")
"""Those of them that name no other run."""


def read_runs(lines: Iterable[bytes], seen: Identities, tally: ImportTally) -> Iterator[TurnRecord | ToolRecord]:
    """The records of one file; `seen` holds the runs that earlier files have told of."""
    for line in lines:
        tally.lines += 1
        run = parse(line, tally)
        if run is None:
            continue
        messages = run.get("messages")
        if not isinstance(messages, list):
            tally.skipped += 1
            continue
        session = next((name for key in _SESSIONS if (name := text(run, key)) is not None), None)
        if seen.met(*_names(run)):
            tally.duplicates += 1
            continue
        asked: Messages = [message for message in messages if isinstance(message, dict)]
        tally.sums += bool(_reported(run)) and not any(_reported(message) for message in asked)
        yield from _run(session or f"run-{tally.lines}", run, asked)


def _names(run: Mapping[str, object]) -> Iterator[tuple[str, ...] | None]:
    """What tells a run from others: its ids, each within its source where that is told; not its session, of which there
    may be several runs."""
    source = text(run, "source")
    for key in _NAMES:
        name = text(run, key)
        yield None if name is None or source is None else (key, name, source)
        yield None if name is None else (key, name)


def _run(session: str, run: Mapping[str, object], messages: Messages) -> Iterator[TurnRecord | ToolRecord]:
    model, agent = text(run, "model") or "unknown", text(run, "domain") or text(run, "agent")
    past, compacted, before = LoggedConversation(), False, seconds(mapping(run, "meta").get("t0")) or 0.0
    provider = provider_of(model)
    facts = cache_facts(model) if provider == "anthropic" else None
    results = {text(m, "tool_call_id"): m for m in messages if m.get("role") == "tool"}
    told = set[str]().union(*(lifetimes_told(_reported(message)) for message in messages))
    lifetime = lifetime_among(told, default=usual_lifetime(provider, "api", model))
    for message in messages:
        end = seconds(message.get("ts_end")) or seconds(message.get("ts"))
        compacted |= message.get("compact_boundary") is True
        if message.get("role") == "assistant":
            reported = _reported(message)
            metered = metered_of(reported, lifetime) if reported else Metered(Usage())
            usage = metered.usage
            arrival = Arrival(model, usage, before, compacted)
            reusable, misses = settle(past, arrival, facts)
            yield TurnRecord(
                session=session,
                provider=provider,
                model=model,
                started=min(before, end) if end else before,
                finished=end,
                agent=agent,
                mode="log",
                usage=usage,
                answered_by=metered.model,
                besides=metered.besides,
                doubts=metered.doubts,
                terms=unusual(terms_of(message) | terms_of(reported)),
                reusable=reusable,
                misses=misses,
            )
            compacted = compacted and usage.input is None
            yield from _calls(session, agent, message, results, end)
        before = max(before, end or 0.0)


def _reported(holder: Mapping[str, object]) -> Mapping[str, object]:
    """The usage of a message, or of a run, under whatever name it has one; an empty object where there is none."""
    return mapping(holder, "usage") or next((mapping(holder, name) for name in holder if "usage" in name), {})


def _calls(
    session: str,
    agent: str | None,
    message: Mapping[str, object],
    results: Mapping[str | None, Mapping[str, object]],
    asked: float | None,
) -> Iterator[ToolRecord]:
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        function = mapping(call, "function") if isinstance(call, dict) else {}
        name = text(function, "name")
        if name is None:
            continue
        result = results.get(text(call, "id"))
        done = seconds(result.get("ts")) if result is not None else None
        failed = result is not None and result.get("is_error") is True
        yield ToolRecord(
            session=session,
            name=name,
            key=digest(identity_bytes([name, function.get("arguments")])).hex(),
            started=asked or 0.0,
            finished=None if done is None else max(done, asked or 0.0),
            outcome="abandoned" if result is None else "failed" if failed else "ok",
            agent=agent,
        )


@functools.lru_cache(maxsize=256)
def provider_of(model: str) -> str:
    """Who offers a model, by our facts and the price list; "unknown" where neither lists it."""
    facts: CacheFacts | None = cache_facts(model)
    if facts is not None:
        return facts.provider
    from genai_prices.data_snapshot import get_snapshot  # takes 0.2 s: only for models without facts

    try:
        provider, _ = get_snapshot().find_provider_model(model, None, None, None)
    except LookupError:
        return "unknown"
    return provider.id

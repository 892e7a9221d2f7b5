"""Recorded sessions as advice takes them: from the trace store with its prompts, from logs by their usage alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from heapq import merge

from agentaccel.cache.breakpoints import marks_of
from agentaccel.facts import platforms
from agentaccel.records import ToolRecord, TurnRecord, key_of
from agentaccel.replay.placements import PLACEMENTS
from agentaccel.replay.read import step_of
from agentaccel.replay.runs import Run, Step
from agentaccel.replay.source import PROVIDER, Rules
from agentaccel.replay.usage_only import by_session, runs_from_usage
from agentaccel.report.advise.nouns import RecordedRequest, RecordedSession
from agentaccel.report.period import EVER, Period
from agentaccel.store.prompts import kept_turns
from agentaccel.store.store import Store

_DEFAULT = "api"
"""The platform whose rules hold where a record names one that the facts do not know."""


def talks_of_store(store: Store, period: Period = EVER) -> list[RecordedSession]:
    """The sessions of `store` in the order in which they began; those without an answered request only with tools.

    Requests and tools before `period` and after it are as good as never made.

    Raises TraceError where it cannot be read.
    """
    rules = {platform: Rules(platform=platform) for platform in platforms(PROVIDER)}
    sessions: dict[str, list[RecordedRequest]] = {}
    turns: dict[str, list[TurnRecord]] = {}
    for kept in kept_turns(store):
        turn = kept.record
        if not period.holds(turn.started):
            continue
        turns.setdefault(turn.session, []).append(turn)
        before = sessions.setdefault(key_of(turn.session, turn.thread), [])
        known = rules.get(turn.platform, rules[_DEFAULT])
        step = step_of(kept, before[-1].step if before else None, known)
        if step is not None:
            before.append(
                RecordedRequest(
                    step=replace(step, marks=marks_of(step.prefix, kept.sent)),
                    turn=turn,
                    priced_as=turn.known_as or turn.model,
                    output=turn.usage.output,
                    own=step.marks if turn.mode == "on" else None,
                )
            )
    tools = _by_conversation(_by_session(tool for tool in store.tools() if period.holds(tool.started)), turns)
    talks = []
    for name, requests in sessions.items():
        workload = store.workload_of(name)
        if workload is None:
            workload = f"agent {requests[0].turn.agent or ''}" if requests else ""
        talks.append(
            RecordedSession(
                id=name,
                workload=workload,
                requests=tuple(requests),
                tools=tuple(tools.get(name, ())),
                listed=_listed(requests),
            )
        )
    return talks


def talks_of_logs(records: Iterable[TurnRecord | ToolRecord]) -> list[RecordedSession]:
    """The sessions of logs, in the order in which they come; their times, where missing, are 0.0.

    A log does not say where markers stood. What was written says that there were some, and of which lifetime: one is
    taken to have stood at the end of each request.
    """
    turns, tools = list[TurnRecord](), list[ToolRecord]()
    for record in records:
        (turns if isinstance(record, TurnRecord) else tools).append(record)  # type: ignore[arg-type]  # told apart
    sessions, of = by_session(turns), _by_session(tools)
    return [_logged(run, sessions[run.id], of.get(run.id, ())) for run in runs_from_usage(sessions, Rules())]


def _logged(run: Run, turns: Sequence[TurnRecord], tools: Iterable[ToolRecord]) -> RecordedSession:
    counted = [turn for turn in turns if turn.usage.input]
    requests = [
        RecordedRequest(step=_marked(step, turn), turn=turn, priced_as=turn.known_as or turn.model, output=None)
        for step, turn in zip(run.steps, counted, strict=True)
    ]
    return RecordedSession(
        id=run.id,
        workload=run.workload,
        requests=tuple(requests),
        tools=tuple(tools),
        inferred=True,
        listed=_listed(requests),
    )


def _listed(requests: Iterable[RecordedRequest]) -> bool:
    """Whether no other model's rules stand in for those of a model that the facts do not know."""
    return all(one.turn.provider == PROVIDER and one.step.prefix.prompt.model == one.priced_as for one in requests)


def _marked(step: Step, turn: TurnRecord) -> Step:
    """`step` with the marker that its usage tells of."""
    written: Mapping[str, int] = turn.usage.write or {}
    labels = Counter({label: tokens for label, tokens in written.items() if tokens})
    if not labels and not turn.usage.read:
        return step
    marks = PLACEMENTS["automatic"](step)
    if labels:
        marks = tuple(replace(mark, ttl=labels.most_common(1)[0][0]) for mark in marks)
    return replace(step, marks=marks)


def _by_conversation(
    tools: Mapping[str, Sequence[ToolRecord]], turns: Mapping[str, Sequence[TurnRecord]]
) -> dict[str, list[ToolRecord]]:
    """The calls of each session by the key of a conversation: that of the last request before it which asked for such a
    tool, else of the last one. A call says only in which session it was made.
    """
    found: dict[str, list[ToolRecord]] = {}
    for session, own in tools.items():
        asked: dict[str | None, str] = {}
        both: tuple[Sequence[TurnRecord | ToolRecord], ...] = (turns.get(session, ()), own)
        for record in merge(*both, key=lambda record: record.started):
            if isinstance(record, TurnRecord):
                asked.update(dict.fromkeys((None, *record.calls), key_of(session, record.thread)))
            else:
                found.setdefault(asked.get(record.name) or asked.get(None) or session, []).append(record)
    return found


def _by_session(tools: Iterable[ToolRecord]) -> dict[str, list[ToolRecord]]:
    found: dict[str, list[ToolRecord]] = {}
    for tool in (one for one in tools if not one.speculative):
        found.setdefault(tool.session, []).append(tool)
    return {name: sorted(own, key=lambda tool: tool.started) for name, own in found.items()}

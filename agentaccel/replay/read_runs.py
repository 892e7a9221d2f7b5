"""Recorded agent runs in the normalised format, with their bodies, as requests of the Messages API.

A run is a list of messages, and each reply in it was a request: the prompt before it. The prompts of a run are the
beginnings of one whole request, so that is decoded once. What the format does not say is done so:

- What follows one another from the same side is one user message: results of parallel calls, and a text after them.
- Replies before anybody has spoken (greetings) were no requests; a user's words must come first in a legal prompt, so
  a placeholder stands before such a greeting.
- Tokens are scaled to the recorded totals where there are any (`runs`).

A run is treated from its usage alone (`usage_only`) where its text cannot have been the prompt: where its tools were
inferred from what happened, or where some recorded total is more than the bytes of the text (a token is at least one
byte). Without any usage there is only the text to go by, and it is used as it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agentaccel.engine.conversation import workload_of
from agentaccel.records import TurnRecord
from agentaccel.replay.pace import first_byte_of
from agentaccel.replay.runs import Run, Step, counted, grown
from agentaccel.replay.source import Rules, Source
from agentaccel.replay.usage_only import runs_from_usage
from agentaccel.sources.fields import Identities, mapping, text
from agentaccel.sources.lines import parse
from agentaccel.sources.runs import read_runs as records_of
from agentaccel.sources.tally import ImportTally
from agentaccel.types import Prompt, Usage
from agentaccel.wire.anthropic import decode
from agentaccel.wire.json import items

Json = Mapping[str, Any]

_KEY = b"replay"
"""Digests of a replay are compared with one another only."""

_BEGINS = "(the conversation begins)"
"""Stands before a greeting."""


def read_runs(lines: Iterable[bytes], name: str, rules: Rules, tally: ImportTally) -> Source:
    """The runs of one file called `name`; what cannot be read is noted in `tally`."""
    found: dict[str, Run | None] = {}
    from_usage: dict[str, Sequence[TurnRecord]] = {}
    without_usage = 0
    before, passed = rules.replaced.copy(), rules.passed.copy()
    for line in lines:
        recorded = _recorded(line, tally)
        if recorded is None or recorded.id in found:
            continue
        if recorded.bodies_hold:
            found[recorded.id] = _run(recorded, rules)
            without_usage += not any(turn.usage.input for turn in recorded.turns)
        else:
            found[recorded.id] = None
            from_usage[recorded.id] = recorded.turns
    inferred = {run.id: run for run in runs_from_usage(from_usage, rules)}
    runs = [run or inferred.get(id_) for id_, run in found.items()]
    kept = tuple(run for run in runs if run is not None and run.steps)
    notes = []
    if without_usage:
        notes.append(f"tokens of {without_usage} runs are estimated from their bytes: no usage was recorded")
    return Source(
        name=name,
        runs=kept,
        untimed=frozenset(i for i, run in enumerate(kept) if not all(step.started for step in run.steps)),
        models=tuple(rules.replaced - before),
        notes=(*notes, *rules.left_out(passed)),
    )


@dataclass(frozen=True, slots=True)
class _Recorded:
    """One line of a file."""

    id: str
    request: Json
    """The whole run as one request."""
    ends: tuple[int, ...]
    """For each request of the run, how many messages of `request` were its prompt."""
    turns: tuple[TurnRecord, ...]
    """What was recorded of each request."""
    inferred_tools: bool

    @property
    def bodies_hold(self) -> bool:
        """Whether the text can have been the prompt; so without usage, when there is nothing else to go by."""
        if not any(turn.usage.input for turn in self.turns):
            return True
        sizes = _sizes(self.request, self.ends)
        return not self.inferred_tools and all(
            (turn.usage.input or 0) <= size for turn, size in zip(self.turns, sizes, strict=True)
        )


def _recorded(line: bytes, tally: ImportTally) -> _Recorded | None:
    records = [one for one in records_of([line], Identities(), tally) if isinstance(one, TurnRecord)]
    raw = parse(line, ImportTally())
    if not records or raw is None:
        return None
    messages = [one for one in items(raw.get("messages")) if isinstance(one, dict)]
    tools = [one for one in items(raw.get("tools")) if isinstance(one, dict)]
    system = text(raw, "system")
    chat = _Chat()
    turns: list[TurnRecord] = []
    for message in messages:
        if message.get("role") != "assistant":
            chat.hear(message)
            continue
        turn = records[chat.replies]
        if chat.spoken:
            chat.ends.append(len(chat.messages))
            turns.append(replace(turn, stop="tool_use" if message.get("tool_calls") else turn.stop))
        chat.reply(message)
    request: dict[str, Any] = {"model": turns[0].model if turns else "", "messages": chat.messages}
    if tools:
        request["tools"] = [{k: v for k, v in one.items() if k in _TOOL_FIELDS} for one in tools]
    if system is not None:
        request["system"] = system
    inferred = any(one.get("origin") == "inferred" for one in tools)
    return _Recorded(records[0].session, request, tuple(chat.ends), tuple(turns), inferred)


_TOOL_FIELDS = frozenset({"name", "description", "input_schema"})


@dataclass(slots=True)
class _Chat:
    """Messages of the Messages API as they come about. Mutable: it grows."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    replies: int = 0
    spoken: bool = False
    """Whether anybody but the model has said something."""

    def hear(self, message: Json) -> None:
        """A user's words or a tool's result."""
        blocks = _said(message)
        if message.get("role") == "tool":
            plain = message.get("content")
            found = plain if isinstance(plain, str) else blocks
            blocks = [{"type": "tool_result", "tool_use_id": message.get("tool_call_id"), "content": found}]
        if not blocks:
            return
        self.spoken = True
        if not self.messages or self.messages[-1]["role"] != "user":
            self.messages.append({"role": "user", "content": []})
        self.messages[-1]["content"] += blocks

    def reply(self, message: Json) -> None:
        """What the model said and asked for."""
        self.replies += 1
        if not self.messages:
            self.messages.append({"role": "user", "content": [{"type": "text", "text": _BEGINS}]})
        blocks = _said(message)
        for call in items(message.get("tool_calls")):
            if isinstance(call, dict):
                function = mapping(call, "function")
                asked = {"id": call.get("id"), "name": function.get("name"), "input": _arguments(function)}
                blocks.append({"type": "tool_use", **asked})
        if blocks:
            self.messages.append({"role": "assistant", "content": blocks})


def _said(message: Json) -> list[dict[str, Any]]:
    """The content of a message as blocks; blank text is none."""
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content.strip() else []
    return [block for block in items(content) if isinstance(block, dict)]


def _arguments(function: Json) -> object:
    try:
        return json.loads(function.get("arguments") or "{}")
    except (TypeError, ValueError):
        return {"arguments": str(function.get("arguments"))}


def _sizes(request: Json, ends: Sequence[int]) -> list[int]:
    """Bytes of the text of each prompt of a run."""
    prompt = decode(request, None)
    return [sum(segment.size for segment in _beginning(prompt, end).segments) for end in ends]


def _beginning(prompt: Prompt, messages: int) -> Prompt:
    """The prompt that held the first so many messages of `prompt`."""
    segments = prompt.segments
    end = next((i for i, s in enumerate(segments) if s.level == "messages" and int(s.path[1]) >= messages), None)
    return replace(prompt, segments=segments[:end], messages=messages)


def _run(recorded: _Recorded, rules: Rules) -> Run:
    steps: list[Step] = []
    if not recorded.turns:
        return Run(id=recorded.id, workload="", steps=())
    named = recorded.turns[0]
    model, facts = rules.of(named.model)
    whole = decode(recorded.request, facts, key=_KEY, place=(facts.provider, facts.platform), model=model)
    for end, turn in zip(recorded.ends, recorded.turns, strict=True):
        before = steps[-1] if steps else None
        prefix = grown(_beginning(whole, end), facts, before)
        steps.append(
            Step(
                prefix=prefix,
                tokens=counted(prefix, before, turn.usage.input),
                started=turn.started,
                visible=first_byte_of(turn.started, turn.first_byte, turn.finished),
                finished=turn.finished,
                recorded=turn.usage if turn.usage != Usage() else None,
            )
        )
    return Run(id=recorded.id, workload=workload_of(whole, named.agent), steps=tuple(steps))

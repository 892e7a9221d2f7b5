"""The sessions of a workload with its fault and with the fault mended: the same seeds, texts and gaps.

Faults in a prompt are done to what the agent would have sent before the author's markers are put on; a mend that
stands behind the markers (volatile text) is done after. Faults in time move what follows.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from agentaccel_emulator import Behaviour
from benchmarks.situations.agents import Body, Change, Exchange, bytes_per_token, filled
from benchmarks.situations.amounts import draw
from benchmarks.situations.changes import asked_for, marked, shuffled_tools, switched
from benchmarks.situations.form import Markers, Situation
from benchmarks.situations.sessions import requests
from benchmarks.workloads.form import Fault, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One request, and the tools that its reply asked for."""

    exchange: Exchange
    output: int
    """Tokens of the reply."""
    tools: tuple[tuple[float, float], ...] = ()
    """When each began and ended, in seconds since the epoch."""


Session = Sequence[Sent]


def sessions(workload: Workload, *, mended: bool) -> list[Session]:
    """The sessions of `workload`, with its fault or without."""
    situation, fault = workload.situation, workload.fault
    changes = asked_for(replace(situation, markers=Markers()))
    markers = situation.markers
    after: list[Change] = []
    kind = fault.kind if fault is not None else ""
    if fault is not None and kind in _IN_THE_PROMPT:
        before, after = _IN_THE_PROMPT[kind](fault, mended)
        changes += before
    if fault is not None and not mended:
        markers = _faulty(fault, markers)
    if markers.at:
        changes.append(marked(markers.at, markers.ttl))
    if kind == "turn beyond the lookback" and mended:
        changes.append(_previous_tail_marked)
    plain = requests(situation, [])
    written = requests(situation, [*changes, *after])
    return [_told(*pair, workload, number, mended) for number, pair in enumerate(zip(written, plain, strict=True))]


# --- faults in the prompt ---------------------------------------------------------------------------------------------

Changes = tuple[list[Change], list[Change]]
"""Before the markers are put on, and after."""


def _faulty(fault: Fault, markers: Markers) -> Markers:
    """The markers of a workload with `fault`."""
    if fault.kind == "cache off":
        return Markers()
    if fault.kind == "wrong TTL":
        return replace(markers, ttl=fault.ttl)
    return markers


def _volatile(fault: Fault, mended: bool) -> Changes:
    def change(situation: Situation, exchanges: Sequence[Exchange], chance: random.Random) -> list[Exchange]:
        ratio = bytes_per_token(situation)
        bodies = [{**one.body, **moved(one, ratio, chance)} for one in exchanges]
        if mended:
            bodies = [{key: value for key, value in body.items() if key != "cache_control"} for body in bodies]
        return [one._replace(body=body) for one, body in zip(exchanges, bodies, strict=True)]

    def moved(one: Exchange, ratio: float, chance: random.Random) -> Body:
        now = datetime.fromtimestamp(one.at, UTC).strftime("%Y-%m-%d %H:%M:%S")
        title = f"It is {now} UTC. "
        tokens = draw(fault.tokens, chance)
        text = title if tokens * ratio < 2 * len(title) else title + filled(f"known at {now}", tokens * ratio)
        block = {"type": "text", "text": text}
        *before, last = one.body["messages"]
        if mended:
            # The request's own marker would move on to the new block: it stays where the prompt ended.
            marks = {key: value for key, value in one.body.items() if key == "cache_control"}
            *blocks, end = last["content"]
            return {"messages": [*before, {**last, "content": [*blocks, {**end, **marks}, block]}]}
        if fault.place == "first":
            first, *rest = one.body["messages"]
            return {"messages": [{**first, "content": _led_by(block, first["content"], fault.inside)}, *rest]}
        return {"system": _led_by(block, one.body.get("system", []), fault.inside)}

    return ([], [change]) if mended else ([change], [])


def _led_by(block: Body, blocks: list[Body], inside: bool) -> list[Body]:
    if not inside or not blocks:
        return [block, *blocks]
    return [{**blocks[0], "text": f"{block['text']}{blocks[0]['text']}"}, *blocks[1:]]


def _padded(fault: Fault, mended: bool) -> Changes:
    def change(situation: Situation, exchanges: Sequence[Exchange], chance: random.Random) -> list[Exchange]:
        tokenizer = Behaviour().tokenizer_of(situation.model)
        first = exchanges[0].body
        held = sum(tokenizer.count(len(json.dumps(one))) for one in [*first.get("tools", []), *first.get("system", [])])
        lacking = fault.pad * situation.facts().min_tokens - held - tokenizer.hidden
        text = filled(f"{situation.name}, more instructions", max(lacking, 1) * tokenizer.bytes_per_token)
        pad = {"type": "text", "text": text}
        return [one._replace(body={**one.body, "system": [*one.body.get("system", []), pad]}) for one in exchanges]

    return ([change], []) if mended else ([], [])


def _shuffled(fault: Fault, mended: bool) -> Changes:
    return ([], []) if mended else ([shuffled_tools], [])


def _switched(fault: Fault, mended: bool) -> Changes:
    return ([], []) if mended else ([switched(fault.every, fault.model)], [])


def _summarised(fault: Fault, mended: bool) -> Changes:
    return ([], []) if mended else ([summarised(fault)], [])


def summarised(fault: Fault) -> Change:
    """Every so many requests the history gives way to a summary, all but its last messages."""

    def change(situation: Situation, exchanges: Sequence[Exchange], chance: random.Random) -> list[Exchange]:
        ratio, cut, late = bytes_per_token(situation), 0, 0.0
        summary: list[Body] = []
        done: list[Exchange] = []
        for number, one in enumerate(exchanges):
            messages: list[Body] = one.body["messages"]
            if number and number % fault.every == 0:
                if fault.asked:
                    whole = {**one.body, "messages": [*summary, *_asking(messages[cut:])]}
                    done.append(one._replace(at=one.at + late, body=whole))
                    late += one.reply_seconds + 1.0
                cut = _cut(messages, fault.kept)
                title = f"{situation.name}, {exchanges[0].at:.3f}, summary of {cut}"
                text = filled(title, draw(fault.summary, chance) * ratio)
                summary = [{"role": "user", "content": [{"type": "text", "text": text}]}]
            body = {**one.body, "messages": [*summary, *messages[cut:]]} if cut else one.body
            done.append(one._replace(at=one.at + late, body=body))
        return done

    return change


def _cut(messages: Sequence[Body], kept: int) -> int:
    """Where the history behind a summary begins: with a reply, since the summary stands where the user speaks."""
    cut = max(len(messages) - kept, 1)
    return cut - (cut < len(messages) and messages[cut]["role"] != "assistant")


def _asking(messages: Sequence[Body]) -> list[Body]:
    *before, last = messages
    return [*before, {**last, "content": [*last["content"], {"type": "text", "text": _ASK}]}]


_ASK = "Summarise this conversation, so that it can go on from your summary alone."


def _asks(exchange: Exchange) -> bool:
    return any(block.get("text") == _ASK for block in exchange.body["messages"][-1]["content"])


_IN_THE_PROMPT: dict[str, Callable[[Fault, bool], Changes]] = {
    "volatile text early": _volatile,
    "prompt below the minimum": _padded,
    "tool order": _shuffled,
    "model switch": _switched,
    "summaries": _summarised,
}


def _previous_tail_marked(situation: Situation, exchanges: Sequence[Exchange], chance: random.Random) -> list[Exchange]:
    """One more marker where the request before ended."""
    mark = {"type": "ephemeral"} if situation.markers.ttl == "5m" else {"type": "ephemeral", "ttl": "1h"}

    def add(one: Exchange) -> Body:
        messages = list(one.body["messages"])
        if len(messages) < 3:
            return one.body
        *blocks, last = messages[-3]["content"]
        messages[-3] = {**messages[-3], "content": [*blocks, {**last, "cache_control": mark}]}
        return {**one.body, "messages": messages}

    return [one._replace(body=add(one)) for one in exchanges]


# --- replies, tools, and faults in time -------------------------------------------------------------------------------

_LAST_REPLY = 100
"""Tokens of a reply that no later request holds."""


def _told(
    written: Sequence[Exchange], plain: Sequence[Exchange], workload: Workload, number: int, mended: bool
) -> Session:
    """The requests of one session with what they were answered, and the tools that ran after each."""
    situation, fault = workload.situation, workload.fault
    kind = fault.kind if fault is not None else ""
    chance = random.Random(f"{situation.seed}/{situation.name}/{number}/tools")
    ratio = bytes_per_token(situation)
    replies = iter(_replies(plain, ratio))
    at, done = written[0].at, list[Sent]()
    for one, next_ in zip(written, [*written[1:], None], strict=True):
        answered = at + one.reply_seconds
        gap = next_.at - one.at - one.reply_seconds if next_ is not None else 0.0
        tools: list[tuple[float, float]] = []
        calls = _results(next_) if next_ is not None and not _asks(one) else 0
        if calls and kind == "calls one after another" and fault is not None:
            tools = _ran([draw(fault.seconds, chance) for _ in range(calls)], answered, together=mended)
            gap = max(end for _, end in tools) - answered
        elif calls and kind == "slow tools":
            begin = at if mended else answered
            tools, gap = [(begin, begin + gap)] * calls, max(begin + gap - answered, 0.0)
        elif calls:
            tools = [(answered, answered + gap)] * calls
        output = _summary(next_, ratio) if _asks(one) and next_ is not None else next(replies)
        done.append(Sent(exchange=one._replace(at=at), output=output, tools=tuple(tools)))
        at = answered + gap
    return done


def _ran(seconds: Sequence[float], begin: float, *, together: bool) -> list[tuple[float, float]]:
    """When calls that take so long ran."""
    times = []
    for one in seconds:
        times.append((begin, begin + one))
        begin += 0.0 if together else one
    return times


def _results(exchange: Exchange) -> int:
    return sum(block.get("type") == "tool_result" for block in exchange.body["messages"][-1]["content"])


def _replies(plain: Sequence[Exchange], ratio: float) -> list[int]:
    """Tokens of every reply, from the request after it."""
    found = []
    for one, next_ in itertools.pairwise(plain):
        reply = next_.body["messages"][len(one.body["messages"])]
        found.append(round(len(repr(reply["content"])) / ratio))
    return [*found, _LAST_REPLY]


def _summary(next_: Exchange, ratio: float) -> int:
    return round(len(next_.body["messages"][0]["content"][0]["text"]) / ratio)

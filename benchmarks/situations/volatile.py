"""Text and tools that change in the beginning of a prompt: what a user may let agentaccel put elsewhere.

Which request shows what follows from the session's own draws, so each of these is a `Change` like any other.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime

from benchmarks.situations.agents import Body, Change, Exchange, bytes_per_token, each, filled
from benchmarks.situations.amounts import draw
from benchmarks.situations.form import Situation, Volatile


def changing_texts(volatile: Volatile) -> list[Change]:
    """The clock, the date and the memory that `volatile` asks for."""
    chosen: list[Change] = []
    if volatile.clock:
        chosen.append(clock(volatile.clock))
    if volatile.date:
        chosen.append(date)
    if volatile.memory_every or volatile.memory_chance:
        chosen.append(memory)
    return chosen


def changing_tools(volatile: Volatile, *, frozen: bool) -> list[Change]:
    """Tools that come and go; `frozen`, they come at the end of the list and stay."""
    chosen: list[Change] = []
    if volatile.tools_added:
        chosen.append(added(volatile.tools_added, at_the_end=frozen))
    if not frozen and volatile.tools_removed:
        chosen.append(removed(volatile.tools_removed))
    if not frozen and volatile.reconnect_chance:
        chosen.append(reconnected(volatile.reconnect_chance))
    return chosen


# --- text -------------------------------------------------------------------------------------------------------------


def clock(where: str) -> Change:
    """The time of the request, to the second, at some place of the system prompt or in the first tool."""

    def change(situation: Situation, exchanges: Sequence[Exchange], chance: random.Random) -> list[Exchange]:
        def show(number: int, one: Exchange) -> Body:
            now = datetime.fromtimestamp(one.at, UTC).strftime("%Y-%m-%d %H:%M:%S")
            if where == "tool" and one.body.get("tools"):
                first, *others = one.body["tools"]
                text = f"{first['description']} It is {now} UTC."
                return {"tools": [{**first, "description": text}, *others]}
            first, *others = _system(one.body)
            text = _with(first["text"], f"It is {now} UTC.", where)
            return {"system": [{**first, "text": text}, *others]}

        return each(exchanges, show)

    return change


def _with(text: str, clock: str, where: str) -> str:
    if where == "start":
        return f"{clock} {text}"
    if where == "middle":
        at = text.find("\n", len(text) // 2) + 1
        return f"{text[:at]}{clock}\n{text[at:]}"
    return f"{text} {clock}"


def date(situation: Situation, exchanges: Sequence[Exchange], chance: random.Random) -> list[Exchange]:
    """The day on which the session began, before everything else in the system prompt."""
    today = datetime.fromtimestamp(exchanges[0].at, UTC).strftime("%A, %d %B %Y")

    def show(number: int, one: Exchange) -> Body:
        first, *others = _system(one.body)
        return {"system": [{**first, "text": f"Today is {today}. {first['text']}"}, *others]}

    return each(exchanges, show)


def memory(situation: Situation, exchanges: Sequence[Exchange], chance: random.Random) -> list[Exchange]:
    """A block behind the system prompt that is another one every so many requests, or now and then."""
    volatile, ratio = situation.volatile, bytes_per_token(situation)
    every, now_and_then = volatile.memory_every, volatile.memory_chance
    texts: list[str] = []

    def show(number: int, one: Exchange) -> Body:
        if not number or (every and number % every == 0) or chance.random() < now_and_then:
            title = f"{situation.name}, {''.join(chance.choices('abcdefghij', k=8))}, memory"
            texts.append(filled(title, draw(volatile.memory, chance) * ratio))
        return {"system": [*_system(one.body), {"type": "text", "text": texts[-1]}]}

    return each(exchanges, show)


def _system(body: Body) -> list[Body]:
    blocks: list[Body] = body.get("system", [{"type": "text", "text": "Help."}])
    return blocks


# --- tools ------------------------------------------------------------------------------------------------------------


def added(when: Sequence[int], *, at_the_end: bool) -> Change:
    """From each of these requests on there is one more tool: in the middle, as of sorted names, or at the end."""

    def change(situation: Situation, exchanges: Sequence[Exchange], chance: random.Random) -> list[Exchange]:
        def add(number: int, one: Exchange) -> Body:
            tools: list[Body] = list(one.body.get("tools", []))
            for index, at in enumerate(sorted(when)):
                if number >= at and tools:
                    new = {**tools[-1], "name": f"more_{index}", "description": f"{tools[-1]['description']} {index}"}
                    tools.insert(len(tools) if at_the_end else len(tools) // 2, new)
            return {"tools": tools} if tools else {}

        return each(exchanges, add)

    return change


def removed(when: Sequence[int]) -> Change:
    """From each of these requests on there is one tool less; the first, which is called, stays."""

    def change(situation: Situation, exchanges: Sequence[Exchange], chance: random.Random) -> list[Exchange]:
        def remove(number: int, one: Exchange) -> Body:
            tools: list[Body] = one.body.get("tools", [])
            gone = sum(number >= at for at in when)
            return {"tools": [tools[0], *tools[1 + gone :]]} if tools else {}

        return each(exchanges, remove)

    return change


def reconnected(how_often: float) -> Change:
    """A server with the second half of the tools drops out for one request, and lists them in another order then."""

    def change(situation: Situation, exchanges: Sequence[Exchange], chance: random.Random) -> list[Exchange]:
        order: list[int] = []

        def connect(number: int, one: Exchange) -> Body:
            tools: list[Body] = one.body.get("tools", [])
            stay, there = tools[: len(tools) // 2], tools[len(tools) // 2 :]
            if number and chance.random() < how_often:
                order[:] = chance.sample(range(len(there)), len(there))
                return {"tools": stay} if stay else {}
            return {"tools": [*stay, *([there[i] for i in order] or there)]} if tools else {}

        return each(exchanges, connect)

    return change


def choosing(every: int) -> Change:
    """Every `every` requests the model must call a tool, and then need not again: part of what the cache goes by."""

    def change(situation: Situation, exchanges: Sequence[Exchange], chance: random.Random) -> list[Exchange]:
        return each(exchanges, lambda number, one: {"tool_choice": {"type": "any"}} if number // every % 2 else {})

    return change

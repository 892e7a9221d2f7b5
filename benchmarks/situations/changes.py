"""What can be done to a session's requests; each is a `Change` or makes one, and they can be put in any order."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from benchmarks.situations.agents import Body, Change, Exchange, bytes_per_token, each, filled
from benchmarks.situations.amounts import Amount, draw
from benchmarks.situations.form import Situation
from benchmarks.situations.volatile import changing_texts, changing_tools, choosing

_CLEARED = "[cleared]"
_KEPT_RESULTS = 3
_SUMMARY_TOKENS = 600


def asked_for(situation: Situation, *, moved: bool = False) -> list[Change]:
    """What a situation asks for; markers come last, because they stand where the prompt then ends.

    With `moved`, without what its consents let agentaccel take out of the prefix: volatile text is left out, and tools
    stay and keep the order in which they first came.
    """
    volatile = situation.volatile
    texts = moved and "move_volatile" in situation.consents
    tools = moved and "freeze_tools" in situation.consents
    chosen: list[Change] = []
    if volatile.compact_every or volatile.compact_chance:
        chosen.append(compacted(volatile.compact_every, volatile.compact_chance))
    if volatile.leaves_out:
        chosen.append(leaving_out)
    if volatile.edit_every or volatile.edit_chance:
        chosen.append(edited(volatile.edit_every, volatile.edit_chance))
    if volatile.shuffled_tools:
        chosen.append(as_they_are if tools else shuffled_tools)
    if volatile.clock_in_system:
        chosen.append(as_they_are if texts else clock_in_system)
    if volatile.switch_every:
        chosen.append(switched(volatile.switch_every, volatile.other_model))
    chosen.append(context(volatile.context))
    chosen += changing_tools(volatile, frozen=tools)
    chosen += [as_they_are] if texts else changing_texts(volatile)
    if volatile.choice_every:
        chosen.append(choosing(volatile.choice_every))
    if situation.markers.at:
        chosen.append(marked(situation.markers.at, situation.markers.ttl))
    return chosen


def as_they_are(situation: Situation, exchanges: Sequence[Exchange], chance: random.Random) -> list[Exchange]:
    """No change, in the place of one: the draws of those behind it stay what they are."""
    return list(exchanges)


def clock_in_system(situation: Situation, exchanges: Sequence[Exchange], chance: random.Random) -> list[Exchange]:
    """The time of the request, to the second, before everything else in the system prompt."""

    def change(number: int, one: Exchange) -> Body:
        now = datetime.fromtimestamp(one.at, UTC).strftime("%Y-%m-%d %H:%M:%S")
        blocks = one.body.get("system", [{"type": "text", "text": "Help."}])
        return {"system": [{**blocks[0], "text": f"It is {now} UTC. {blocks[0]['text']}"}, *blocks[1:]]}

    return each(exchanges, change)


def shuffled_tools(situation: Situation, exchanges: Sequence[Exchange], chance: random.Random) -> list[Exchange]:
    """Another order of the tools in every request."""

    def change(number: int, one: Exchange) -> Body:
        tools = one.body.get("tools")
        return {"tools": chance.sample(tools, len(tools))} if tools else {}

    return each(exchanges, change)


def context(size: Amount) -> Change:
    """Retrieved text of `size` tokens at the end of the prompt, other text in every request."""

    def change(situation: Situation, exchanges: Sequence[Exchange], chance: random.Random) -> list[Exchange]:
        ratio = bytes_per_token(situation)

        def add(number: int, one: Exchange) -> Body:
            tokens = draw(size, chance)
            if tokens < 1:
                return {}
            *before, last = one.body["messages"]
            title = f"{situation.name}, retrieved for {one.at:.3f}"
            block = {"type": "text", "text": filled(title, tokens * ratio)}
            return {"messages": [*before, {**last, "content": [*last["content"], block]}]}

        return each(exchanges, add)

    return change


def edited(every: int, now_and_then: float = 0.0) -> Change:
    """From every `every`-th request on, or from any with a probability, all but the last tool results are cleared."""

    def change(situation: Situation, exchanges: Sequence[Exchange], chance: random.Random) -> list[Exchange]:
        cleared = 0

        def clear(number: int, one: Exchange) -> Body:
            nonlocal cleared
            messages: list[Body] = one.body["messages"]
            holding = [i for i, message in enumerate(messages) if _results(message)]
            if _due(number, every, now_and_then, chance):
                cleared = max(len(holding) - _KEPT_RESULTS, cleared)
            gone = set(holding[:cleared])
            return {"messages": [_cleared(m) if i in gone else m for i, m in enumerate(messages)]}

        return each(exchanges, clear)

    return change


def leaving_out(situation: Situation, exchanges: Sequence[Exchange], chance: random.Random) -> list[Exchange]:
    """Calls of tools and their results stay until a person writes again."""

    def leave(number: int, one: Exchange) -> Body:
        messages: list[Body] = one.body["messages"]
        said = max(i for i, message in enumerate(messages) if message["role"] == "user" and not _results(message))
        return {"messages": [*[one for one in messages[:said] if not _calls(one)], *messages[said:]]}

    return each(exchanges, leave)


def compacted(every: int, now_and_then: float = 0.0) -> Change:
    """Every `every` requests, or at any with a probability, the history begins again with a summary."""

    def change(situation: Situation, exchanges: Sequence[Exchange], chance: random.Random) -> list[Exchange]:
        ratio, cut = bytes_per_token(situation), 0

        def compact(number: int, one: Exchange) -> Body:
            nonlocal cut
            messages: list[Body] = one.body["messages"]
            if _due(number, every, now_and_then, chance):
                cut = len(messages)
            if not cut:
                return {}
            title = f"{situation.name}, {exchanges[0].at:.3f}, summary of {cut}"
            block = {"type": "text", "text": filled(title, _SUMMARY_TOKENS * ratio)}
            return {"messages": [{"role": "user", "content": [block]}, *messages[cut:]]}

        return each(exchanges, compact)

    return change


def _due(number: int, every: int, now_and_then: float, chance: random.Random) -> bool:
    if not number:
        return False
    return (every > 0 and number % every == 0) or (now_and_then > 0 and chance.random() < now_and_then)


def switched(every: int, model: str) -> Change:
    """Every `every` requests the model is another one, and then the first again."""

    def change(situation: Situation, exchanges: Sequence[Exchange], chance: random.Random) -> list[Exchange]:
        return each(exchanges, lambda number, one: {"model": model} if number // every % 2 else {})

    return change


def marked(places: Sequence[str], ttl: str) -> Change:
    """Markers at the end of the places named, as an author would have put them."""
    mark = {"type": "ephemeral"} if ttl == "5m" else {"type": "ephemeral", "ttl": ttl}

    def change(situation: Situation, exchanges: Sequence[Exchange], chance: random.Random) -> list[Exchange]:
        def add(number: int, one: Exchange) -> Body:
            body: Body = {}
            for level in ("tools", "system"):
                if level in places and one.body.get(level):
                    body[level] = _marked_last(one.body[level], mark)
            if "tail" in places:
                *before, last = one.body["messages"]
                body["messages"] = [*before, {**last, "content": _marked_last(last["content"], mark)}]
            if "top" in places:
                body["cache_control"] = mark
            return body

        return each(exchanges, add)

    return change


def _marked_last(blocks: Sequence[Body], mark: Body) -> list[Body]:
    return [*blocks[:-1], {**blocks[-1], "cache_control": mark}]


def _results(message: Body) -> bool:
    return any(block.get("type") == "tool_result" for block in message["content"])


def _calls(message: Body) -> bool:
    """Whether a message calls tools or holds their results."""
    return any(block.get("type") in ("tool_use", "tool_result") for block in message["content"])


def _cleared(message: Body) -> Body:
    def clear(block: Body) -> dict[str, Any]:
        return {**block, "content": _CLEARED} if block.get("type") == "tool_result" else block

    return {**message, "content": [clear(block) for block in message["content"]]}

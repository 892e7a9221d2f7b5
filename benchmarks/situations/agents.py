"""Conversations that only grow, as requests of the Messages API with times: what the agents of a situation begin with.

Text is made of numbered lines under a title, so that equal text is equal on purpose only.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from benchmarks.situations.amounts import Amount, draw
from benchmarks.situations.form import Situation

Body = dict[str, Any]


class Exchange(NamedTuple):
    """One request and how long its reply takes."""

    at: float
    """When it was sent, seconds since the epoch."""
    body: Body
    reply_seconds: float
    """Until the end of the reply."""
    first_byte: float
    """Until its first byte, in seconds."""


Change = Callable[[Situation, Sequence[Exchange], random.Random], list[Exchange]]
"""Makes other requests of a session's; it must leave the bodies that it is given as they are."""


def each(exchanges: Sequence[Exchange], change: Callable[[int, Exchange], Body]) -> list[Exchange]:
    """`exchanges` with the fields that `change` gives for each, by its index, in place of theirs."""
    return [one._replace(body={**one.body, **change(number, one)}) for number, one in enumerate(exchanges)]


def bytes_per_token(situation: Situation) -> float:
    """The ratio that holds for every text of the situation."""
    return max(draw(situation.bytes_per_token, random.Random(f"{situation.seed}/{situation.name}")), 1.0)


# --- a conversation that only grows -----------------------------------------------------------------------------------


@dataclass(slots=True)
class Agent:
    """One session being written."""

    situation: Situation
    number: int
    ratio: float
    chance: random.Random
    group: int
    """The session that it belongs to: its own, unless it is one of a fan-out."""
    _lines: int = 0

    def talk(self, begin: float) -> Iterator[Exchange]:
        situation, chance = self.situation, self.chance
        body: Body = {"model": situation.model, "max_tokens": 4_096}
        if situation.streamed:
            body["stream"] = True
        body |= self._static()
        messages = [_user([*self._document(), _said(self.text(situation.prompts.first, "asked"))])]
        at = begin
        for turn in range(1, max(round(draw(situation.turns, chance)), 1) + 1):
            reply = draw(situation.times.reply, chance)
            first_byte = min(draw(situation.times.first_byte, chance), reply)
            yield Exchange(at, {**body, "messages": list(messages)}, reply, first_byte)
            calls = round(draw(situation.turn.calls, chance))
            messages += self._turn(calls)
            pause = situation.times.tool if calls else situation.times.user
            if situation.times.slow_every and turn % situation.times.slow_every == 0:
                pause = situation.times.slow
            at += reply + draw(pause, chance)

    @property
    def _owner(self) -> str:
        """Whose tools, system prompt and document it has."""
        return "everyone" if self.situation.prompts.shared else f"session {self.group}"

    def _document(self) -> list[Body]:
        situation, owner = self.situation, self._owner
        chance = random.Random(f"{situation.seed}/{situation.name}/{owner}/document")
        tokens = draw(situation.prompts.document, chance)
        return [_said(filled(f"{situation.name}, {owner}, document", tokens * self.ratio))] if tokens >= 1 else []

    def _static(self) -> Body:
        prompts, owner = self.situation.prompts, self._owner
        chance = random.Random(f"{self.situation.seed}/{self.situation.name}/{owner}")
        static: Body = {}
        tools = draw(prompts.tools, chance)
        if tools >= 1 and prompts.tool_count:
            each = tools * self.ratio / prompts.tool_count
            static["tools"] = [_tool(i, f"{owner}, tool {i}", each) for i in range(prompts.tool_count)]
        system = draw(prompts.system, chance)
        if system >= 1:
            static["system"] = [_said(filled(f"{self.situation.name}, {owner}, system", system * self.ratio))]
        profile = self.text(prompts.profile, "profile")
        if profile:
            static["system"] = [*static.get("system", ()), _said(profile)]
        return static

    def _turn(self, calls: int) -> list[Body]:
        """What a reply adds, and what comes back."""
        turn, content = self.situation.turn, list[Body]()
        thought = self.text(turn.thinking, "thought")
        if thought:
            content.append({"type": "thinking", "thinking": thought, "signature": f"sig{self._lines}"})
        content.append(_said(self.text(turn.text, "said") or "Well."))
        if not calls:
            return [_assistant(content), _user([_said(self.text(turn.user, "wrote") or "Go on.")])]
        results = []
        for number in range(calls):
            if turn.paired and number:
                content.append(_said(self.text(turn.text, "said") or "Next."))
            id_ = f"toolu_{self.number}_{self._lines}"
            asked = self.text(turn.call, "asked for")
            content.append({"type": "tool_use", "id": id_, "name": "tool_0", "input": {"query": asked}})
            found = self.text(turn.result, "found")
            results.append({"type": "tool_result", "tool_use_id": id_, "content": found or "none"})
        return [_assistant(content), _user(results)]

    def text(self, size: Amount, what: str) -> str:
        """Text that stands nowhere else, of as many tokens as `size` draws."""
        self._lines += 1
        tokens = draw(size, self.chance)
        if tokens < 1:
            return ""
        return filled(f"{self.situation.name}, session {self.number}, {what} {self._lines}", tokens * self.ratio)


def filled(title: str, size: float) -> str:
    """About `size` bytes of text, of which nothing comes twice and which no other title gives."""
    count = max(round(size), 8)
    lines: list[str] = []
    length = 0
    while length < count:
        lines.append(f"{title}, line {len(lines) + 1}: as it was found, with all that follows from it and no more.\n")
        length += len(lines[-1])
    return f"{title}: "[: count // 2] + "".join(lines)[: count - min(len(title) + 2, count // 2)].rstrip() + "."


def _tool(number: int, title: str, size: float) -> Body:
    schema = {"type": "object", "properties": {"query": {"type": "string"}}}
    return {"name": f"tool_{number}", "description": filled(title, max(size - 120, 8)), "input_schema": schema}


def _said(text: str) -> Body:
    return {"type": "text", "text": text}


def _user(content: list[Body]) -> Body:
    return {"role": "user", "content": content}


def _assistant(content: list[Body]) -> Body:
    return {"role": "assistant", "content": content}

"""Random loops of an agent, long enough for their history to be edited, in each of the three forms.

Driven by one `random.Random`, so that a seed names a loop. Most begin with a history that was had elsewhere; then some
requests follow, in which users rewind, edit what they said, put words into the model's mouth, and have the provider
hold or edit the history.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from tests.fuzz.conversations import Json, prose

POOL = prose(random.Random("pool"), 3000)
PNG = "iVBORw0KGgo" + "A" * 40
NAMES = ("search", "read", "remember")
SCHEMA: Json = {"type": "object", "properties": {"q": {"type": "string"}}}
SIZES = (40, 40, 400, 2500, 6000, 9000)
"""Characters of a result."""
EDITED_THERE: dict[str, tuple[Json, ...]] = {
    "messages": ({"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}},),
    "chat": (),
    "responses": ({"truncation": "auto"}, {"context_management": [{"type": "compaction", "compact_threshold": 9000}]}),
}
"""Fields that have the provider edit the history."""


class Loop:
    """One loop under way: the form is that of the Messages API; the others say below what is different."""

    wire, list, text = "messages", "messages", "text"

    def __init__(self, rng: random.Random, models: tuple[str, ...]) -> None:
        self.rng = rng
        self.turns: list[list[Json]] = []
        """What was said: the opening, then a reply and what came of it each."""
        self.made = 0
        self.thinks = rng.random() < 0.4
        self.fixed: Json = {"model": rng.choice(models), **self.beginning()}
        self.habit = rng.choice(("none", "none", "none", "last", "old"))
        self.alone = self.wire == "chat" or rng.random() < 0.7
        """Whether users speak once between two replies, as servers with a template want it."""
        if rng.random() < 0.08 and EDITED_THERE[self.wire]:
            self.fixed |= rng.choice(EDITED_THERE[self.wire])
        self.turns.append(self.opening())

    def words(self, characters: int) -> str:
        """A text, now and then one that is there already."""
        start = self.rng.randrange(2000)
        if characters > 300 and self.rng.random() < 0.1:
            return POOL[:characters].rstrip()  # what was seen before
        self.made += 1
        return f"{self.made}: {POOL[start : start + characters]}".rstrip()

    def part(self, characters: int) -> Json:
        return {"type": self.text, "text": self.words(characters)}

    def image(self) -> Json:
        return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}

    def said(self, characters: int) -> Any:
        match self.rng.randrange(4):
            case 0:
                return [self.part(characters), self.image()]
            case 1:
                return [self.part(characters)]
        return self.words(characters)

    def user(self, characters: int = 60) -> Json:
        return {"role": "user", "content": self.said(characters)}

    def beginning(self) -> Json:
        system = self.rng.choice(((), {"system": self.words(30)}, {"system": [self.part(9000)]}))
        thinking = {"thinking": {"type": "enabled", "budget_tokens": 1024}} if self.thinks else {}
        tools = [{"name": name, "description": name, "input_schema": SCHEMA} for name in NAMES]
        return {"max_tokens": 2048, "tools": tools, **dict(system), **thinking}

    def opening(self) -> list[Json]:
        many = not self.alone and self.rng.random() < 0.3
        return [self.user(self.rng.choice((20, 400, 6000))) for _ in range(2 if many else 1)]

    def content(self) -> Any:
        """Of a result."""
        size = self.rng.choice(SIZES)
        match self.rng.randrange(12):
            case 0:
                return [self.part(size), self.image()]
            case 1 | 2 | 3:
                return [self.part(size // 2), self.part(size // 2)]
            case 4:
                return ""
        return self.words(size)

    def calls(self, at_least: int = 0) -> list[tuple[str, str]]:
        """Ids and names."""
        self.made += 1
        count = max(self.rng.choice((0, 1, 1, 1, 2, 4)), at_least)
        return [(f"call_{self.made}_{i}", self.rng.choice(NAMES)) for i in range(count)]

    def goes_on(self) -> None:
        """A reply, and what came of it."""
        rng, calls = self.rng, self.calls()
        blocks: list[Json] = []
        if self.thinks:
            blocks.append({"type": "thinking", "thinking": self.words(80), "signature": "c2ln"})
            if rng.random() < 0.1:
                blocks.append({"type": "redacted_thinking", "data": "cmVk"})
        if not calls or rng.random() < 0.5:
            blocks.append(self.part(80))
        blocks += [{"type": "tool_use", "id": one, "name": name, "input": {"q": "x" * 9}} for one, name in calls]
        results = [self.result(one) for one, _ in calls]
        rng.shuffle(results)
        if not calls or rng.random() < 0.15:
            results.append(self.part(60))
        plain = not calls and not self.thinks and rng.random() < 0.5
        turn = [{"role": "assistant", "content": blocks[0]["text"] if plain else blocks}]
        if not self.alone and rng.random() < 0.3:  # messages of one role in a row are one to this API
            at = rng.randrange(len(results)) if len(results) > 1 else 0
            parts = [{"role": "user", "content": part} for part in (results[:at], results[at:]) if part]
            turn += rng.choice(([self.user(), *parts], [*parts, self.user()], parts))
        else:
            turn.append({"role": "user", "content": results})
        self.turns.append(turn)

    def result(self, call: str) -> Json:
        made: Json = {"type": "tool_result", "tool_use_id": call, "content": self.content()}
        if self.rng.random() < 0.1:
            made["is_error"] = True
        return made

    def marked(self, said: list[Json]) -> None:
        """Put a marker of the user's on the last block, or on one that stays where it is."""
        blocks = [block for one in said if one["role"] == "user" for block in _list(one["content"])]
        blocks = [block for block in blocks if block["type"] != "text" or block["text"]]
        if blocks and self.habit != "none":
            blocks[-1 if self.habit == "last" else len(blocks) // 3 % 4]["cache_control"] = {"type": "ephemeral"}

    def body(self) -> Json:
        said = [one for turn in self.turns for one in turn]
        if self.habit != "none":
            said = deepcopy(said)
            self.marked(said)
        if self.wire == "messages" and not self.thinks and self.rng.random() < 0.05:
            said.append({"role": "assistant", "content": "The answer"})
        return {**self.fixed, self.list: said}

    def rewinds(self) -> None:
        """Back a few turns, or another result in the place of an old one."""
        if self.rng.random() < 0.5:
            del self.turns[max(len(self.turns) - self.rng.choice((1, 2, 5)), 1) :]
            return
        for one in self.rng.choice(self.turns):
            for block in _list(one.get("content")):
                if block.get("type") == "tool_result":
                    block["content"] = self.words(3000)
        if self.rng.random() < 0.3:
            self.turns[0] = self.opening()


class Chat(Loop):
    """A loop of Chat Completions."""

    wire = "chat"

    def image(self) -> Json:
        return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}

    def beginning(self) -> Json:
        tools = [{"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in NAMES]
        return {"tools": tools}

    def opening(self) -> list[Json]:
        role = self.rng.choice(("system", "developer"))
        return [{"role": role, "content": self.words(self.rng.choice((30, 9000)))}, *super().opening()]

    def content(self) -> Any:
        size = self.rng.choice(SIZES)
        return self.rng.choice((self.words(size), [self.part(size // 2), self.part(size // 2)], self.words(size), ""))

    def goes_on(self) -> None:
        rng, calls = self.rng, self.calls()
        made = [
            {"id": one, "type": "function", "function": {"name": name, "arguments": '{"q": 1}'}} for one, name in calls
        ]
        if not calls:
            turn = [{"role": "assistant", "content": self.words(80)}, self.user()]
        else:
            said = rng.choice((None, self.words(40)))
            turn = [{"role": "assistant", "content": said, "tool_calls": made}]
            results = [{"role": "tool", "tool_call_id": one, "content": self.content()} for one, _ in calls]
            rng.shuffle(results)
            turn += results
            if rng.random() < 0.1:
                turn.append(self.user())
        if rng.random() < 0.01:
            turn.append({"role": "developer", "content": self.words(20)})
        self.turns.append(turn)

    def marked(self, said: list[Json]) -> None:
        """Those that say something of the cache here are met elsewhere: `wires`."""


class Responses(Loop):
    """A loop of the Responses API."""

    wire, list, text = "responses", "input", "input_text"

    def image(self) -> Json:
        return {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "auto"}

    def beginning(self) -> Json:
        tools = [{"type": "function", "name": name, "parameters": SCHEMA} for name in NAMES]
        return {"instructions": self.words(self.rng.choice((30, 9000))), "tools": tools}

    def goes_on(self) -> None:
        rng, calls = self.rng, self.calls()
        turn: list[Json] = []
        if self.thinks:
            turn.append({"type": "reasoning", "id": f"rs_{self.made}", "summary": [], "encrypted_content": "cmVk"})
        if not calls or rng.random() < 0.3:
            part = {"type": "output_text", "text": self.words(80), "annotations": []}
            turn.append({"type": "message", "role": "assistant", "content": [part]})
        turn += [{"type": "function_call", "call_id": one, "name": name, "arguments": "{}"} for one, name in calls]
        outputs = [{"type": "function_call_output", "call_id": one, "output": self.content()} for one, _ in calls]
        rng.shuffle(outputs)
        turn += outputs
        if outputs and rng.random() < 0.4:  # one comes later, when another reply or a word was said
            late = turn.pop()
            between = [self.user(), {"type": "reasoning", "id": f"rs_{self.made}b", "summary": []}]
            extra = [
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": self.words(30)}]}
            ]
            turn += [*rng.choice((between[:1], between[1:] + extra, extra)), late]
        if not calls or rng.random() < 0.1:
            turn.append(self.user())
        self.turns.append(turn)

    def marked(self, said: list[Json]) -> None:
        """Those that say something of the cache here are met elsewhere: `wires`."""


FORMS: dict[str, type[Loop]] = {"messages": Loop, "chat": Chat, "responses": Responses}


def loops(rng: random.Random, wire: str, models: tuple[str, ...]) -> Iterator[tuple[float, Json]]:
    """(seconds since the request before, request): a loop with the changes that real ones see."""
    loop = FORMS[wire](rng, models)
    for _ in range(rng.choice((0, 4, 8, 14, 20))):
        loop.goes_on()
    for number in range(rng.choice((2, 3, 4, 6, 8))):
        loop.goes_on()
        body = loop.body()
        if wire == "responses" and number and rng.random() < 0.06:
            # The emulator names its replies by their number, and each loop has one of its own.
            body |= {"previous_response_id": f"resp_emulated{number:012d}", "input": [loop.user()]}
        yield rng.choice((1.0, 20.0, 20.0, 400.0, 4000.0, 4000.0)), body
        if rng.random() < 0.2:
            loop.rewinds()


def _list(content: Any) -> list[Json]:
    return content if isinstance(content, list) else []

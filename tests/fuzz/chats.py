"""Random conversations in both of OpenAI's forms, legal and illegal, with what their senders say of the cache.

Driven by one `random.Random`, so that a seed names a conversation. Knows the wire formats and nothing of the planner.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.fuzz.conversations import Json, length, prose

SCHEMA: Json = {"type": "object", "properties": {"q": {"type": "string"}}}
PIXEL = "data:image/png;base64,iVBORw0KGgo" + "A" * 40


@dataclass(frozen=True, slots=True)
class Form:
    """What the two APIs, and a gateway, call things."""

    wire: str
    models: tuple[str, ...]
    mark: str = "prompt_cache_breakpoint"
    kinds: tuple[str, ...] = ("text", "image", "file", "audio")
    """Parts of a user's message."""
    options: bool = True
    """Whether senders say something of the provider's own breakpoint."""

    @property
    def text(self) -> str:
        return "text" if self.wire == "chat" else "input_text"

    @property
    def list(self) -> str:
        return "messages" if self.wire == "chat" else "input"


@dataclass(slots=True)
class Talk:
    """One conversation under way."""

    rng: random.Random
    form: Form
    fixed: Json = field(default_factory=dict)
    said: list[Json] = field(default_factory=list)

    def text(self, words: int) -> Json:
        return {"type": self.form.text, "text": prose(self.rng, words)}

    def part(self) -> Json:
        chat = self.form.wire == "chat"
        match self.rng.choice((*("text",) * 6, *self.form.kinds)):
            case "image" if chat:
                return {"type": "image_url", "image_url": {"url": PIXEL}}
            case "image":
                return {"type": "input_image", "image_url": PIXEL, "detail": "auto"}
            case "file" if chat:
                return {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBERi0=", "filename": "a"}}
            case "file":
                return {"type": "input_file", "file_data": "data:application/pdf;base64,JVBERi0=", "filename": "a"}
            case "audio":
                return {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
        return self.text(length(self.rng)) if self.rng.random() < 0.9 else {"type": self.form.text, "text": ""}

    def content(self, words: int) -> Any:
        match self.rng.randrange(4):
            case 0 | 1:
                return prose(self.rng, words)
            case 2:
                return [self.text(words)]
        return [self.text(words), *(self.part() for _ in range(self.rng.choice((1, 2))))]

    def message(self, role: str, content: Any) -> Json:
        typed = {"type": "message"} if self.form.wire == "responses" and self.rng.random() < 0.5 else {}
        return {**typed, "role": role, "content": content}

    def opens(self) -> None:
        rng = self.rng
        for _ in range(rng.choice((0, 1, 1, 2))):
            content: Any = prose(rng, length(rng))
            if rng.random() < 0.5:
                content = [self.text(length(rng)) for _ in range(rng.choice((1, 2)))]
            elif rng.random() < 0.1:
                content = ""
            self.said.append(self.message(rng.choice(("system", "developer")), content))
        self.said.append(self.message("user", self.content(length(rng))))

    def goes_on(self, turn: int) -> None:
        """The model's reply, the results of its calls, and what the user says next."""
        rng, names = self.rng, [name_of(one) for one in self.fixed.get("tools", ()) if one["type"] == "function"]
        ids = [f"call_{turn}_{i}" for i in range(rng.choice((0, 1, 1, 3)) if names else 0)]
        calls = [(one, rng.choice(names), json.dumps({"q": "x" * rng.choice((1, 40))})) for one in ids]
        self.said += self.chat_reply(calls) if self.form.wire == "chat" else self.items(calls)
        if not calls or rng.random() < 0.2:
            self.said.append(self.message("user", self.content(length(rng))))
        if rng.random() < 0.15:
            self.said.append(self.message("developer", prose(rng, 12)))

    def chat_reply(self, calls: list[tuple[str, str, str]]) -> Iterator[Json]:
        rng, text = self.rng, prose(self.rng, length(self.rng) // 8)
        said: Any = rng.choice((text, [{"type": "text", "text": text}], [{"type": "refusal", "refusal": "No."}]))
        if calls:
            made = [{"id": a, "type": "function", "function": {"name": b, "arguments": c}} for a, b, c in calls]
            yield {"role": "assistant", "content": rng.choice((None, said)), "tool_calls": made}
        else:
            yield {"role": "assistant", "content": said}
        for one, _, _ in calls:
            yield {"role": "tool", "tool_call_id": one, "content": self.result()}

    def items(self, calls: list[tuple[str, str, str]]) -> Iterator[Json]:
        rng = self.rng
        if rng.random() < 0.3:
            yield {"type": "reasoning", "id": f"rs_{len(self.said)}", "summary": []}
        if not calls or rng.random() < 0.3:
            part = {"type": "output_text", "text": prose(rng, 20), "annotations": []}
            yield {"type": "message", "role": "assistant", "content": rng.choice(([part], prose(rng, 9)))}
        for one, name, given in calls:
            yield {"type": "function_call", "call_id": one, "name": name, "arguments": given}
        for one, _, _ in calls:
            yield {"type": "function_call_output", "call_id": one, "output": self.result()}

    def result(self) -> Any:
        words = length(self.rng)
        return self.rng.choice((prose(self.rng, words), [self.text(words)], ""))

    def marked(self, habit: str) -> list[Json]:
        """What was said, with markers as people place them; some stand where none is legal."""
        said: list[Json] = json.loads(json.dumps(self.said))
        places = [
            part
            for one in said
            for name in ("content", "output")
            if isinstance(one.get(name), list)
            for part in one[name]
        ]
        if habit == "careful":
            media = ("image_url", "input_image", "file") if self.form.options else ()
            places = [part for part in places if part["type"] in (self.form.text, *media)]
            places = [part for part in places if part.get("text") != ""]
        for part in self.rng.sample(places, min(len(places), self.rng.choice((1, 1, 2, 5)))):
            part[self.form.mark] = self.marker(habit)
        return said

    def marker(self, habit: str) -> Any:
        if self.form.mark == "cache_control":
            return {"type": "ephemeral"} | ({"ttl": "1h"} if self.rng.random() < 0.2 else {})
        odd = [None, {"mode": "explicit", "ttl": "12h"}, {"mode": "implicit"}, "explicit"]
        plain = {"mode": "explicit"}
        return plain if habit == "careful" or self.rng.random() < 0.7 else self.rng.choice(odd)


def name_of(tool: Json) -> str:
    return str(tool.get("function", tool)["name"])


def tools(rng: random.Random, form: Form) -> list[Json]:
    made = []
    for number in range(rng.choice((0, 0, 1, 2, 6))):
        function: Json = {"name": f"tool_{number}", "description": prose(rng, length(rng) // 4), "parameters": SCHEMA}
        inner = {"function": function} if form.wire == "chat" else function
        made.append({"type": "function", **inner})
    return made


def beginning(rng: random.Random, form: Form) -> Json:
    """Everything of a request but what is said."""
    fixed: Json = {"model": rng.choice(form.models)}
    if given := tools(rng, form):
        fixed["tools"] = given
    if rng.random() < 0.2:
        fixed["temperature"] = 0.5
    if form.mark != "cache_control" and rng.random() < 0.12:
        fixed["prompt_cache_key"] = "team"
    if form.options and rng.random() < 0.4:
        usual: tuple[Json, ...] = ({"mode": "implicit"}, {"mode": "explicit"}, {"mode": "explicit"}, {"ttl": "30m"}, {})
        odd = ({"mode": "explicit", "ttl": "30m"}, {"ttl": "12h"}, {"mode": None}, {"mode": "never"})
        fixed["prompt_cache_options"] = rng.choice((*usual, *usual, *odd))
    if form.mark == "cache_control" and rng.random() < 0.1:
        fixed |= rng.choice(({"session_id": "mine"}, {"provider": {"order": ["anthropic"]}}))
    if form.wire == "responses" and rng.random() < 0.3:
        fixed["instructions"] = prose(rng, length(rng))
    if rng.random() < 0.4:
        fixed["stream"] = True
        if form.wire == "chat" and rng.random() < 0.4:
            fixed["stream_options"] = rng.choice(({"include_usage": True}, {"include_usage": False}, {}, None))
    return fixed


def chat(rng: random.Random, form: Form) -> Iterator[tuple[float, Json]]:
    """(seconds since the request before, request): a growing conversation with the changes that real ones see."""
    talk = Talk(rng, form, beginning(rng, form))
    talk.opens()
    habit = rng.choice(("none", "none", "none", "careful", "careless"))
    top = form.mark == "cache_control" and rng.random() < 0.1
    for turn in range(rng.choice((1, 2, 2, 3, 4))):
        said: Any = talk.said if habit == "none" else talk.marked(habit)
        body: Json = {**talk.fixed, form.list: list(said)}
        if top:
            body["cache_control"] = {"type": "ephemeral"}
        if form.wire == "responses" and turn == 0 and len(said) == 1 and rng.random() < 0.3:
            body["input"] = prose(rng, length(rng))
        if form.wire == "responses" and turn and rng.random() < 0.1:
            # The emulator names its replies by their number, and each conversation has one of its own.
            body |= {"previous_response_id": f"resp_emulated{turn:012d}", "input": [talk.message("user", "And?")]}
        yield rng.choice((1.0, 20.0, 20.0, 120.0, 400.0, 2000.0)), body
        talk.goes_on(turn)

"""Random conversations in every shape that the Messages API knows, legal and illegal, with random user markers.

Driven by one `random.Random`, so that a seed names a conversation. Knows the wire format and nothing of the planner.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

MODELS = (
    "claude-sonnet-5",
    "claude-opus-5-5",
    "claude-haiku-4-5",
    "claude-sonnet-4-5-20250929",
    "claude-opus-4-7",
    "claude-fable-5-1",
    "claude-sonnet-7-next",
)
WORDS = "order lamp desk parcel refund carrier note ticket status policy article customer amount date".split()  # noqa: SIM905

Json = dict[str, Any]


def prose(rng: random.Random, words: int) -> str:
    return " ".join(rng.choices(WORDS, k=max(words, 1)))


def length(rng: random.Random) -> int:
    """Mostly short, sometimes long enough to reach a minimum by itself."""
    return rng.choice((1, 5, 30, 120, 400, 1500, 4000))


def tool(rng: random.Random, number: int) -> Json:
    kind = rng.random()
    if kind < 0.08:
        return {"type": "web_search_20250305", "name": "web_search"}
    if kind < 0.14:
        return {"type": "bash_20250124", "name": "bash"}
    made: Json = {
        "name": f"tool_{number}",
        "description": prose(rng, length(rng) // 4),
        "input_schema": {"type": "object", "properties": {"q": {"type": "string"}}},
    }
    if kind < 0.3:
        made["defer_loading"] = True
    if kind > 0.9:
        made["type"] = "custom"
    return made


def tools(rng: random.Random) -> list[Json]:
    made = [tool(rng, i) for i in range(rng.choice((0, 0, 1, 2, 3, 8)))]
    seen: set[str] = set()
    unique = [one for one in made if not (one["name"] in seen or seen.add(one["name"]))]  # type: ignore[func-returns-value]
    if unique and all(one.get("defer_loading") for one in unique):
        unique[0].pop("defer_loading")
    return unique


def system(rng: random.Random) -> Any:
    match rng.randrange(9):
        case 0 | 1:
            return None
        case 2 | 3:
            return prose(rng, length(rng))
        case 4:
            return ""
        case _:
            return [{"type": "text", "text": prose(rng, length(rng))} for _ in range(rng.choice((1, 2, 3)))]


def user_block(rng: random.Random) -> Json:
    match rng.randrange(12):
        case 0:
            source = {
                "type": "base64",
                "media_type": "image/png",
                "data": "iVBORw0KGgo" + "A" * rng.choice((4, 40_000)),
            }
            return {"type": "image", "source": source}
        case 1:
            citations = {"citations": {"enabled": True}} if rng.random() < 0.3 else {}
            source = {"type": "text", "media_type": "text/plain", "data": prose(rng, length(rng))}
            return {"type": "document", "source": source, **citations}
        case 2:
            content = [{"type": "text", "text": prose(rng, 20)}]
            return {"type": "search_result", "source": "https://e.example", "title": "t", "content": content}
        case _:
            return {"type": "text", "text": prose(rng, length(rng))}


def reply(rng: random.Random, turn: int, names: list[str], thinking: bool) -> list[Json]:
    blocks: list[Json] = []
    if thinking:
        blocks.append({"type": "thinking", "thinking": prose(rng, 30), "signature": "c2ln"})
        if rng.random() < 0.2:
            blocks.append({"type": "redacted_thinking", "data": "cmVk"})
    pairs = rng.choice((0, 1, 1, 2, 5, 25)) if names else 0
    interleaved = rng.random() < 0.5
    for i in range(pairs):
        if interleaved or i == 0:
            blocks.append({"type": "text", "text": prose(rng, 5)})
        blocks.append({"type": "tool_use", "id": f"toolu_{turn}_{i}", "name": rng.choice(names), "input": {"q": "x"}})
    if not pairs:
        blocks.append({"type": "text", "text": prose(rng, length(rng) // 4)})
    return blocks


def results(rng: random.Random, blocks: list[Json]) -> list[Json]:
    made: list[Json] = []
    for block in blocks:
        if block["type"] != "tool_use":
            continue
        match rng.randrange(4):
            case 0:
                content: Any = prose(rng, length(rng) // 4)
            case 1:
                content = [{"type": "text", "text": prose(rng, 20)} for _ in range(rng.choice((1, 2)))]
            case 2:
                content = ""
            case _:
                content = [{"type": "text", "text": prose(rng, length(rng))}]
        result: Json = {"type": "tool_result", "tool_use_id": block["id"], "content": content}
        if rng.random() < 0.1:
            result["is_error"] = True
        made.append(result)
    return made


def conversation(rng: random.Random) -> Iterator[tuple[float, Json]]:
    """(seconds since the request before, request): a growing conversation with the changes that real ones see."""
    fixed = beginning(rng)
    thinking = "thinking" in fixed
    messages: list[Json] = [{"role": "user", "content": opening(rng)}]
    habit = rng.choice(("none", "none", "tail", "random", "random", "many"))
    for turn in range(rng.choice((1, 2, 2, 3, 4))):
        body: Json = {**fixed, "messages": list(messages)}
        if rng.random() < 0.04:
            # A turn of the server's own tools was paused and is to go on.
            paused = {
                "type": "server_tool_use",
                "id": f"srvtoolu_{turn}",
                "name": "web_search",
                "input": {"query": "x"},
            }
            thought = {"type": "thinking", "thinking": prose(rng, 30), "signature": "c2ln"}
            body["messages"].append({"role": "assistant", "content": [paused, thought]})
        yield rng.choice((1.0, 20.0, 120.0, 400.0)), with_markers(rng, body, habit)
        names = [
            one["name"] for one in fixed.get("tools", ()) if "input_schema" in one and not one.get("defer_loading")
        ]
        blocks = reply(rng, turn, names, thinking)
        answers = results(rng, blocks)
        fresh = [user_block(rng)] if not answers or rng.random() < 0.2 else []
        messages += [{"role": "assistant", "content": blocks}, {"role": "user", "content": [*answers, *fresh]}]
        fixed = drifted(rng, fixed, turn)
        if rng.random() < 0.04:
            messages[0] = {"role": "user", "content": prose(rng, 10)}


def opening(rng: random.Random) -> Any:
    if rng.random() < 0.5:
        return prose(rng, length(rng))
    return [user_block(rng) for _ in range(rng.choice((1, 2, 4)))]


def beginning(rng: random.Random) -> Json:
    """Everything of a request but its messages, in the sender's key order."""
    fixed: Json = {"model": rng.choice(MODELS), "max_tokens": 2048}
    the_tools, the_system = tools(rng), system(rng)
    if rng.random() < 0.25:
        fixed["thinking"] = {"type": "enabled", "budget_tokens": 1024}
    if the_tools and rng.random() < 0.2:
        fixed["tool_choice"] = {"type": "auto"}
    if rng.random() < 0.05:
        fixed["thread"] = {"type": "create"}
    if rng.random() < 0.15:
        fixed["cache_control"] = marker(rng)
    if the_tools:
        fixed["tools"] = the_tools
    if the_system is not None:
        fixed["system"] = the_system
    return fixed


def drifted(rng: random.Random, fixed: Json, turn: int) -> Json:
    """What changes between two turns, now and then."""
    fixed = dict(fixed)
    if rng.random() < 0.06 and "tools" in fixed:
        fixed["tools"] = rng.sample(fixed["tools"], len(fixed["tools"]))
    if rng.random() < 0.06 and isinstance(fixed.get("system"), str):
        fixed["system"] = f"{fixed['system']} {turn}"
    if rng.random() < 0.04 and "tools" in fixed and "thinking" not in fixed:
        fixed["tool_choice"] = {"type": "any"}
    return fixed


def marker(rng: random.Random) -> Json:
    match rng.randrange(10):
        case 0 | 1 | 2:
            return {"type": "ephemeral", "ttl": "1h"}
        case 3:
            return {"type": "ephemeral", "ttl": "5m"}
        case 4 if rng.random() < 0.2:
            return {"type": "ephemeral", "ttl": "12h"}
        case _:
            return {"type": "ephemeral"}


def with_markers(rng: random.Random, body: Json, habit: str) -> Json:
    """`body` with user markers as people place them: none, one on the tail, a few anywhere, or too many."""
    if habit == "none":
        return body
    count = {"tail": 1, "random": rng.choice((1, 2, 3)), "many": rng.choice((4, 4, 5, 6))}[habit]
    uniform = marker(rng) if rng.random() < 0.7 else None
    marked = {**body, "messages": [copied(message) for message in body["messages"]]}
    for name in ("tools", "system"):
        if isinstance(body.get(name), list):
            marked[name] = [dict(block) for block in body[name]]
    places = list(blocks_of(marked, tail_only=habit == "tail"))
    for block in rng.sample(places, min(count, len(places))):
        block["cache_control"] = uniform or marker(rng)
    return marked


def copied(message: Json) -> Json:
    content = message["content"]
    if isinstance(content, str):
        return dict(message)
    blocks = []
    for block in content:
        block = dict(block)
        if isinstance(block.get("content"), list):
            block["content"] = [dict(part) for part in block["content"]]
        blocks.append(block)
    return {**message, "content": blocks}


def blocks_of(body: Json, *, tail_only: bool) -> Iterator[Json]:
    """Every block that somebody might mark, those that may not carry a marker included."""
    if tail_only:
        content = body["messages"][-1]["content"]
        if isinstance(content, list) and content:
            yield content[-1]
        return
    for name in ("tools", "system"):
        if isinstance(body.get(name), list):
            yield from body[name]
    for message in body["messages"]:
        if isinstance(message["content"], list):
            for block in message["content"]:
                yield block
                if block.get("type") == "tool_result" and isinstance(block.get("content"), list):
                    yield from block["content"]

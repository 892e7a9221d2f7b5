"""Random conversations whose beginning keeps changing, with both consents given, at every place, and counts.

Knows what an arranged request looks like from outside: references in the place of what was moved, and a note at the
end. From these alone it puts a request together again.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from agentaccel.clock import ManualClock
from agentaccel.engine.engine import Engine
from agentaccel.engine.lineage import Registry
from agentaccel.policy import CachePolicy, Policy, StorePolicy
from agentaccel.store.recorder import Recorder
from agentaccel.turn import Finished, Reported, Send, Started
from agentaccel.wire import dialect
from agentaccel_emulator import Emulator
from tests.fuzz.conversations import Json, conversation, prose
from tests.fuzz.wires import PLACES, Place, _claude

CONSENT = CachePolicy(move_volatile=True, freeze_tools=True)
HERE = {**PLACES, "api": _claude("api", "/v1/messages", ("claude-sonnet-5", "claude-opus-5", "claude-haiku-4-5"))}
REFERENCE = re.compile(r"\[current value (\d+), at the end of this conversation\]")
HEADER = "[current value 1]"
MARKS = ("cache_control", "prompt_cache_breakpoint")
FIELDS = ("cache_control", "prompt_cache_options", "stream_options", "tool_choice", "session_id", "prompt_cache_key")


# --- conversations ----------------------------------------------------------------------------------------------------


def churned(rng: random.Random, talks: Callable[[random.Random], Iterator[tuple[float, Json]]], now: float) -> Any:
    """A conversation in which a clock runs, ids are made anew, tools are reordered and come and go."""
    rules = [f"Rule {i}: {prose(rng, 12)}." for i in range(40)]
    memory = rng.random() < 0.5
    gone, shuffles = rng.random() < 0.3, rng.random() < 0.7
    for turn, (gap, body) in enumerate(talks(rng)):
        now += gap
        made = deepcopy(body)
        clock = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d %H:%M:%S")
        text = "\n".join([*rules[:20], f"It is {clock} UTC.", *rules[20:], f"Session {rng.getrandbits(64):016x}."])
        _instruct(made, text, prose(rng, 60) if memory else "")
        tools = made.get("tools")
        if tools and shuffles:
            _describe(tools[-1], f"Made for request {rng.getrandbits(32):08x}.")
            rng.shuffle(tools)
        if tools and len(tools) > 2 and gone and turn % 3 == 2 and made.get("tool_choice") is None:
            del tools[0]
        yield gap, made


def _instruct(body: Json, text: str, memory: str) -> None:
    """Put `text`, and a memory behind it, in front of the operator's words."""
    blocks = [{"type": "text", "text": text}, *([{"type": "text", "text": f"Memory: {memory}"}] if memory else [])]
    if "input" in body:
        body["instructions"] = text
    elif "max_tokens" in body and "model" in body and body["model"].find("claude") >= 0 and "/" not in body["model"]:
        system = body.get("system")
        own = [{"type": "text", "text": system}] if isinstance(system, str) and system else system or []
        body["system"] = [*blocks, *own] if memory or own else text
    else:
        body["messages"] = [{"role": "system", "content": text}, *body["messages"]]


def _describe(tool: Json, words: str) -> None:
    inner = tool.get("function") if isinstance(tool.get("function"), dict) else tool
    if "description" in inner:
        inner["description"] = f"{inner['description']} {words}"


# --- from outside -----------------------------------------------------------------------------------------------------


def note_of(sent: Json) -> str:
    """The note at the end of an arranged request; empty where there is none."""
    last = (sent.get("messages") or sent.get("input") or [{}])[-1]
    content = last.get("content") if isinstance(last, dict) else None
    if isinstance(content, list) and content:
        content = content[-1].get("text") if isinstance(content[-1], dict) else None
    note = content.lstrip("\n") if isinstance(content, str) else ""
    return note if note.startswith((HEADER, "Not available")) else ""


def restored(sent: Json, written: Json) -> Json:
    """`sent` put together again: what was moved in its place, the note gone, tools as listed in `written`."""
    note = note_of(sent)
    values = dict(_values(note))
    whole: Json = _filled(without_marks(deepcopy(dict(sent))), values)
    if note:
        name = "messages" if "messages" in whole else "input"
        last = whole[name][-1]
        last["content"].pop()
        if not last["content"] and last.get("role") == "tool":
            last["content"] = [{"type": "text", "text": ""}]  # the result of a tool that had nothing to say
        elif not last["content"]:
            whole[name].pop()
    names = [_name(tool) for tool in written.get("tools") or ()]
    if len(set(names)) == len(names) and whole.get("tools"):
        kept = [tool for tool in whole["tools"] if _name(tool) in names]
        whole["tools"] = sorted(kept, key=lambda tool: names.index(_name(tool)))
    return whole


def _values(note: str) -> Iterator[tuple[str, str]]:
    body = note.split("\nNot available", 1)[0]
    parts = re.split(r"(?:^|\n)\[current value (\d+)\]\s", body)
    for number, value in zip(parts[1::2], parts[2::2], strict=True):
        yield number, "" if value == "(nothing)" else value


def _filled(value: Any, values: dict[str, str]) -> Any:
    if isinstance(value, str):
        return REFERENCE.sub(lambda found: values[found[1]], value)
    if isinstance(value, dict):
        return {name: _filled(item, values) for name, item in value.items()}
    return [_filled(item, values) for item in value] if isinstance(value, list) else value


def without_marks(value: Any) -> Any:
    """`value` without markers, each string content as the one block that it stands for, and spaces alike."""
    if isinstance(value, dict):
        made = {name: without_marks(item) for name, item in value.items() if name not in MARKS}
        for name in ("content", "system", "input", "output"):
            if isinstance(made.get(name), str) and ("role" in made or name == "system" or "type" in made):
                made[name] = [{"type": "text", "text": made[name]}]
            elif isinstance(made.get(name), str) and name == "input":
                made[name] = [{"role": "user", "content": [{"type": "text", "text": made[name]}]}]
        if made.get("type") in ("input_text", "output_text"):
            made["type"] = "text"
        return made
    if isinstance(value, list):
        return [without_marks(item) for item in value]
    return " ".join(value.split()) if isinstance(value, str) else value


def spaced(value: Any) -> Any:
    """`value` without the fields that a plan may add, to be compared."""
    return {name: item for name, item in without_marks(value).items() if name not in FIELDS}


def _name(tool: Json) -> str:
    inner = tool.get("function") if isinstance(tool.get("function"), dict) else tool
    return str(inner.get("name") or tool.get("type"))


# --- the run ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Tally:
    """What came of the conversations."""

    requests: int = 0
    legal: int = 0
    rejected_by_us: list[str] = field(default_factory=list)
    unlike: list[tuple[Any, Any]] = field(default_factory=list)
    """Requests that cannot be put together again: as written, and as put together."""
    arranged: Counter[str] = field(default_factory=Counter)
    """Requests in which a consent was used."""
    followed: int = 0
    """Requests from the third of their conversation on, behind another one and both with moved text."""
    stable: int = 0
    """Those of them whose tools and system prompt are those of the request before."""


def run(name: str, conversations: int, seed: int, consent: CachePolicy = CONSENT) -> Tally:
    tally = Tally()
    for number in range(conversations):
        _one(HERE[name], tally, consent, random.Random(f"{name}/{seed}/{number}"))
    return tally


def _one(place: Place, tally: Tally, consent: CachePolicy, rng: random.Random) -> None:
    clock = ManualClock()
    policy = Policy(strict=True, cache=consent, store=StorePolicy(enabled=False))
    recorder = Recorder(policy.store, strict=True)
    engine = Engine(policy, clock, recorder, Registry(recorder))
    platform = place.endpoint.platform
    bare, ours = (Emulator(clock=clock, platform=platform) for _ in range(2))
    before = None
    for number, (gap, body) in enumerate(churned(rng, place.talks, clock.now)):
        clock.advance(gap)
        tally.requests += 1
        legal = bare.handle(place.request(body), clock.now).status == 200
        turn = engine.begin(body, place.endpoint)
        send = turn.handle(Started(clock.monotonic()))[-1]
        assert isinstance(send, Send)
        sent: Any = send.request
        reply = ours.handle(place.request(sent), clock.now)
        tally.arranged.update(turn.plan.consents)
        if spaced(restored(sent, body)) != spaced(body):
            tally.unlike.append((body, sent))
        if not legal:
            before = None
            continue
        tally.legal += 1
        if reply.status != 200:
            tally.rejected_by_us.append(reply.body.decode())
            continue
        now = _beginning(sent, place) if "move_volatile" in turn.plan.consents else None
        if now is not None and before is not None and number > 1:
            tally.followed += 1
            tally.stable += now == before
        before = now
        tap = dialect(place.endpoint.wire).reply_tap(reply.streamed)
        list(tap.feed(reply.body))
        list(tap.finish())
        turn.handle(Reported(usage=tap.usage, message_id=tap.message_id))
        clock.advance(1.0)
        turn.handle(Finished(clock.monotonic()))


def _beginning(sent: Json, place: Place) -> Any:
    bare = without_marks(sent)
    first = bare["messages"][:1] if place.endpoint.wire == "chat" else None
    return bare.get("tools"), bare.get("system"), bare.get("instructions"), first


__all__ = ["CONSENT", "HERE", "Tally", "conversation", "run"]

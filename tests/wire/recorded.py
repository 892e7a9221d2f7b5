"""Recorded exchanges with real APIs, where `AGENTACCEL_TRACES` names them, and what their own notes say of usage.

Nothing in here calls our readers: the rules for usage and the grammar of events are written down a second time, so that
a misreading cannot agree with itself. Content of the recordings never enters the repository; ids of exchanges do.
"""

from __future__ import annotations

import functools
import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from agentaccel.facts import CacheFacts, Wire, cache_facts, host_platform

Json = dict[str, Any]

FILES = ("anthropic", "openai_chat", "openai_responses", "compatible")

WIRES: dict[str, Wire] = {"anthropic-messages": "messages", "openai-chat": "chat", "openai-responses": "responses"}

STYLES: dict[str, Json] = {
    "compact": {"separators": (",", ":"), "ensure_ascii": False},
    "compact-ascii": {"separators": (",", ":")},
    "spaced": {"ensure_ascii": False},
    "spaced-ascii": {},
}
"""How clients write JSON, as arguments of `json.dumps`."""


@functools.cache
def exchanges(file: str = "") -> tuple[Json, ...]:
    """The exchanges of one file, or all of them."""
    if not file:
        return tuple(one for name in FILES for one in exchanges(name))
    path = Path(os.environ.get("AGENTACCEL_TRACES") or "/nowhere") / "wire" / f"{file}.jsonl.gz"
    if not path.exists():
        pytest.skip("AGENTACCEL_TRACES names no wire traces")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return tuple(json.loads(line) for line in lines)


def wire(one: Json) -> Wire:
    return WIRES[one["api"]]


def style(one: Json) -> Json | None:
    """How the client wrote the JSON of this request; None where that is not known or not one of the plain ways."""
    if not one.get("request_text"):
        return None
    named = [feature[11:] for feature in one["features"] if feature.startswith("text-style:")]
    return STYLES.get(named[0]) if named else None


def streamed(one: Json) -> bool:
    return bool(one["status"] == 200 and one["streaming"] and isinstance(one["response"], str))


def data_of(one: Json) -> bytes:
    """The body of the reply."""
    body = one["response"]
    return (body if isinstance(body, str) else json.dumps(body)).encode()


def streams() -> Iterator[Json]:
    """The exchanges whose reply is a stream of events."""
    return filter(streamed, exchanges())


def facts(one: Json) -> CacheFacts | None:
    """What is known of the model behind an exchange, where its reply came from."""
    host = one["url"].split("/")[2] if "//" in one["url"] else ""
    provider, platform = ("anthropic", "api") if wire(one) == "messages" else host_platform(host)
    model = one["request"].get("model") or "claude-sonnet-5"
    return cache_facts(str(model), provider=provider, platform=platform, wire=wire(one))


def events(text: str) -> Iterator[tuple[str, Any]]:
    """Name and JSON of each event of a whole stream; what is no JSON object is left out."""
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    for block in plain.split("\n\n")[:-1]:
        fields = [line.partition(":")[::2] for line in block.split("\n")]
        data = "\n".join(value.removeprefix(" ") for name, value in fields if name == "data")
        try:
            value = json.loads(data)
        except ValueError:
            continue
        if isinstance(value, dict):
            yield "".join(value.strip() for name, value in fields if name == "event"), value


class Tally(NamedTuple):
    """Usage by the recordings' own notes: input inclusive of the cache; None where it was not reported."""

    input: int | None = None
    read: int | None = None
    written: int | None = None
    output: int | None = None


def reported(one: Json) -> Json:
    """The usage object of an exchange that counts; empty where there is none."""
    body = one["response"]
    bodies = [body] if isinstance(body, dict) else [event for _, event in events(body)]
    if wire(one) == "messages":
        return _merged(bodies)
    if wire(one) == "responses":
        ends = ("response.completed", "response.incomplete", "response.failed")
        final = [event["response"] for event in bodies if event.get("type") in ends] if streamed(one) else bodies
        return (final[-1].get("usage") or {}) if final else {}
    plain = [event["usage"] for event in bodies if event.get("usage") is not None]
    groq = [event["x_groq"]["usage"] for event in bodies if (event.get("x_groq") or {}).get("usage") is not None]
    return [{}, *groq, *plain][-1]


def _merged(bodies: list[Json]) -> Json:
    found: Json = {}
    for body in bodies:
        usage = (body.get("message") or {}).get("usage") if body.get("type") == "message_start" else body.get("usage")
        found |= {name: value for name, value in (usage or {}).items() if value is not None}
    return found


def tally(usage: Json, wire: Wire) -> Tally:
    """What a usage object of `wire` says, by the recordings' notes."""
    if wire == "messages":
        read, written = usage.get("cache_read_input_tokens"), usage.get("cache_creation_input_tokens")
        fresh = usage.get("input_tokens")
        total = None if fresh is None else fresh + (read or 0) + (written or 0)
        return Tally(total, read, written, usage.get("output_tokens"))
    if wire == "responses":
        details = usage.get("input_tokens_details") or {}
        return Tally(
            usage.get("input_tokens"),
            details.get("cached_tokens"),
            details.get("cache_write_tokens"),
            usage.get("output_tokens"),
        )
    details = usage.get("prompt_tokens_details") or {}
    places = [(details, "cached_tokens")]
    places += [(usage, name) for name in ("prompt_cache_hit_tokens", "cached_tokens", "num_cached_tokens")]
    reads = [place[name] for place, name in [*places, (usage, "cache_read_input_tokens")] if name in place]
    writes = [
        place.get(name) for place, name in ((details, "cache_write_tokens"), (usage, "cache_creation_input_tokens"))
    ]
    input_, output = usage.get("prompt_tokens"), usage.get("completion_tokens")
    rest = (usage.get("total_tokens") or 0) - (input_ or 0) - (output or 0)
    if rest > 0 and input_ is not None and output is not None:
        made = usage.get("completion_tokens_details") or usage
        if made.get("reasoning_tokens") == rest:
            output += rest
        elif details.get("audio_tokens") == rest:
            input_ += rest
    return Tally(
        input_,
        next((count for count in reads if count is not None), None),
        next((count for count in writes if count is not None), None),
        output,
    )

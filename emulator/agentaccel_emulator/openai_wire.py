"""What replies of OpenAI's two APIs have in common on the wire: usage, errors, headers, and a finished completion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson

from agentaccel_emulator.accounts import Bucket
from agentaccel_emulator.faults import Fault
from agentaccel_emulator.trial import Problem
from agentaccel_emulator.usage import Usage
from agentaccel_emulator.writing import Written

Json = Mapping[str, Any]

Shape = Literal["openai", "details", "nonzero", "hit_miss", "timings", "top_level", "tokens", "nothing"]
"""How a server reports its cache: as OpenAI does, with cached tokens in the details (always, or where there are any),
as DeepSeek, llama.cpp and Moonshot do, not at all, or with no usage whatsoever."""

Streams = Literal["asked", "last", "finish", "x_groq"]
"""Where a chat's stream has its usage: in a last chunk without choices, if asked for or in any case, or in the chunk
that says how the reply ended, in the usual field or in Groq's."""

_STATUS_ERRORS: Mapping[str, tuple[int, str, str, str | None]] = {
    "429": (429, "Rate limit reached for requests. Please try again in 1s.", "requests", "rate_limit_exceeded"),
    "500": (500, "The server had an error while processing your request. Sorry about that!", "server_error", None),
    "503": (503, "The engine is currently overloaded, please try again later", "server_error", None),
    "529": (503, "The engine is currently overloaded, please try again later", "server_error", None),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """A finished reply, before it is rendered."""

    id: str
    """The reply's id, without the prefix that its API gives it."""
    created: float
    """When the request began, seconds since the epoch."""
    model: str
    """The model, as the reply names it."""
    choices: Sequence[Written]
    """What the model wrote, once per choice."""
    usage: Usage
    """What it is billed for."""
    request: Json
    """The request."""
    shape: Shape = "openai"
    """How usage is reported."""
    streams: Streams = "asked"
    """Where it stands in a stream of chunks."""
    seconds: tuple[float, float] = (0.0, 0.0)
    """From the start to the first and to the last byte."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the reply's body."""


def fault_problem(fault: Fault) -> Problem:
    """The error that a fault answers with, or puts into a stream."""
    status, text, kind, code = _STATUS_ERRORS.get(fault.kind, _STATUS_ERRORS["503"])
    return Problem(text, kind, status, None, code)


def error_body(problem: Problem) -> dict[str, object]:
    """The body of a refusal."""
    return {
        "error": {
            "message": problem.message,
            "type": problem.kind,
            "param": problem.param,
            "code": problem.code,
        }
    }


def chat_usage(usage: Usage, shape: Shape) -> dict[str, object] | None:
    """Usage as Chat Completions reports it; input includes what was read and written."""
    if shape == "nothing":
        return None
    body: dict[str, Any] = {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
    }
    if shape == "openai":
        body["prompt_tokens_details"] = {
            "cached_tokens": usage.read,
            "cache_write_tokens": usage.written,
            "audio_tokens": 0,
        }
        body["completion_tokens_details"] = {
            "reasoning_tokens": usage.thinking,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        }
    elif shape in ("details", "timings", "hit_miss") or (shape == "nonzero" and usage.read):
        body["prompt_tokens_details"] = {"cached_tokens": usage.read}
    elif shape == "nonzero":
        body["prompt_tokens_details"] = None
    if shape == "hit_miss":
        body |= {"prompt_cache_hit_tokens": usage.read, "prompt_cache_miss_tokens": usage.input - usage.read}
    if shape == "top_level":
        body["cached_tokens"] = usage.read
    return body


def responses_usage(usage: Usage, shape: Shape) -> dict[str, object] | None:
    """Usage as the Responses API reports it; input includes what was read and written."""
    if shape == "nothing":
        return None
    body: dict[str, object] = {"input_tokens": usage.input}
    if shape == "openai":
        split = {"ttl_30m_tokens": usage.write_30m, "ttl_12h_tokens": usage.write_12h}
        body["input_tokens_details"] = {
            "cached_tokens": usage.read,
            "cache_write_tokens": usage.written,
            "cache_write_tokens_details": split if usage.written else None,
        }
        body["output_tokens"] = usage.output
        body["output_tokens_details"] = {"reasoning_tokens": usage.thinking}
    else:
        if shape != "tokens":
            body["input_tokens_details"] = {"cached_tokens": usage.read}
        body["output_tokens"] = usage.output
    body["total_tokens"] = usage.input + usage.output
    return body


def limit_headers(buckets: tuple[Bucket, ...]) -> dict[str, str]:
    """The x-ratelimit headers, for requests and for tokens."""
    headers = {}
    for name, bucket in zip(("requests", "tokens"), buckets, strict=False):
        headers[f"x-ratelimit-limit-{name}"] = str(bucket.limit)
        headers[f"x-ratelimit-remaining-{name}"] = str(int(bucket.level))
        headers[f"x-ratelimit-reset-{name}"] = f"{(bucket.limit - bucket.level) * 60_000 / bucket.limit:.0f}ms"
    return headers


def arguments_of(block: Json) -> str:
    """The arguments of a scripted tool call as text; a string stands for itself, so that a script can break it."""
    given = block["input"]
    return given if isinstance(given, str) else orjson.dumps(given).decode()

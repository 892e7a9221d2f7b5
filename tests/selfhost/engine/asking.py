"""Asking a real engine, through the real SDK, and reading what it says, without any code of ours."""

from __future__ import annotations

import re
from typing import Any

import httpx2
import openai

from agentaccel.selfhost.launch import EngineProcess

COUNTING: list[dict[str, Any]] = [
    {"role": "user", "content": "Count."},
    {"role": "assistant", "content": "1 2 3 4 5 6 7 8\n" * 4},
    {"role": "user", "content": "Count."},
]
"""What this model goes on with as it began: text that can be drafted from the prompt."""


def sdk(engine: EngineProcess) -> openai.OpenAI:
    """The real SDK in front of an engine; it does not try again by itself."""
    return openai.OpenAI(base_url=f"{engine.url}/v1", api_key="none", max_retries=0, timeout=100)


def ask(client: openai.OpenAI, messages: list[dict[str, Any]], tokens: int = 4, **more: Any) -> Any:
    """One reply, greedy; `timings` of the engine is a field of the reply that the SDK does not know."""
    return client.chat.completions.create(
        model="any",
        messages=messages,  # type: ignore[arg-type]
        max_tokens=tokens,
        temperature=0,
        extra_body=more,
    )


def timings(reply: Any) -> dict[str, Any]:
    return dict(reply.model_extra["timings"])


def metrics(engine: EngineProcess) -> dict[str, float]:
    """What the engine counts, read without any code of ours."""
    text = httpx2.get(f"{engine.url}/metrics").text
    return {name: float(value) for name, value in re.findall(r"^llamacpp:(\w+) (\S+)$", text, re.MULTILINE)}

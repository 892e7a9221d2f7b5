"""Five turns of a coding agent, greedy, on the toy model: the same set of 32-bit weights must give the same digest in
every engine, by every method of speculation."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import openai

from agentaccel.selfhost.launch import EngineProcess
from tests.engines.starting import MODEL

FILE = "".join(
    f"def {name}(cache, token):\n    return parse({number})\n\n"
    for number, name in enumerate(["open_cache", "merge_state", "route_token"], start=10)
)
SYSTEM = "You are a coding agent. Call tools as JSON. " * 6
"""Long enough to fill whole cache blocks: 77 tokens."""
TURNS: tuple[dict[str, Any], ...] = (
    {"role": "user", "content": "Fix open_cache in src/cache/merge_state.py."},
    {"role": "tool", "tool_call_id": "call_1", "content": FILE},
    {"role": "tool", "tool_call_id": "call_2", "content": "ok"},
    {"role": "user", "content": "Fix route_token in src/cache/merge_state.py."},
    {"role": "tool", "tool_call_id": "call_3", "content": FILE},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What was answered."""

    digest: str
    replies: tuple[Any, ...]

    @property
    def prompt(self) -> int:
        return sum(one.usage.prompt_tokens for one in self.replies)

    @property
    def output(self) -> int:
        return sum(one.usage.completion_tokens for one in self.replies)

    @property
    def cached(self) -> list[int]:
        """Prompt tokens of each turn that came from the cache, as its usage says."""
        return [one.usage.prompt_tokens_details.cached_tokens for one in self.replies]


def sdk(engine: EngineProcess) -> openai.OpenAI:
    """The real SDK in front of an engine; it does not try again by itself."""
    return openai.OpenAI(base_url=f"{engine.url}/v1", api_key="none", max_retries=0, timeout=300)


def play(client: openai.OpenAI, *, system: str = SYSTEM, **more: Any) -> Played:
    """Play the exchange: each turn sends all that was said before. `more` goes into every request."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": system}]
    replies = []
    for turn in TURNS:
        messages.append(turn)
        reply = client.chat.completions.create(
            model=MODEL,
            messages=messages,  # type: ignore[arg-type]
            temperature=0,
            max_tokens=96,
            **more,
        )
        messages.append({"role": "assistant", "content": reply.choices[0].message.content or ""})
        replies.append(reply)
    texts = "|".join(one.choices[0].message.content or "" for one in replies)
    return Played(digest=hashlib.sha256(texts.encode()).hexdigest()[:12], replies=tuple(replies))

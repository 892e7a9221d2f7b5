"""The two SDKs that the demo runs with: how each is asked, and what its caching is called in three columns."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from agentaccel.errors import MissingExtraError
from agentaccel.types import Usage
from agentaccel.wire import dialect

OPENING = "Please take ticket 501 and bring it as far as you can."
MOST_TOKENS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """One reply of the model."""

    usage: Usage
    messages: Sequence[Any]
    """What to append to the history for it."""
    calls: Sequence[tuple[str, str, Mapping[str, Any]]]
    """Tool calls: id, name, arguments."""


class Vendor(Protocol):
    """One SDK, as a plain agent loop uses it."""

    provider: str
    model: str
    bare: str
    """The column of the SDK as it comes."""
    without: Mapping[str, Mapping[str, Any]]
    """Fields of the request, by the name of the column that is run without agentaccel."""

    def client(self, url: str) -> Any:
        """A client of the SDK for a provider at `url`; a context manager."""
        ...

    platform: str | None
    """What to call whoever answers at a local address; None where the client says it itself."""

    def begin(self, system: str) -> list[Any]:
        """The history before the first reply."""
        ...

    def ask(
        self, client: Any, history: list[Any], system: str, tools: Sequence[Mapping[str, Any]], extra: Mapping[str, Any]
    ) -> Spoken:
        """One model call, streamed."""
        ...

    def results(self, outputs: Sequence[tuple[str, str]]) -> list[Any]:
        """What to append to the history for tool results: id and output."""
        ...


class Claude:
    """The `anthropic` SDK: nothing is cached unless it is asked for."""

    provider = "anthropic"
    model = "claude-sonnet-5"
    platform: str | None = None
    bare = "no caching"
    without: Mapping[str, Mapping[str, Any]] = {
        "no caching": {},
        "automatic": {"cache_control": {"type": "ephemeral"}},
    }

    def client(self, url: str) -> Any:
        try:
            import anthropic
        except ImportError:
            raise MissingExtraError("anthropic", "anthropic") from None
        return anthropic.Anthropic(base_url=url, api_key="demo", max_retries=0)

    def begin(self, system: str) -> list[Any]:
        return [{"role": "user", "content": OPENING}]

    def ask(
        self, client: Any, history: list[Any], system: str, tools: Sequence[Mapping[str, Any]], extra: Mapping[str, Any]
    ) -> Spoken:
        with client.messages.stream(
            model=self.model, max_tokens=MOST_TOKENS, system=system, tools=tools, messages=history, **extra
        ) as stream:
            reply = stream.get_final_message()
        content = [block.model_dump(exclude_none=True) for block in reply.content]
        return Spoken(
            usage=dialect("messages").usage_of(reply.usage.model_dump()),
            messages=[{"role": "assistant", "content": content}],
            calls=[(one["id"], one["name"], one["input"]) for one in content if one["type"] == "tool_use"],
        )

    def results(self, outputs: Sequence[tuple[str, str]]) -> list[Any]:
        content = [{"type": "tool_result", "tool_use_id": id_, "content": output} for id_, output in outputs]
        return [{"role": "user", "content": content}]


class Gpt:
    """The `openai` SDK, Chat Completions: the model caches and charges for writes by itself, unless told not to."""

    provider = "openai"
    model = "gpt-6.1-sol"
    platform: str | None = "api"
    bare = "automatic"
    without: Mapping[str, Mapping[str, Any]] = {
        "no caching": {"prompt_cache_options": {"mode": "explicit"}},
        "automatic": {},
    }

    def client(self, url: str) -> Any:
        try:
            import openai
        except ImportError:
            raise MissingExtraError("openai", "openai") from None
        return openai.OpenAI(base_url=f"{url}/v1", api_key="demo", max_retries=0)

    def begin(self, system: str) -> list[Any]:
        return [{"role": "developer", "content": system}, {"role": "user", "content": OPENING}]

    def ask(
        self, client: Any, history: list[Any], system: str, tools: Sequence[Mapping[str, Any]], extra: Mapping[str, Any]
    ) -> Spoken:
        history[0] = {"role": "developer", "content": system}
        with client.chat.completions.stream(
            model=self.model,
            max_completion_tokens=MOST_TOKENS,
            messages=history,
            tools=[_function(tool) for tool in tools],
            stream_options={"include_usage": True},
            **extra,
        ) as stream:
            reply = stream.get_final_completion()
        message = reply.choices[0].message
        calls = [(one.id, one.function.name, one.function.arguments) for one in message.tool_calls or ()]
        said: dict[str, Any] = {"role": "assistant", "content": message.content}
        if calls:
            said["tool_calls"] = [
                {"id": id_, "type": "function", "function": {"name": name, "arguments": text}}
                for id_, name, text in calls
            ]
        return Spoken(
            usage=dialect("chat").usage_of(reply.usage.model_dump()),
            messages=[said],
            calls=[(id_, name, json.loads(text)) for id_, name, text in calls],
        )

    def results(self, outputs: Sequence[tuple[str, str]]) -> list[Any]:
        return [{"role": "tool", "tool_call_id": id_, "content": output} for id_, output in outputs]


def _function(tool: Mapping[str, Any]) -> dict[str, Any]:
    """A tool of the Messages API as one of Chat Completions."""
    function = {"name": tool["name"], "description": tool["description"], "parameters": tool["input_schema"]}
    return {"type": "function", "function": function}


VENDORS: Mapping[str, Vendor] = {vendor.provider: vendor for vendor in (Claude(), Gpt())}

"""Agents in a few lines, without a framework: a loop over each wire of the vendors' SDKs, with a place for each way in
which an adapter can be broken."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anthropic
import openai

from agentaccel.testing.conformance import GATED, READS, Ask, Setting, Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """What stands between a loop and agentaccel; as it is by default, an adapter that is right."""

    client: Callable[[Any], None] = lambda bare: None
    """What it does to the client that the user has made."""
    tool: Callable[[Tool], Tool] = lambda tool: tool
    reads: frozenset[str] = READS
    """The tools that it declares to be readers that nobody has to allow."""
    event: Callable[[str], bool] = lambda kind: True
    """True if it hands on an event of a stream."""
    keeps_artifacts: bool = True


RIGHT = Adapter()


def schema(tool: Tool) -> dict[str, Any]:
    """The arguments of a tool, as JSON schema."""
    names = list(inspect.signature(tool).parameters)
    return {"type": "object", "properties": {name: {"type": "string"} for name in names}, "required": names}


def adapted(setting: Setting, bare: Any, adapter: Adapter) -> tuple[Any, Mapping[str, Tool]]:
    """The client and the tools of an agent; as they were made where no adapter takes part."""
    setting.watch(bare)
    accel = setting.accel
    if accel is None:
        return bare, setting.tools
    adapter.client(bare)
    tools = dict[str, Tool]()
    for name, tool in setting.tools.items():
        if name in READS | GATED:
            declare = accel.tool(effect="read_local", concurrent=True, needs_approval=name not in adapter.reads)
        else:
            declare = accel.tool()
        tools[name] = adapter.tool(declare(tool))
    return accel.wrap(bare), tools


async def answers(tools: Mapping[str, Tool], calls: list[tuple[str, str, dict[str, Any]]]) -> list[tuple[str, str]]:
    """The result of each call, by its id, all at once."""
    results = await asyncio.gather(*[tools[name](**arguments) for _, name, arguments in calls])
    return [(one[0], result) for one, result in zip(calls, results, strict=True)]


@asynccontextmanager
async def claude(setting: Setting, adapter: Adapter = RIGHT) -> AsyncIterator[Ask]:
    async with anthropic.AsyncAnthropic(base_url=setting.url, api_key="k", max_retries=1) as bare:
        client, tools = adapted(setting, bare, adapter)
        held: dict[str, list[Any]] = setting.conversations
        offered = [{"name": name, "description": "", "input_schema": schema(tool)} for name, tool in tools.items()]

        async def ask(question: str, conversation: str) -> Any:
            messages = held.setdefault(conversation, [])
            messages.append({"role": "user", "content": question})
            while True:
                reply = await client.messages.create(
                    model=setting.model, max_tokens=500, system=setting.instructions, tools=offered, messages=messages
                )  # type: ignore[call-overload]
                messages.append({"role": "assistant", "content": [one.model_dump() for one in reply.content]})
                calls = [(one.id, one.name, one.input) for one in reply.content if one.type == "tool_use"]
                if not calls:
                    return json.loads(json.dumps(messages))
                results = await answers(tools, calls)
                blocks = [{"type": "tool_result", "tool_use_id": one, "content": said} for one, said in results]
                messages.append({"role": "user", "content": blocks})

        yield ask


@asynccontextmanager
async def chat(setting: Setting, adapter: Adapter = RIGHT) -> AsyncIterator[Ask]:
    async with openai.AsyncOpenAI(base_url=f"{setting.url}/v1", api_key="k", max_retries=1) as bare:
        client, tools = adapted(setting, bare, adapter)
        held: dict[str, list[Any]] = setting.conversations
        offered = [
            {"type": "function", "function": {"name": name, "parameters": schema(tool)}} for name, tool in tools.items()
        ]

        async def ask(question: str, conversation: str) -> Any:
            artifacts = list[Any]()
            messages = held.setdefault(conversation, [{"role": "system", "content": setting.instructions}])
            messages.append({"role": "user", "content": question})
            while True:
                reply = await client.chat.completions.create(model=setting.model, tools=offered, messages=messages)  # type: ignore[call-overload]
                said = reply.choices[0].message
                messages.append(said.model_dump(exclude_none=True))
                asked = said.tool_calls or ()
                calls = [(one.id, one.function.name, json.loads(one.function.arguments)) for one in asked]
                if not calls:
                    return json.loads(json.dumps({"messages": messages, "artifacts": artifacts}))
                for one, result in await answers(tools, calls):
                    messages.append({"role": "tool", "tool_call_id": one, "content": result})
                    if setting.accel is None or adapter.keeps_artifacts:
                        artifacts.append({"length": len(result)})

        yield ask


@asynccontextmanager
async def responses(setting: Setting, adapter: Adapter = RIGHT) -> AsyncIterator[Ask]:
    """Streamed: what its users see of it is every event."""
    async with openai.AsyncOpenAI(base_url=f"{setting.url}/v1", api_key="k", max_retries=1) as bare:
        client, tools = adapted(setting, bare, adapter)
        held: dict[str, list[Any]] = setting.conversations
        offered = [{"type": "function", "name": name, "parameters": schema(tool)} for name, tool in tools.items()]

        async def ask(question: str, conversation: str) -> Any:
            items, events = held.setdefault(conversation, []), list[str]()
            items.append({"role": "user", "content": question})
            while True:
                stream = await client.responses.create(
                    model=setting.model, instructions=setting.instructions, tools=offered, input=items, stream=True
                )  # type: ignore[call-overload]
                output = list[Any]()
                async for event in stream:
                    if setting.accel is None or adapter.event(event.type):
                        events.append(event.type)
                    output = event.response.output if event.type == "response.completed" else output
                items += [one.model_dump(exclude_none=True) for one in output]
                asked = [one for one in output if one.type == "function_call"]
                calls = [(one.call_id, one.name, json.loads(one.arguments)) for one in asked]
                if not calls:
                    return json.loads(json.dumps({"items": items, "events": events}))
                for one, result in await answers(tools, calls):
                    items.append({"type": "function_call_output", "call_id": one, "output": result})

        yield ask


LOOPS = {"messages": claude, "chat": chat, "responses": responses}

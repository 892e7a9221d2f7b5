"""Spans and metrics of tools: around the run, under the caller, without a single value."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode

from agentaccel.otel import export
from agentaccel.policy import ToolPolicy
from agentaccel.report import report
from agentaccel.sources.logs import read_logs
from agentaccel_emulator import call, serve
from tests.otel.scene import ASK, MODEL, Telemetry, claude, watched
from tests.predict.scripted import Agent
from tests.predict.scripted import call as made

SECRET = "the customer's address"


def test_a_run_is_a_span_below_the_callers_and_around_what_the_tool_does(tmp_path: Path, telemetry: Telemetry) -> None:
    """A model that a tool asks is asked within it."""
    tracer = telemetry.tracers.get_tracer("the application")
    with serve() as server, watched(tmp_path, server, telemetry) as accel, accel.wrap(claude(server)) as client:
        ask = accel.tools({"ask": lambda: client.messages.create(**ASK).id})["ask"]
        with tracer.start_as_current_span("caller") as caller:
            ask()
            assert trace.get_current_span() is caller
    chat, tool, _ = telemetry.spans
    assert (chat.name, tool.name, tool.kind) == (f"chat {MODEL}", "execute_tool ask", SpanKind.INTERNAL)
    assert tool.parent == caller.get_span_context()
    assert chat.parent == tool.get_span_context()
    said = dict(tool.attributes or {})
    assert said == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "ask",
        "gen_ai.tool.type": "function",
    }


async def test_sync_and_async_runs_know_their_session_and_the_call_that_the_loop_names(
    tmp_path: Path, telemetry: Telemetry
) -> None:
    """The id of a call is the provider's; where the loop does not say it, it is absent."""

    async def look(order: str) -> str:
        return order

    with serve() as server, watched(tmp_path, server, telemetry) as accel:
        tools: dict[str, Any] = accel.tools({"look": look, "look_now": lambda order: order})
        async with accel.session("ticket 7", agent="desk") as session:
            await tools["look"](SECRET)
            tools["look_now"](order=SECRET)
            await session.tool("look", {"order": SECRET}, lambda: look(SECRET), id="toolu_1")
    said = telemetry.said("execute_tool")
    assert [one["gen_ai.tool.name"] for one in said] == ["look", "look_now", "look"]
    assert {one["gen_ai.conversation.id"] for one in said} == {"ticket 7"}
    assert {one["gen_ai.agent.name"] for one in said} == {"desk"}
    assert [one.get("gen_ai.tool.call.id") for one in said] == [None, None, "toolu_1"]
    points = telemetry.points("gen_ai.execute_tool.duration")
    assert {point.attributes["gen_ai.tool.name"]: point.count for point in points} == {"look": 2, "look_now": 1}


async def test_failed_and_cancelled_runs_say_so_and_nothing_of_what_went_wrong(
    tmp_path: Path, telemetry: Telemetry
) -> None:
    """The class of an exception, never its text; being cancelled is no error."""
    began = asyncio.Event()

    async def broken() -> None:
        raise LookupError(SECRET)

    async def slow() -> None:
        began.set()
        await asyncio.Event().wait()

    with serve() as server, watched(tmp_path, server, telemetry) as accel:
        tools: dict[str, Any] = accel.tools({"broken": broken, "slow": slow})
        with pytest.raises(LookupError):
            await tools["broken"]()
        task = asyncio.create_task(tools["slow"]())
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    failed, cancelled = telemetry.spans
    assert (failed.status.status_code, failed.status.description) == (StatusCode.ERROR, None)
    assert (failed.attributes or {})["error.type"] == "LookupError"
    assert cancelled.status.status_code is StatusCode.UNSET
    assert (cancelled.attributes or {})["agentaccel.outcome"] == "cancelled"
    assert SECRET not in "".join(span.to_json() for span in telemetry.spans)


async def test_a_callable_that_hands_out_a_coroutine_is_one_run(tmp_path: Path, telemetry: Telemetry) -> None:
    """The run is what is awaited; nothing stays open."""

    async def look() -> int:
        return 1

    with serve() as server, watched(tmp_path, server, telemetry) as accel:
        later = accel.tools({"look": lambda: look()})["look"]
        outside = trace.get_current_span()
        assert await later() == 1
        assert trace.get_current_span() is outside
    assert len(telemetry.said("execute_tool")) == 1


def test_a_framework_that_has_a_span_for_the_tool_keeps_the_only_one(tmp_path: Path, telemetry: Telemetry) -> None:
    """Same tool, open around the call."""
    tracer = telemetry.tracers.get_tracer("a framework")
    theirs = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look"}
    with serve() as server, watched(tmp_path, server, telemetry) as accel, accel.session("ticket 7"):
        tools: dict[str, Any] = accel.tools({"look": lambda: tools["other"](), "other": lambda: 1})
        with tracer.start_as_current_span("running tool", attributes=theirs):
            tools["look"]()
    other, theirs_ = telemetry.spans
    assert (other.name, theirs_.name) == ("execute_tool other", "running tool")
    assert (theirs_.attributes or {})["gen_ai.conversation.id"] == "ticket 7"


def test_nothing_of_an_agents_run_is_content(tmp_path: Path, telemetry: Telemetry) -> None:
    """Neither prompts nor replies, neither arguments nor results, in spans or metrics."""
    with (
        serve(script=[call("look", {"order": "argument ZX4711"}), "reply ZX4711"]) as server,
        watched(tmp_path, server, telemetry) as accel,
        accel.wrap(claude(server)) as client,
        accel.session("ticket 7"),
    ):
        look = accel.tools({"look": lambda order: f"result of {order}"})["look"]
        tools: Any = [{"name": "look", "input_schema": {"type": "object"}}]
        messages: list[Any] = [{"role": "user", "content": "prompt ZX4711"}]
        for _ in range(2):
            reply = client.messages.create(model=MODEL, max_tokens=99, messages=messages, tools=tools)
            for block in reply.content:
                if block.type == "tool_use":
                    done = {"type": "tool_result", "tool_use_id": block.id, "content": look(**block.input)}
                    messages += [{"role": "assistant", "content": reply.content}, {"role": "user", "content": [done]}]
    assert [span.name.partition(" ")[0] for span in telemetry.spans] == ["chat", "execute_tool", "chat"]
    data = telemetry.reader.get_metrics_data()
    assert data is not None
    assert "ZX4711" not in "".join(span.to_json() for span in telemetry.spans) + data.to_json()


def test_an_early_run_is_no_call_also_where_its_span_is_read_back(tmp_path: Path, telemetry: Telemetry) -> None:
    """The report on exported spans counts calls, early runs and what they hid as that of the store does."""
    agent = Agent(ToolPolicy(speculate=False))
    export(agent.accel, tracer_provider=telemetry.tracers, meter_provider=telemetry.meters)
    look = agent.reads(seconds=2.0)

    async def main() -> None:
        await agent.model(made("look", key="a"), made("look", key="b"), gap=1.5)
        await look("a")

    agent.run(main)
    path = tmp_path / "spans.jsonl"
    path.write_text("".join(one.to_json(indent=None) + "\n" for one in telemetry.spans), encoding="utf-8")
    told = report(read_logs([path])).total
    ledger = agent.ledger.asked
    assert (
        (told.tools.calls, told.early.launched, told.early.served) == (1, ledger.launched, ledger.served) == (1, 2, 1)
    )
    assert told.early.hidden == pytest.approx(ledger.hidden)
    assert [mode.mode for mode in told.modes] == ["on"]
    points = telemetry.points("gen_ai.execute_tool.duration")
    assert {point.attributes.get("agentaccel.tool.speculative", False): point.count for point in points} == {
        True: 2,
        False: 1,
    }

"""Beside other instrumentations: no call has two spans, and what somebody else has said stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace

from agentaccel_emulator import Fault, serve
from tests.otel.scene import ASK, MODEL, Telemetry, async_claude, claude, watched

SDK = {"agentaccel.mode": "on", "agentaccel.cache.hit_ratio": 0.0, "agentaccel.cache.miss_causes": ("first request",)}


def traced(telemetry: Telemetry) -> dict[str, Any]:
    return {"open_telemetry": {"tracer_provider": telemetry.tracers}}


def check_enriched(telemetry: Telemetry, reply: Any) -> None:
    (span,) = telemetry.spans
    assert span.name == "anthropic.messages.create"
    said = dict(span.attributes or {})
    assert said["gen_ai.conversation.id"] == "ticket 7"
    assert said["gen_ai.response.finish_reasons"] == ("end_turn",)
    assert {name: said[name] for name in SDK} == SDK
    assert said["gen_ai.usage.cache_write.input_tokens"] == reply.usage.cache_creation_input_tokens
    assert sum(point.count for point in telemetry.points("gen_ai.client.operation.duration")) == 1


@pytest.mark.parametrize("streamed", [False, True])
def test_the_span_of_the_anthropic_sdk_gets_what_it_lacks_and_stays_the_only_one(
    tmp_path: Path, telemetry: Telemetry, streamed: bool
) -> None:
    """It makes one per call by itself, since 2.11, and has it open around ours."""
    with (
        serve() as server,
        watched(tmp_path, server, telemetry) as accel,
        accel.wrap(claude(server, **traced(telemetry))) as client,
        accel.session("ticket 7"),
    ):
        if streamed:
            with client.messages.stream(**ASK) as stream:
                reply = stream.get_final_message()
        else:
            reply = client.messages.create(**ASK)
    check_enriched(telemetry, reply)


@pytest.mark.parametrize("streamed", [False, True])
async def test_so_does_that_of_its_async_client(tmp_path: Path, telemetry: Telemetry, streamed: bool) -> None:
    """The same on an event loop."""
    with serve() as server, watched(tmp_path, server, telemetry) as accel, accel.session("ticket 7"):
        async with accel.wrap(async_claude(server, **traced(telemetry))) as client:
            if streamed:
                async with client.messages.stream(**ASK) as stream:
                    reply = await stream.get_final_message()
            else:
                reply = await client.messages.create(**ASK)
    check_enriched(telemetry, reply)


def test_a_retry_inside_the_sdks_span_makes_no_second_one(tmp_path: Path, telemetry: Telemetry) -> None:
    """One span per call is the SDK's way; the metrics count both requests."""
    faults = [Fault(kind="529", at=1, headers={"retry-after-ms": "1"})]
    with (
        serve(faults=faults) as server,
        watched(tmp_path, server, telemetry) as accel,
        accel.wrap(claude(server, max_retries=1, **traced(telemetry))) as client,
    ):
        client.messages.create(**ASK)
    (said,) = telemetry.said("chat")
    assert said["agentaccel.attempt"] == 1
    assert sum(point.count for point in telemetry.points("gen_ai.client.operation.duration")) == 2


def test_what_an_instrumentation_has_said_is_not_overwritten(tmp_path: Path, telemetry: Telemetry) -> None:
    """Its conversation may be named by somebody who knows better."""
    tracer = telemetry.tracers.get_tracer("another")
    theirs = {"gen_ai.operation.name": "chat", "gen_ai.conversation.id": "theirs"}
    with (
        serve() as server,
        watched(tmp_path, server, telemetry) as accel,
        accel.wrap(claude(server)) as client,
        tracer.start_as_current_span("chat", attributes=theirs),
    ):
        client.messages.create(**ASK)
    (said,) = telemetry.said("chat")
    assert said["gen_ai.conversation.id"] == "theirs"
    assert said["agentaccel.mode"] == "on"
    assert "gen_ai.usage.input_tokens" not in said


def test_a_span_of_anything_else_is_the_parent(tmp_path: Path, telemetry: Telemetry) -> None:
    """The caller's own, or an agent's: the request is one of the things that happened in it."""
    tracer = telemetry.tracers.get_tracer("the application")
    with (
        serve() as server,
        watched(tmp_path, server, telemetry) as accel,
        accel.wrap(claude(server)) as client,
        tracer.start_as_current_span("invoke_agent", attributes={"gen_ai.operation.name": "invoke_agent"}) as outer,
    ):
        client.messages.create(**ASK)
    chat, agent = telemetry.spans
    assert chat.parent == outer.get_span_context()
    assert (chat.name, agent.name) == (f"chat {MODEL}", "invoke_agent")
    assert "agentaccel.mode" not in (agent.attributes or {})


async def test_the_parent_of_a_stream_is_where_it_was_asked_for(tmp_path: Path, telemetry: Telemetry) -> None:
    """Not where it happened to be read."""
    tracer = telemetry.tracers.get_tracer("the application")
    with serve() as server, watched(tmp_path, server, telemetry) as accel:
        async with accel.wrap(async_claude(server)) as client:
            with tracer.start_as_current_span("asked") as asked:
                stream = await client.messages.create(**ASK, stream=True)
            with tracer.start_as_current_span("read"):
                async for _ in stream:
                    pass
    chat = next(span for span in telemetry.spans if span.name.startswith("chat"))
    assert chat.parent == asked.get_span_context()


def test_spans_or_metrics_of_requests_can_be_left_to_another(tmp_path: Path, telemetry: Telemetry) -> None:
    """For instrumentations whose spans are not open around the call, and for those that count tokens, too."""
    with (
        serve() as server,
        watched(tmp_path, server, telemetry, model_spans=False, model_metrics=False) as accel,
        accel.wrap(claude(server)) as client,
    ):
        client.messages.create(**ASK)
    assert not telemetry.spans
    assert not telemetry.points("gen_ai.client.token.usage")
    assert not telemetry.points("gen_ai.client.operation.duration")
    assert telemetry.points("agentaccel.cache.hit_ratio")


def test_an_application_without_providers_pays_nothing_and_sees_nothing(tmp_path: Path) -> None:
    """The API's own providers do nothing; the SDK's span of a call that nobody records is none."""
    from agentaccel import Accel, Policy, StorePolicy
    from agentaccel.otel import export

    with serve() as server, Accel(Policy(strict=True, store=StorePolicy(path=tmp_path / "trace.db"))) as accel:
        export(accel)
        with accel.wrap(claude(server, open_telemetry=None)) as client:
            client.messages.create(**ASK)
        look = accel.tools({"look": lambda: trace.get_current_span().is_recording()})["look"]
        assert look() is False

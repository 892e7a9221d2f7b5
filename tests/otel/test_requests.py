"""Spans and metrics of requests: exact names, the provider's own figures, and nothing where nothing was reported."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any

import anthropic
import pytest
from opentelemetry.trace import SpanKind, StatusCode

from agentaccel import Accel, Usage
from agentaccel.cache.price import price_card
from agentaccel.otel import export
from agentaccel.turn import Failed, Finished, Reported, Started
from agentaccel_emulator import Fault, serve
from tests.clients.wire import Hold, Peer, an_accel, message, stream
from tests.otel.scene import ASK, GPT, MODEL, SYSTEM, Telemetry, claude, gpt, watched


def listened(folder: Path, telemetry: Telemetry) -> Accel:
    """An `Accel` without a server."""
    accel = an_accel(folder)
    export(accel, tracer_provider=telemetry.tracers, meter_provider=telemetry.meters)
    return accel


def conversation(client: anthropic.Anthropic, turns: int) -> None:
    messages: list[Any] = [*ASK["messages"]]
    for _ in range(turns):
        reply = client.messages.create(**{**ASK, "messages": messages})
        messages += [{"role": "assistant", "content": reply.content}, {"role": "user", "content": "And now?"}]


def test_a_request_is_one_chat_span_with_the_names_of_the_conventions(tmp_path: Path, telemetry: Telemetry) -> None:
    """Provider: the figures of its reply. Ours: names that begin with agentaccel."""
    with serve() as server, watched(tmp_path, server, telemetry) as accel, accel.wrap(claude(server)) as client:
        with accel.session("ticket 7", agent="desk"):
            reply = client.messages.create(**ASK)
        port = int(server.url.rpartition(":")[2])
    (span,) = telemetry.spans
    assert (span.name, span.kind, span.status.status_code) == (f"chat {MODEL}", SpanKind.CLIENT, StatusCode.UNSET)
    written = reply.usage.cache_creation_input_tokens
    assert written
    said = dict(span.attributes or {})
    assert said.pop("agentaccel.cost.paid") > 0
    assert said.pop("agentaccel.cost.saved") < 0  # the first request pays the premium for writing
    assert said == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.conversation.id": "ticket 7",
        "gen_ai.agent.name": "desk",
        "gen_ai.request.model": MODEL,
        "gen_ai.response.model": reply.model,
        "gen_ai.response.id": reply.id,
        "gen_ai.response.finish_reasons": ("end_turn",),
        "gen_ai.usage.input_tokens": reply.usage.input_tokens + written,
        "gen_ai.usage.output_tokens": reply.usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": 0,
        "gen_ai.usage.cache_write.input_tokens": written,
        "server.address": "127.0.0.1",
        "server.port": port,
        "agentaccel.mode": "on",
        "agentaccel.cache.hit_ratio": 0.0,
        "agentaccel.cache.write.5m": written,
        "agentaccel.cache.miss_causes": ("first request",),
    }


def test_totals_of_spans_and_metrics_are_the_providers_own(tmp_path: Path, telemetry: Telemetry) -> None:
    """To the token, over a conversation that reads and writes the cache."""
    with serve() as server, watched(tmp_path, server, telemetry) as accel, accel.wrap(claude(server)) as client:
        conversation(client, 4)
        billed = [entry.usage for entry in server.log if entry.usage is not None]
    spans = telemetry.said("chat")
    reads, writes = sum(one.read for one in billed), sum(one.write_5m + one.write_1h for one in billed)
    total = reads + writes + sum(one.uncached for one in billed)
    assert reads > 0
    assert sum(one["gen_ai.usage.cache_read.input_tokens"] for one in spans) == reads
    assert sum(one["gen_ai.usage.cache_write.input_tokens"] for one in spans) == writes
    assert sum(one["gen_ai.usage.input_tokens"] for one in spans) == total
    by_type = {point.attributes["gen_ai.token.type"]: point for point in telemetry.points("gen_ai.client.token.usage")}
    assert {kind: (point.sum, point.count) for kind, point in by_type.items()} == {
        "input": (total, 4),
        "output": (sum(one.output for one in billed), 4),
    }


def test_durations_ratios_and_costs_are_metrics_with_few_attributes(tmp_path: Path, telemetry: Telemetry) -> None:
    """Sessions, agents and ids are in no metric: each would be a series of its own."""
    with serve() as server, watched(tmp_path, server, telemetry) as accel, accel.wrap(claude(server)) as client:
        conversation(client, 3)
        billed = [entry.usage for entry in server.log if entry.usage is not None]
        port = int(server.url.rpartition(":")[2])
    place = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": MODEL,
        "gen_ai.response.model": MODEL,
        "server.address": "127.0.0.1",
        "server.port": port,
    }
    (duration,) = telemetry.points("gen_ai.client.operation.duration")
    spans = telemetry.spans
    assert (dict(duration.attributes), duration.count) == (place, 3)
    took = sum((span.end_time or 0) - (span.start_time or 0) for span in spans) / 1e9
    assert duration.sum == pytest.approx(took)
    (ratio,) = telemetry.points("agentaccel.cache.hit_ratio")
    said = telemetry.said("chat")
    assert dict(ratio.attributes) == {**place, "agentaccel.mode": "on"}
    assert ratio.sum == pytest.approx(sum(one["agentaccel.cache.hit_ratio"] for one in said))
    (paid,), (saved,) = telemetry.points("agentaccel.cost.paid"), telemetry.points("agentaccel.cost.saved")
    card = price_card("anthropic", MODEL, input_tokens=3000)
    assert card is not None
    assert card.read is not None
    written = {"5m": sum(one.write_5m for one in billed), "1h": sum(one.write_1h for one in billed)}
    read, uncached = sum(one.read for one in billed), sum(one.uncached for one in billed)
    total = read + uncached + sum(written.values())
    bill = read * card.read + uncached * card.input + sum(card.write[ttl] * written[ttl] for ttl in written)
    assert paid.value == pytest.approx(bill)
    assert saved.value == pytest.approx(total * card.input - bill)
    assert saved.value > 0


@pytest.mark.parametrize("streamed", [False, True])
def test_a_request_of_the_openai_sdk_has_its_figures_too(tmp_path: Path, telemetry: Telemetry, streamed: bool) -> None:
    """Whether or not it is streamed; usage that nobody asked for in the stream was asked for by us."""
    ask = {"model": GPT, "messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "Hi"}]}
    with (
        serve() as server,
        watched(tmp_path, server, telemetry) as accel,
        accel.wrap(gpt(server), platform="api") as client,
    ):
        for _ in range(2):
            reply = client.chat.completions.create(**ask, stream=streamed)  # type: ignore[call-overload]
            for _ in reply if streamed else ():
                pass
        billed = [entry.usage for entry in server.log if entry.usage is not None]
    first, second = telemetry.said("chat")
    assert second["gen_ai.provider.name"] == "openai"
    assert second["gen_ai.usage.cache_read.input_tokens"] == billed[1].read > 0
    assert second["gen_ai.usage.output_tokens"] == billed[1].output
    assert second["gen_ai.response.finish_reasons"] == ("stop",)
    assert second.get("gen_ai.request.stream", False) is streamed
    assert ("gen_ai.response.time_to_first_chunk" in second) is streamed
    assert first["gen_ai.conversation.id"]


def test_what_was_not_reported_is_absent_and_not_zero(tmp_path: Path, telemetry: Telemetry) -> None:
    """A failed request has no usage, a server may say nothing of its cache: no attribute and no point."""
    with serve() as server, watched(tmp_path, server, telemetry) as accel:
        for end in (Reported(usage=Usage(input=900, output=5)), None):
            turn = accel.turn(ASK)
            turn.handle(Started(0.0))
            if end is not None:
                turn.handle(end)
            turn.handle(Finished(1.0) if end is not None else Failed(at=1.0, status=529, error="overloaded_error"))
    silent, failed = telemetry.said("chat")
    assert (silent["gen_ai.usage.input_tokens"], silent["gen_ai.usage.output_tokens"]) == (900, 5)
    for said in (silent, failed):
        assert not [name for name in said if "cache" in name or "cost" in name or "server" in name]
    assert not [name for name in failed if "usage" in name or ("response" in name and "http" not in name)]
    assert not telemetry.points("agentaccel.cache.hit_ratio")
    assert not telemetry.points("agentaccel.cost.paid")
    assert sum(point.count for point in telemetry.points("gen_ai.client.token.usage")) == 2


def test_a_failed_request_has_an_error_and_its_retry_is_another_span(tmp_path: Path, telemetry: Telemetry) -> None:
    """Ours: one span per attempt, because each is billed by itself."""
    faults = [Fault(kind="529", at=1, headers={"retry-after-ms": "1"})]
    with (
        serve(faults=faults) as server,
        watched(tmp_path, server, telemetry) as accel,
        accel.wrap(claude(server, max_retries=1)) as client,
    ):
        client.messages.create(**ASK)
    failed, retried = telemetry.spans
    assert failed.status.status_code is StatusCode.ERROR
    assert failed.status.description is None
    assert (failed.attributes or {})["error.type"] == "overloaded_error"
    assert (failed.attributes or {})["http.response.status_code"] == 529
    assert retried.status.status_code is StatusCode.UNSET
    assert (retried.attributes or {})["agentaccel.attempt"] == 1
    assert "error.type" not in (retried.attributes or {})
    errors = {point.attributes.get("error.type") for point in telemetry.points("gen_ai.client.operation.duration")}
    assert errors == {"overloaded_error", None}


@pytest.mark.parametrize("how", ["closed", "dropped"])
def test_a_stream_that_its_reader_leaves_is_abandoned_and_no_error(
    tmp_path: Path, telemetry: Telemetry, how: str
) -> None:
    """The garbage collector may have ended it, inside somebody's lock: so it is told with whatever happens next."""
    accel = listened(tmp_path, telemetry)
    with accel, accel.wrap(Peer(stream()).client(open_telemetry=False)) as client:
        reply = client.messages.create(**ASK, stream=True)
        next(iter(reply))
        if how == "closed":
            reply.close()
        else:
            del reply
            gc.collect()
        assert not telemetry.spans
    (said,) = telemetry.said("chat")
    assert said["agentaccel.outcome"] == "abandoned"
    assert telemetry.spans[0].status.status_code is StatusCode.UNSET
    assert "error.type" not in said


async def test_a_cancelled_request_is_cancelled_and_no_error(tmp_path: Path, telemetry: Telemetry) -> None:
    """Async, in a task that is cancelled while the provider thinks."""
    hold = Hold()
    accel = listened(tmp_path, telemetry)
    with accel:
        async with accel.wrap(Peer(message(before=hold)).async_client(open_telemetry=False)) as client:
            task = asyncio.create_task(client.messages.create(**ASK))
            await hold.reached.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
    (said,) = telemetry.said("chat")
    assert said["agentaccel.outcome"] == "cancelled"
    assert "error.type" not in said

"""What a provider or a model calls things is data: it is kept short and readable, and no record is lost over it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from agentaccel import Accel, Policy, StorePolicy
from agentaccel.engine import settlement
from agentaccel.otel import export
from agentaccel.values import MOST_NAMED, kept_name
from tests.clients.places import PLACES
from tests.clients.wire import records
from tests.otel.scene import Telemetry

LONG = "x" * 52_000
"""The code of an error that a server was seen to send."""
HOSTILE = "a\x1b[2J\r\nb\u202ec" + LONG
"""What clears a terminal, begins a line, and turns the direction of writing."""
ONES = ("messages", "bedrock", "chat", "responses", "openrouter")
DEEP = b"[" * 30_000 + b"]" * 30_000


def asked(name: str, folder: Path, answer: httpx2.Response, telemetry: Telemetry) -> None:
    """One request through the real SDK of that place, which raises what its provider said."""
    place = PLACES[name]
    transport = httpx2.MockTransport(lambda request: answer)
    with Accel(Policy(strict=True, store=StorePolicy(path=folder / "trace.db"))) as accel:
        export(accel, tracer_provider=telemetry.tracers, meter_provider=telemetry.meters)
        with httpx2.Client(transport=transport) as http:
            client: Any = place.wrapped(accel)(place.sync_over(http, "http://provider.example"))
            with pytest.raises((anthropic.APIStatusError, openai.APIStatusError)):
                place.calls(client).create(**place.ask)


def seen(folder: Path, telemetry: Telemetry) -> str:
    """All that was kept of it anywhere, as text."""
    stored = b"".join(path.read_bytes() for path in folder.iterdir()).decode("utf-8", "replace")
    said = " ".join(str(dict(span.attributes or {})) + span.name for span in telemetry.spans)
    return stored + said


@pytest.mark.parametrize("name", ONES)
@pytest.mark.parametrize("field", ["type", "code", "status"])
def test_the_name_of_an_error_is_kept_short_and_readable(tmp_path: Path, name: str, field: str) -> None:
    """200 characters at most: the first of them, and how long it was; what cannot be seen is U+FFFD."""
    telemetry = Telemetry()
    body = {"error": {field: HOSTILE, "message": "No."}}
    asked(name, tmp_path, httpx2.Response(400, json=body), telemetry)
    [record] = records(tmp_path)
    assert record.status == 400
    assert record.error is not None
    assert len(record.error) == MOST_NAMED == 200
    assert record.error.startswith("a\ufffd[2J\ufffd\ufffdb\ufffdcxxx")
    assert record.error.endswith(f"… [{len(HOSTILE):,} characters]")
    assert "x" * 200 not in seen(tmp_path, telemetry)
    telemetry.close()


@pytest.mark.parametrize("name", ONES)
@pytest.mark.parametrize("body", [DEEP, b'{"error": ' + DEEP + b"}", b'{"error": {"type": ' + DEEP + b"}}"])
def test_an_error_that_is_nested_too_deep_is_recorded_all_the_same(tmp_path: Path, name: str, body: bytes) -> None:
    """60,000 brackets: the interpreter gives up on them. The SDK, which may as well, is left to say what it says."""
    place = PLACES[name]
    headers = {"content-type": "text/plain"}
    transport = httpx2.MockTransport(lambda request: httpx2.Response(429, content=body, headers=headers))
    policy = Policy(strict=True, store=StorePolicy(path=tmp_path / "trace.db"))
    with Accel(policy) as accel, httpx2.Client(transport=transport) as http:
        client: Any = place.wrapped(accel)(place.sync_over(http, "http://provider.example"))
        with pytest.raises((anthropic.APIStatusError, openai.APIStatusError, RecursionError)):
            place.calls(client).create(**place.ask)
    [record] = records(tmp_path)
    assert (record.outcome, record.status, record.error) == ("failed", 429, None)


@pytest.mark.slow
@pytest.mark.parametrize("wire", ["messages", "chat"])
def test_what_a_reply_names_is_kept_short_and_readable(tmp_path: Path, wire: str) -> None:
    """The reason of its end, the model that answered, and a tool that the model made up."""
    telemetry = Telemetry()
    replies: dict[str, Any] = {
        "messages": {
            "id": "msg_1", "type": "message", "role": "assistant", "model": HOSTILE, "stop_reason": HOSTILE,
            "content": [{"type": "tool_use", "id": "t", "name": HOSTILE, "input": {}}],
            "usage": {"input_tokens": 5, "output_tokens": 5},
        },
        "chat": {
            "id": "c_1", "object": "chat.completion", "created": 1, "model": HOSTILE,
            "choices": [{"index": 0, "finish_reason": HOSTILE, "message": {
                "role": "assistant", "content": None,
                "tool_calls": [{"id": "t", "type": "function", "function": {"name": HOSTILE, "arguments": "{}"}}],
            }}],
            "usage": {"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10},
        },
    }  # fmt: skip
    place = PLACES[wire]
    transport = httpx2.MockTransport(lambda request: httpx2.Response(200, json=replies[wire]))
    with Accel(Policy(strict=True, store=StorePolicy(path=tmp_path / "trace.db"))) as accel:
        export(accel, tracer_provider=telemetry.tracers, meter_provider=telemetry.meters)
        with httpx2.Client(transport=transport) as http, accel.session("s"):
            client: Any = place.wrapped(accel)(place.sync_over(http, "http://provider.example"))
            place.calls(client).create(**place.ask)
            place.calls(client).create(**place.ask)
    kept = kept_name(HOSTILE)
    assert [(one.stop, one.calls) for one in records(tmp_path)] == [(kept, (kept,))] * 2
    assert "x" * 200 not in seen(tmp_path, telemetry)
    assert "\x1b" not in " ".join(str(dict(span.attributes or {})) for span in telemetry.spans)
    telemetry.close()


async def test_the_name_of_a_tool_that_a_model_made_up_is_kept_short(tmp_path: Path) -> None:
    """It is run under its whole name by whoever runs it."""
    telemetry, ran = Telemetry(), list[str]()

    async def execute() -> str:
        ran.append("run")
        return "done"

    with Accel(Policy(strict=True, store=StorePolicy(path=tmp_path / "trace.db"))) as accel:
        export(accel, tracer_provider=telemetry.tracers, meter_provider=telemetry.meters)
        async with accel.session("s") as session:
            assert await session.tool(HOSTILE, {}, execute) == "done"
    assert ran == ["run"]
    assert "x" * 200 not in seen(tmp_path, telemetry)
    telemetry.close()


def test_without_the_bound_all_of_it_is_in_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin."""
    monkeypatch.setattr(settlement, "kept_name_or_none", lambda text: text)
    telemetry = Telemetry()
    asked("messages", tmp_path, httpx2.Response(400, json={"error": {"type": LONG}}), telemetry)
    assert json.dumps(records(tmp_path)[0].error) == json.dumps(LONG)
    telemetry.close()

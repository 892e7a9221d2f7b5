"""What a reply says that it is priced by, its tier and its speed, is what the report prices it by."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from genai_prices.data_snapshot import get_snapshot

from agentaccel import Accel, Policy, StorePolicy
from agentaccel.records import TurnRecord
from agentaccel.report.aggregate import report
from agentaccel.sources.logs import read_logs
from agentaccel.store.store import open_reader
from agentaccel.testing import ManualClock
from agentaccel.wire.anthropic import MessagesTap
from agentaccel.wire.json import terms_of
from agentaccel.wire.openai.chat import ChatTap
from agentaccel_emulator import serve

BEGIN = datetime(2026, 11, 20, 12, tzinfo=UTC)
CLAUDE, GPT = "claude-opus-5-5", "gpt-6-sol"
NOTHING = {"cached_tokens": 0, "cache_write_tokens": 0}


def listed(seller: str, model: str, **terms: str) -> Any:
    """The prices that genai-prices has for it."""
    return get_snapshot().find_provider_model(model, None, seller, None)[1].get_prices(BEGIN, terms)


def dollars(price: Any) -> float:
    """Of a short prompt, where it depends on the length."""
    return float(getattr(price, "base", price))


def paid(turns: Iterable[TurnRecord]) -> float:
    found = report(turns).total.costs.paid
    assert found is not None
    return found


def policy(folder: Path) -> Policy:
    return Policy(strict=True, store=StorePolicy(path=folder / "trace.db"))


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("speed", ["fast", "standard"])
def test_fast_mode_is_priced_as_fast_mode(speed: str, streamed: bool, tmp_path: Path) -> None:
    clock = ManualClock(now=BEGIN.timestamp())
    with (
        serve(clock=clock) as server,
        Accel(policy(tmp_path), clock=clock, environ={}) as accel,
        accel.wrap(anthropic.Anthropic(base_url=server.url, api_key="k")) as client,
    ):
        request: Any = {"model": CLAUDE, "max_tokens": 20, "messages": [{"role": "user", "content": "Hi. " * 900}]}
        made = client.beta.messages.create(**request, speed=speed, betas=["fast-mode-2026-02-01"], stream=streamed)
        if streamed:
            list(made)
        (used,) = [entry.usage for entry in server.log if entry.usage is not None]
    with open_reader(tmp_path / "trace.db") as store:
        turns = list(store.turns())
    assert [dict(turn.terms) for turn in turns] == [{"speed": "fast"} if speed == "fast" else {}]
    price = listed("anthropic", CLAUDE, speed=speed)
    assert paid(turns) * 1e6 == pytest.approx(
        used.uncached * dollars(price.input_mtok) + used.write_5m * dollars(price.cache_write_mtok)
    )


def answer(api: str, tier: str | None, streamed: bool) -> bytes:
    """A reply of `api` that says its tier as OpenAI does: a response that has begun does not know it yet."""
    if api == "chat":
        usage = {"prompt_tokens": 1000, "completion_tokens": 1, "prompt_tokens_details": NOTHING}
        whole = {"id": "c", "model": GPT, "object": "chat.completion", "created": 1, "service_tier": tier}
        message = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "ok"}}
        if not streamed:
            return json.dumps({**whole, "choices": [message], "usage": usage}).encode()
        delta = {"index": 0, "finish_reason": "stop", "delta": {"content": "ok"}}
        chunks: list[Any] = [{**whole, "choices": [delta]}, {**whole, "choices": [], "usage": usage}]
        return b"".join(b"data: " + json.dumps(one).encode() + b"\n\n" for one in chunks) + b"data: [DONE]\n\n"
    usage = {"input_tokens": 1000, "output_tokens": 1, "total_tokens": 1001}
    told = {**usage, "input_tokens_details": NOTHING, "output_tokens_details": {"reasoning_tokens": 0}}
    begun = {"id": "r", "object": "response", "model": GPT, "output": [], "service_tier": "auto"}
    ended = {**begun, "service_tier": tier, "status": "completed", "usage": told}
    if not streamed:
        return json.dumps(ended).encode()
    events: list[Any] = [
        {"type": "response.created", "response": begun, "sequence_number": 0},
        {"type": "response.completed", "response": ended, "sequence_number": 1},
    ]
    return b"".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in events)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("api", ["chat", "responses"])
@pytest.mark.parametrize("tier", ["flex", "priority", "default", None])
def test_a_tier_is_priced_as_that_tier(api: str, tier: str | None, streamed: bool, tmp_path: Path) -> None:
    body = answer(api, tier, streamed)
    kind = "text/event-stream" if streamed else "application/json"
    http = httpx2.Client(
        transport=httpx2.MockTransport(lambda _: httpx2.Response(200, headers={"content-type": kind}, content=body))
    )
    with (
        Accel(policy(tmp_path), clock=ManualClock(now=BEGIN.timestamp()), environ={}) as accel,
        accel.wrap(openai.OpenAI(api_key="k", http_client=http), platform="api") as client,
    ):
        if api == "chat":
            made: Any = client.chat.completions.create(
                model=GPT, messages=[{"role": "user", "content": "Hi."}], stream=streamed
            )
        else:
            made = client.responses.create(model=GPT, input="Hi.", stream=streamed)
        if streamed:
            list(made)
    with open_reader(tmp_path / "trace.db") as store:
        turns = list(store.turns())
    price = listed("openai", GPT, **({"service_tier": tier} if tier else {}))
    assert paid(turns) * 1e6 == pytest.approx(1000 * dollars(price.input_mtok))


@pytest.mark.parametrize(("told", "counts"), [(None, "priority"), ("default", "")])
def test_what_was_asked_for_counts_where_the_reply_does_not_say(told: str | None, counts: str, tmp_path: Path) -> None:
    """Chosen by us: a reply that says what it was answered as is believed; one that does not was answered as asked."""
    http = httpx2.Client(
        transport=httpx2.MockTransport(
            lambda _: httpx2.Response(
                200, headers={"content-type": "application/json"}, content=answer("chat", told, False)
            )
        )
    )
    with (
        Accel(policy(tmp_path), clock=ManualClock(now=BEGIN.timestamp()), environ={}) as accel,
        accel.wrap(openai.OpenAI(api_key="k", http_client=http), platform="api") as client,
    ):
        said: Any = [{"role": "user", "content": "Hi."}]
        client.chat.completions.create(model=GPT, messages=said, service_tier="priority")
    with open_reader(tmp_path / "trace.db") as store:
        turns = list(store.turns())
    assert [turn.terms.get("service_tier", "") for turn in turns] == [counts]
    price = listed("openai", GPT, **({"service_tier": counts} if counts else {}))
    assert paid(turns) * 1e6 == pytest.approx(1000 * dollars(price.input_mtok))


SELLERS = {
    "openrouter": ("https://openrouter.ai/api/v1", "anthropic/claude-sonnet-4.6", "openrouter"),
    "openai": ("https://api.openai.com/v1", GPT, "openai"),
}


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("seller", "beside", "inside", "terms"),
    [
        ("openrouter", {}, {"is_byok": False}, {}),
        ("openrouter", {}, {"is_byok": True}, {"is_byok": "true"}),
        ("openrouter", {"is_byok": True}, {}, {"is_byok": "true"}),
        ("openai", {}, {"service_tier": "flex"}, {"service_tier": "flex"}),
        ("openai", {"service_tier": "default"}, {"service_tier": "flex"}, {"service_tier": "flex"}),
        ("openai", {"service_tier": None, "speed": "fast"}, {}, {"speed": "fast"}),
        ("openai", {}, {"inference_geo": "us"}, {"inference_geo": "us"}),
    ],
)
def test_a_term_counts_wherever_a_reply_says_it(
    seller: str, beside: dict[str, Any], inside: dict[str, Any], terms: dict[str, str], streamed: bool, tmp_path: Path
) -> None:
    """Chosen by us: beside the usage or in it. Of 1,000 tokens with keys of one's own OpenRouter does not say what they
    cost, nor does OpenAI of a speed or of a place: they are in no cost, and that is said."""
    url, model, listed_by = SELLERS[seller]
    usage = {"prompt_tokens": 1000, "completion_tokens": 1, "prompt_tokens_details": NOTHING, **inside}
    said = {"role": "assistant", "content": "ok"}
    choice = {"index": 0, "finish_reason": "stop", "delta": said, "message": said}
    body = {"id": "c", "model": model, "object": "chat.completion", "created": 1, "choices": [choice], **beside}
    content = json.dumps({**body, "usage": usage}).encode()
    if streamed:
        content = b"".join(
            b"data: %b\n\n" % json.dumps(one).encode() for one in (body, {"choices": [], "usage": usage})
        )
    headers = {"content-type": "text/event-stream" if streamed else "application/json"}
    answer = lambda _: httpx2.Response(200, headers=headers, content=content)  # noqa: E731
    sdk = openai.OpenAI(api_key="k", base_url=url, http_client=httpx2.Client(transport=httpx2.MockTransport(answer)))
    with (
        Accel(policy(tmp_path), clock=ManualClock(now=BEGIN.timestamp()), environ={}) as accel,
        accel.wrap(sdk) as client,
    ):
        made: Any = client.chat.completions.create(
            model=model, messages=[{"role": "user", "content": "Hi."}], stream=streamed
        )
        if streamed:
            list(made)
    with open_reader(tmp_path / "trace.db") as store:
        turns = list(store.turns())
    assert [dict(turn.terms) for turn in turns] == [terms]
    if not terms or "service_tier" in terms:
        price = listed(listed_by, model, **terms)
        assert paid(turns) * 1e6 == pytest.approx(1000 * dollars(price.input_mtok))
    else:
        total = report(turns).total
        assert (total.costs.paid, total.costs.unpriced) == (None, 1)
        assert any(next(iter(terms)) in one for one in total.unclear)


@pytest.mark.parametrize("streamed", [False, True])
def test_the_same_holds_for_servers_that_speak_anthropics_protocol(streamed: bool) -> None:
    """Chosen by us, as above."""
    message = {"type": "message", "id": "m", "usage": {"input_tokens": 9}, "service_tier": "priority"}
    body = json.dumps(message).encode()
    if streamed:
        start = {"type": "message_start", "message": message}
        last = {"type": "message_delta", "usage": {"is_byok": True}}
        body = b"".join(b"data: %b\n\n" % json.dumps(one).encode() for one in (start, last))
    tap = MessagesTap(streamed=streamed)
    assert [*tap.feed(body), *tap.finish()] == []
    assert tap.terms == {"service_tier": "priority", **({"is_byok": "true"} if streamed else {})}


def test_without_looking_into_the_usage_a_term_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin."""
    tap = ChatTap(streamed=False)
    list(tap.feed(json.dumps({"choices": [], "usage": {"prompt_tokens": 1, "is_byok": True}}).encode()))
    list(tap.finish())
    assert tap.terms == {"is_byok": "true"}
    reported = tap.reported
    monkeypatch.setattr("agentaccel.wire.replies.terms_of", lambda raw: {} if raw is reported else terms_of(raw))
    assert tap.terms == {}


def test_a_log_of_claude_code_says_it_as_well(tmp_path: Path) -> None:
    usage = {
        "input_tokens": 1000, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0,
        "output_tokens": 1, "service_tier": "standard", "speed": "fast",
    }  # fmt: skip
    message = {"id": "m", "role": "assistant", "model": CLAUDE, "content": [], "usage": usage}
    entry = {
        "type": "assistant", "uuid": "1", "parentUuid": None, "sessionId": "s", "requestId": "r",
        "timestamp": BEGIN.isoformat(), "message": message,
    }  # fmt: skip
    log = tmp_path / "s.jsonl"
    log.write_text(json.dumps(entry) + "\n")
    (turn,) = [one for one in read_logs([log]) if isinstance(one, TurnRecord)]
    assert turn.terms == {"speed": "fast"}
    assert paid([turn]) * 1e6 == pytest.approx(1000 * dollars(listed("anthropic", CLAUDE, speed="fast").input_mtok))

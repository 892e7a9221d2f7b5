"""What replies say of a bill is what the report says: every sampling, at the price of the model that was sampled."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from agentaccel import Accel, Policy, StorePolicy
from agentaccel.cache import bills
from agentaccel.cache.price import _tiers, price_card
from agentaccel.facts import price_term
from agentaccel.records import TurnRecord
from agentaccel.report.aggregate import report
from agentaccel.report.figures import Report
from agentaccel.report.render import render_markdown, render_text, to_json
from agentaccel.store.codec import dump_turn, load_turn
from agentaccel.store.store import open_reader
from agentaccel.testing import ManualClock
from agentaccel.types import BilledPart, Usage

BEGIN = datetime(2026, 11, 20, 12, tzinfo=UTC)
SONNET, LONG = "claude-sonnet-4-6", "You look things up. " * 900
"""3 USD a million tokens of input, 15 of output; a system prompt that is long enough to be cached."""
HOUR = {"type": "ephemeral", "ttl": "1h"}


def counters(fresh: int, output: int = 5, *, read: int = 0, written: int = 0, **more: Any) -> dict[str, Any]:
    cache = {"cache_read_input_tokens": read, "cache_creation_input_tokens": written}
    return {"input_tokens": fresh, "output_tokens": output, **cache, **more}


def told(folder: Path) -> tuple[Report, list[TurnRecord]]:
    with open_reader(folder / "t.db") as store:
        turns = list(store.turns())
        return report(turns), turns


def ask(
    folder: Path,
    usage: dict[str, Any],
    *,
    model: str = SONNET,
    answers: str = SONNET,
    mode: Any = "observe",
    **more: Any,
) -> tuple[Report, list[TurnRecord]]:
    """One request of the real SDK that is answered with that usage, and what the report says of it."""
    reply = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": answers, "stop_sequence": None,
        "content": [{"type": "text", "text": "ok"}], "stop_reason": "end_turn", "usage": usage,
    }  # fmt: skip
    http = httpx2.Client(transport=httpx2.MockTransport(lambda _: httpx2.Response(200, json=reply)))
    policy = Policy(mode=mode, strict=True, store=StorePolicy(path=folder / "t.db"))
    request: dict[str, Any] = {"max_tokens": 9, "messages": [{"role": "user", "content": "Hi."}], **more}
    with (
        Accel(policy, clock=ManualClock(now=BEGIN.timestamp()), environ={}) as accel,
        accel.wrap(anthropic.Anthropic(api_key="k", http_client=http)) as client,
    ):
        client.messages.create(model=model, **request)
    return told(folder)


@pytest.mark.parametrize("mode", ["observe", "on"])
def test_a_compaction_by_the_provider_is_paid_and_no_part_of_the_prompt(mode: str, tmp_path: Path) -> None:
    """Mandated by the provider: (180,000 + 23,000) x 3 USD are 0.609, and (3,500 + 1,000) x 15 USD are 0.0675."""
    rounds = [counters(180_000, 3_500, type="compaction"), counters(23_000, 1_000, type="message")]
    found, (turn,) = ask(tmp_path, counters(23_000, 1_000, iterations=rounds), mode=mode)
    total = found.total
    assert turn.usage.input == 23_000
    assert turn.answered_by == SONNET
    assert (total.tokens.input, total.tokens.output) == (203_000, 4_500)
    assert (total.costs.paid, total.costs.output) == (pytest.approx(0.609), pytest.approx(0.0675))
    assert total.costs.as_written == pytest.approx(0.609)  # whatever else was sampled is in both
    assert total.costs.without == pytest.approx(0.609)
    assert load_turn(dump_turn(turn)) == turn


def test_without_what_was_sampled_besides_a_compaction_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin."""
    monkeypatch.setattr(TurnRecord, "billed", property(lambda turn: turn.usage))
    rounds = [counters(180_000, 3_500, type="compaction"), counters(23_000, 1_000, type="message")]
    found, _ = ask(tmp_path, counters(23_000, 1_000, iterations=rounds))
    assert found.total.tokens.input == 23_000


def test_an_adviser_is_paid_at_its_own_price(tmp_path: Path) -> None:
    """Mandated by the provider: 5,000 x 3 USD for claude-sonnet-4-6 and 9,000 x 5 USD for claude-opus-4-8 are 0.06."""
    advice = counters(9_000, 400, type="advisor_message", model="claude-opus-4-8")
    rounds = [counters(2_000, 40, type="message"), advice, counters(3_000, 60, type="message")]
    found, (turn,) = ask(tmp_path, counters(5_000, 100, iterations=rounds))
    assert found.total.costs.paid == pytest.approx(0.06)
    assert (turn.usage.input, found.total.tokens.input) == (3_000, 14_000)


def test_a_request_that_another_model_answers_is_paid_at_its_price(tmp_path: Path) -> None:
    """Mandated by the provider: claude-fable-5 (10 USD) declined before a word, claude-opus-4-8 (5 USD) answered
    100,000 tokens: 0.50, and nothing for the first."""
    declined = counters(100_000, 0, type="message", model="claude-fable-5")
    served = counters(100_000, 5, type="fallback_message", model="claude-opus-4-8")
    usage = counters(100_000, iterations=[declined, served])
    found, (turn,) = ask(tmp_path, usage, model="claude-fable-5", answers="claude-opus-4-8")
    assert found.total.costs.paid == pytest.approx(0.5)
    assert (turn.model, turn.answered_by, turn.besides) == ("claude-fable-5", "claude-opus-4-8", ())
    (group,) = report([turn], "model").groups
    assert group.name == "claude-opus-4-8"


@pytest.mark.parametrize(
    ("asked", "answered", "platform", "usd"),
    [
        ("claude-sonnet-4-6", "claude-sonnet-4-6-20260217", "api", 3.0),
        ("prod", "claude-opus-4-8", "api", 5.0),  # a router's name
        ("claude-opus-4-8", "nobody-knows-me", "api", None),
        # The same model by other names: a seller's, in another order, with the number of its build.
        ("claude-opus-4-8", "anthropic/claude-opus-4.8", "api", 5.0),
        ("claude-opus-4-8", "anthropic/claude-4.8-opus-20260501", "api", 5.0),
        ("claude-opus-4-8", "claude-opus-4-8-0501", "api", 5.0),
        ("claude-opus-4-8", "Claude-Opus-4.8", "api", 5.0),
        # The reply does not say from where it was served; the name that was asked for does.
        ("global.anthropic.claude-sonnet-4-6", "claude-sonnet-4-6", "bedrock", 3.0),
        ("us.anthropic.claude-sonnet-4-6", "claude-sonnet-4-6", "bedrock", 3.3),
        ("global.anthropic.claude-opus-5", "claude-haiku-4-5-20251001", "bedrock", 1.0),
        ("us.anthropic.claude-opus-5", "claude-haiku-4-5-20251001", "bedrock", 1.1),
    ],
)
def test_the_price_is_that_of_who_answered(asked: str, answered: str, platform: str, usd: float | None) -> None:
    """Chosen by us: where the price list does not know it there is none; what is the same model has its price."""
    turn = TurnRecord(
        session="s",
        provider="anthropic",
        platform=platform,
        model=asked,
        answered_by=answered,
        started=BEGIN.timestamp(),
    )
    card = bills.cards_of(turn, None, None).answer
    assert (None if card is None else card.input * 1e6) == (None if usd is None else pytest.approx(usd))


@pytest.mark.parametrize(
    ("asked", "answered", "usd"),
    [("gpt-4o-latest", "gpt-4o-2024-05-13", 5.0), ("gpt-4o", "gpt-4o-2024-08-06", 2.5), ("gpt-5.4", "gpt-4.5", None)],
)
def test_a_dated_answer_has_its_own_price(asked: str, answered: str, usd: float | None) -> None:
    """Mandated by the price list; the numbers of a version in another order are another version."""
    turn = TurnRecord(session="s", provider="openai", model=asked, answered_by=answered, started=BEGIN.timestamp())
    card = bills.cards_of(turn, None, None).answer
    assert (None if card is None else card.input * 1e6) == (None if usd is None else pytest.approx(usd))


def test_a_request_that_an_unlisted_model_answers_is_in_no_cost_and_that_is_said(tmp_path: Path) -> None:
    """Chosen by us: 100,000 tokens of claude-opus-4-8 would have been 0.50."""
    found, _ = ask(tmp_path, counters(100_000), model="claude-opus-4-8", answers="mystery-1")
    assert (found.total.costs.paid, found.total.costs.unpriced) == (None, 1)
    assert any("no price is known" in note for note in found.notes)


def test_what_a_name_of_ones_own_stands_for_is_priced_whoever_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chosen by us: 5 USD for the model that the user says `prod` to be; and the twin."""
    turn = TurnRecord(
        session="s", provider="anthropic", model="prod", answered_by="mystery-1", started=BEGIN.timestamp()
    )
    card = bills.cards_of(turn, {"prod": "claude-opus-4-8"}, None).answer
    assert card is not None
    assert card.input * 1e6 == pytest.approx(5.0)
    assert bills.cards_of(turn, None, None).answer is None
    monkeypatch.setattr(bills, "_listed", lambda turn, model: True)
    assert bills.cards_of(turn, {"prod": "claude-opus-4-8"}, None).answer is None


def test_an_answer_whose_counters_are_in_doubt_is_not_paid_as_nothing() -> None:
    """Chosen by us: the 180,000 tokens of a compaction are 0.54, and what the answer adds is not known."""
    part = BilledPart(kind="compaction", usage=Usage(input=180_000, read=0, write={}, output=1))
    turn = TurnRecord(session="s", provider="anthropic", model=SONNET, started=BEGIN.timestamp(), besides=(part,))
    cards = bills.cards_of(turn, None, None)
    assert bills.paid_for(turn, cards) == pytest.approx(0.54)
    assert bills.paid_for(replace(turn, doubts=("cache_read_input_tokens",)), cards) is None


def test_a_price_of_ones_own_for_a_deployment_is_that_of_whatever_answers_there() -> None:
    """Chosen by us; for a model that is listed it holds for that model, and not for a fallback."""
    own = {"prod": {"input": 1.0}, "claude-fable-5": {"input": 2.0}}
    asked = {"session": "s", "provider": "anthropic", "started": BEGIN.timestamp(), "answered_by": "claude-opus-4-8"}
    cards = [bills.cards_of(TurnRecord(model=model, **asked), None, own).answer for model in own]  # type: ignore[arg-type]
    assert [round(card.input * 1e6, 3) for card in cards if card is not None] == [1.0, 5.0]


@pytest.mark.parametrize(
    ("model", "terms", "usd"),
    [
        (SONNET, {"inference_geo": "us"}, 0.33),  # 100,000 x 3 USD x 1.1
        (SONNET, {"inference_geo": "global"}, 0.3),
        (SONNET, {"inference_geo": "not_available"}, 0.3),
        ("claude-haiku-4-5", {"inference_geo": "us"}, 0.1),  # before 4.6 it changes nothing
        (SONNET, {"service_tier": "batch"}, 0.15),
        (SONNET, {"service_tier": "batch", "inference_geo": "us"}, 0.165),
        (SONNET, {"service_tier": "standard", "speed": "standard"}, 0.3),
        (SONNET, {"service_tier": "priority"}, None),
        (SONNET, {"inference_geo": "eu"}, None),
        (SONNET, {"speed": "ludicrous"}, None),
        (SONNET, {"fallback_credit": {"status": {"type": "redeemed"}}}, None),
    ],
)
def test_a_term_of_the_price_is_applied_or_the_request_is_not_priced(
    model: str, terms: dict[str, str], usd: float | None, tmp_path: Path
) -> None:
    """Mandated by the provider; chosen by us: what nobody knows is never the usual price, and every form says so."""
    found, _ = ask(tmp_path, counters(100_000, **terms), model=model, answers=model)
    costs = found.total.costs
    assert costs.paid == (None if usd is None else pytest.approx(usd))
    assert (costs.priced, costs.unpriced) == ((0, 1) if usd is None else (1, 0))
    if usd is None:
        name = next(iter(terms))
        assert [one for one in found.total.unclear if one.startswith(name)]
        for said in (render_text(found), render_markdown(found).replace("\\", ""), json.dumps(to_json(found))):
            assert name in said


@pytest.mark.parametrize(
    ("host", "model", "usd"),
    [
        ("api.openai.com", "gpt-5.4", 0.25),  # 100,000 x 2.5 USD
        ("eu.api.openai.com", "gpt-5.4", 0.275),
        ("us.api.openai.com", "gpt-5.2", 0.175),  # released before 2026-03-05: the usual price
    ],
)
def test_a_host_that_keeps_requests_in_a_region_has_its_price(
    host: str, model: str, usd: float, tmp_path: Path
) -> None:
    """Mandated by the provider (data residency guide): a tenth more, for models released from 2026-03-05 on."""
    reply = {
        "id": "c", "object": "chat.completion", "created": 1, "model": model, "service_tier": "default",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "ok"}}],
        "usage": {"prompt_tokens": 100_000, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 0}},
    }  # fmt: skip
    http = httpx2.Client(transport=httpx2.MockTransport(lambda _: httpx2.Response(200, json=reply)))
    policy = Policy(strict=True, store=StorePolicy(path=tmp_path / "t.db"))
    with (
        Accel(policy, clock=ManualClock(now=BEGIN.timestamp()), environ={}) as accel,
        accel.wrap(openai.OpenAI(api_key="k", base_url=f"https://{host}/v1", http_client=http)) as client,
    ):
        client.chat.completions.create(model=model, messages=[{"role": "user", "content": "Hi."}])
    found, _ = told(tmp_path)
    assert found.total.costs.paid == pytest.approx(usd)


def vertex(folder: Path, region: str, **terms: str) -> Report:
    """100,000 tokens of sonnet, answered by Vertex in `region`."""
    reply = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": SONNET, "stop_sequence": None,
        "content": [], "stop_reason": "end_turn", "usage": counters(100_000, **terms),
    }  # fmt: skip
    http = httpx2.Client(transport=httpx2.MockTransport(lambda _: httpx2.Response(200, json=reply)))
    policy = Policy(strict=True, store=StorePolicy(path=folder / "t.db"))
    sdk = anthropic.AnthropicVertex(region=region, project_id="p", access_token="t", http_client=http)
    with Accel(policy, clock=ManualClock(now=BEGIN.timestamp()), environ={}) as accel, accel.wrap(sdk) as client:
        client.messages.create(model=SONNET, max_tokens=9, messages=[{"role": "user", "content": "Hi."}])
    return told(folder)[0]


@pytest.mark.parametrize(
    ("region", "usd"), [("global", 0.3), ("us-east5", 0.33), ("eu", 0.33)], ids=["global", "one", "several"]
)
def test_a_regional_endpoint_of_vertex_costs_a_tenth_more(region: str, usd: float, tmp_path: Path) -> None:
    """Mandated by the provider (pricing page, third-party platforms): 100,000 x 3 USD x 1.1."""
    assert vertex(tmp_path, region).total.costs.paid == pytest.approx(usd)


@pytest.mark.parametrize("region", ["global", "us-east5"])
def test_a_place_told_twice_is_not_priced_where_nobody_says_that_it_costs_twice(region: str, tmp_path: Path) -> None:
    """The provider's guide: Vertex takes no `inference_geo`. Whether a reply that names one all the same costs 0.3,
    0.33 or 0.363 USD stands nowhere: none of them is said."""
    total = vertex(tmp_path, region, inference_geo="us").total
    assert (total.costs.paid, total.costs.unpriced, dict(total.unclear)) == (None, 1, {"inference_geo us": 1})


def test_a_term_that_holds_everywhere_is_added_to_that_of_a_region(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin: without the platforms of the row, a tenth is added to a tenth."""

    def everywhere(provider: str, platform: str, *more: str) -> Any:
        return price_term(provider, "api" if more[1] == "inference_geo" else platform, *more)

    monkeypatch.setattr("agentaccel.cache.price._tiers", _tiers.__wrapped__)
    monkeypatch.setattr("agentaccel.cache.price.price_term", everywhere)
    paid = vertex(tmp_path, "us-east5", inference_geo="us").total.costs.paid
    assert paid == pytest.approx(0.3 * 1.1 * 1.1)


@pytest.mark.parametrize(("platform", "usd"), [("api", 3.3), ("aws", 3.3), ("bedrock", None), ("foundry", None)])
def test_where_inference_happens_is_priced_where_the_guides_say_so(platform: str, usd: float | None) -> None:
    """Mandated by the provider: 3 USD a million x 1.1 on the Claude API and the Claude Platform on AWS. Of Bedrock's
    names the price list tells what their region costs."""
    terms = {"inference_geo": "us"}
    card = price_card("anthropic", SONNET, input_tokens=1, platform=platform, terms=terms)
    assert card is not None
    assert (card.unknown, card.input * 1e6) == (
        ((), pytest.approx(usd)) if usd is not None else (("inference_geo us",), card.input * 1e6)
    )


@pytest.mark.parametrize(
    ("markers", "written"),
    [
        ([HOUR], {"1h": 7_345}),
        ([{"type": "ephemeral"}], {"5m": 7_345}),
        ([HOUR, HOUR], {"1h": 7_345}),
        ([HOUR, {"type": "ephemeral"}], {"unsplit": 7_345}),
        ([], {"5m": 7_345}),
    ],
)
def test_what_was_written_is_written_for_what_the_request_asks(
    markers: list[dict[str, str]], written: dict[str, int], tmp_path: Path
) -> None:
    """Chosen by us: where the reply does not split it. 10 + 7,345 tokens: at twice the input price for an hour, 0.0441;
    for two lifetimes nobody knows, and that is said."""
    system = [{"type": "text", "text": f"{LONG}{index}", "cache_control": mark} for index, mark in enumerate(markers)]
    more = {"system": system} if system else {}
    found, _ = ask(tmp_path, counters(10, written=7_345), **more)
    assert found.total.tokens.write == written
    label = next(iter(written))
    usd = {"1h": (10 + 2 * 7_345) * 3e-6, "5m": (10 + 1.25 * 7_345) * 3e-6}.get(label)
    assert found.total.costs.paid == (None if usd is None else pytest.approx(usd))
    assert any("lifetimes" in note for note in found.notes) == (usd is None)


def test_a_marker_of_the_request_itself_tells_as_well(tmp_path: Path) -> None:
    """Chosen by us, as above: automatic caching, for an hour."""
    found, _ = ask(tmp_path, counters(10, written=7_345), system=LONG, extra_body={"cache_control": HOUR})
    assert found.total.tokens.write == {"1h": 7_345}


def test_what_a_split_leaves_open_is_written_for_what_the_request_asks(tmp_path: Path) -> None:
    """Chosen by us, as above: 5 of 20 are told."""
    system = [{"type": "text", "text": LONG, "cache_control": HOUR}]
    usage = counters(10, written=20, cache_creation={"ephemeral_1h_input_tokens": 5})
    found, _ = ask(tmp_path, usage, system=system)
    assert found.total.tokens.write == {"1h": 20}


def test_counters_that_contradict_one_another_are_said_in_every_form(tmp_path: Path) -> None:
    """Chosen by us: 0 and 90 cannot both be what was read."""
    usage = counters(100, prompt_tokens_details={"cached_tokens": 90})
    found, (turn,) = ask(tmp_path, usage)
    assert turn.doubts == ("prompt_tokens_details.cached_tokens", "cache_read_input_tokens")
    assert found.total.costs.paid is None
    for said in (render_text(found), render_markdown(found).replace("\\", ""), json.dumps(to_json(found))):
        assert "cache_read_input_tokens" in said

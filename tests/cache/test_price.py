"""Prices: from where, for which size and date, and never guessed."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from agentaccel.cache.price import PriceCard, _tiers, input_cost, price_card
from agentaccel.errors import ConfigError
from agentaccel.facts import PROVIDERS, cache_facts, table, wires
from agentaccel.types import Usage


def epoch(year: int, month: int, day: int) -> float:
    return datetime(year, month, day, tzinfo=UTC).timestamp()


def known_models() -> list[tuple[str, str]]:
    return [(p, name) for p in PROVIDERS for row in table(p).get("models", ()) for name in row["match"]]


@pytest.mark.many(4)
@pytest.mark.parametrize(("provider", "model"), known_models())
@pytest.mark.parametrize("size", [1_000, 500_000])
def test_prices_agree_with_the_multiples_that_the_facts_state(provider: str, model: str, size: int) -> None:
    """Mandated by the provider: reading and writing cost a fixed multiple of input, in every tier."""
    card = price_card(provider, model, input_tokens=size)
    if card is None:
        return
    facts = cache_facts(model, provider=provider, wire=wires(provider)[-1])
    assert facts is not None
    assert card.read is not None
    assert card.read / card.input == pytest.approx(facts.read)
    assert {label: price / card.input for label, price in card.write.items()} == pytest.approx(
        {ttl.label: ttl.write for ttl in facts.ttls if ttl.write != 1}
    )


def test_most_models_in_the_facts_have_a_price() -> None:
    """The test above means little if prices are missing."""
    priced = [model for provider, model in known_models() if price_card(provider, model, input_tokens=1)]
    assert len(priced) >= len(known_models()) - 2


def test_the_whole_request_moves_to_the_dearer_tier_only_above_its_start() -> None:
    """Mandated by the provider: the tier's start itself still belongs to the cheaper one."""
    at, above = (price_card("anthropic", "claude-haiku-5-5", input_tokens=n) for n in (100_000, 100_001))
    assert at is not None
    assert above is not None
    assert above.input == pytest.approx(5 * at.input)
    assert above.write["1h"] == pytest.approx(5 * at.write["1h"])


def test_a_dated_price_holds_from_its_date() -> None:
    """The long-context tier of this model ended on 13 March 2026."""
    before, after = (
        price_card("anthropic", "claude-opus-4-6", input_tokens=300_000, at=epoch(2026, 3, day)) for day in (1, 14)
    )
    assert before is not None
    assert after is not None
    assert before.input == pytest.approx(2 * after.input)


def test_names_of_platforms_and_aliases_find_the_model() -> None:
    """A Bedrock name, a dated name and the user's own name mean the same model."""
    plain = price_card("anthropic", "claude-sonnet-4-5", input_tokens=10)
    assert plain is not None
    assert price_card("anthropic", "us.anthropic.claude-sonnet-4-5-20250929-v1:0", input_tokens=10) == plain
    assert price_card("anthropic", "mine", input_tokens=10, aliases={"mine": "claude-sonnet-4-5"}) == plain


def test_a_gap_in_the_price_list_is_filled_from_our_own_data() -> None:
    """genai-prices lacks this model; reading and writing follow from the facts."""
    card = price_card("anthropic", "claude-mythos-5", input_tokens=10)
    assert card is not None
    assert card.write["5m"] == pytest.approx(12.5e-6)


def test_an_unknown_model_and_an_unknown_provider_have_no_price() -> None:
    """Unknown is n/a, never a family's price."""
    assert price_card("anthropic", "claude-sonnet-99", input_tokens=1) is None
    assert price_card("nobody", "claude-sonnet-4-5", input_tokens=1) is None


def test_the_users_own_price_wins_and_may_leave_the_cache_to_the_facts() -> None:
    """An override with input and output alone gets the model's multiples."""
    own = {"claude-sonnet-4-5": {"input": 1.0, "output": 2.0}}
    card = price_card("anthropic", "claude-sonnet-4-5", input_tokens=1, override=own)
    assert card == PriceCard(
        input=1e-6,
        output=2e-6,
        read=pytest.approx(1e-7),  # type: ignore[arg-type]
        write=pytest.approx({"5m": 1.25e-6, "1h": 2e-6}),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("bad", [{}, {"input": -1}, {"input": "3"}, {"input": 1, "write": 2}, {"input": True}])
def test_an_override_that_cannot_be_a_price_is_refused(bad: dict[str, object]) -> None:
    """Refused where it is used, with the model's name."""
    with pytest.raises(ConfigError):
        price_card("anthropic", "m", input_tokens=1, override={"m": bad})  # type: ignore[dict-item]


def test_the_input_cost_counts_each_token_once() -> None:
    """Read, written and plain tokens each at their own price."""
    card = PriceCard(input=1.0, output=None, read=0.1, write={"5m": 1.25, "1h": 2.0})
    usage = Usage(input=100, read=50, write={"5m": 20, "1h": 10})
    assert input_cost(card, usage) == pytest.approx(20 * 1.0 + 50 * 0.1 + 20 * 1.25 + 10 * 2.0)


@pytest.mark.parametrize(
    "usage",
    [Usage(), Usage(input=5), Usage(input=5, read=1), Usage(input=5, read=0, write={"24h": 5})],
)
def test_a_count_or_a_price_that_is_missing_makes_the_cost_unknown(usage: Usage) -> None:
    """Never a partial sum that looks like a total."""
    card = PriceCard(input=1.0, output=None, read=0.1, write={"5m": 1.25})
    assert input_cost(card, usage) is None
    assert input_cost(None, usage) is None


def test_a_prompt_smaller_than_what_was_read_of_it_has_no_cost() -> None:
    """Never a negative sum: 60 read and 5 written are not in 50."""
    card = PriceCard(input=1.0, output=None, read=0.1, write={"5m": 1.25})
    assert input_cost(card, Usage(input=50, read=60, write={"5m": 5})) is None
    assert input_cost(card, Usage(input=65, read=60, write={"5m": 5})) == pytest.approx(60 * 0.1 + 5 * 1.25)


def test_of_the_users_own_prices_each_that_is_missing_follows_the_facts() -> None:
    """One lifetime's price says nothing of another's."""
    card = price_card(
        "anthropic", "claude-sonnet-5", input_tokens=1, override={"claude-sonnet-5": {"input": 4, "write": {"1h": 9}}}
    )
    assert card is not None
    assert (card.write["1h"] * 1e6, card.write["5m"] * 1e6, (card.read or 0) * 1e6) == pytest.approx((9, 5, 0.4))


@pytest.mark.parametrize(
    ("name", "dollars"),
    [
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", 3.3),
        ("global.anthropic.claude-sonnet-4-5-20250929-v1:0", 3.0),
        ("claude-sonnet-4-5", 3.3),
        ("us.anthropic.claude-haiku-4-5", 1.1),
        ("global.anthropic.claude-opus-5-5-20260929-v1:0", 4.0),
        ("global.anthropic.claude-opus-5-20260801-v1:0", 5.0),
    ],
)
def test_bedrock_has_its_own_prices(name: str, dollars: float) -> None:
    """Of a regional name, of a global one, which have no tiers there, and with dates that the list does not have."""
    card = price_card("anthropic", name, input_tokens=291_915, platform="bedrock")
    assert card is not None
    assert card.input * 1e6 == pytest.approx(dollars)


@pytest.mark.parametrize(("model", "dollars"), [("claude-opus-5-5", 4.0), ("claude-fable-5-2", 8.0)])
def test_two_terms_at_once_both_count(model: str, dollars: float) -> None:
    """Mandated by the provider: fast mode at 8 and 16 USD a million, half of it in a batch."""
    card = price_card("anthropic", model, input_tokens=1, terms={"service_tier": "batch", "speed": "fast"})
    assert card is not None
    assert (card.input * 1e6, card.unknown) == (pytest.approx(dollars), ())


@pytest.mark.parametrize("tier", ["priority", "fast"])
@pytest.mark.parametrize("at", [epoch(2026, 9, 1), epoch(2026, 11, 1)], ids=["before the list has it", "later"])
@pytest.mark.parametrize(
    ("model", "dollars"),
    [("gpt-5.5", 12.5), ("gpt-4.1", 3.5), ("gpt-5-mini", 0.45), ("gpt-5.4", 5.0), ("gpt-5.5-pro", None), ("o1", None)],
)
def test_a_dearer_tier_costs_what_is_listed_for_the_model_or_nobody_knows(
    tier: str, at: float, model: str, dollars: float | None
) -> None:
    """Mandated by the provider (page on fast mode, 2026-11): of 5, 2, 0.25 and 2.5 USD a million 2.5, 1.75, 1.8 and 2
    times as much. Of models that it does not list, no multiple is taken for theirs."""
    card = price_card("openai", model, input_tokens=1, at=at, terms={"service_tier": tier})
    assert card is not None
    assert card.unknown == (() if dollars else (f"service_tier {tier}",))
    assert dollars is None or card.input * 1e6 == pytest.approx(dollars)


def test_a_multiple_for_all_models_prices_those_that_nobody_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin."""
    monkeypatch.setattr("agentaccel.cache.price.price_term", lambda *_: {"multiple": 2.0})
    monkeypatch.setattr("agentaccel.cache.price._tiers", _tiers.__wrapped__)
    card = price_card("openai", "o1", input_tokens=1, terms={"service_tier": "fast"})
    assert card is not None
    assert card.unknown == ()


def test_a_tariff_by_the_time_of_day_holds_to_the_minute() -> None:
    """It changes at half past."""
    before, after = (
        price_card("compatible", "deepseek-reasoner", input_tokens=10, platform="deepseek", at=epoch(2025, 9, 1) + at)
        for at in (15 * 60, 45 * 60)
    )
    assert before is not None
    assert after is not None
    assert before.input != after.input

"""What a token costs: the user's own prices, then `genai-prices`, then the gaps that our data file fills.

Nothing is guessed. A model that nobody lists has no price, and a report shows *n/a* for it. Where only the
input and output price are known (an override, a gap), reading and writing cost what the model's facts say.

>>> card = price_card("anthropic", "claude-haiku-5-5", input_tokens=1_000)
>>> dear = price_card("anthropic", "claude-haiku-5-5", input_tokens=200_000)
>>> round(card.input * 1e6, 3), round(dear.input * 1e6, 3), round(card.write["1h"] * 1e6, 3)
(0.1, 0.5, 0.2)
>>> price_card("anthropic", "nobody-knows-me", input_tokens=1) is None
True
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from agentaccel.checks import check_prices
from agentaccel.facts import (
    PROVIDERS,
    CacheFacts,
    cache_facts,
    is_sold_everywhere,
    lifetimes,
    plain_name,
    price_providers,
    price_term,
    table,
    wires,
)
from agentaccel.types import Expected, Usage

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice

Override = Mapping[str, Mapping[str, float | Mapping[str, float]]]
"""The user's prices by model, USD per million tokens: `{"my-model": {"input": 3, "output": 15, "read": 0.3,
"write": {"5m": 3.75, "1h": 6}}}`. Without `read` and `write` the model's cache facts supply them."""

Terms = tuple[tuple[str, str], ...]
"""What a request is priced by, by name."""

MTOK = 1_000_000
"""Tokens in the unit that prices are quoted in."""

_WRITE_KEYS = {"5m": "cache_write_mtok", "1h": "cache_write_1h_mtok", "30m": "cache_write_mtok"}
"""Where genai-prices keeps the price of writing, by the label of the lifetime."""

_NO_TERMS: Mapping[str, str] = MappingProxyType({})

_QUARTER = 900
"""Seconds for which a price is looked up once: tariffs by the time of day change at halves of an hour."""

_LATEST = datetime(9999, 1, 1, tzinfo=UTC)
"""Stands for "the last price known": every dated price has begun by then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceCard:
    """The prices that hold for one request, in USD per token."""

    input: float
    """An input token neither read from nor written to the cache."""
    output: float | None
    """An output token; None where not listed."""
    read: float | None
    """An input token read from the cache; None where the provider lists no such price."""
    write: Mapping[str, float]
    """One written to the cache, by the label of the lifetime; one that is missing has no price."""
    unknown: tuple[str, ...] = ()
    """Terms of the request, such as "service_tier priority", of which nobody knows what they do to these prices: then
    it has no cost."""

    def times(self, factor: float, unknown: tuple[str, ...] = ()) -> PriceCard:
        """All prices `factor` times as high."""
        return PriceCard(
            input=self.input * factor,
            output=None if self.output is None else self.output * factor,
            read=None if self.read is None else self.read * factor,
            write={label: price * factor for label, price in self.write.items()},
            unknown=unknown,
        )


def price_card(
    provider: str,
    model: str,
    *,
    input_tokens: int,
    platform: str = "api",
    at: float | None = None,
    aliases: Mapping[str, str] | None = None,
    override: Override | None = None,
    terms: Mapping[str, str] = _NO_TERMS,
) -> PriceCard | None:
    """The prices of a request with `input_tokens` tokens in all, sent at `at`; None where they are not known.

    `input_tokens` chooses the tier and is inclusive of cache reads and writes. `at` is in seconds since the
    epoch, None for the latest prices known. `terms` are what the reply says that it is priced by (`TurnRecord`): as the
    price list has them, else by the multiple that the facts state; what neither has is `unknown`. `aliases` maps the
    user's own names to known models. Raises ConfigError for an override that cannot be a price.
    """
    known = (aliases or {}).get(model, model)
    when = None if at is None else int(at // _QUARTER)
    named = tuple(sorted(terms.items())) if terms else ()
    for name in (model, known):
        if override and name in override:
            own = _own_card((provider, platform), name, known, override[name])
            return own.times(*_factor((provider, platform), known, when, named)) if named else own
    chosen = None
    for start, card in _tiers(provider, platform, known, when, named):
        if start < 0 or input_tokens > start:
            chosen = card
    return chosen


def input_cost(card: PriceCard | None, usage: Usage) -> float | None:
    """USD for the input side of `usage`; None where a price or a count that it needs is not known, or where the counts
    cannot be: more from the cache than there was.

    Where writing is free, as on OpenAI's older models, nobody counts it, and nobody needs to.
    """
    if usage.input is None or usage.read is None or (usage.write is None and (card is None or card.write)):
        return None
    write = usage.write or {}
    uncached = usage.input - usage.read - sum(write.values())
    return None if uncached < 0 else _cost(card, usage.read, write, uncached)


def expected_cost(card: PriceCard | None, expected: Expected) -> float | None:
    """USD for the input side of an expectation; None where a price that it needs is not known."""
    return _cost(card, expected.read, expected.write, expected.uncached)


def _cost(card: PriceCard | None, read: float, write: Mapping[str, float], uncached: float) -> float | None:
    if card is None or card.unknown or (read and card.read is None):
        return None
    written = 0.0
    for label, tokens in write.items():
        if tokens:
            price = card.write.get(label)
            if price is None:
                return None
            written += tokens * price
    return uncached * card.input + read * (card.read or 0.0) + written


@functools.lru_cache(maxsize=4096)
def _tiers(
    provider: str, platform: str, model: str, quarter: int | None, terms: Terms
) -> tuple[tuple[int, PriceCard], ...]:
    """The cards of a model at a quarter of an hour since the epoch, each with the input size above which it holds."""
    known = quarter is not None and 0 <= quarter < _LATEST.timestamp() // _QUARTER
    when = datetime.fromtimestamp(quarter * _QUARTER, UTC) if quarter is not None and known else _LATEST
    facts = _facts(provider, platform, model)
    price, factor, unknown = _listed(price_providers(provider, platform), (provider, platform), model, when, terms)
    if price is None:
        card = _gap_card(provider, model, facts)
        return () if card is None else ((-1, card.times(factor, unknown)),)
    starts = {-1, *(tier.start for value in vars(price).values() for tier in getattr(value, "tiers", ()))}
    cards = ((start, _listed_card(price, start, facts)) for start in sorted(starts))
    return tuple((start, card.times(factor, unknown)) for start, card in cards if card is not None)


def _facts(provider: str, platform: str, model: str) -> CacheFacts | None:
    """The facts of the form of request that offers the most lifetimes."""
    if provider not in PROVIDERS or platform not in table(provider)["platforms"]:
        return None
    found = [cache_facts(model, provider=provider, platform=platform, wire=wire) for wire in wires(provider)]
    return max((one for one in found if one is not None), key=lambda one: len(one.ttls), default=None)


def _listed(
    sellers: Sequence[str], place: tuple[str, str], model: str, when: datetime, terms: Terms
) -> tuple[ModelPrice | None, float, tuple[str, ...]]:
    """The entry of genai-prices for a model, under the name given or its plain form, of the first that has one, and
    how often its prices are to be taken for those of `terms` that it does not have; and those that nobody has."""
    found = next((one for seller in sellers if (one := _found(seller, model)) is not None), None)
    rows = [(name, value, price_term(*place, plain_name(model), name, value)) for name, value in terms]
    context, factor, unknown = dict[str, str](), 1.0, list[str]()
    for name, value, row in sorted(rows, key=lambda one: one[2] is not None):  # what the list alone has comes first
        listed = context | ({name: value} if row is None else row.get("listed", {name: value}))
        if found is not None and _has(found, listed, when):
            context = listed
        elif row is not None:
            factor *= row["multiple"]
        else:
            unknown.append(f"{name} {value}")
    return None if found is None else found.get_prices(when, context), factor, tuple(unknown)


@functools.cache
def load_prices() -> None:
    """Read the price list, which takes 0.2 s and a disk: now, and not within the first request that needs a price."""
    from genai_prices.data_snapshot import get_snapshot

    get_snapshot()


def prices_are_loaded() -> bool:
    """True if asking for a price takes no time any more."""
    return load_prices.cache_info().currsize > 0


def _found(seller: str, model: str) -> ModelInfo | None:
    """The model as `seller` lists it: under the name given, else under one that differs in dates and versions alone."""
    from genai_prices.data_snapshot import get_snapshot  # takes 0.2 s: only where somebody sells the model

    snapshot, plain = get_snapshot(), plain_name(model)
    with suppress(LookupError):
        return snapshot.find_provider_model(model, None, seller, None)[1]
    listed = next((one.models for one in snapshot.providers if one.id == seller), ())
    place = is_sold_everywhere(model)
    alike = (one for one in listed if plain_name(one.id) == plain and is_sold_everywhere(one.id) == place)
    with suppress(LookupError):
        return next(alike, None) or snapshot.find_provider_model(plain, None, seller, None)[1]
    return None


def _has(found: ModelInfo, listed: Mapping[str, str], when: datetime) -> bool:
    """Whether the price list has prices for what is `listed`, and had them then."""
    return any(
        listed.items() <= variant.when.items() and (variant.constraint is None or variant.constraint.active(when))
        for variant in found.price_variants or ()
    )


def _factor(place: tuple[str, str], known: str, when: int | None, terms: Terms) -> tuple[float, tuple[str, ...]]:
    """How often the usual price is to be taken for `terms`, and those of which nobody knows."""
    usual, told = (_tiers(*place, known, when, some) for some in ((), terms))
    if usual and told:
        return told[0][1].input / usual[0][1].input if usual[0][1].input else 1.0, told[0][1].unknown
    _, factor, unknown = _listed((), place, known, _LATEST, terms)
    return factor, unknown


def _listed_card(price: ModelPrice, start: int, facts: CacheFacts | None) -> PriceCard | None:
    """The card that holds above `start` input tokens; None where no input price is listed."""

    def per_token(key: str) -> float | None:
        value = getattr(price, key, None)
        if value is None:
            return None
        tiers = [tier.price for tier in getattr(value, "tiers", ()) if tier.start <= start]
        return float(tiers[-1] if tiers else getattr(value, "base", value)) / MTOK

    uncached = per_token("input_mtok")
    if uncached is None:
        return None
    read = per_token("cache_read_mtok")
    if read is None and facts is not None and not facts.family:
        read = uncached * facts.read
    return PriceCard(
        input=uncached,
        output=per_token("output_mtok"),
        read=read,
        write=_writes(per_token, uncached, facts),
    )


def _writes(per_token: Callable[[str], float | None], uncached: float, facts: CacheFacts | None) -> Mapping[str, float]:
    """The price of writing by lifetime: as listed, else the multiple that the facts state; nothing where it is free."""
    if facts is None:
        listed = {label: per_token(key) for label, key in _WRITE_KEYS.items() if label != "30m"}
        return {label: value for label, value in listed.items() if value is not None}
    charged = {ttl.label: ttl.write for ttl in facts.ttls if ttl.write != 1}
    prices = {label: per_token(_WRITE_KEYS.get(label, "")) for label in charged}
    return {label: prices[label] or uncached * multiple for label, multiple in charged.items()}


def _gap_card(provider: str, model: str, facts: CacheFacts | None) -> PriceCard | None:
    """The card of a model that genai-prices lacks and our data file has."""
    if provider not in PROVIDERS or facts is None:
        return None
    name = plain_name(model)
    row = next((row for row in table(provider).get("prices", ()) if name in row["match"]), None)
    return None if row is None else _by_facts(facts, float(row["input"]), float(row["output"]))


def _by_facts(facts: CacheFacts, uncached: float, output: float | None) -> PriceCard:
    """A card from prices per million tokens and the multiples that the cache facts state."""
    return PriceCard(
        input=uncached / MTOK,
        output=None if output is None else output / MTOK,
        read=uncached * facts.read / MTOK,
        write={ttl.label: uncached * ttl.write / MTOK for ttl in facts.ttls if ttl.write != 1},
    )


def _own_card(
    place: tuple[str, str], model: str, known: str, own: Mapping[str, float | Mapping[str, float]]
) -> PriceCard:
    """The card that the user gave for `model`, which the facts of its provider and platform call `known`."""
    check_prices(model, own, lifetimes())
    given: Any = own
    uncached, output = float(given["input"]), float(given["output"]) if "output" in given else None
    facts = _facts(*place, known)
    derived = _by_facts(facts, uncached, output) if facts is not None else None
    return PriceCard(
        input=uncached / MTOK,
        output=None if output is None else output / MTOK,
        read=given["read"] / MTOK if "read" in given else (derived.read if derived else None),
        write={
            **(derived.write if derived else {}),
            **{label: price / MTOK for label, price in given.get("write", {}).items()},
        },
    )

"""What a recorded request cost: each sampling of its reply at the prices of the model that was sampled.

The model that answers need not be the one that was asked for: an alias, a router, a fallback. It is priced as the one
that answered; where nobody lists that, it has no price, unless the user has said what answers to the name that was
asked for. A dated version of a model is that model, as is the same name in another order or behind a seller's, and a
name that says more than the reply's, such as the region, is kept.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from agentaccel.cache.price import Override, PriceCard, input_cost, price_card
from agentaccel.facts import plain_name, sold_as
from agentaccel.records import TurnRecord
from agentaccel.types import Usage


class Cards(NamedTuple):
    """The prices of one request."""

    answer: PriceCard | None
    """Of the sampling that answered; None where they are not known."""
    besides: tuple[PriceCard | None, ...] = ()
    """Of each of `TurnRecord.besides`."""

    @property
    def known(self) -> bool:
        """True if all that the reply was billed for has a price."""
        return self.answer is not None and None not in self.besides

    @property
    def unknown(self) -> tuple[str, ...]:
        """As in `PriceCard`, of all of them."""
        if not self.besides:
            return () if self.answer is None else self.answer.unknown
        cards = [one for one in (self.answer, *self.besides) if one is not None]
        return tuple(dict.fromkeys(term for one in cards for term in one.unknown))


_NONE = frozenset[str]()


def cards_of(
    turn: TurnRecord, aliases: Mapping[str, str] | None, override: Override | None, tokens: int | None = None
) -> Cards:
    """The prices of `turn` when it was sent. `aliases` and `override` are the user's; with `tokens`, as if its prompt
    had had so many.
    """
    if turn.known_as:
        aliases = {turn.model: turn.known_as, **(aliases or {})}

    own = frozenset(override) if override else _NONE
    names = _names(turn, aliases or {}, turn.answered_by, own)
    answer = _card(turn, names, turn.usage.input if tokens is None else tokens, aliases, override)
    if not turn.besides:
        return Cards(answer)
    others = [names if one.model is None else _names(turn, aliases or {}, one.model, own)[:1] for one in turn.besides]
    parts = zip(others, turn.besides, strict=True)
    return Cards(answer, tuple(_card(turn, other, part.usage.input, aliases, override) for other, part in parts))


def as_of(turn: TurnRecord, model: str) -> TurnRecord:
    """`turn` as if `model` had been asked for and had answered; itself where it was."""
    if model == (turn.known_as or turn.model):
        return turn
    return replace(turn, model=model, known_as=None, answered_by=None)


def _card(
    turn: TurnRecord,
    names: tuple[str, ...],
    tokens: int | None,
    aliases: Mapping[str, str] | None,
    override: Override | None,
) -> PriceCard | None:
    """The prices of a sampling of `turn`, under the first of `names` that has any."""
    for name in names:
        found = price_card(
            turn.provider,
            name,
            input_tokens=tokens or 0,
            platform=turn.platform,
            at=turn.started or None,
            aliases=aliases,
            override=override,
            terms=turn.terms,
        )
        if found is not None:
            return found
    return None


def answerer(turn: TurnRecord) -> str:
    """The model that answered `turn`; where it is the one that was asked for, by the name that the request has for it.

    >>> asked = TurnRecord(session="", provider="anthropic", model="claude-opus-5", started=0.0)
    >>> from dataclasses import replace
    >>> [answerer(replace(asked, answered_by=name)) for name in ("claude-opus-5-20260801", "claude-opus-4-8")]
    ['claude-opus-5', 'claude-opus-4-8']
    """
    told = turn.answered_by
    return turn.model if not told or _same(turn, told, {}) else told


def _names(turn: TurnRecord, aliases: Mapping[str, str], model: str | None, own: frozenset[str]) -> tuple[str, ...]:
    """The names under which the price of `model` is looked for, the first that has one; the user gave prices of his
    `own`."""
    asked = turn.model
    if not model or model == asked:
        return (asked,)
    if _same(turn, model, aliases):
        # The date of a version may have a price of its own; a name of a region must not be lost.
        dated = model.startswith(asked.removesuffix("-latest"))
        return (model, asked) if dated and asked not in own else (asked,)
    if (asked in own or asked in aliases) and not _listed(turn, asked):
        # What the user says of a name of his own, such as a deployment's, holds for whatever answers there: a price
        # of it, or the model that it stands for where nobody lists the one that answers.
        return (asked,) if asked in own else (model, asked)
    return tuple(dict.fromkeys((sold_as(model, asked), model)))  # from where it was asked for


def _listed(turn: TurnRecord, model: str) -> bool:
    return price_card(turn.provider, model, input_tokens=0, platform=turn.platform) is not None


def _same(turn: TurnRecord, model: str, aliases: Mapping[str, str]) -> bool:
    known = turn.known_as or aliases.get(turn.model, turn.model)
    return _words(model) in (_words(turn.model), _words(known))


@functools.lru_cache(maxsize=4096)
def _words(model: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The words of a model's name in no order, and its numbers in theirs, without that of its build: sellers write a
    version in front of a size or behind it, and answer with the build that served.

    >>> _words("anthropic/claude-4.6-sonnet-20260217") == _words("claude-sonnet-4-6")
    True
    >>> _words("grok-4-0709") == _words("x-ai/grok-4"), _words("gpt-5.4-mini") == _words("gpt-5.4")
    (True, False)
    >>> _words("gpt-5.4") == _words("gpt-4.5")
    False
    """
    words = plain_name(model).split("-")
    numbers = tuple(word for word in words if word.isdigit() and len(word) <= 2)
    return tuple(sorted(word for word in words if not word.isdigit())), numbers


def paid_for(turn: TurnRecord, cards: Cards, usage: Usage | None = None) -> float | None:
    """USD for the input of `turn`, all that it was billed for; None where a price or a count is not known.

    With `usage`, as if the answer had been billed for that.
    """
    answer = turn.usage if usage is None else usage
    if not turn.besides:
        return input_cost(cards.answer, answer)
    costs = [input_cost(card, part.usage) for card, part in zip(cards.besides, turn.besides, strict=True)]
    if usage is not None or answer.input is not None or turn.doubts:
        costs.append(input_cost(cards.answer, answer))
    return None if None in costs else sum(cost or 0.0 for cost in costs)

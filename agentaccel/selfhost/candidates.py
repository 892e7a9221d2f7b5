"""What may be chosen for an engine: what a replay has found, the heads that exist, and what was measured. Pure.

What each engine has is data: `facts/drafting.toml`, with source and date.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from agentaccel.checks import check_count, is_amount
from agentaccel.errors import ConfigError
from agentaccel.facts import table
from agentaccel.selfhost.arctic import arctic_suffix
from agentaccel.selfhost.choosing import DraftMethod, DraftRates, Known, speed
from agentaccel.selfhost.draft_replay import Drafted, Talk, replayed
from agentaccel.selfhost.drafters import Drafter, NgramPool, NgramSimple, PromptLookup, SuffixLookup
from agentaccel.selfhost.plan import Setting
from agentaccel.selfhost.step_time import StepTime

Row = Mapping[str, Any]
"""A row of the facts: a way of drafting that an engine has."""


_NO_SETTINGS: Mapping[str, Setting] = {}


def rows_of(engine: str, settings: Mapping[str, Setting] = _NO_SETTINGS) -> Sequence[Row]:
    """What can be replayed of an engine, with settings of the user's where a replay goes by them. Raises `ConfigError`
    for a value that such a setting cannot have."""
    rows = [_followed(row, settings) for row in table("drafting")["engines"].get(engine, ())]
    return tuple({(row["method"], key_of(row)): row for row in reversed(rows)}.values())[::-1]


def _followed(row: Row, settings: Mapping[str, Setting]) -> Row:
    given = {name: settings[name] for name in row.get("follows", {}) if name in settings}
    for name, value in given.items():
        if row["follows"][name] not in ("factor", "least_likely"):
            check_count(name, value, 0 if row["follows"][name] in ("least", "requests") else 1)
        elif not is_amount(value):
            raise ConfigError(f"{name} is {value!r}; give a number of 0 or more")
    own = {name: value for name, value in row.get("settings", {}).items() if name not in given}
    drafts = {**row["with"], **{row["follows"][name]: value for name, value in given.items()}}
    remembers = row.get("remembers", False) and drafts.get("requests") != 0
    return {**row, "with": drafts, "settings": {**own, **given}, "remembers": remembers}


def hybrid_of(engine: str) -> Row | None:
    """How an engine drafts from text beside a head; None for one that does not."""
    row: Row | None = table("drafting")["hybrid"].get(engine)
    return row


def _replayed_of(engine: str, settings: Mapping[str, Setting]) -> tuple[Row, ...]:
    hybrid = hybrid_of(engine)
    return (*rows_of(engine, settings), *(() if hybrid is None else (hybrid,)))


def key_of(row: Row) -> str:
    """What is the same for two rows that draft alike, of whatever engine."""
    return json.dumps([row["drafter"], row["tokens"], row["with"]], sort_keys=True)


def drafter_of(row: Row) -> Drafter:
    """What replays a row. For a suffix tree that is arctic-inference where it is installed, as in vLLM."""
    given = {"tokens": row["tokens"], **row["with"]}
    if row["drafter"] == "suffix":
        requests = given.pop("requests", 10_000)
        if requests and given.get("remembers", True):
            return arctic_suffix(**given, requests=requests) or SuffixLookup(**given)
        given["remembers"] = False
    makers: Mapping[str, Callable[..., Drafter]] = {
        "suffix": SuffixLookup,
        "lookup": PromptLookup,
        "simple": NgramSimple,
        "pool": NgramPool,
    }
    return makers[row["drafter"]](**given)


def of_replay(row: Mapping[str, Any], drafted: Drafted) -> DraftMethod:
    """A row of the facts, with what its replay has found."""
    rates = DraftRates(
        tokens_per_step=drafted.tokens_per_step,
        drafted_per_token=drafted.drafted / drafted.tokens if drafted.tokens else 0.0,
        known="replayed",
    )
    return DraftMethod(
        method=row["method"],
        rates=rates,
        tokens=row["tokens"],
        settings=row.get("settings", {}),
        fewer=tuple((tokens, _cut(drafted, row["tokens"], tokens)) for tokens in range(1, row["tokens"])),
        note=row.get("like"),
    )


def _cut(drafted: Drafted, most: int, tokens: int) -> DraftRates:
    """What drafts of at most `tokens` would have given in the place of `most`. Where a longer draft was right, the next
    short ones go on as it did: r tokens that were accepted, and the one behind them, take one pass for each
    `tokens` + 1 of them, begun or, where all of the draft was right and more would have been, by their share."""
    positions = drafted.positions + [0] * (most - len(drafted.positions))
    right = [one - two for one, two in pairwise((drafted.steps, *positions, 0))]
    passes = [float(-(-(accepted + 1) // (tokens + 1))) for accepted in range(most)] + [(most + 1) / (tokens + 1)]
    verified = sum(count * one for count, one in zip(right, passes, strict=True))
    accepted = drafted.accepted + drafted.steps - verified
    ahead = verified * min(drafted.drafted / drafted.steps, tokens) if drafted.steps else 0.0
    return DraftRates(
        tokens_per_step=drafted.tokens / (drafted.tokens - accepted) if drafted.tokens else 1.0,
        drafted_per_token=ahead / drafted.tokens if drafted.tokens else 0.0,
        known="replayed",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """A draft model or a head that exists for the model."""

    method: str
    """draft, eagle3 or mtp."""
    model: str | None = None
    acceptance: float | None = None
    """Of each token that it drafts, the share that is right; None where it was never measured."""
    cost: float | None = None
    """Of each token that it drafts, in steps of the model; None where not known."""


def of_head(head: Head, concurrency: int, step: StepTime) -> DraftMethod:
    """A head as a candidate, with as many tokens as are best at that many requests: by the formula of Leviathan et al.
    (2023, arXiv:2211.17192), a draft of k tokens gives 1 + a + … + a^k."""
    facts = table("drafting")["assumed"]
    acceptance = facts["acceptance"] if head.acceptance is None else head.acceptance
    known: Known = "assumed" if head.acceptance is None else "stated"

    def rates(tokens: int) -> DraftRates:
        given = sum(acceptance**i for i in range(tokens + 1))
        return DraftRates(tokens_per_step=given, drafted_per_token=tokens / given, known=known)

    guessed = f"that {acceptance:.0%} of its tokens are right is a guess: measure it (agentaccel selfhost watch)"
    candidate = DraftMethod(
        method=head.method,
        rates=rates(1),
        model=head.model,
        draft_cost=facts["draft_cost"] if head.cost is None else head.cost,
        note=guessed if head.acceptance is None else None,
    )
    tokens = max(range(1, _MOST_OF_A_HEAD + 1), key=lambda count: speed(candidate, rates(count), concurrency, step))
    fewer = tuple((count, rates(count)) for count in range(1, tokens))
    return replace(candidate, tokens=tokens, rates=rates(tokens), fewer=fewer)


_MOST_OF_A_HEAD = 8


def of_hybrid(head: DraftMethod, drafted: Drafted, settings: Mapping[str, Setting]) -> DraftMethod:
    """A head where nothing matches, and text that was there before where something does."""
    matched = drafted.steps + drafted.accepted  # tokens of the passes that verified what has matched
    others = max(drafted.tokens - matched, 0) / head.rates.tokens_per_step
    passes = drafted.steps + others
    ahead = drafted.drafted + others * (head.rates.verified - 1)
    rates = DraftRates(
        tokens_per_step=drafted.tokens / passes if passes else 1.0,
        drafted_per_token=ahead / drafted.tokens if drafted.tokens else 0.0,
        known=head.rates.known,
    )
    return replace(
        head, rates=rates, settings=settings, fewer=(), note="a suffix automaton beside it; " + (head.note or "")
    )


# --- replaying what an engine has -------------------------------------------------------------------------------------


def replay_all(
    engines: Iterable[str],
    talks: Sequence[Talk],
    tell: Callable[[int], None] = lambda tokens: None,
    settings: Mapping[str, Setting] = _NO_SETTINGS,
) -> dict[str, dict[str, Drafted]]:
    """What every way of drafting of `engines` would have made of `talks`: by its key, and by site."""
    rows = {key_of(row): row for engine in engines for row in _replayed_of(engine, settings)}
    return {key: replayed(drafter_of(row), talks, tell) for key, row in rows.items()}


def ways_of(engines: Iterable[str], settings: Mapping[str, Setting] = _NO_SETTINGS) -> int:
    """In how many ways `replay_all` replays."""
    return len({key_of(row) for engine in engines for row in _replayed_of(engine, settings)})


def alone_of(
    engine: str, chosen: DraftMethod, talks: Sequence[Talk], settings: Mapping[str, Setting] = _NO_SETTINGS
) -> float | None:
    """Tokens a step of a chosen method that remembers what was said in other conversations, if each were by itself;
    None for one that does not remember, or was not replayed."""
    if chosen.rates.known != "replayed":
        return None
    for row in rows_of(engine, settings):
        same = (row["method"], row["tokens"]) == (chosen.method, chosen.tokens)
        if same and row["remembers"] and {**row["settings"], **settings} == dict(chosen.settings):
            alone = (together(replayed(drafter_of(row), [talk]).values()) for talk in talks)
            return together(alone).tokens_per_step
    return None


def together(several: Iterable[Drafted]) -> Drafted:
    """All of them as one."""
    total = Drafted()
    for one in several:
        total = total.plus(one)
    return total

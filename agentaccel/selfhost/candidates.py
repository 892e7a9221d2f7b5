"""What may be chosen for an engine: what a replay has found, the heads that exist, and what was measured. Pure.

What each engine has is data: `facts/drafting.toml`, with source and date.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agentaccel.facts import table
from agentaccel.selfhost.arctic import arctic_suffix
from agentaccel.selfhost.choosing import DraftMethod, DraftRates, Known, speed
from agentaccel.selfhost.draft_replay import Drafted, Talk, replayed
from agentaccel.selfhost.drafters import Drafter, NgramPool, NgramSimple, PromptLookup, SuffixLookup
from agentaccel.selfhost.plan import Setting
from agentaccel.selfhost.step_time import StepTime

Row = Mapping[str, Any]
"""A row of the facts: a way of drafting that an engine has."""


def rows_of(engine: str) -> Sequence[Row]:
    """What can be replayed of an engine."""
    rows: Sequence[Row] = table("drafting")["engines"].get(engine, ())
    return rows


def hybrid_of(engine: str) -> Row | None:
    """How an engine drafts from text beside a head; None for one that does not."""
    row: Row | None = table("drafting")["hybrid"].get(engine)
    return row


def _replayed_of(engine: str) -> tuple[Row, ...]:
    hybrid = hybrid_of(engine)
    return (*rows_of(engine), *(() if hybrid is None else (hybrid,)))


def key_of(row: Row) -> str:
    """What is the same for two rows that draft alike, of whatever engine."""
    return json.dumps([row["drafter"], row["tokens"], row["with"]], sort_keys=True)


def drafter_of(row: Row) -> Drafter:
    """What replays a row. For a suffix tree that is arctic-inference where it is installed, as in vLLM."""
    given = {"tokens": row["tokens"], **row["with"]}
    if row["drafter"] == "suffix" and given.get("remembers", True):
        return arctic_suffix(**given) or SuffixLookup(**given)
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
        fewer=tuple((tokens, _cut(drafted, tokens)) for tokens in range(1, row["tokens"])),
        note=row.get("like"),
    )


def _cut(drafted: Drafted, tokens: int) -> DraftRates:
    """What drafts of so many tokens would have given: of longer ones, what was accepted at their first places."""
    accepted = sum(drafted.positions[:tokens])
    ahead = min(drafted.drafted, drafted.steps * tokens)
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
    engines: Iterable[str], talks: Sequence[Talk], tell: Callable[[int], None] = lambda tokens: None
) -> dict[str, dict[str, Drafted]]:
    """What every way of drafting of `engines` would have made of `talks`: by its key, and by site."""
    rows = {key_of(row): row for engine in engines for row in _replayed_of(engine)}
    return {key: replayed(drafter_of(row), talks, tell) for key, row in rows.items()}


def ways_of(engines: Iterable[str]) -> int:
    """In how many ways `replay_all` replays."""
    return len({key_of(row) for engine in engines for row in _replayed_of(engine)})


def alone_of(engine: str, chosen: DraftMethod, talks: Sequence[Talk]) -> float | None:
    """Tokens a step of a suffix tree that is chosen, if each conversation were by itself; None for what remembers
    nothing, or was not replayed."""
    for row in rows_of(engine):
        same = (row["method"], row["tokens"], row.get("settings", {})) == (
            chosen.method,
            chosen.tokens,
            chosen.settings,
        )
        if same and row["drafter"] == "suffix" and row.get("remembers"):
            drafter = SuffixLookup(tokens=row["tokens"], **row["with"], remembers=False)
            return together(replayed(drafter, talks).values()).tokens_per_step
    return None


def together(several: Iterable[Drafted]) -> Drafted:
    """All of them as one."""
    total = Drafted()
    for one in several:
        total = total.plus(one)
    return total

"""What a history that is made anew costs."""

from __future__ import annotations

import typing
from pathlib import Path

import pytest

from agentaccel import HistoryPolicy
from agentaccel.cache.beliefs import Beliefs
from agentaccel.cache.ledger import Entry, Ledger
from agentaccel.cache.prefix import prefixes
from agentaccel.cache.state import SessionState
from agentaccel.facts import CacheFacts, cache_facts
from agentaccel.rewrite.edits import Edits
from agentaccel.rewrite.results import EditInputs, shape_of, write_price
from agentaccel.wire.anthropic import decode
from tests.driver import MODEL, assistant, body, prose, user
from tests.mutants import Mutant, running, survives

FACTS = typing.cast(CacheFacts, cache_facts(MODEL))
NOW = 10.0


def knowing(ttl: str, state: SessionState | None = None) -> EditInputs:
    return EditInputs(
        policy=HistoryPolicy(),
        facts=FACTS,
        wire=FACTS.wire,
        state=state or SessionState(),
        head=None,
        beliefs=Beliefs(),
        edits=Edits(),
        pending=None,
        ready={},
        now=NOW,
        ttl=ttl,
        read=lambda request: pytest.fail(f"{request} was read"),
    )


@pytest.mark.parametrize(
    ("ttl", "held", "price"),
    [
        ("auto", [], 1.25),
        ("auto", [(1_000.0, "5m"), (4_000.0, "5m")], 1.25),
        ("auto", [(1_000.0, "1h"), (4_000.0, "1h")], 2.0),
        ("auto", [(3_000.0, "1h"), (4_000.0, "5m")], (3 * 2.0 + 1.25) / 4),
        ("1h", [(1_000.0, "5m")], 2.0),
        ("5m", [(1_000.0, "1h")], 1.25),
    ],
)
def test_what_is_made_anew_costs_what_it_cost_to_write(ttl: str, held: list[tuple[float, str]], price: float) -> None:
    """An edit that is weighed at the price of five minutes does not pay where hours are bought."""
    assert write_price(held, knowing(ttl)) == pytest.approx(price)


@pytest.mark.parametrize(("ttl", "price"), [("5m", 1.25), ("1h", 2.0)])
def test_an_edit_is_weighed_at_the_price_of_the_lifetime_that_its_session_holds(ttl: str, price: float) -> None:
    prompt = decode(body(user(prose(3_000)), assistant("yes"), user("and"), system=prose(3_000)), FACTS)
    last = prefixes(prompt, FACTS).hashes[-1]
    state = SessionState(turns=1, ledger=Ledger({last: Entry(ttl, expires=NOW + 60, visible=0.0, tokens=8_000)}))
    assert shape_of(prompt, knowing("auto", state)).terms.write == price


GUARDS = (
    Mutant(
        guard="the price of what is held, where an edit is weighed",
        at="agentaccel.rewrite.results:shape_of",
        old="write=write_price([(tokens(i), entries[i].ttl) for i in live], knowing)",
        new="write=facts.ttls[0].write",
    ),
    Mutant(
        guard="the price of each lifetime by itself",
        at="agentaccel.rewrite.results:write_price",
        old="prices.get(ttl, facts.ttls[0].write)",
        new="facts.ttls[-1].write",
    ),
)


@pytest.mark.soak
@pytest.mark.parametrize("mutant", GUARDS, ids=lambda it: it.guard)
def test_the_tests_fail_without_a_guard(mutant: Mutant, tmp_path: Path) -> None:
    assert survives(mutant, tmp_path, [*running("tests/engine/test_weighing.py"), "-m", "not soak"]) is None

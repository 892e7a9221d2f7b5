"""What a history that is made anew costs."""

from __future__ import annotations

import pytest

from agentaccel import HistoryPolicy
from agentaccel.cache.beliefs import Beliefs
from agentaccel.cache.state import State
from agentaccel.facts import cache_facts
from agentaccel.session.forms import Edits
from agentaccel.session.weighing import Knowing, write_price
from tests.driver import MODEL


def knowing(ttl: str) -> Knowing:
    facts = cache_facts(MODEL)
    assert facts is not None
    return Knowing(
        policy=HistoryPolicy(),
        facts=facts,
        wire=facts.wire,
        state=State(),
        head=None,
        beliefs=Beliefs(),
        edits=Edits(),
        pending=None,
        ready={},
        now=0.0,
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

"""Never a 400 of our making, and not by doing nothing either."""

from __future__ import annotations

import pytest

from tests.fuzz.legality import run


def assert_legal_and_useful(conversations: int, seed: int) -> None:
    tally = run(conversations, seed)
    assert tally.rejected_by_us == []
    assert tally.coverage >= 0.9, f"{tally.covered} of {tally.repeated}"
    assert tally.illegal_as_written < tally.requests / 2, "the generator must reach the planner"


def test_no_legal_request_is_rejected_with_our_plan() -> None:
    """Contract line 2, on a sample; the usefulness floor is stated priors alone, nothing learned."""
    assert_legal_and_useful(20, seed=7)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10))
def test_no_legal_request_is_rejected_in_twenty_thousand_conversations(seed: int) -> None:
    """Contract line 2 at length: ten seeds of two thousand."""
    assert_legal_and_useful(2000, seed=1000 + seed)


@pytest.mark.soak
def test_the_conversations_reach_every_limit_often() -> None:
    """The fuzz proves nothing about a limit that it does not come up against: each at least 200 times."""
    tally = run(4000, seed=99)
    assert {name: count for name, count in tally.limits.items() if count < 200} == {}

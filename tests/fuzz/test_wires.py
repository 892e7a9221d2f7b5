"""At every place: never a 400 of our making, nothing of the sender's changed, and not by doing nothing either."""

from __future__ import annotations

import pytest

from tests.fuzz.learned import overruled, share
from tests.fuzz.wires import PLACES, run

OURS = ("a prompt_cache_key of ours", "a prompt_cache_retention of ours")
AT_EACH = pytest.mark.parametrize("name", PLACES)


def assert_legal_and_useful(name: str, conversations: int, seed: int) -> None:
    tally = run(name, conversations, seed)
    assert tally.rejected_by_us == []
    assert tally.overstepped == []
    assert tally.coverage >= 0.9, f"{tally.gained} of {tally.worthwhile}"
    assert tally.illegal_as_written < tally.requests / 2, "the generator must reach the planner"
    assert bool(tally.worthwhile) == bool(PLACES[name].useful)


@pytest.mark.many(8)
@AT_EACH
def test_no_legal_request_is_rejected_with_our_plan(name: str) -> None:
    """Contract lines 1 and 2, on a sample; the usefulness floor is stated priors alone, nothing learned."""
    # Half of the gateway's models are OpenAI's, of which nothing is measured there; few of Foundry's talks repeat.
    assert_legal_and_useful(name, 40 if name in ("openrouter", "foundry") else 20, seed=7)


@pytest.mark.soak
@AT_EACH
@pytest.mark.parametrize("seed", range(3))
def test_no_legal_request_is_rejected_in_six_thousand_conversations(name: str, seed: int) -> None:
    """Contract lines 1 and 2 at length: three seeds of two thousand, at each place."""
    assert_legal_and_useful(name, 2000, seed=1000 + seed)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("bedrock", {"the sender's markers", "a marker of the request"}),
        ("chat", {"the sender's markers", "the sender's options", "an automatic model", "empty text", "audio", *OURS}),
        ("responses", {"the sender's markers", "the sender's options", "history held", "empty text", "audio", *OURS}),
        ("vllm", {"a cache_salt of ours"}),
        ("openrouter", {"the sender's markers", "a marker of the request", "empty text", "refusals"}),
    ],
)
def test_the_conversations_reach_every_limit_often(name: str, wanted: set[str]) -> None:
    """The fuzz proves nothing about a limit that it does not come up against: each at least 100 times."""
    limits = run(name, 2000, seed=99).limits
    assert {limit: limits[limit] for limit in wanted if limits[limit] < 100} == {}


@pytest.mark.slow
def test_a_workload_of_single_calls_is_written_no_more_once_it_is_known() -> None:
    """Contract line 3: on models that write by themselves, writing is switched off where nobody will read."""
    assert share(2, seed=5, static=0) >= 0.9


@pytest.mark.slow
def test_what_single_calls_share_is_written_and_nothing_else() -> None:
    """Contract line 3: a breakpoint at the end of the static part, and none of the provider's own behind it."""
    assert share(2, seed=5, static=2000) >= 0.9


def test_what_the_sender_says_of_the_providers_own_breakpoint_holds() -> None:
    """Contract line 1: a mode that the sender asked for is not ours to change, whatever it costs."""
    assert overruled(2, seed=5) == 0

"""What ways of drafting would have made of recorded replies: as an engine verifies them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentaccel.selfhost.draft_replay import Drafted, Passage, Talk, replayed
from agentaccel.selfhost.drafters import PromptLookup, SuffixLookup, Tokens


class Scripted:
    """Drafts what it is told to, one draft after the other, and remembers what it is told."""

    def __init__(self, drafts: Sequence[Tokens]) -> None:
        self.drafts, self.told = list(drafts), list[object]()

    def begin(self) -> None:
        self.told.append("begin")

    def read(self, tokens: Tokens, *, said: bool) -> None:
        self.told.append((list(tokens), said))

    def draft(self) -> Tokens:
        return self.drafts.pop(0) if self.drafts else ()

    def judged(self, drafted: int, accepted: int) -> None:
        self.told.append((drafted, accepted))

    def replied(self) -> None:
        self.told.append("replied")


def one(prompt: Tokens, reply: Tokens, site: str = "here") -> Talk:
    return Talk(site=site, passages=(Passage(prompt), Passage(reply, said=True)))


def test_a_reply_is_verified_step_by_step() -> None:
    """The pass that reads the prompt gives the first token; each other one what was right of its draft, and one."""
    drafter = Scripted([[2, 3, 9], [], [6, 7, 8]])
    found = replayed(drafter, [one([0], [1, 2, 3, 4, 5, 6, 7])])["here"]
    assert (found.tokens, found.passes, found.steps, found.drafted, found.accepted) == (7, 3, 2, 6, 4)
    assert found.positions == [2, 2]
    assert found.tokens_per_step == pytest.approx(7 / 3)
    assert drafter.told == [
        "begin",
        ([0], False),
        ([1], True),
        (3, 2),
        ([2, 3, 4], True),
        ([5], True),
        (3, 2),
        ([6, 7], True),
        "replied",
    ]


def test_figures_are_by_site_and_add_up() -> None:
    talks = [one([1, 2], [1, 2, 3], "a"), one([1, 2], [4, 5, 6], "b"), one([3, 4], [1, 2], "a")]
    found = replayed(PromptLookup(shortest=1), talks)
    assert {site: (of.replies, of.tokens) for site, of in found.items()} == {"a": (2, 5), "b": (1, 3)}
    total = found["a"].plus(found["b"])
    assert (total.replies, total.tokens, total.passes) == (3, 8, found["a"].passes + found["b"].passes)


def test_what_was_never_drafted_has_no_acceptance() -> None:
    assert (Drafted().acceptance, Drafted().tokens_per_step) == (None, 1.0)
    assert replayed(Scripted([]), [one([1], [])])["here"].tokens_per_step == 1.0


TEXT = st.lists(st.integers(0, 3), max_size=40)


@given(talks=st.lists(st.tuples(TEXT, TEXT), max_size=6))
def test_passes_and_accepted_tokens_are_all_tokens(talks: list[tuple[list[int], list[int]]]) -> None:
    """Whatever is drafted: no step gives less than one token, and none more than its draft and one."""
    for drafter in (PromptLookup(), SuffixLookup()):
        for found in replayed(drafter, [one(prompt, reply) for prompt, reply in talks]).values():
            assert found.passes + found.accepted == found.tokens == sum(len(reply) for _, reply in talks)
            assert 0 <= found.accepted <= found.drafted
            assert sum(found.positions) == found.accepted
            assert found.positions == sorted(found.positions, reverse=True)
            assert found.steps <= found.passes or not found.tokens


@given(reply=st.lists(st.integers(0, 3), min_size=30, max_size=60))
def test_a_reply_that_was_said_before_takes_a_few_steps(reply: list[int]) -> None:
    """The use of a tree that remembers: the second time is cheaper, and never dearer."""
    talks = [one([9], reply, "first"), one([8], reply, "second")]
    found = replayed(SuffixLookup(), talks)
    assert found["second"].passes <= found["first"].passes
    assert found["second"].passes <= 15

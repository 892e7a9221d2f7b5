"""Ways of drafting from text, against what each of them is said to do, written down once more and without any haste."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentaccel.selfhost.drafters import Drafter, NgramPool, NgramSimple, PromptLookup, SuffixLookup

TEXT = st.lists(st.integers(0, 3), min_size=1, max_size=60)
"""Few tokens, so that there is much to be found again."""
PARTS = st.lists(TEXT, min_size=1, max_size=6)


def read(drafter: Drafter, text: list[int], *, said: bool = True) -> Drafter:
    drafter.read(text, said=said)
    return drafter


# --- the first place at which the last tokens stood before ------------------------------------------------------------


def looked_up(text: list[int], tokens: int, shortest: int, longest: int) -> list[int]:
    for length in range(min(longest, len(text) - 1), shortest - 1, -1):
        for start in range(len(text) - length):
            if text[start : start + length] == text[-length:]:
                return text[start + length :][:tokens]
    return []


@given(parts=PARTS, tokens=st.integers(1, 6), shortest=st.integers(1, 3), more=st.integers(0, 3))
def test_prompt_lookup_drafts_what_followed_the_longest_end_first(
    parts: list[list[int]], tokens: int, shortest: int, more: int
) -> None:
    drafter, text = PromptLookup(tokens, shortest, shortest + more), list[int]()
    for part in parts:
        drafter.read(part, said=False)
        text += part
        assert list(drafter.draft()) == looked_up(text, tokens, shortest, shortest + more)


# --- the last place, as llama.cpp's ngram-simple ----------------------------------------------------------------------


def simply(text: list[int], tokens: int, match: int) -> list[int]:
    known = text[:-1]
    if len(known) <= match + tokens + 1:
        return []
    for start in range(len(known) - match - 1, 0, -1):
        if known[start : start + match] == text[-match:]:
            found = known[start + match :][:tokens]
            return found if len(found) >= match else []
    return []


@given(parts=PARTS, tokens=st.integers(1, 8), match=st.integers(1, 4))
def test_ngram_simple_drafts_what_followed_last_if_enough_does(parts: list[list[int]], tokens: int, match: int) -> None:
    drafter, text = NgramSimple(tokens, match), list[int]()
    for part in parts:
        drafter.read(part, said=True)
        text += part
        assert list(drafter.draft()) == simply(text, tokens, match)


def test_ngram_simple_drafts_nothing_where_less_follows_than_has_matched() -> None:
    text = [9, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3]
    assert list(read(NgramSimple(3, 3), text).draft()) == [4, 5, 6]
    assert list(read(NgramSimple(2, 3), text).draft()) == []


def test_ngram_simple_does_not_look_at_the_first_token() -> None:
    """As the engine does it, whose loop ends before 0."""
    text = [1, 2, 3, 4, 5, 6, 7, 8]
    assert list(read(NgramSimple(2, 2), [*text, 1, 2]).draft()) == []
    assert list(read(NgramSimple(2, 2), [0, *text, 1, 2]).draft()) == [3, 4]


@pytest.mark.parametrize(
    "drafter", [PromptLookup(), NgramSimple(2, 2), SuffixLookup(remembers=False)], ids=lambda one: type(one).__name__
)
def test_what_remembers_nothing_finds_nothing_of_an_earlier_conversation(drafter: Drafter) -> None:
    read(drafter, list(range(20)))
    drafter.replied()
    drafter.begin()
    assert list(read(drafter, [50, 51, 52, 53, 54, 55, 56, 3, 4, 5]).draft()) == []


# --- one table for all conversations, as llama.cpp's ngram-mod --------------------------------------------------------


class Pool:
    """A dict in the place of the table: without two patterns on one place."""

    def __init__(self, tokens: int, match: int, least: int) -> None:
        self.tokens, self.match, self.least = tokens, match, least
        self.pool: dict[tuple[int, ...], int] = {}
        self.text: list[int] = []
        self.learned = 0
        self.low = 0

    def learn(self, end: int, begin: int) -> None:
        for start in range(begin, end - self.match):
            self.pool[tuple(self.text[start : start + self.match])] = self.text[start + self.match]
        if end >= self.match:
            self.learned = max(end - self.match, 0)

    def draft(self) -> list[int]:
        known = len(self.text) - 1
        if known < self.match:
            return []
        if self.learned + 32 < known:
            self.learn(known, self.learned)
        drafted: list[int] = []
        while len(drafted) < self.tokens:
            token = self.pool.get(tuple([*self.text, *drafted][-self.match :]))
            if token is None:
                return drafted if len(drafted) >= self.least else []
            drafted.append(token)
        return drafted

    def judged(self, drafted: int, accepted: int) -> None:
        self.low = self.low + 1 if accepted < drafted / 4 else 0
        if self.low == 5:
            self.pool, self.low, self.learned = {}, 0, 0


@given(
    talks=st.lists(st.lists(st.tuples(TEXT, st.lists(TEXT, max_size=4)), min_size=1, max_size=3), max_size=4),
    tokens=st.integers(1, 8),
    match=st.integers(1, 3),
    least=st.integers(1, 4),
    right=st.lists(st.integers(0, 8), min_size=1),
)
def test_ngram_mod_goes_on_as_it_last_went_on_anywhere(
    talks: list[list[tuple[list[int], list[list[int]]]]], tokens: int, match: int, least: int, right: list[int]
) -> None:
    ours, theirs = NgramPool(tokens, match, least), Pool(tokens, match, least)
    judgements = 0
    for talk in talks:
        ours.begin()
        theirs.text, theirs.learned = [], 0
        for prompt, said in talk:
            ours.read(prompt, said=False)
            theirs.text += prompt
            for number, part in enumerate(said):
                if number == 0:
                    theirs.learn(len(theirs.text), 0)
                ours.read(part, said=True)
                theirs.text += part
                drafted = list(ours.draft())
                assert drafted == theirs.draft()
                if drafted:
                    accepted = min(right[judgements % len(right)], len(drafted))
                    judgements += 1
                    ours.judged(len(drafted), accepted)
                    theirs.judged(len(drafted), accepted)
            ours.replied()


def test_a_pool_of_which_a_quarter_was_written_over_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the next reply begins, as the engine does it; here with a pool of 64 places."""
    monkeypatch.setattr("agentaccel.selfhost.drafters._ROOM", 64)
    for prompts, knows in ((1, True), (2, False), (3, True)):
        pool = NgramPool(4, 2, 1)
        for _ in range(prompts):
            pool.begin()
            read(pool, [*range(20), 0, 1], said=False)
            read(pool, [2], said=True)
            pool.replied()
        assert bool(pool.draft()) is knows


# --- the tree of all that was said ------------------------------------------------------------------------------------

Score = tuple[float, list[int]]


def likeliest(texts: list[list[int]], tail: list[int], tokens: int, depth: int, factor: float, least: float) -> Score:
    """Every length that matches, every place, counted out."""
    best: Score = (0.0, [])
    for matched in range(1, len(tail)):
        pattern = tail[-matched:]
        places = [
            text[start + matched :]
            for text in texts
            for start in range(len(text) - matched + 1)
            if text[start : start + matched] == pattern
        ]
        if not places:
            break
        among, score, drafted = len(places), 0.0, list[int]()
        while len(drafted) < min(tokens, int(matched * factor + 1e-6), depth - matched):
            counts = Counter(text[0] for text in reversed(places) if text)  # of equals the newest
            if not counts or max(counts.values()) / among < least:
                break
            token, count = counts.most_common(1)[0]
            if count == 1:  # and the oldest of those that were there once
                token = next(text[0] for text in places if text)
            drafted.append(token)
            score += count / among
            places = [text[1:] for text in places if text and text[0] == token]
        if score >= best[0]:
            best = score, drafted
    return best


@pytest.mark.slow
@given(
    talks=st.lists(st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=3), min_size=1, max_size=3),
    tokens=st.integers(1, 8),
    depth=st.integers(3, 24),
    factor=st.sampled_from([0.5, 1.0, 2.0]),
    least=st.sampled_from([0.0, 0.1, 0.5]),
    remembers=st.booleans(),
)
def test_a_suffix_tree_drafts_as_much_as_is_likely_whatever_length_matched(
    talks: list[list[tuple[list[int], list[int]]]],
    tokens: int,
    depth: int,
    factor: float,
    least: float,
    remembers: bool,
) -> None:
    """Of lengths that do equally well either is right: how likely the draft is, is what is compared."""
    drafter = SuffixLookup(tokens, depth, factor, least, remembers)
    replies: list[list[int]] = []
    for talk in talks:
        drafter.begin()
        text: list[int] = []
        for prompt, said in talk:
            drafter.read(prompt, said=False)
            drafter.read(said, said=True)
            text += prompt + said
            replies.append(said)
            tail = text[-depth:]
            bounds = (tokens, depth, factor, least)
            own = likeliest([text], tail, *bounds)
            others = likeliest(replies, tail, *bounds) if remembers else (0.0, [])
            best = max(own[0], others[0])
            drafted = list(drafter.draft())
            assert bool(drafted) == bool(best)
            if drafted:
                worths = [worth(of, tail, drafted, depth, factor) for of in ([text], replies)[: 1 + remembers]]
                assert max(worths) == pytest.approx(best)
            drafter.replied()


def worth(texts: list[list[int]], tail: list[int], drafted: list[int], depth: int, factor: float) -> float:
    """How many tokens of a draft are expected to be right, at most, over the lengths that match and allow it."""
    found = [0.0]
    for matched in range(1, len(tail)):
        if len(drafted) > min(int(matched * factor + 1e-6), depth - matched):
            continue
        pattern = tail[-matched:]
        counts = [
            sum(
                text[start : start + matched + ahead] == [*pattern, *drafted[:ahead]]
                for text in texts
                for start in range(len(text) - matched - ahead + 1)
            )
            for ahead in range(len(drafted) + 1)
        ]
        if counts[0]:
            found.append(sum(count / counts[0] for count in counts[1:]))
    return max(found)


def test_a_suffix_tree_finds_what_an_earlier_conversation_said_and_forgets_it_if_told_to() -> None:
    reply = list(range(10, 30))
    for remembers, found in ((True, reply[8:16]), (False, [])):
        drafter = SuffixLookup(remembers=remembers)
        read(drafter, [1, 2, 3], said=False)
        read(drafter, reply)
        drafter.replied()
        drafter.begin()
        read(drafter, [4, 5, 6], said=False)
        read(drafter, reply[:8])
        assert list(drafter.draft()) == found


def test_a_suffix_tree_remembers_replies_and_no_prompts() -> None:
    drafter = SuffixLookup()
    read(drafter, list(range(20)), said=False)
    read(drafter, [90, 91])
    drafter.replied()
    drafter.begin()
    read(drafter, [50, 3, 4, 5], said=False)
    assert list(drafter.draft()) == []


def test_a_draft_ends_where_the_tree_does() -> None:
    """One that is 6 deep has no more than 4 tokens behind 2 that match."""
    drafter = SuffixLookup(tokens=16, depth=6, factor=4.0)
    assert list(read(drafter, [*range(20), *range(10)]).draft()) == [10, 11, 12, 13]


def test_a_draft_is_as_likely_as_the_whole_of_it() -> None:
    """Eight matches of 4 tokens that go on in four ways are worth 1 token, and sixteen of 3 that agree are worth 2."""
    differ = [token for i in range(8) for token in (1, 2, 3, 4, 30 + i % 4, 40 + i % 4, 50 + i % 4, 60 + i % 4)]
    agree = [token for i in range(16) for token in (100 + i, 2, 3, 4, 20, 21, 22)]
    assert list(read(SuffixLookup(), [*differ, *agree, 300, 1, 2, 3, 4]).draft()) == [20, 21, 22]


def test_a_suffix_tree_does_not_match_across_the_end_of_a_reply() -> None:
    drafter = SuffixLookup()
    for reply in ([1, 2, 3], [4, 5, 6]):
        drafter.begin()
        read(drafter, reply)
        drafter.replied()
    drafter.begin()
    read(drafter, [1, 2, 3])
    assert list(drafter.draft()) == []


def test_a_match_that_is_too_short_drafts_nothing() -> None:
    text = [1, 2, 3, 4, 5, 6, 9, 1, 2, 3, 4]
    assert list(read(SuffixLookup(shortest=4), text).draft()) == [5, 6, 9, 1]
    assert list(read(SuffixLookup(shortest=5), text).draft()) == []

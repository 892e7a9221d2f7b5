"""What moves text and what recommends it judge alike, and what is left in its place is explained."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentaccel import CachePolicy, Policy
from agentaccel.rewrite import arrangement as arrange
from agentaccel.rewrite import templates
from agentaccel.rewrite.templates import merged, units_of, with_holes
from agentaccel.rewrite.volatile import LEAST_LEFT, TOO_MUCH
from agentaccel.testing import ManualClock
from tests.driver import Driver, Json, prose, tool
from tests.engine.test_arranging import RULES, START, cost, driver, stamp, talk

PLAIN = Policy(strict=True, cache=CachePolicy())


def _block(text: str) -> Json:
    return {"type": "text", "text": text}


def _nonce(turn: int, now: float) -> str:
    return f"x-header: version=2; nonce={random.Random(turn).randrange(16**5):05x};"


def _clock(turn: int, now: float) -> str:
    return f"Current time: {stamp(now)} UTC"


# --- the share that stays ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [_clock, _nonce], ids=["clock", "nonce"])
def test_a_first_block_that_changes_as_a_whole_is_moved(first: Callable[[int, float], str], tmp_path: Path) -> None:
    """What stays is measured on all that the operator says: of that, one line moves. From the third request on, at the
    latest, what stands behind it is read, and the session costs what it costs with both in one string, within 5 %."""
    blocks = driver(tmp_path / "blocks")
    usages = talk(blocks, 10, lambda turn, now: [_block(first(turn, now)), _block("\n".join(RULES))])
    string = talk(driver(tmp_path / "string"), 10, lambda turn, now: f"{first(turn, now)}\n" + "\n".join(RULES))
    assert all((one.read or 0) > 0.8 * (one.input or 0) for one in usages[2:])
    assert cost(usages) <= 1.05 * cost(string)
    assert blocks.sent["system"][0]["text"] == "[current value 1, at the end of this conversation]"


def test_measured_on_the_block_alone_it_would_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin."""
    monkeypatch.setattr(arrange.MoveBudget, "of", lambda self, text: LEAST_LEFT * len(text.text))
    usages = talk(driver(tmp_path), 6, lambda turn, now: [_block(_clock(turn, now)), _block("\n".join(RULES))])
    assert not any((one.read or 0) > 0.5 * (one.input or 0) for one in usages)


def test_of_all_that_the_operator_says_half_stays(tmp_path: Path) -> None:
    """Where the larger block is another one each time, it is no value but what the operator says, and the plan says so
    in the same words with consent and without."""

    def system(turn: int, now: float) -> Any:
        return [_block(prose(900, turn)), _block("Be brief, and polite.")]

    with_consent, without = driver(tmp_path / "with"), Driver(tmp_path / "without", policy=PLAIN)
    for one in (with_consent, without):
        talk(one, 4, system)
        assert all(TOO_MUCH in " ".join(record.reasons) for record in one.records[1:])
        assert not any("consents to moving" in " ".join(record.reasons) for record in one.records[1:])


@pytest.mark.parametrize(
    ("cache", "why"),
    [
        ({"pinned": ("system[0]",)}, "the policy has it pinned"),
        ({}, "is not expected to pay"),
    ],
)
def test_with_consent_a_change_that_is_left_in_place_is_explained(cache: Json, why: str, tmp_path: Path) -> None:
    """A pinned text; one so long and so seldom another one that its place costs less than moving it."""
    one = driver(tmp_path, Policy(strict=True, cache=CachePolicy(move_volatile=True, **cache)))
    long = not cache

    def system(turn: int, now: float) -> Any:
        if long:
            return [_block("\n".join(RULES[:10])), _block(_notes(turn // 4, 200))]
        return [_block(_clock(turn, now)), _block("\n".join(RULES))]

    talk(one, 5, system)
    assert why in " ".join(one.records[4].reasons)
    assert one.records[4].consents == ()


PIECES = st.sampled_from(["clock", "nonce", "count", "memory", "rewritten", "rules", "short"])


def _text(piece: str, turn: int, now: float, seed: int) -> str:
    return {
        "clock": _clock(turn, now),
        "nonce": _nonce(turn + seed, now),
        "count": f"Request {turn} of this session.",
        "memory": "\n".join([*RULES[:20], f"Last seen: {prose(6, turn + seed)}."]),
        "rewritten": prose(200, turn * 7 + seed),
        "rules": "\n".join(RULES[seed : seed + 60]),
        "short": "Be brief.",
    }[piece]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(pieces=st.lists(PIECES, min_size=1, max_size=4), joined=st.booleans())
@example(pieces=["rewritten", "memory"], joined=True)  # what was moved before is left: it changes no place's record
def test_what_the_plan_recommends_is_done_with_consent_or_it_says_why_not(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[str], joined: bool
) -> None:
    """For prompts with volatile pieces in any place, as blocks or as one string. Where the plan recommends to move what
    changes, with consent either something is moved by the next request or the plan says why it stays."""

    def system(turn: int, now: float) -> Any:
        texts = [_text(piece, turn, now, seed) for seed, piece in enumerate(pieces)]
        return "\n".join(texts) if joined else [_block(text) for text in texts]

    folder = tmp_path_factory.mktemp("s")
    plain = Driver(folder / "plain", policy=PLAIN, clock=ManualClock(now=START))
    moving = driver(folder / "moving")
    for one in (plain, moving):
        talk(one, 4, system)
        one.accel.close()
    recommended = [any("consents to moving" in reason for reason in one.reasons) for one in plain.records]
    done = [bool(one.consents) or "it stays where it is" in " ".join(one.reasons) for one in moving.records]
    for turn, wanted in enumerate(recommended):
        if wanted:
            assert any(done[turn : turn + 2]), (pieces, joined, turn, [one.reasons for one in moving.records])


# --- tools ------------------------------------------------------------------------------------------------------------


def test_the_list_of_somebody_else_is_no_reason_to_recommend_freeze_tools(tmp_path: Path) -> None:
    """A reviewer that is told the whole history has instructions and tools of its own: freezing them would cost more.
    The same list with a tool more in front of it is this conversation's, and freezing helps."""
    mine = [tool(name, 100) for name in ("search", "book", "cancel")]
    one = Driver(tmp_path / "own", policy=PLAIN, clock=ManualClock(now=START))
    talk(one, 4, lambda turn, now: "\n".join(RULES), lambda turn: [tool("new", 50), *mine] if turn > 1 else mine)
    assert any("freeze_tools" in reason for reason in one.records[2].reasons)
    other = Driver(tmp_path / "other", policy=PLAIN, clock=ManualClock(now=START))
    talk(
        other,
        4,
        lambda turn, now: "\n".join(RULES) if turn < 3 else "You review. " + prose(700),
        lambda turn: mine if turn < 3 else [tool("search", 100), tool("verdict", 60)],
    )
    assert not any("freeze_tools" in reason for record in other.records for reason in record.reasons)


# --- what a change costs ----------------------------------------------------------------------------------------------


def _notes(version: int, lines: int = 12) -> str:
    draw = random.Random(version)
    return "\n".join(f"Note {i}: {' '.join(draw.choices('abcdefghijkl', k=20))}" for i in range(lines))


def _kept_notes(one: Driver, *, joined: bool) -> list[float]:
    """What four sessions of 20 requests cost, whose notes behind the rules are rewritten every fifth request."""
    rules, costs = "\n".join(RULES * 3), []
    for number in range(4):

        def system(turn: int, now: float, number: int = number) -> Any:
            notes = _notes(100 * number + turn // 5)
            return f"{rules}\n\n{notes}" if joined else [_block(rules), _block(notes)]

        with one.accel.session(f"s{number}", agent="x"):
            costs.append(cost(talk(one, 20, system)))
        one.clock.advance(8000)
    return costs


@pytest.mark.slow
def test_a_change_inside_a_block_costs_all_of_the_block(tmp_path: Path) -> None:
    """With markers the provider reads whole blocks alone. Once the first session has shown what changes, one string
    costs no more than 5 % above two blocks, the rules by themselves; it cost 77 % more."""
    joined = _kept_notes(driver(tmp_path / "joined"), joined=True)
    apart = _kept_notes(driver(tmp_path / "apart"), joined=False)
    for one, other in zip(joined[1:], apart[1:], strict=True):
        assert one <= 1.05 * other


VOCABULARY = "lo mi ra tu ke so an be ci du el fo ga hi ju ka la mo".split()  # noqa: SIM905


@given(seeds=st.lists(st.integers(0, 10_000), min_size=3, max_size=3, unique=True))
def test_a_long_line_that_was_rewritten_is_one_piece(seeds: list[int]) -> None:
    """Its words are drawn anew from few, so some are alike by chance: none of them is taken to stay."""

    def line(seed: int) -> str:
        return " ".join(f"{word}{word}{word}{word}" for word in random.Random(seed).choices(VOCABULARY, k=40))

    texts = [f"Rules first.\n{line(seed)}\nRules last.\n" for seed in seeds]
    template = with_holes(units_of(texts[0]), ())
    for text in texts[1:]:
        template = merged(template, units_of(text))
    assert template.runs == (("Rules first.\n",), ("Rules last.\n",))


def test_words_that_change_in_a_long_line_are_the_piece_and_not_the_line() -> None:
    """The usefulness of it: most of the line stays."""
    line = " ".join(["word"] * 60)
    template = merged(
        with_holes(units_of(f"{line} now 12 then {line}\n"), ()), units_of(f"{line} now 13 then {line}\n")
    )
    assert template.holes == 1
    assert template.stable > 0.9 * 2 * len(line)


def test_taken_word_by_word_chance_would_leave_islands(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin."""
    monkeypatch.setattr(templates, "_not_by_chance", lambda common, units: common)
    with pytest.raises(AssertionError):
        test_a_long_line_that_was_rewritten_is_one_piece()

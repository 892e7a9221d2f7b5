"""What counts as right, as served and as wasted, on runs short enough to count by hand."""

from __future__ import annotations

import random

import pytest

from benchmarks.speculation.calls import Key
from benchmarks.speculation.guesses import Before, Guess
from benchmarks.speculation.paired import Pair, difference
from benchmarks.speculation.resources import by_recency
from benchmarks.speculation.scores import Launch, calibration, counted, one_step
from benchmarks.speculation.served import NEVER, Served, served, threshold
from tests.benchmarks.recorded_desk import guess, run

A: Key = ("get_order", b'{"order":"A"}')
B: Key = ("get_order", b'{"order":"B"}')
WRITE: Key = ("cancel_order", b'{"order":"A"}')


def read(order: str) -> tuple[str, dict[str, str], str]:
    return ("get_order", {"order": order}, "{}")


def expecting(*turns: tuple[Guess, ...]) -> list[Before]:
    return [Before(guesses, tuple(one.key[0] for one in guesses)) for guesses in turns]


def test_a_turn_is_hit_if_any_of_its_calls_is_guessed() -> None:
    """Per call it is one of three; a turn in text is none of this."""
    one = run("t", [("user", "hi"), ("calls", read("A"), read("B"), read("C")), ("text", "done")])
    sums = counted(one, expecting((guess(A),), (guess(B),)))
    assert (sums["top1"], sums["turns"]) == (1, 1)
    assert (sums["call1"], sums["call3"], sums["calls"], sums["read3"], sums["reads"]) == (1, 1, 3, 1, 3)
    assert (sums["tool1"], sums["tool3"]) == (3, 3)


def test_the_third_guess_counts_and_the_fourth_does_not() -> None:
    """Top-3 is three guesses."""
    one = run("t", [("user", "hi"), ("calls", read("A"))])
    others = tuple(guess(("get_order", b'{"order":"%d"}' % i)) for i in range(3))
    assert counted(one, expecting((*others[:2], guess(A))))["top3"] == 1
    assert counted(one, expecting((*others, guess(A))))["top3"] == 0


def test_a_launch_comes_soon_unless_something_is_written_first() -> None:
    """Two turns later it is no hit; behind a write it never was a launch worth making."""
    soon = run("t", [("user", "hi"), ("text", "wait"), ("calls", read("A"))])
    assert list(one_step(soon, expecting((guess(A, 0.4),), ()), 1)) == [Launch(0.4, hit=False, within=True)]
    late = run("t", [("user", "hi"), ("calls", ("cancel_order", {"order": "A"}, "{}")), ("calls", read("A"))])
    assert list(one_step(late, expecting((guess(A, 0.4),), ()), 1)) == [Launch(0.4, hit=False, within=False)]


def test_what_writes_or_was_read_already_is_not_launched() -> None:
    """Nor, where results wait, what stands below the threshold."""
    one = run("t", [("user", "hi"), ("calls", read("A")), ("text", "done")])
    befores = expecting((guess(WRITE, reads=False), guess(B, 0.2)), (guess(A),))
    assert list(one_step(one, befores, 3)) == [Launch(0.2, hit=False, within=False)]
    assert served(one, befores, 0.3) == Served(0, 0, 1)


def test_a_result_waits_until_it_is_asked_for() -> None:
    """Launched once, served once; guessed again while it waits, it is no second launch."""
    one = run("t", [("user", "hi"), ("text", "wait"), ("calls", read("A")), ("calls", read("A"))])
    assert served(one, expecting((guess(A),), (guess(A),), (guess(A),)), 0.5) == Served(1, 1, 2)


def test_a_write_drops_what_waits() -> None:
    """Also one in the same turn, before the read."""
    between = run("t", [("user", "hi"), ("calls", ("cancel_order", {"order": "A"}, "{}")), ("calls", read("A"))])
    assert served(between, expecting((guess(A),), ()), 0.5) == Served(1, 0, 1)
    same = run("t", [("user", "hi"), ("calls", ("cancel_order", {"order": "A"}, "{}"), read("A"))])
    assert served(same, expecting((guess(A),)), 0.5) == Served(1, 0, 1)
    without = run("t", [("user", "hi"), ("calls", read("B"), read("A"))])
    assert served(without, expecting((guess(A),)), 0.5) == Served(1, 1, 2)


def test_the_threshold_serves_most_within_the_limit() -> None:
    """0.9 is right and 0.2 is wrong here: a limit below one wasted launch per hit keeps the latter out."""
    one = run("t", [("user", "hi"), ("calls", read("A"))])
    pairs = [(one, expecting((guess(A, 0.9), guess(B, 0.2)))), (one, expecting((guess(A, 0.1), guess(B, 0.3))))]
    assert 0.3 < threshold(pairs, 0.5) <= 0.9
    assert threshold(pairs, 1.0) <= 0.1
    assert threshold([(one, expecting((guess(B),)))], 5.0) == NEVER


def test_calibration_is_the_distance_of_what_was_said() -> None:
    """Said 0.8 and 0.3, came always and never."""
    one = run("t", [("user", "hi"), ("calls", read("A"))])
    pairs = [(one, expecting((guess(A, 0.8), guess(B, 0.3))))]
    assert calibration(pairs) == (pytest.approx(0.25), 2)
    assert calibration(pairs, 1) == (pytest.approx(0.2), 1)


def test_resources_are_guessed_newest_first() -> None:
    """Those of calls and of texts; a relative path in a result names the absolute one."""
    turns = [("user", "see src/a.py"), ("calls", ("open", {"path": "/w/src/b.py"}, "imports src/c.py"))]
    one = run("t", [*turns, ("text", "done")])
    assert by_recency(one) == (("src/a.py",), ("src/c.py", "/w/src/b.py", "src/a.py"))


def test_an_interval_holds_the_difference_and_is_the_same_again() -> None:
    """Seeded; equal models differ by nothing."""
    random_ = random.Random(1)
    tasks = [Pair(random_.randint(2, 6), random_.randint(0, 4), 8) for _ in range(40)]
    found = difference(tasks)
    assert found == difference(tasks) != difference(tasks, seed=1)
    assert found.low < found.point < found.high
    assert found.low > 0
    assert difference([Pair(2, 2, 4), Pair(1, 1, 4)]) == (0.0, 0.0, 0.0)


def test_few_tasks_prove_little() -> None:
    """The same difference over four times the tasks has half the interval."""
    tasks = [Pair(4, 0, 4), Pair(0, 2, 4), Pair(2, 1, 4)]
    few, many = difference(tasks), difference(tasks * 4)
    assert few.point == many.point
    assert (few.high - few.low) > 1.5 * (many.high - many.low)

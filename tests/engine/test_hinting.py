"""Without consent nothing is moved, and the plan says what the change costs and which consent would mend it."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from agentaccel import CachePolicy, Policy
from agentaccel.testing import ManualClock
from tests.driver import Driver, body, prose, tool, user
from tests.engine.test_arranging import RULES, START, clocked, talk


def driver(tmp_path: Path, cache: CachePolicy | None = None, mode: str = "on") -> Driver:
    policy = Policy(strict=True, cache=cache or CachePolicy(), mode=mode)  # type: ignore[arg-type]  # as given
    return Driver(tmp_path, policy=policy, clock=ManualClock(now=START))


def said(one: Driver, word: str) -> list[list[str]]:
    return [[reason for reason in record.reasons if word in reason] for record in one.records]


def test_a_clock_is_named_on_the_first_request_and_whenever_it_has_changed(tmp_path: Path) -> None:
    """By its shape first, then by comparing the prompt with the one before."""
    one = driver(tmp_path)
    talk(one, 4, clocked)
    first, *later = said(one, "move_volatile")
    assert first[0].startswith("system has a clock with seconds: where it changes, about ")
    assert all(reasons[0].startswith("system changed (clock): about ") for reasons in later)


def long(lines: int) -> Callable[[int, float], str]:
    """So many lines of rules, and a clock behind them."""
    rules = "\n".join(f"Rule {i}: answer case {i:04d} with care, and politely." for i in range(lines))
    return lambda turn, now: f"{rules}\nIt is {datetime.fromtimestamp(now, UTC):%Y-%m-%d %H:%M:%S}."


def test_behind_what_is_compared_a_change_is_at_most_the_rest(tmp_path: Path) -> None:
    """16,384 bytes are compared. Of 18,000 at most a tenth has changed, which may be moved; of 40,000 nobody knows."""
    for lines, word in ((370, "consents to moving"), (800, "all of it is compared")):
        one = driver(tmp_path / str(lines))
        talk(one, 3, long(lines))
        assert len(long(lines)(0, START)) in (19_156, 41_516)
        for said_of in said(one, "system changed (edited text)")[1:]:
            assert word in said_of[0]


def test_an_observing_team_is_told_the_same(tmp_path: Path) -> None:
    """That is what one week of observing is for."""
    one = driver(tmp_path, mode="observe")
    talk(one, 2, clocked)
    assert all(said(one, "move_volatile"))


def test_another_tool_order_is_named(tmp_path: Path) -> None:
    one = driver(tmp_path)
    tools = [tool(name, 100) for name in ("search", "book", "cancel", "notify")]
    talk(one, 3, lambda turn, now: "\n".join(RULES), lambda turn: random.Random(turn).sample(tools, 4))
    assert said(one, "freeze_tools")[-1][0].startswith("reordered tools in tools: about ")


def test_what_does_not_change_is_not_talked_about(tmp_path: Path) -> None:
    """Precision before recall: an alarm that cries wolf is switched off."""
    one = driver(tmp_path)
    talk(one, 4, lambda turn, now: "\n".join([*RULES, "Today is 2026-11-18. An example: 2020-01-01 12:00:00."]))
    one.ask(body(user(prose(60)), system="\n".join(RULES)))
    assert not any(said(one, "consents to"))

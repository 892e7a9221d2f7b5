"""The control group beside the rest: right on average, an interval that covers, plain words where it cannot tell."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from agentaccel.records import TurnRecord
from agentaccel.report import render_text, report
from agentaccel.report.control import LEAST_SESSIONS, Spent, control, student
from agentaccel.report.figures import Control
from agentaccel.types import Usage

MODEL = "claude-sonnet-4-5"
PRICES = {MODEL: {"input": 10.0, "output": 50.0, "read": 1.0, "write": {"5m": 12.5, "1h": 20.0}}}


def spent(count: int, rate: float, chance: random.Random) -> list[Spent]:
    """Sessions of very different lengths, each at its own price around `rate` USD per million tokens."""
    found = []
    for _ in range(count):
        tokens = round(chance.lognormvariate(10, 0.8))
        found.append(Spent(tokens * chance.gauss(rate, 0.25 * rate) / 1e6, tokens))
    return found


def drawn(seed: int, ours: float, theirs: float, sizes: tuple[int, int] = (190, 30)) -> Control:
    chance = random.Random(seed)
    found = control(spent(sizes[0], ours, chance), spent(sizes[1], theirs, chance))
    assert found is not None
    return found


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def test_the_measured_saving_is_right_on_average() -> None:
    """Groups that cost 2 and 3 USD a million: 0.001 for each 1,000 tokens, within three standard errors."""
    values = [drawn(seed, 2.0, 3.0).saved for seed in range(200)]
    spread = mean([(value - mean(values)) ** 2 for value in values]) ** 0.5
    assert abs(mean(values) - 0.001) < 3 * spread / len(values) ** 0.5


@pytest.mark.parametrize(("draws", "least"), [(200, 0.90), pytest.param(600, 0.92, marks=pytest.mark.soak)])
@pytest.mark.parametrize("sizes", [(190, 30), (40, 12)])
def test_the_interval_covers_about_as_often_as_it_says(sizes: tuple[int, int], draws: int, least: float) -> None:
    """Nominally 95 of 100; small groups of skewed sessions a little less."""
    found = [drawn(seed, 2.0, 3.0, sizes) for seed in range(draws)]
    covered = mean([one.low is not None and one.high is not None and one.low <= 0.001 <= one.high for one in found])
    assert least <= covered <= 0.99


@pytest.mark.parametrize("draws", [200, pytest.param(600, marks=pytest.mark.soak)])
def test_two_groups_alike_show_no_saving(draws: int) -> None:
    """A/A: the interval leaves zero out about as seldom as it may."""
    found = [drawn(seed, 2.0, 2.0) for seed in range(draws)]
    claimed = mean([one.low is not None and one.high is not None and not one.low <= 0 <= one.high for one in found])
    assert claimed <= 0.08


def test_a_real_saving_is_seen() -> None:
    """The usefulness floor: an interval that always held zero would pass the tests above."""
    found = [drawn(seed, 1.0, 3.0) for seed in range(50)]
    assert all(one.low is not None and one.low > 0 for one in found)


def test_students_t_is_that_of_the_tables() -> None:
    for freedom, value in ((9, 2.262), (15, 2.131), (30, 2.042), (120, 1.980)):
        assert student(0.95, freedom) == pytest.approx(value, abs=2e-3)


def turn(session: str, mode: str, usd: float) -> TurnRecord:
    """A request of 1,000 tokens; at 10 USD a million it costs 0.01 without a cache."""
    read = round((0.01 - usd) / 9e-6)
    return TurnRecord(
        session=session,
        provider="anthropic",
        model=MODEL,
        started=1_770_000_000.0,
        usage=Usage(input=1_000, read=read, write={}),
        as_written=Usage(input=1_000, read=0, write={}) if mode == "on" else None,
        mode=mode,
    )


def turns(on: int, holdout: int) -> list[TurnRecord]:
    chance = random.Random(1)
    ours = [turn(f"on {n}", "on", chance.uniform(0.004, 0.006)) for n in range(on)]
    return [*ours, *(turn(f"held {n}", "holdout", chance.uniform(0.008, 0.01)) for n in range(holdout))]


def shown(on: int, holdout: int) -> str:
    return " ".join(render_text(report(turns(on, holdout), prices=PRICES)).split())


def test_the_report_sets_the_control_group_beside_the_rest() -> None:
    text = shown(40, 12)
    assert "That is modelled. What a control group of 12 sessions measured is below." in text
    assert "with 95 % confidence" in text
    assert "Modelled" not in text
    found = report(turns(40, 12), prices=PRICES).total.control
    assert found is not None
    assert (found.sessions, found.others) == (12, 40)
    assert found.low is not None
    assert found.high is not None
    assert 0.003 < found.low < found.saved < found.high < 0.005


def test_a_small_control_group_is_called_too_small() -> None:
    text = shown(40, LEAST_SESSIONS - 1)
    assert "Modelled: the control group below is too small." in text
    assert f"Too small to tell: it takes {LEAST_SESSIONS} sessions" in text
    assert "confidence" not in text


def test_without_a_control_group_savings_are_called_modelled() -> None:
    assert "Modelled: no control group; set Policy(holdout=0.05)." in shown(40, 0)


def test_where_nothing_was_done_nothing_is_called_saved() -> None:
    records = [turn(f"s {n}", "observe", 0.01) for n in range(20)]
    text = render_text(report(records, prices=PRICES))
    assert "odelled" not in text
    assert "control group" not in text


def test_a_session_that_only_paid_is_one_of_those_that_agentaccel_acted_on() -> None:
    """As where something was written ahead and never asked for."""
    asked, ahead, left = Spent(0.002, 1_000), Spent(0.003, 0), Spent(0.002, 1_000)
    found = control([asked, ahead], [left])
    assert found is not None
    assert (found.others, found.usd_others, found.saved) == (2, pytest.approx(0.005), pytest.approx(-0.003))
    assert control([ahead], [left]) is None, "nothing was sent that could be compared"

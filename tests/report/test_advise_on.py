"""Advice where agentaccel planned, and where nothing is marked: there, replaying what was sent says too little."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agentaccel.demo import run as demo
from agentaccel.policy import CachePolicy, Mode, Policy
from agentaccel.report.advise import choose as case
from agentaccel.report.advise.choose import advise, case_of
from agentaccel.report.advise.money import prices_for
from agentaccel.report.advise.nouns import Advice, RecordedSession
from agentaccel.report.advise.reading import talks_of_store
from agentaccel.store.store import open_reader
from benchmarks.advice import WITHIN, found
from benchmarks.situations.amounts import Amount, Even
from benchmarks.workloads import Workload, bundled, drive
from benchmarks.workloads import sessions as drive_sessions
from tests.report.talks import NONE, growing, piece, renamed, talk, varied

pytestmark = pytest.mark.many(4)

WORKLOADS = bundled()
HEALTHY = [one for one in WORKLOADS if one.fault is None]
MENDED_BY_US = ("cache off", "turn beyond the lookback")
LEFT = [one for one in WORKLOADS if one.fault is not None and one.fault.kind not in MENDED_BY_US]
HIDDEN = [one for one in WORKLOADS if one.fault is not None and one.fault.kind in MENDED_BY_US]
VOLATILE, ORDER = "clock in system", "shuffled tools"


def named(workload: Workload) -> str:
    return workload.name


def talks_in(store: Path) -> list[RecordedSession]:
    with open_reader(store) as reader:
        return talks_of_store(reader)


# --- the demo ---------------------------------------------------------------------------------------------------------


def shown(store: Path) -> tuple[Mapping[str, demo.FormResult], Sequence[Advice]]:
    """What the forms of the demo cost, and what is advised on the costs of the store that it leaves."""
    results = {one.form.name: one for one in demo.run_demo(store)}
    return results, [one for one in advise(talks_in(store)) if one.unit == "USD"]


def test_the_demo_without_markers_is_told_of_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither alone saves anything: the cache that is off comes first, and each has its part."""
    monkeypatch.setattr(demo, "Policy", partial(Policy, mode="observe"))
    monkeypatch.setattr(demo, "FORMS", [one for one in demo.FORMS if one.name in (VOLATILE, ORDER, "plain loop")])
    results, said = shown(tmp_path / "demo.db")
    automatic = results["plain loop"].runs["automatic"].cost
    for name, kind in ((VOLATILE, "volatile text early"), (ORDER, "tool order")):
        own = [one for one in said if one.workload == f"support desk, {name}"]
        assert [one.kind for one in own] == ["cache off", kind]
        saved = results[name].runs["no caching"].cost - automatic
        assert sum(one.saving for one in own) == pytest.approx(saved, rel=WITHIN)
        assert own[0].saving == own[1].saving
    (plain,) = [one for one in said if one.workload == "support desk, plain loop"]
    assert plain.kind == "cache off"


@pytest.mark.many(1)
def test_three_faults_that_hide_each_other_are_all_named() -> None:
    """No marker, another tool order and another system prompt in every request: two of them mended save nothing."""
    orders = ("abc", "cab", "bca", "acb", "cba", "bac")
    prompts = [
        [*(piece(f"T{name}", 800) for name in order), piece(f"S clock {order}", 300), *prompt]
        for order, prompt in zip(orders, growing(6, piece("S", 9_000)), strict=True)
    ]
    said = advise([renamed(talk(prompts, NONE))])
    assert {one.kind for one in said} == {"cache off", "volatile text early", "tool order"}
    assert len({one.saving for one in said}) == 1


CLOCK = next(one for one in WORKLOADS if one.fault is not None and one.fault.kind == "volatile text early")


# --- workloads with agentaccel on -------------------------------------------------------------------------------------


@pytest.mark.soak
@pytest.mark.parametrize("workload", LEFT, ids=named)
def test_what_agentaccel_cannot_mend_is_named_first(workload: Workload, tmp_path: Path) -> None:
    """The true saving is what the emulator bills with the fault and without, agentaccel on both times."""
    assert found(workload, tmp_path, mode="on").wrong() == []


@pytest.mark.soak
@pytest.mark.parametrize("workload", LEFT, ids=named)
def test_other_sizes_models_and_seeds_change_nothing(workload: Workload, tmp_path: Path) -> None:
    result = found(varied(workload, 1), tmp_path, mode="on")
    assert [one for one in result.wrong() if "is worth" not in one and result.saved >= 0.1 * result.whole] == []


@pytest.mark.slow
def test_another_lifetime_that_pays_with_what_agentaccel_plans_on_top_is_advised_at_its_true_worth(
    tmp_path: Path,
) -> None:
    """Sessions 15 minutes apart that begin alike, with markers of the user's own. The saving is what the emulator bills
    for these sessions with markers of five minutes and of an hour, agentaccel on both times."""
    workload = varied(next(one for one in LEFT if one.name == "slow search"), 1)
    (told,) = [one for one in found(workload, tmp_path, mode="on").advice if one.unit == "USD"]
    assert (told.kind, told.todo) == ("wrong TTL", "Give the markers the lifetime 1h.")
    assert told.saving == pytest.approx(worth(told, workload, tmp_path))


OTHER_MARKERS: Mapping[str, Mapping[str, Any]] = {"wrong TTL": {"ttl": "1h"}, "markers in vain": {"at": ()}}
"""What the user's own markers are once advice of a kind was followed."""


def worth(told: Advice, workload: Workload, folder: Path) -> float:
    """What the emulator bills less once advice on markers was followed, agentaccel on both times."""

    def bill(**markers: Any) -> float:
        situation = replace(workload.situation, markers=replace(workload.situation.markers, **markers))
        sent = drive_sessions(replace(workload, situation=situation), mended=False)
        return drive.record(situation, sent, folder / f"{len(list(folder.iterdir()))}.db", "on")

    return bill() - bill(**OTHER_MARKERS[told.kind])


@pytest.mark.parametrize("workload", HIDDEN, ids=named)
def test_what_agentaccel_mends_is_not_named(workload: Workload, tmp_path: Path) -> None:
    assert found(workload, tmp_path, mode="on").advice == ()


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 8))])
@pytest.mark.parametrize("workload", HEALTHY, ids=named)
def test_healthy_workloads_hear_nothing_but_the_truth(workload: Workload, seed: int, tmp_path: Path) -> None:
    """Other markers of the user's own may have been cheaper with what agentaccel plans on top: at most one such advice,
    at its true worth."""
    workload = varied(workload, seed)
    advice = found(workload, tmp_path, mode="on").advice
    assert len(advice) <= 1
    for told in advice:
        assert told.saving == pytest.approx(worth(told, workload, tmp_path), rel=WITHIN)


LONG = [0.0, 200.0, 500.0, 1_500.0, Even(low=300, high=1_500)]


@pytest.mark.soak
@pytest.mark.parametrize("mode", [pytest.param("observe", marks=pytest.mark.soak), "on"])
@pytest.mark.parametrize("place", ["system", "first"])
@pytest.mark.parametrize("tokens", LONG, ids=str)
def test_of_a_block_only_what_changes_is_moved(tokens: Amount, place: str, mode: Mode, tmp_path: Path) -> None:
    """Text that was looked up stands inside the instructions or the question, of one length or of any."""
    assert CLOCK.fault is not None
    fault = replace(CLOCK.fault, tokens=tokens, inside=True, place=place)
    assert found(replace(CLOCK, fault=fault), tmp_path, mode=mode).wrong() == []


# --- how a workload is replayed ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("ttl", [pytest.param("auto", marks=pytest.mark.soak), "5m", "1h"])
def test_the_policy_that_was_recorded_is_the_one_that_plans_anew(
    ttl: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drive, "Policy", partial(Policy, cache=CachePolicy(ttl=ttl)))  # type: ignore[arg-type]
    assert found(CLOCK, tmp_path, mode="on").wrong() == []


@pytest.mark.soak
def test_where_planning_anew_misses_the_bill_what_was_sent_is_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found(CLOCK, tmp_path, mode="on")
    talks = talks_in(tmp_path / "trace.db")
    prices = prices_for(talks, None)
    assert case_of(talks, prices).planned == "auto"
    monkeypatch.setattr(case, "REPRODUCED", -1.0)
    sent = case_of(talks, prices)
    assert sent.planned == ""
    assert sent.error == pytest.approx(0.0, abs=0.02 * sent.cost)


def test_a_control_group_is_replayed_as_it_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the sessions are held out: the bill of both halves is met."""
    monkeypatch.setattr(drive, "Policy", partial(Policy, holdout=0.5))
    workload = replace(CLOCK, situation=replace(CLOCK.situation, sessions=8))
    assert found(workload, tmp_path, mode="on").rank == 1
    talks = talks_in(tmp_path / "trace.db")
    assert {one.turn.mode for talk in talks for one in talk.requests} == {"on", "holdout"}
    both = case_of(talks, prices_for(talks, None))
    assert both.planned == "auto"
    assert both.error is not None
    assert both.error < 0.01 * both.cost

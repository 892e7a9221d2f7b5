"""What `report --advise` says: the planted fault first, its saving, and nothing where there is nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agentaccel.report.advise import choose
from agentaccel.report.advise.choose import LEAST_SHARE, REMEDIES, Remedy, advise
from agentaccel.report.advise.nouns import Advice, Mended, RecordedSession, Talks
from agentaccel.types import Usage
from benchmarks.advice import found
from benchmarks.workloads import Workload, bundled
from tests.report.talks import AUTOMATIC, NONE, growing, piece, talk, varied

pytestmark = pytest.mark.many(2)

WORKLOADS = bundled()
FAULTY = [one for one in WORKLOADS if one.fault is not None]

MENDED_BY: dict[str, Remedy] = dict(
    zip(
        (
            "cache off",
            "volatile text early",
            "prompt below the minimum",
            "wrong TTL",
            "summaries",
            "tool order",
            "model switch",
            "turn beyond the lookback",
            "markers in vain",
        ),
        REMEDIES,
        strict=True,
    )
)


def named(workload: Workload) -> str:
    return workload.name


def test_there_are_ten_faults_and_two_healthy_workloads() -> None:
    assert len({one.fault.kind for one in FAULTY if one.fault is not None}) == len(FAULTY) == 10
    assert len(WORKLOADS) - len(FAULTY) == 2


@pytest.mark.many(8)
@pytest.mark.parametrize("workload", WORKLOADS, ids=named)
def test_the_planted_fault_is_named_first_with_its_saving(workload: Workload, tmp_path: Path) -> None:
    """Must show 4; the true saving is billed by the emulator, which shares no code with the replay."""
    assert found(workload, tmp_path).wrong() == []


@pytest.mark.slow
@pytest.mark.many(16)
@pytest.mark.parametrize("workload", FAULTY, ids=named)
def test_without_its_remedy_a_fault_is_not_found(
    workload: Workload, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin: each workload needs the remedy that it was written for."""
    assert workload.fault is not None
    if workload.fault.unit == "seconds":
        monkeypatch.setattr(choose, "seconds", lambda *ignored: iter(()))
    others = [one for one in REMEDIES if one is not MENDED_BY.get(workload.fault.kind)]
    assert found(workload, tmp_path, others).wrong()


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("workload", WORKLOADS, ids=named)
def test_other_sizes_models_and_seeds_change_nothing(workload: Workload, seed: int, tmp_path: Path) -> None:
    """Nothing was fitted to the bundled files. A variation whose fault is worth too little shows nothing either way."""
    result = found(varied(workload, seed), tmp_path)
    assert [one for one in result.wrong() if "is worth" not in one and result.saved >= 0.1 * result.whole] == []


def test_the_rules_are_those_of_the_platform(tmp_path: Path) -> None:
    """On Bedrock every call of a run is a position: a turn of parallel calls is beyond the lookback there only."""
    (workload,) = [one for one in FAULTY if one.fault is not None and one.fault.kind == "turn beyond the lookback"]
    turn = replace(workload.situation.turn, calls=26.0, paired=False)
    situation = replace(workload.situation, platform="bedrock", model="claude-sonnet-4-5", turn=turn)
    assert found(replace(workload, situation=situation), tmp_path).wrong() == []


# --- what is said, and what is not ------------------------------------------------------------------------------------


def shaved(kind: str, share: float) -> Remedy:
    """A remedy that takes a share off the first prompt's only piece."""

    def remedy(talks: Talks) -> Iterator[Mended]:
        (only,) = talks
        (request,) = only.requests
        step = request.step
        less = replace(request, step=replace(step, tokens=tuple(round(n * (1 - share)) for n in step.tokens)))
        yield Mended(kind=kind, where="", todo="Do.", talks=(replace(only, requests=(less,)),))

    return remedy


def one_question() -> RecordedSession:
    return talk([[piece("U", 100_000)]], NONE, output=0)


def test_nothing_below_two_percent_is_said() -> None:
    assert advise([one_question()], remedies=[shaved("little", 0.9 * LEAST_SHARE)]) == ()
    (said,) = advise([one_question()], remedies=[shaved("enough", 1.1 * LEAST_SHARE)])
    assert said.share == pytest.approx(1.1 * LEAST_SHARE, rel=1e-3)


def test_nothing_below_its_own_error_is_said() -> None:
    """A bill that the replay misses by a tenth lets nothing smaller be said."""
    asked = one_question()
    (request,) = asked.requests
    step = replace(request.step, recorded=Usage(input=110_000, read=0, write={}))
    missed = replace(asked, requests=(replace(request, step=step),))
    assert advise([missed], remedies=[shaved("less", 0.08)]) == ()
    (said,) = advise([missed], remedies=[shaved("more", 0.2)])
    assert said.error == pytest.approx(said.saving / 2, rel=1e-3)


def test_advice_comes_on_top_of_the_advice_before_it() -> None:
    """Two remedies for one cause do not promise the same saving twice."""
    first, second = advise([one_question()], remedies=[shaved("half", 0.5), shaved("fifth", 0.2)])
    assert (first.kind, second.kind) == ("half", "fifth")
    assert second.saving == pytest.approx(0.2 * first.saving, rel=1e-3)


def test_a_ceiling_comes_after_what_is_computed() -> None:
    """However much time tools take."""
    slow = talk(growing(6, piece("S", 5_000)), NONE, gap=40.0, tools=[(40.0 * n + 2, 40.0 * n + 39) for n in range(6)])
    said = advise([slow])
    assert [one.kind for one in said] == ["cache off", "slow tools"]
    assert [one.sure for one in said] == ["computed", "at most"]


def _unpriced(one: RecordedSession) -> RecordedSession:
    return replace(one, requests=tuple(replace(request, priced_as="nobody-knows-me") for request in one.requests))


def of_agent(agent: str, tokens: int) -> RecordedSession:
    """A session of an agent of its own, of one question, which is not cached and has no price: it costs its tokens."""
    return _unpriced(replace(talk([[piece(f"U {agent}", tokens)]], NONE, id=agent, output=0), workload=agent))


def for_one(agent: str, share: float) -> Remedy:
    """A remedy that only this agent needs."""
    mend = shaved(f"of {agent}", share)
    return lambda talks: mend(talks) if talks[0].workload == agent else iter(())


THREE = [of_agent("c", 500_000), of_agent("b", 100_000), of_agent("a", 400_000)]
OF_THREE = [for_one("c", 0.06), for_one("b", 0.5), for_one("a", 0.15)]


def test_what_saves_most_comes_first() -> None:
    """By what is saved, not by the order of the records nor by the share of an agent's own bill: of 1,000,000 tokens
    in all, a saves 15 % of 400,000, b half of 100,000, and c 6 % of 500,000."""
    said = advise(THREE, remedies=OF_THREE)
    assert [(one.kind, one.unit, round(one.saving)) for one in said] == [
        ("of a", "tokens", 60_000),
        ("of b", "tokens", 50_000),
        ("of c", "tokens", 30_000),
    ]
    assert [one.share for one in said] == pytest.approx([0.06, 0.05, 0.03])


def test_without_the_rank_advice_is_in_the_order_of_the_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: what sorts is what puts a first."""
    monkeypatch.setattr(choose, "rank", lambda one: 0)
    assert [one.kind for one in advise(THREE, remedies=OF_THREE)] == ["of c", "of b", "of a"]


def test_how_far_it_is_is_told_up_to_the_number_of_changes_that_there_may_be() -> None:
    """Three agents and three remedies: each by itself and in pairs are six changes for each agent."""
    told: list[tuple[int, int]] = []
    advise(THREE, remedies=OF_THREE, tell=lambda done, total: told.append((done, total)))
    assert told == sorted(told)
    assert {total for _, total in told} == {18}
    assert 12 < told[-1][0] <= 18


def test_without_a_price_savings_are_in_tokens() -> None:
    (said,) = [one for one in advise([_unpriced(talk(growing(8, piece("S", 5_000)), NONE))]) if one.kind == "cache off"]
    assert said.unit == "tokens"
    assert said.saving > 10_000


def test_a_model_that_the_facts_do_not_know_gets_no_advice_on_its_cache() -> None:
    unlisted = replace(talk(growing(8, piece("S", 5_000)), NONE), listed=False)
    assert advise([unlisted]) == ()


def test_nothing_recorded_is_nothing_to_say() -> None:
    assert advise([]) == ()
    assert advise([RecordedSession(id="s", workload="w", requests=())]) == ()


def test_a_healthy_session_gets_no_advice() -> None:
    assert advise([talk(growing(10, piece("T", 2_000), piece("S", 3_000)), AUTOMATIC)]) == ()


def kinds(said: tuple[Advice, ...]) -> list[str]:
    return [one.kind for one in said]


def test_sessions_that_agentaccel_decides_for_are_not_called_off() -> None:
    """In mode on, no marker is a decision; in holdout, it is the control."""
    for mode in ("on", "holdout"):
        assert advise([talk(growing(8, piece("S", 5_000)), NONE, mode=mode)]) == ()

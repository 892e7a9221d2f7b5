"""A replay is the product in front of the provider: to the token, on scripts that both can run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentaccel.cache.breakpoints import marks_of
from agentaccel.cache.ledger import Breakpoint
from agentaccel.cache.planner import Decided
from agentaccel.cache.prefix import turn_of
from agentaccel.engine import engine, settlement
from agentaccel.records import TurnRecord
from agentaccel.replay import simulate as replayed
from agentaccel.replay.compare import cost_of
from agentaccel.replay.placements import PLACEMENTS, as_recorded
from agentaccel.replay.runs import Run, Step
from agentaccel.replay.simulate import Simulated, accelerate, in_order, simulate
from agentaccel.types import CachePlan, Usage
from tests.replay.live import SCRIPTS, SYSTEM, TOOLS, Ask, counts, facts, growing, live, placed, runs_of, step_of

pytestmark = pytest.mark.many(3)


def by_session(simulated: Simulated, names: list[str]) -> dict[str, list[Usage]]:
    return {name: counts(usages) for name, usages in zip(names, simulated.usages, strict=True)}


@pytest.mark.parametrize("script", SCRIPTS)
def test_accelerated_runs_are_billed_as_the_live_product_is(script: str, tmp_path: Path) -> None:
    """`Accel.turn` in front of the emulator against `accelerate`: the same usage, request by request."""
    asks = SCRIPTS[script]()
    started, usages = live(asks, tmp_path)
    runs = runs_of(asks, started)
    found = by_session(accelerate(runs), [run.id for run in runs])
    assert found == {name: counts(of) for name, of in usages.items()}
    assert any(usage.read for of in usages.values() for usage in of) or script == "one_shots"


@pytest.mark.many(6)
@pytest.mark.parametrize("policy", PLACEMENTS)
@pytest.mark.parametrize("script", SCRIPTS)
def test_fixed_policies_are_billed_as_by_the_emulator(script: str, policy: str, tmp_path: Path) -> None:
    """The emulator shares no code with the replay's provider."""
    asks = SCRIPTS[script]()
    started, usages = placed(asks, PLACEMENTS[policy], tmp_path)
    runs = runs_of(asks, started)
    assert by_session(simulate(runs, PLACEMENTS[policy]), [run.id for run in runs]) == {
        name: counts(of) for name, of in usages.items()
    }


def test_a_marker_before_the_place_that_is_read_writes_nothing(tmp_path: Path) -> None:
    """So who needs the entry there finds none: the emulator again."""

    def late(step: Step) -> tuple[Breakpoint, ...]:
        return PLACEMENTS["tools+system+tail 5m" if turn_of(step.prefix.prompt) else "tail"](step)

    asks = SCRIPTS["sessions_of_one_workload"]()
    started, usages = placed(asks, late, tmp_path)
    runs = runs_of(asks, started)
    simulated = simulate(runs, late)
    assert by_session(simulated, [run.id for run in runs]) == {name: counts(of) for name, of in usages.items()}
    assert not simulated.usages[1][0].read


def test_requests_that_overlap_cannot_read_one_another(tmp_path: Path) -> None:
    """What a request writes can be read once its reply has begun, and the first reply makes it so."""
    request = growing(1, system="Be brief. " * 900)[0]
    starts = [0.0, 0.5, 1.2]
    runs = runs_of([Ask(str(i), request) for i in range(3)], starts)
    usages = [one for (one,) in simulate(runs, PLACEMENTS["tail"]).usages]
    assert [bool(usage.read) for usage in usages] == [False, False, True]


def test_an_old_entry_is_remembered_however_many_came_after_it() -> None:
    """The provider has no bound on entries, unlike a session's ledger."""
    asks = [Ask("a", one) for one in growing(70, system="Be brief. " * 900)]
    asks.append(Ask("b", {**asks[0].request}))
    runs = runs_of(asks, [2.0 * i for i in range(len(asks))])
    simulated = simulate(runs, PLACEMENTS["automatic"])
    assert simulated.usages[1][0].read == simulated.usages[1][0].input


def test_the_policy_as_recorded_sends_the_markers_of_the_step() -> None:
    """Whatever they were."""
    asks = SCRIPTS["own_markers"]()
    runs = runs_of(asks, [10.0 * i for i in range(len(asks))])
    simulated = simulate(runs, as_recorded)
    assert simulated.marks == tuple(tuple(step.marks for step in run.steps) for run in runs)
    assert all(marks for run in simulated.marks for marks in run)


def test_a_cost_counts_reads_and_writes_at_their_multiples() -> None:
    """In uncached input tokens."""
    usage = Usage(input=1000, read=500, write={"5m": 100, "1h": 200})
    assert cost_of(usage, facts()) == pytest.approx(200 + 500 * 0.1 + 100 * 1.25 + 200 * 2)
    with pytest.raises(ValueError, match="report"):
        cost_of(Usage(input=1000), facts())


@given(data=st.data())
def test_bills_add_up_and_markers_are_legal(data: st.DataObject) -> None:
    """Whatever the times and policies: every token is read, written or neither, and no request is refused."""
    script = data.draw(st.sampled_from(sorted(SCRIPTS)))
    asks = SCRIPTS[script]()
    gaps = data.draw(st.lists(st.floats(0.0, 5000.0), min_size=len(asks), max_size=len(asks)))
    runs = runs_of(asks, [sum(gaps[: i + 1]) for i in range(len(gaps))])
    policy = data.draw(st.sampled_from([*PLACEMENTS, None]))
    simulated = accelerate(runs) if policy is None else simulate(runs, PLACEMENTS[policy])
    for run, usages, marked in zip(runs, simulated.usages, simulated.marks, strict=True):
        for step, usage, marks in zip(run.steps, usages, marked, strict=True):
            assert usage.input == step.total
            assert usage.uncached is not None
            assert usage.uncached >= 0
            places = [mark.at for mark in marks]
            assert places == sorted(set(places))
            assert len(places) <= facts().max_markers
            assert all(step.prefix.prompt.segments[at].markable for at in places)
            seconds = [ttl.seconds for mark in marks for ttl in facts().ttls if ttl.label == mark.ttl]
            assert seconds == sorted(seconds, reverse=True)


def test_requests_are_served_in_the_order_of_their_times_and_of_their_runs() -> None:
    """A run whose clock went back keeps its order."""
    request = growing(1)[0]
    asks = [Ask("a", request), Ask("a", request), Ask("b", request), Ask("b", request)]
    assert list(in_order(runs_of(asks, [0.0, 20.0, 10.0, 5.0]))) == [(0, 0), (1, 0), (1, 1), (0, 1)]
    assert step_of(request, 0.0).total > 0


def test_what_the_engine_decides_is_what_a_replay_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no second copy of it: an engine that decides nothing leaves every request as it was written."""
    asks = SCRIPTS["own_markers"]()
    runs = runs_of(asks, [10.0 * i for i in range(len(asks))])
    written = tuple(tuple(step.marks for step in run.steps) for run in runs)
    assert accelerate(runs).marks != written
    monkeypatch.setattr(engine, "decide", lambda *given, **how: Decided(CachePlan()))
    assert accelerate(runs).marks == written


@pytest.mark.parametrize("guarded", [True, False])
def test_markers_that_were_tried_on_a_request_count_as_its_own(guarded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A remedy gives a request markers that its prompt has not: four of them leave no room for any of ours, because a
    request may have four. The twin goes by the prompt alone."""
    if not guarded:
        monkeypatch.setattr(replayed, "marks_of", lambda prefix, markers: marks_of(prefix, markers) or FOUR)
    steps = [step_of(one, 10.0 * i) for i, one in enumerate(growing(3, system=SYSTEM, tools=TOOLS))]
    tried = [replace(step, marks=FOUR) for step in steps]
    assert [len(step.prefix.prompt.markers) for step in tried] == [0, 0, 0]
    runs = [Run(id="a", workload="job", steps=tuple(tried))]
    assert (accelerate(runs).marks == ((FOUR, FOUR, FOUR),)) == guarded


FOUR = tuple(Breakpoint(at, "5m") for at in range(4))


def test_a_pause_is_for_the_tool_that_the_record_names() -> None:
    """As live: of two pauses for a tool, one was for each."""
    steps = [step_of(one, 10.0 * i) for i, one in enumerate(growing(3, system=SYSTEM, tools=TOOLS))]
    called = [replace(RECORD, calls=(name, "other")) for name in ("search", "book", "cancel")]
    steps = [replace(step, turn=turn) for step, turn in zip(steps, called, strict=True)]
    counts = accelerate([Run(id="a", workload="job", steps=tuple(steps))]).learned["job"].counts
    seen = {topic: counts[topic] for topic in counts if topic.startswith("pause/tool")}
    assert seen == {"pause/tool/60": (2, 2), "pause/tool:search/60": (1, 1), "pause/tool:book/60": (1, 1)}


RECORD = TurnRecord(session="a", provider="anthropic", model="claude-sonnet-5", started=0.0)


@pytest.mark.parametrize("guarded", [True, False])
def test_a_tool_whose_name_is_not_known_is_no_tool_without_a_name(
    guarded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where prompts are rebuilt from usage, a pause is for a tool and for no certain one; counted once. The twin counts
    the tool whose name is empty."""
    if not guarded:
        monkeypatch.setattr(settlement, "_awaited", lambda calls: f"tool:{calls[0].name}" if calls else "user")
    steps = [replace(step, awaits="tool") for step in [step_of(one, 10.0 * i) for i, one in enumerate(growing(3))]]
    counts = accelerate([Run(id="a", workload="job", steps=tuple(steps))]).learned["job"].counts
    seen = {topic: counts[topic] for topic in counts if topic.startswith("pause/tool")}
    assert (seen == {"pause/tool/60": (2, 2)}) == guarded

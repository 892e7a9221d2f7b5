"""The benchmark of situations: what it measures is legal and as its file says, its bounds are bounds, its bars bite."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from agentaccel.cache import lifetime as keep
from agentaccel.cache import own_requests as warm
from agentaccel.replay.compare import cost_of
from agentaccel.replay.hindsight import best
from agentaccel.replay.runs import Step
from agentaccel.replay.simulate import accelerate
from agentaccel_emulator import Emulator, HttpRequest
from benchmarks.__main__ import main
from benchmarks.situations import Exchange, Situation, requests, runs
from benchmarks.situations.amounts import Even, Geometric
from benchmarks.situations.bars import Kind, allowance, draws, kind_of, missed, shows_all
from benchmarks.situations.bound import floor
from benchmarks.situations.changes import asked_for
from benchmarks.situations.form import Prompts, Times, Turns, Volatile, grid
from benchmarks.situations.grid import cell
from benchmarks.situations.live import Live
from benchmarks.situations.sessions import steps_of

APART = Times(between=20_000)
SMALL = Prompts(tools=900, tool_count=3, system=700, first=200, shared=False)
HEADERS = {"x-api-key": "k", "anthropic-version": "2023-06-01"}

MOVED = [
    Situation(name="clock", consents=("move_volatile",), volatile=Volatile(clock="start"), prompts=SMALL, times=APART),
    Situation(name="tool", consents=("move_volatile",), volatile=Volatile(clock="tool"), prompts=SMALL, times=APART),
    Situation(
        name="memory", consents=("move_volatile",), prompts=SMALL, times=APART,
        volatile=Volatile(memory=120, memory_every=2),
    ),
    Situation(name="removed", consents=("freeze_tools",), volatile=Volatile(tools_removed=(2,)), prompts=SMALL),
    Situation(name="shuffled", consents=("freeze_tools",), volatile=Volatile(shuffled_tools=True), prompts=SMALL),
]  # fmt: skip


def test_the_bundled_file_has_what_was_asked_for() -> None:
    """Fifteen situations and more, of every kind, with every consent there is."""
    everything = grid()
    assert len(everything) >= 15
    assert {kind_of(one) for one in everything} == {"steady", "scheduled", "random", "wild"}
    assert {consent for one in everything for consent in one.consents} == {
        "move_volatile",
        "freeze_tools",
        "keep_alive",
    }
    assert {length for one in everything for length in one.lengths} == {1, 3, 8, 30, 150}
    assert len({one.facts().min_tokens for one in everything}) >= 3
    assert any(one.fan_out > 1 for one in everything)


@pytest.mark.slow
def test_what_it_sends_is_legal() -> None:
    """First and last request of a session, with what its file asks for."""
    for one in grid():
        session = requests(replace(one, sessions=1, turns=7.0))[0]
        for exchange in (session[0], session[3], session[-1]):
            core = Emulator(model=exchange.body["model"])
            asked = {**exchange.body, "stream": False}
            wire = HttpRequest(method="POST", path="/v1/messages", headers=HEADERS, body=json.dumps(asked).encode())
            reply = core.handle(wire, 0.0)
            assert reply.status == 200, (one.name, reply)


@pytest.mark.parametrize("one", MOVED, ids=lambda one: one.name)
def test_what_requests_have_in_common_they_have_in_common_without_what_may_be_moved(one: Situation) -> None:
    """So the bound may look at those alone: `benchmarks.situations.bound` says why."""
    one = replace(one, sessions=1, turns=6.0)
    written, plain = steps_of(one, requests(one)[0]), steps_of(one, requests(one, asked_for(one, moved=True))[0])
    for (a, bare_a), (b, bare_b) in itertools.combinations(zip(written, plain, strict=True), 2):
        if static(a) == static(b):
            assert static(bare_a) == static(bare_b)
    assert len({static(step) for step in written}) > 1
    assert len({static(step) for step in plain}) == 1


def static(step: Step) -> bytes:
    return step.prefix.hashes[step.prefix.starts[2] - 1]


@pytest.mark.slow
@pytest.mark.many(2)
@pytest.mark.parametrize("one", MOVED, ids=lambda one: one.name)
def test_no_mixture_of_written_and_arranged_requests_is_below_the_bound(one: Situation) -> None:
    """Every choice of every request of a short session, each with its best markers; and the bound says something."""
    one = replace(one, sessions=1, turns=5.0)
    (written,) = requests(one)
    (plain,) = requests(one, asked_for(one, moved=True))
    ways = [(body, arranged(bare, body)) for body, bare in zip(written, plain, strict=True)]
    least = min(
        best(steps_of(one, [way[choice] for way, choice in zip(ways, choices, strict=True)])).cost
        for choices in itertools.product((0, 1), repeat=len(ways))
    )
    bound = floor(one, [written], range(1)).cost
    assert 0.9 * least <= bound <= least + 1e-6


def arranged(bare: Exchange, written: Exchange) -> Exchange:
    """`bare` with what it lacks of `written` at its end, in so many bytes."""
    size = len(json.dumps(written.body)) - len(json.dumps(bare.body))
    if size <= 0:
        return bare
    *before, last = bare.body["messages"]
    note = {"type": "text", "text": f"{written.at:.0f} ".ljust(size, "x")}
    return bare._replace(body={**bare.body, "messages": [*before, {**last, "content": [*last["content"], note]}]})


@pytest.mark.many(6)
@pytest.mark.parametrize("one", grid(), ids=lambda one: one.name)
def test_agentaccel_is_never_below_the_bound_in_any_bundled_situation(one: Situation) -> None:
    """Short sessions of each; neither in the first session nor after five."""
    found = cell(one, min(one.lengths[0], 8), one.platforms[0], 0)
    assert found.first >= found.first_floor * (1 - 1e-9)
    assert found.after >= found.after_floor.cost * (1 - 1e-9)
    kept = [cost for name, cost in found.trivial.items() if name != "none" or not one.consents]
    if not one.consents and one.fan_out == 1:
        assert min(kept) >= found.after_floor.cost * (1 - 1e-9)


def test_the_live_line_and_the_replay_cost_the_same(tmp_path: Path) -> None:
    """Where nothing may be moved, kept or held, both are the planner on the same requests."""
    one = Situation(name="both", sessions=3, turns=6.0, in_turn=True, prompts=SMALL, times=Times(between=20_000))
    live = Live(one, tmp_path)
    with live.accel:
        for number, session in enumerate(requests(one)):
            live.play(number, session)
        live.run()
    replayed = accelerate(runs(one))
    costs = [sum(cost_of(usage, one.facts()) for usage in usages) for usages in replayed.usages]
    assert list(live.costs.values()) == pytest.approx(costs)


def test_sub_agents_wait_for_the_first_one(tmp_path: Path) -> None:
    """Their prefix is written once; with no patience, by each."""
    one = Situation(
        name="fan", sessions=1, turns=1.0, fan_out=4, second_costs=0.0, prompts=replace(SMALL, system=6_000)
    )
    costs = []
    for name, second in (("patient", 0.0), ("hurried", 100.0)):
        live = Live(replace(one, second_costs=second), tmp_path / name)
        with live.accel:
            for number, session in enumerate(requests(one)):
                live.play(number, session)
            live.run()
        costs.append(sum(live.costs.values()))
    assert costs[0] < 0.5 * costs[1]


@pytest.mark.many(4)
@pytest.mark.parametrize(
    ("name", "length", "most"),
    [
        ("every tool slow, keep-alive", 12, 1.05),
        ("edits on schedule", 40, 1.10),
        ("fan-out, patient", 1, 1.05),
        ("memory every 5 turns", 8, 1.05),
    ],
)
def test_what_was_mended_stays_so(name: str, length: int, most: float) -> None:
    """A long life for each tail where all pauses are long; an anchor where an edit ended; shared though one-shot; what
    changes rarely weighed until it does."""
    one = next(one for one in grid() if one.name == name)
    found = cell(one, length, "api", 0)
    assert found.after <= most * found.after_floor.cost


def test_bars_follow_from_what_is_left_to_chance() -> None:
    """And from nothing that a planner does."""
    steady = Situation(name="s", times=Times(tool=2, user=30))
    random = replace(steady, times=Times(tool=Even(low=1, high=900)))
    wild = replace(random, ends_at_random=True)
    scheduled = replace(steady, volatile=Volatile(edit_every=4))
    kinds: Sequence[tuple[Situation, Kind]] = [
        (steady, "steady"), (random, "random"), (wild, "wild"), (scheduled, "scheduled"),
        (replace(steady, ends_at_random=True), "random"),
        (replace(steady, volatile=Volatile(edit_chance=0.1)), "random"),
    ]  # fmt: skip
    assert [kind_of(one) for one, _ in kinds] == [kind for _, kind in kinds]
    assert [shows_all(one) for one in (steady, random, scheduled)] == [True, False, False]
    allowed = [allowance(one, 8, 1_000) for one in (steady, scheduled, random, wild)]
    assert [(one.tokens, one.mean) for one in allowed] == [(250, 250), (1_250, 1_250), (2_500, 1_250), (3_750, 1_250)]
    assert not draws(steady)
    assert draws(replace(steady, turn=Turns(result=Even(low=1, high=9))))


def test_a_bar_that_is_missed_is_said() -> None:
    """Also where a policy that needs no planner does better, if gaps and ends are random."""
    assert not list(missed("x", 1.05, "steady", {"tail": 1.0}))
    assert list(missed("x", 1.06, "steady", {}))
    assert list(missed("x", 1.2, "wild", {"tail": 1.1}))


@pytest.mark.slow
def test_it_prints_every_row_and_ends_with_one_where_something_is_amiss(tmp_path: Path) -> None:
    """On somebody's own file."""
    path = tmp_path / "mine.toml"
    path.write_text(
        "[[situation]]\nname = 'mine'\nin_turn = true\nlengths = [1, 3]\nplatforms = ['api']\n"
        "prompts = { shared = false }\ntimes = { between = 20000 }\n"
    )
    result = CliRunner().invoke(main, ["situations", "--situations", str(path), "--json"])
    assert result.exit_code == 0, result.output
    told = json.loads(result.output)
    assert [row[:4] for row in told["tables"][0]["rows"]] == [
        ["mine", 1, "api", "steady"],
        ["mine", 3, "api", "steady"],
    ]
    assert CliRunner().invoke(main, ["situations", "--only", "nothing"]).exit_code == 2


@pytest.mark.slow
def test_a_request_of_our_own_before_any_long_pause_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: a planner that keeps entries without a reason."""
    one = next(one for one in grid() if one.name == "every tool slow, keep-alive")
    assert not cell(one, 3, "api", 0).hasty
    monkeypatch.setattr(warm, "has_ended_after", lambda beliefs, seconds: True)
    monkeypatch.setattr(warm, "keeping", lambda *given, **more: keep.Keeping((280.0,), 1.0))
    assert cell(one, 3, "api", 0).hasty


def test_ends_at_random_have_the_mean_they_say() -> None:
    """At least one turn, and as many in the mean as the length says."""
    one = Situation(name="ends", sessions=400, turns=Geometric(mean=4), prompts=SMALL)
    lengths = [len(session) for session in requests(one)]
    assert min(lengths) == 1
    assert sum(lengths) / len(lengths) == pytest.approx(4, rel=0.15)

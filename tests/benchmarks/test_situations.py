"""Situation files are read strictly, and what they describe is legal, the same everywhere, and as they say."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from agentaccel_emulator import Emulator, HttpRequest
from benchmarks.situations import Exchange, Situation, bundled, load, requests, runs
from benchmarks.situations.amounts import Even, LogNormal, Mixture
from benchmarks.situations.changes import marked, shuffled_tools
from benchmarks.situations.form import Markers, Prompts, Times, Turns, Volatile

ROOT = Path(__file__).parents[2]

HEADERS = {"x-api-key": "k", "anthropic-version": "2023-06-01"}

SMALL = Situation(name="small", sessions=2, turns=6)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "must hold [[situation]] tables and nothing else"),
        ("nonsense", "Expected"),
        ("[[situation]]", "situation 1: name is missing"),
        ("[[situation]]\nname = 'a'\nturn = 3", "situation 'a': turn must be a table"),
        ("[[situation]]\nname = 'a'\nspeed = 3", "situation 'a': unknown key 'speed'; there are name, what, model"),
        ("[[situation]]\nname = 'a'\nsessions = 1.5", "sessions must be a whole number of at least 0"),
        ("[[situation]]\nname = 'a'\nturns = { average = 3 }", "turns must be a number, {median, p90}"),
        ("[[situation]]\nname = 'a'\nturns = { low = 3, high = 2 }", "low must be at most high"),
        ("[[situation]]\nname = 'a'\nturns = { median = 3, p90 = 2 }", "median must be above 0 and at most p90"),
        ("[[situation]]\nname = 'a'\nturns = { mix = [3] }", "each part of a mix is [share, amount]"),
        ("[[situation]]\nname = 'a'\nplatform = 'moon'", "platform must be one of 'api', 'bedrock'"),
        ("[[situation]]\nname = 'a'\nmodel = 'gpt'", "nothing is known about the model 'gpt'"),
        ("[[situation]]\nname = 'a'\nmarkers = { at = ['top', 'middle'] }", "different ones of 'tools', 'system'"),
        ("[[situation]]\nname = 'a'\nprompts = { shared = 1 }", "situation 'a': prompts: shared must be true or false"),
        ("[[situation]]\nname = 'a'\nvolatile = { clock = 'noon' }", "clock must be one of '', 'start', 'middle'"),
        ("[[situation]]\nname = 'a'\nvolatile = { edit_chance = 2 }", "edit_chance must be a probability, from 0 to 1"),
        ("[[situation]]\nname = 'a'\nlengths = [0]", "lengths must be a list of different whole numbers of at least 1"),
        ("[[situation]]\nname = 'a'\nconsents = ['all']", "consents must be a list of different ones of"),
        ("[[situation]]\nname = 'a'\nturns = { mean = 0.5 }", "mean must be at least 1"),
        ("[[situation]]\nname = 'a'\n[[situation]]\nname = 'a'", "more than one situation is called 'a'"),
    ],
)
def test_what_is_amiss_in_a_file_is_named(text: str, complaint: str, tmp_path: Path) -> None:
    """File, situation, key, and what is allowed."""
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(click.UsageError) as caught:
        load(path)
    assert str(path) in str(caught.value)
    assert complaint in str(caught.value)


def test_amounts_are_what_they_say(tmp_path: Path) -> None:
    """The four forms."""
    path = tmp_path / "mine.toml"
    path.write_text(
        "[[situation]]\nname = 'a'\nturns = { low = 2, high = 4 }\n"
        "turn = { result = { median = 100, p90 = 200 }, calls = { mix = [[1, 0], [3, { low = 1, high = 2 }]] } }\n"
    )
    (one,) = load(path)
    assert one.turns == Even(low=2, high=4)
    assert one.turn.result == LogNormal(median=100, p90=200)
    assert one.turn.calls == Mixture(of=((1, 0.0), (3, Even(low=1, high=2))))


@pytest.mark.soak
def test_every_process_makes_the_same_requests() -> None:
    """Whatever the seed of Python's own hash."""
    code = (
        "from benchmarks.situations import *; from hashlib import sha256; import json\n"
        "print(sha256(json.dumps([requests(one) for one in bundled()[4:8:3]]).encode()).hexdigest())"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True, text=True, check=True, timeout=60,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(printed) == 1


@pytest.mark.slow
def test_bundled_situations_send_legal_requests() -> None:
    """Every model of every bundled situation takes what is sent: first and last request of a session."""
    for one in bundled():
        session = requests(one)[0]
        for exchange in {id(session[0]): session[0], id(session[-1]): session[-1]}.values():
            core = Emulator(model=exchange.body["model"])
            body = json.dumps(exchange.body).encode()
            reply = core.handle(HttpRequest(method="POST", path="/v1/messages", headers=HEADERS, body=body), 0.0)
            assert reply.status == 200, (one.name, reply)


def test_sizes_are_those_asked_for() -> None:
    """To a few tokens of framing: tools, system, first message, growth."""
    one = Situation(
        name="sizes", sessions=1, turns=3, bytes_per_token=4.0,
        prompts=Prompts(tools=5_000, system=3_000, first=1_000), turn=Turns(calls=2, result=500, call=50, text=100),
    )  # fmt: skip
    first, second, _ = runs(one)[0].steps
    assert first.total == pytest.approx(9_000, rel=0.03)
    assert second.total - first.total == pytest.approx(1_200, rel=0.15)


def test_a_plain_agent_only_grows() -> None:
    """Each prompt begins with the one before, in every session."""
    for run in runs(SMALL):
        for before, now in zip(run.steps, run.steps[1:], strict=False):
            assert now.prefix.hashes[: len(before.prefix.hashes)] == before.prefix.hashes


def prefix_kept(one: Situation) -> list[float]:
    """By request, the share of the prompt before that this one begins with."""
    (run,) = runs(one)
    kept = []
    for before, now in zip(run.steps, run.steps[1:], strict=False):
        pairs = zip(before.prefix.hashes, now.prefix.hashes, strict=False)
        same = next((i for i, (a, b) in enumerate(pairs) if a != b), len(before.prefix.hashes))
        kept.append(before.tokens_at(same - 1) / before.total)
    return kept


@pytest.mark.parametrize(
    ("volatile", "least", "most"),
    [
        (Volatile(), 1.0, 1.0),
        (Volatile(clock_in_system=True), 0.3, 0.7),
        (Volatile(shuffled_tools=True), 0.0, 0.2),
        (Volatile(context=500), 0.7, 0.99),
        (Volatile(switch_every=1), 0.0, 0.0),
    ],
)
def test_volatile_pieces_break_the_prefix_where_they_stand(volatile: Volatile, least: float, most: float) -> None:
    """From the second request on."""
    one = Situation(name="v", sessions=1, turns=5, volatile=volatile)
    assert all(least <= share <= most for share in prefix_kept(one))


def test_history_is_edited_and_compacted_now_and_then() -> None:
    """Only every so many requests."""
    kept = prefix_kept(Situation(name="e", sessions=1, turns=13, volatile=Volatile(edit_every=6)))
    assert [i + 1 for i, share in enumerate(kept) if share < 1] == [6, 12]
    run = runs(Situation(name="c", sessions=1, turns=13, volatile=Volatile(compact_every=6)))[0]
    totals = [step.total for step in run.steps]
    assert [i for i in range(1, 13) if totals[i] < totals[i - 1]] == [6, 12]


def test_an_authors_markers_stand_where_the_file_says() -> None:
    """At the end of tools, system and prompt."""
    one = Situation(name="m", sessions=1, turns=2, markers=Markers(at=("tools", "system", "tail"), ttl="1h"))
    step = runs(one)[0].steps[-1]
    ends = [step.prefix.prompt.segments[mark.at].level for mark in step.marks]
    assert ends == ["tools", "system", "messages"]
    assert step.marks[-1].at == len(step.tokens) - 1
    assert {mark.ttl for mark in step.marks} == {"1h"}


def test_changes_can_be_composed_and_leave_the_bodies_alone() -> None:
    """More of them than a file asks for."""
    plain = requests(SMALL, [])
    before = json.dumps(plain)
    changed = requests(SMALL, [shuffled_tools, marked(["top"], "5m")])
    assert json.dumps(plain) == before
    assert all("cache_control" in one.body for session in changed for one in session)
    assert [one.at for one in changed[1]] == [one.at for one in plain[1]]


def test_times_are_those_of_the_file() -> None:
    """A reply, then a pause; sessions one after another."""
    one = Situation(name="t", sessions=2, turns=3, times=Times(between=100, first_byte=9, reply=4, tool=6, user=50))
    first, second = requests(one)
    assert [round(b.at - a.at) for a, b in itertools.pairwise(first)] == [10, 10]
    assert second[0].at - first[0].at == pytest.approx(100)
    assert first[0] == Exchange(first[0].at, first[0].body, 4.0, 4.0)

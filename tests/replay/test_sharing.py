"""What sessions of a workload have in common is paid for as far as they use it: the product itself, in virtual time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from agentaccel import Usage
from agentaccel.cache.beliefs import REPEATED, SHARED
from agentaccel.cache.ledger import Breakpoint, CacheBill, Ledger, after
from agentaccel.cache.sharing import read_by_first
from agentaccel.facts import cache_facts
from agentaccel.replay.runs import Run, Step
from agentaccel.replay.simulate import Simulated, accelerate
from agentaccel.replay.synthetic import Piece, rendered
from agentaccel.types import Expected
from tests.mutants import Mutant, running, survives

MODEL = "claude-sonnet-5"
MINUTE, HOUR = 60.0, 3_600.0


def sessions(
    gaps: Sequence[float], pauses: Sequence[float] = (), *, shared: bool = True, changed: Sequence[int] = ()
) -> list[Run]:
    """Sessions that begin one after another, each so long after the one before, with a request after each pause.

    All begin with the same instructions, if `shared`; those in `changed` have other ones in their later requests.
    """
    facts, runs, begin = cache_facts(MODEL), list[Run](), 0.0
    assert facts is not None
    for number, gap in enumerate([0.0, *gaps]):
        begin += gap
        steps, at = list[Step](), begin
        for turn, pause in enumerate([0.0, *pauses]):
            at += pause
            whose = "all" if shared else str(number)
            if turn and number in changed:
                whose = f"{number}, later"
            roles = [("user", "assistant")[n % 2] for n in range(2 * turn + 1)]
            said = [Piece("messages", role, 100, f"{number}/{n}".encode()) for n, role in enumerate(roles)]
            prefix, tokens = rendered(
                [Piece("system", "", 20_000, f"for {whose}".encode()), *said],
                MODEL,
                facts,
                steps[-1] if steps else None,
            )
            steps.append(Step(prefix=prefix, tokens=tokens, started=at, visible=at + 2.0, awaits="user"))
        runs.append(Run(id=str(number), workload="job", steps=tuple(steps)))
    return runs


def labels(done: Simulated, request: int = 0) -> list[str]:
    """For each session, the longest lifetime that this request of it was marked with; empty for no marker."""
    return [max((mark.ttl for mark in marks[request]), default="", key=("5m", "1h").index) for marks in done.marks]


def reads(done: Simulated, request: int = 0) -> list[int]:
    return [usages[request].read or 0 for usages in done.usages]


@pytest.mark.parametrize(("every", "useless"), [(5 * MINUTE, "5m"), (HOUR, "1h")])
def test_a_job_on_the_dot_is_not_written_for_a_lifetime_that_ends_as_the_next_one_begins(
    every: float, useless: str
) -> None:
    assert useless not in labels(accelerate(sessions([every] * 20)))[12:]


def in_time(gaps: Sequence[float], after: int) -> list[int]:
    """Sessions from this one on that begin within an hour of the one before."""
    return [number for number, gap in enumerate([0.0, *gaps]) if 0.0 < gap < HOUR and number >= after]


def test_what_is_read_thanks_to_the_longer_lifetime_is_no_reason_for_the_shorter_one() -> None:
    gaps = [*[25 * MINUTE] * 7, 3 * HOUR] * 6
    done = accelerate(sessions(gaps))
    assert all(reads(done)[number] for number in in_time(gaps, 16))


def test_an_hour_is_not_bought_where_every_other_session_comes_too_late() -> None:
    """Twice the price half of the time, and a tenth in the other half, is more than the price each time."""
    done = accelerate(sessions([30 * MINUTE, 2 * HOUR] * 30))
    assert labels(done)[-10:] == [""] * 10


@pytest.mark.slow
def test_an_hour_is_bought_for_others_also_where_the_session_itself_never_pauses_long() -> None:
    """It has to be bought when the session begins: what is held cannot be written for longer."""
    gaps = [*[30 * MINUTE] * 7, 3 * HOUR] * 6
    done = accelerate(sessions(gaps, [10.0] * 9))
    assert all(reads(done)[number] for number in in_time(gaps, 16))


@pytest.mark.slow
def test_a_busy_workload_reads_what_all_share_and_never_stops() -> None:
    """Odds that are next to certain are worth no less than those a little below them."""
    gaps = [*[4 * MINUTE] * 40, 3 * HOUR] * 3
    done = accelerate(sessions(gaps, [10.0] * 9))
    assert all(reads(done)[number] for number in in_time(gaps, 10))


def test_what_the_last_request_reads_it_would_not_have_written() -> None:
    """Written for an hour and read once is dearer than sent twice."""
    done = accelerate(sessions([5 * HOUR] * 20, [20 * MINUTE], shared=False))
    assert labels(done)[10:] == [""] * 11


def test_a_session_knows_how_long_lives_what_it_read_of_others() -> None:
    gaps = [50 * MINUTE, 5 * HOUR] * 15
    done = accelerate(sessions(gaps, [20 * MINUTE]))
    assert all(reads(done, request)[number] for number in in_time(gaps, 14) for request in (0, 1))


def test_what_changes_within_sessions_is_still_what_others_begin_with() -> None:
    done = accelerate(sessions([2 * MINUTE] * 30, [5.0], changed=range(30)))
    assert all(reads(done)[10:])


def test_sessions_that_begin_at_once_read_what_those_minutes_before_them_wrote() -> None:
    """The first of them to be answered is not the one to count from."""
    done = accelerate(sessions([*[*[0.0] * 7, 4 * MINUTE] * 9, *[0.0] * 7]))
    assert all(reads(done)[40:])


def test_whoever_reads_all_of_its_first_prompt_repeats_that_of_another() -> None:
    """What it has in common with others is the shorter part; the twin reads that."""
    (run,) = sessions([])
    prefix, tokens = run.steps[0].prefix, run.steps[0].tokens
    shared, all_ = tokens[prefix.starts[2] - 1], tokens[-1]
    assert read_by_first(prefix, Usage(input=all_, read=all_)) == [SHARED, REPEATED]
    assert read_by_first(prefix, Usage(input=all_, read=shared)) == [SHARED]
    assert read_by_first(rendered([], MODEL, prefix.facts, None)[0], Usage(input=5, read=5)) == []


@pytest.mark.parametrize(("asked", "seconds"), [("5m", 300.0), ("1h", 3_600.0)])
def test_an_entry_that_others_wrote_is_held_for_as_long_as_it_is_asked_for(asked: str, seconds: float) -> None:
    """They are in another process: of what the marker reads, nothing was known before."""
    prefix = sessions([])[0].steps[0].prefix
    done = CacheBill(0, Expected(read=20_000, write={}, uncached=100), (Breakpoint(0, asked, True),))
    ledger = after(Ledger(), prefix, done, {}, started=0.0, visible=2.0, exact={})
    assert ledger.entries[prefix.hashes[0]].expires == seconds


GUARDS = (
    Mutant(
        guard="a lifetime that is taken to end a little later than it does",
        at="agentaccel.cache.sharing:begun",
        old="min([visible - at for at",
        new="min([started - at for at",
    ),
    Mutant(
        guard="an hour's entry that is taken for one of five minutes",
        at="agentaccel.cache.sharing:begun",
        old="if topic in read and ago >= longest:",
        new="if topic in read:",
    ),
    Mutant(
        guard="sessions that began at once, as if others had begun so with them alone",
        at="agentaccel.cache.sharing:begun",
        old="times = (last_used(hash_), earlier.get(topic))",
        new="times = (last_used(hash_),)",
    ),
    Mutant(
        guard="uses that are counted as if each saved a write",
        at="agentaccel.cache.lifetime:_Lent.adds",
        old="worth = (usual - read) * (all_.reads - own.reads)",
        new="worth = (self.ttls[0].write - read) * (all_.reads - own.reads)",
    ),
    Mutant(
        guard="a session that is taken never to end",
        at="agentaccel.cache.lifetime:longevities",
        old="min(prospect.generally * mostly, _MOST_CERTAIN)",
        new="min(prospect.followed * in_time, _MOST_CERTAIN)",
    ),
    Mutant(
        guard="odds that count in one place more than in the other",
        at="agentaccel.cache.lifetime:_Within.reads",
        old="return self.next / (1.0 - self.later)",
        new="return self.next / (1.0 - min(self.later, 0.8))",
    ),
    Mutant(
        guard="a last request that is taken to write",
        at="agentaccel.cache.lifetime:_gain",
        old="return min(best.write - read, (1.0 - read) / (1.0 - min(again, _MOST_CERTAIN)))",
        new="return best.write - read",
    ),
    Mutant(
        guard="an entry of others that is given up too soon",
        at="agentaccel.cache.ledger:after",
        old="next((facts.ttl(mark.ttl) for mark in done.written if mark.at == done.hit), None) or facts.ttls[0]",
        new="facts.ttls[0]",
    ),
    Mutant(
        guard="a change within sessions that is taken for one between them",
        at="agentaccel.cache.expectation:_shared",
        old="(scene.survives(at) if scene.view.state.turns else 1.0)",
        new="scene.survives(at)",
    ),
)


@pytest.mark.soak
@pytest.mark.parametrize("mutant", GUARDS, ids=lambda mutant: mutant.guard)
def test_the_tests_fail_without_the_guard(mutant: Mutant, tmp_path: Path) -> None:
    """Chosen by us: a safety test that passes without what it tests is none."""
    assert survives(mutant, tmp_path, running("tests/replay/test_sharing.py", only="not guard")) is None

"""Our own failures, in every dialect: no caller meets them. And replies that are dropped unread: nothing is left."""

from __future__ import annotations

import asyncio
import gc
import logging
from pathlib import Path
from typing import Any

import pytest

from agentaccel import Accel, Policy, StorePolicy
from agentaccel_emulator import Fault
from tests.clients.dialects import DIALECTS, Dialect, closed, seen
from tests.clients.places import Line
from tests.clients.test_failures import WORKING, Down, NoWall, Stops
from tests.clients.wire import an_accel, records

pytestmark = [pytest.mark.many(6), pytest.mark.usefixtures("_little_to_collect")]

EACH = pytest.mark.parametrize("name", DIALECTS)
WAYS: dict[str, tuple[str, bool]] = {
    "json": ("", False),
    "stream": ("", True),
    "refused": ("429", True),
    "corrupt": ("malformed_sse", True),
    "cut": ("disconnect_mid_stream", True),
}


def line_to(dialect: Dialect, way: str) -> Line:
    line = Line(dialect)
    kind: Any = WAYS[way][0]
    line.emulator.use_faults([Fault(kind=kind)] if kind else [])
    return line


@pytest.mark.slow
@EACH
@pytest.mark.parametrize("way", WAYS)
def test_a_failure_at_any_moment_of_a_turn_stays_ours(name: str, way: str) -> None:
    """Contract line 6: a clock that stops working after any number of readings disturbs no caller."""
    dialect = DIALECTS[name]
    bare = seen(dialect, line_to(dialect, way).client(), streamed=WAYS[way][1])
    for calls in (0, 1, 2, 3, 5, 8):
        clock = Stops()
        accel = Accel(Policy(store=StorePolicy(enabled=False)), clock=clock)
        client = dialect.wrapped(accel)(line_to(dialect, way).client())
        clock.left = calls
        assert seen(dialect, client, streamed=WAYS[way][1]) == bare, calls
        clock.left = WORKING  # for what is collected during the tests after this one


class Once(Stops):
    """A clock of the user's that fails a single time, so that what is collected later finds it working."""

    def monotonic(self) -> float:
        try:
            return super().monotonic()
        finally:
            self.left = WORKING if self.left < 0 else self.left


@EACH
@pytest.mark.parametrize("way", ["json", "refused"])
def test_the_clock_that_stops_does_bite(name: str, way: str) -> None:
    """The twin: under strict the same clock is seen by the caller."""
    dialect, clock = DIALECTS[name], Once()
    accel = Accel(Policy(strict=True, store=StorePolicy(enabled=False)), clock=clock)
    client = dialect.wrapped(accel)(line_to(dialect, way).client())
    clock.left = 1
    assert Down.__name__ in repr(seen(dialect, client, streamed=WAYS[way][1]))


@EACH
@pytest.mark.parametrize("way", WAYS)
def test_a_request_that_cannot_be_planned_goes_out_as_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, way: str
) -> None:
    """Contract line 6: unplanned, unrecorded, one line; the caller sees what it would see without us."""
    dialect = DIALECTS[name]
    bare, ours = line_to(dialect, way), line_to(dialect, way)
    accel = Accel(Policy(store=StorePolicy(path=tmp_path / "trace.db")), clock=NoWall())
    streamed = WAYS[way][1]
    assert seen(dialect, dialect.wrapped(accel)(ours.client()), streamed=streamed) == seen(
        dialect, bare.client(), streamed=streamed
    )
    assert [one.content for one in ours.requests] == [one.content for one in bare.requests]
    lines = [one for one in caplog.records if one.name == "agentaccel" and one.levelno >= logging.WARNING]
    assert len(lines) == 1
    assert records(tmp_path) == []


# --- dropped ---------------------------------------------------------------------------------------------------------


@EACH
@pytest.mark.parametrize("events", [0, 1])
def test_a_stream_that_is_dropped_ends_its_turn(tmp_path: Path, name: str, events: int) -> None:
    """Chosen by us: whoever lets go of a reply, read or unread, has abandoned it."""
    dialect = DIALECTS[name]
    client = dialect.wrapped(an_accel(tmp_path))(Line(dialect).client())
    stream = dialect.calls(client).create(**dialect.ask, stream=True)
    for _ in range(events):
        next(iter(stream))
    del stream
    gc.collect()
    assert [one.outcome for one in records(tmp_path)] == ["abandoned"]


@EACH
async def test_an_async_stream_that_is_dropped_ends_its_turn(tmp_path: Path, name: str) -> None:
    """Chosen by us, as above; the loop closes it in tasks of its own, as it does without us."""
    dialect = DIALECTS[name]
    client = dialect.wrapped(an_accel(tmp_path))(Line(dialect).async_client())
    stream = await dialect.calls(client).create(**dialect.ask, stream=True)
    await anext(aiter(stream))
    del stream
    for _ in range(2):  # the openai SDK's streams hold themselves, and only once the outer one is closed let go
        gc.collect()
        await closed()
    assert [one.outcome for one in records(tmp_path)] == ["abandoned"]
    assert asyncio.all_tasks() == {asyncio.current_task()}


@EACH
def test_a_refusal_that_nobody_reads_is_recorded_all_the_same(tmp_path: Path, name: str) -> None:
    """Chosen by us: its status is known, and its name where a header has it."""
    dialect = DIALECTS[name]
    line = line_to(dialect, "refused")
    client = dialect.wrapped(an_accel(tmp_path))(line.client(max_retries=1))
    with pytest.raises(Exception, match="429"):
        dialect.calls(client).create(**dialect.ask, stream=True)
    unread, read = records(tmp_path)
    assert (unread.outcome, unread.status) == (read.outcome, read.status) == ("failed", 429)
    assert (unread.error is None) == (name != "bedrock")
    assert read.error
    assert all(body.closed for body in line.bodies)

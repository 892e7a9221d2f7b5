"""Turns that begin alike, event by event: no client, no loop, no clock."""

from __future__ import annotations

import gc
import os
from typing import Any

import pytest

from agentaccel import Accel, CachePolicy, Policy, StorePolicy
from agentaccel.engine.gate import Flight, HeldPrefix, Write, WriteGate
from agentaccel.testing import ManualClock
from agentaccel.turn import Failed, Finished, FirstByte, Responded, Send, Started, Turn, Wait, Waited
from tests.driver import Json, body, prose, tool, user

SYSTEM, TOOLS = prose(30_200), [tool("search", 600)]


def request(number: int) -> Json:
    return body(user(f"Look into part {number}."), system=SYSTEM, tools=TOOLS, stream=True)


def _accel(**cache: Any) -> Accel:
    policy = Policy(strict=True, store=StorePolicy(enabled=False), cache=CachePolicy(**cache))
    return Accel(policy, clock=ManualClock())


def _waits(turn: Turn, at: float) -> Wait:
    [wait] = turn.handle(Started(at, can_wait=True))
    assert isinstance(wait, Wait)
    return wait


def test_the_bound_is_one_for_all_that_are_waited_for() -> None:
    """It does not begin anew with the next one that leads."""
    accel = _accel(max_wait=10.0)
    turns = [accel.turn(request(number)) for number in range(4)]
    turns[0].handle(Started(0.0))
    assert _waits(turns[3], 0.0).at_most <= 10.0
    for number, at in ((1, 2.0), (2, 4.0)):
        turns[number - 1].handle(Failed(at=at))
        turns[number].handle(Started(at))
        [wait] = turns[3].handle(Waited(at))
        assert isinstance(wait, Wait)
        assert at + wait.at_most <= 10.0
    turns[2].handle(Failed(at=9.9))
    assert isinstance(turns[3].handle(Waited(9.9))[0], Send)


def test_own_http_is_never_told_to_wait_unless_it_says_that_it_can() -> None:
    """Whoever sends by hand takes `Send` for the answer."""
    accel = _accel()
    turns = [accel.turn(request(number)) for number in range(3)]
    assert [type(turn.handle(Started(0.0))[0]) for turn in turns[:2]] == [Send, Send]
    [wait] = turns[2].handle(Started(0.0, can_wait=True))
    assert isinstance(wait, Wait)


@pytest.mark.parametrize(
    "end",
    [
        FirstByte(2.0),
        Responded(2.0, 200),
        Responded(2.0, 529),
        Failed(at=2.0),
        Failed(at=2.0, cancelled=True),
        Finished(2.0),
    ],
    ids=["first byte", "headers", "refusal", "failed", "cancelled", "finished"],
)
def test_whatever_becomes_of_the_first_opens_the_gate(end: Any) -> None:
    """And the next one goes out."""
    accel = _accel()
    first, second = (accel.turn(request(number)) for number in range(2))
    first.handle(Started(0.0))
    [wait] = second.handle(Started(1.0, can_wait=True))
    assert isinstance(wait, Wait)
    assert not wait.gate.done()
    first.handle(end)
    assert wait.gate.done()
    [send] = second.handle(Waited(2.0))
    assert isinstance(send, Send)
    second.handle(Finished(3.0))
    assert second.ended is not None
    assert (second.ended.asked, second.ended.started, second.ended.waited) == (1.0, 2.0, 1.0)


def test_a_first_one_that_is_dropped_opens_the_gate() -> None:
    """Nobody has said what became of it, and nobody will."""
    accel = _accel()
    first, second = (accel.turn(request(number)) for number in range(2))
    first.handle(Started(0.0))
    [wait] = second.handle(Started(0.0, can_wait=True))
    assert isinstance(wait, Wait)
    del first
    gc.collect()
    assert wait.gate.done()
    assert isinstance(second.handle(Waited(1.0))[0], Send)


def test_whoever_is_answered_first_lets_all_go() -> None:
    """Also one that had not waited: what it writes is the same."""
    accel = _accel()
    first, other, third = (accel.turn(request(number)) for number in range(3))
    first.handle(Started(0.0))
    other.handle(Started(0.0))
    [wait] = third.handle(Started(0.0, can_wait=True))
    assert isinstance(wait, Wait)
    other.handle(FirstByte(1.0))
    assert wait.gate.done()
    assert isinstance(third.handle(Waited(1.0))[0], Send)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_waits_for_nobody_of_its_parent() -> None:
    """What another process has on its way is not seen to arrive here."""
    accel = _accel()
    first, second = (accel.turn(request(number)) for number in range(2))
    first.handle(Started(0.0))
    child = os.fork()
    if child == 0:
        try:
            [answer] = second.handle(Started(0.0, can_wait=True))
            os._exit(0 if isinstance(answer, Send) else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert isinstance(second.handle(Started(0.0, can_wait=True))[0], Wait)  # the twin: here it does wait


def test_requests_of_a_conversation_that_goes_on_wait_for_nobody() -> None:
    """What a turn adds is too little to be waited for: nothing is looked up for it."""
    accel = _accel()
    messages = [user(prose(30))]
    turn = accel.turn(body(*messages, system=SYSTEM, tools=TOOLS))
    assert turn.hold is not None
    small = accel.turn(body(user("Hi."), system="Be brief."))
    assert small.hold is None


@pytest.mark.parametrize(("asked", "at"), [(100.0, 700.0), (400.0, 3900.0)], ids=["read", "written"])
def test_what_is_read_keeps_its_lifetime_whatever_the_marker_says(asked: float, at: float) -> None:
    """An hour's marker on a prefix that is held for five minutes writes nothing; once that is gone, it writes."""
    write_gate, key = WriteGate(), ("account", b"prefix")

    def sends(ttl: str, seconds: float, now: float) -> None:
        flight = Flight(
            write_gate=write_gate,
            writes=(Write(key, 5000.0, HeldPrefix(ttl, seconds)),),
            kind="any",
            total=6000.0,
            read=0.0,
            streamed=True,
            at_most=0.0,
            cost_per_second=0.0,
            price=lambda: None,
        )
        assert flight.before(now) is None
        flight.began(now + 1.0)

    sends("5m", 300.0, now=0.0)
    sends("1h", 3600.0, now=asked)
    held = write_gate.held("account", [b"prefix"], at)
    assert [one.ttl for one in held.values()] == ([] if asked < 300.0 else ["1h"])

"""Conversations that take each other's place on a server of one's own: named, and once it was seen, expected."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentaccel import Accel, Policy, StorePolicy, Usage
from agentaccel.cache import beliefs
from agentaccel.engine.reuse import Reuse
from agentaccel.records import TurnRecord
from agentaccel.store.store import open_reader
from agentaccel.testing import ManualClock
from agentaccel.turn import Finished, FirstByte, Reported, Send, Started, Turn, Waited
from agentaccel.types import Cause
from agentaccel.wire.openai.usage import usage_of, work_of
from agentaccel_emulator import Behaviour, Emulator, HttpRequest, Tokenizer
from tests.driver import Json, prose


class _Desk:
    """Agents that take turns on one emulated server."""

    def __init__(self, folder: Path, *, platform: str = "llamacpp", slots: int | None = None) -> None:
        self.clock, self.platform, self.store = ManualClock(now=1_795_000_000.0), platform, folder / f"{slots}.db"
        behaviour = Behaviour(tokenizer=Tokenizer(bytes_per_token=4.0), slots=slots)
        self.emulator = Emulator(platform=platform, behaviour=behaviour, clock=self.clock)
        self.accel = Accel(Policy(strict=True, store=StorePolicy(path=self.store)), clock=self.clock, environ={})
        self.requests: dict[str, int] = {}

    def ask(self, session: str, **fields: object) -> str:
        """The reasons of the plan of a session's next request."""
        request = self.requests[session] = self.requests.get(session, -1) + 1
        said = [{"role": "assistant" if i % 2 else "user", "content": prose(60, i)} for i in range(2 * request + 1)]
        system = {"role": "system", "content": f"{session} is whom you serve. {prose(900)}"}
        with self.accel.session(session, agent="desk"):
            turn = self.accel.turn(
                {"model": "local", "messages": [system, *said], **fields},
                provider="compatible",
                platform=self.platform,
            )
            send = turn.handle(Started(self.clock.monotonic()))[-1]
            assert isinstance(send, Send)
            headers = {"content-type": "application/json", "authorization": "Bearer k"}
            path, content = "/v1/chat/completions", json.dumps(send.request).encode()
            asked = HttpRequest(method="POST", path=path, headers=headers, body=content)
            told: Json = json.loads(self.emulator.handle(asked, self.clock.now).body)
            turn.handle(FirstByte(self.clock.monotonic()))
            turn.handle(Reported(usage=usage_of(told["usage"]), work=work_of(told)))
            turn.handle(Finished(self.clock.monotonic()))
        self.clock.advance(5)
        return " ".join(turn.plan.reasons)

    def records(self) -> list[TurnRecord]:
        self.accel.flush()
        with open_reader(self.store) as store:
            return list(store.turns())


def _causes(record: TurnRecord) -> list[str]:
    return [str(miss.cause) for miss in record.misses]


def test_a_conversation_that_took_the_slot_is_named_with_what_it_cost(tmp_path: Path) -> None:
    """Two conversations on one slot: each finds the other's chain there."""
    desk = _Desk(tmp_path, slots=1)
    for session in ("a", "b", "a"):
        desk.ask(session)
    first, _, last = desk.records()
    (miss,) = last.misses
    assert (str(miss.cause), miss.detail) == ("slot taken", "1 other conversation went to this server since")
    assert miss.tokens == pytest.approx(first.usage.input, rel=0.02)  # all of what had been computed for it


def test_where_nobody_of_this_process_came_between_others_are_named(tmp_path: Path) -> None:
    """The server was started anew, or somebody else uses it."""
    desk = _Desk(tmp_path, slots=1)
    desk.ask("a")
    desk.emulator = _Desk(tmp_path, slots=1).emulator
    desk.ask("a")
    (miss,) = desk.records()[-1].misses
    assert miss.cause is Cause.EVICTED
    assert "another user of the server, or a restart" in miss.detail


def _busy(desk: _Desk, rounds: int = 12) -> tuple[list[str], list[TurnRecord]]:
    """Three conversations in turns; and then one of them alone."""
    said = [desk.ask(session) for _ in range(rounds) for session in ("a", "b", "c")]
    said += [desk.ask("c") for _ in range(rounds)]
    return said, desk.records()


_GIVEN_UP = "has computed 2 other conversation(s) since, which mostly takes the place of this one"


def test_once_it_was_seen_what_others_take_is_expected(tmp_path: Path) -> None:
    """Three conversations on two slots: each finds its slot taken, every time. After a few such requests the plan
    expects all of the prompt to be computed, and says why; while one is alone, it expects all to be there, at once."""
    said, records = _busy(_Desk(tmp_path, slots=2))
    among, alone = records[3:36], records[37:]  # c's first request alone comes right after its own
    assert all(record.usage.read == 0 or _causes(record) == ["slot taken"] for record in among)
    expected = [record.expected.read for record in among[12:] if record.expected]
    assert expected == [0] * len(expected)
    assert all(_GIVEN_UP in one for one in said[15:36])
    assert not any(_GIVEN_UP in one for one in said[36:])
    for record in alone:
        assert record.expected is not None
        assert record.misses == ()
        assert record.expected.read == pytest.approx(record.usage.read, rel=0.05)


def test_the_test_above_bites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is not told by how many others came between, what happened among others is expected of one alone."""
    monkeypatch.setattr(beliefs, "alive_topic", lambda others: "alive/0")
    said, _ = _busy(_Desk(tmp_path, slots=2))
    assert not all(_GIVEN_UP in one for one in said[15:36]) or any("takes the place" in one for one in said[36:])


def test_with_room_for_all_nothing_is_given_up(tmp_path: Path) -> None:
    said, records = _busy(_Desk(tmp_path, slots=3))
    assert not any("takes the place" in one for one in said)
    assert all(record.misses == () for record in records[3:])


def test_another_salt_is_named(tmp_path: Path) -> None:
    """Whoever sends another salt with each request has all of it computed each time."""
    desk = _Desk(tmp_path, platform="vllm")
    for salt in ("one", "one", "two"):
        desk.ask("a", cache_salt=salt)
    _, same, other = desk.records()
    assert _causes(same) == []
    assert [(str(miss.cause), miss.detail) for miss in other.misses] == [
        ("other salt", "another cache_salt than before")
    ]


@given(st.lists(st.sampled_from("abcdef"), max_size=40), st.sampled_from("abcdefg"))
def test_the_reuse_distance_is_the_number_of_others_since(asked: list[str], conversation: str) -> None:
    reuse = Reuse()
    for one in asked:
        reuse.asked("server", one)
        reuse.asked("another server", "x")
    since = asked[len(asked) - asked[::-1].index(conversation) :] if conversation in asked else None
    assert reuse.others("server", conversation) == (None if since is None else len(set(since)))


def _fans_out(folder: Path, platform: str, *, seconds: float, streamed: bool = True) -> list[str]:
    """What each of three agents that begin alike is told, once a request has taken so long."""
    clock = ManualClock(now=1_795_000_000.0)
    policy = Policy(strict=True, store=StorePolicy(path=folder / "t.db"))
    opening = {"role": "system", "content": prose(3000)}

    def asked(accel: Accel, session: str, *said: Json) -> Turn:
        with accel.session(session, agent="desk"):
            body = {"model": "local", "messages": [*said, {"role": "user", "content": session}], "stream": streamed}
            return accel.turn(body, provider="compatible", platform=platform)

    with Accel(policy, clock=clock, environ={}) as accel:
        turn = asked(accel, "first", {"role": "system", "content": prose(3000, 5)})
        turn.handle(Started(clock.monotonic()))
        clock.advance(seconds)
        turn.handle(FirstByte(clock.monotonic()))
        turn.handle(Reported(usage=Usage(input=5000, read=0, output=9)))
        turn.handle(Finished(clock.monotonic()))
        clock.advance(5)
        turns = [asked(accel, f"agent {n}", opening) for n in range(3)]
        return [type(turn.handle(Started(clock.monotonic(), can_wait=True))[-1]).__name__ for turn in turns]


@pytest.mark.parametrize("platform", ["vllm", "sglang", "trtllm"])
def test_what_agents_begin_with_is_computed_once(platform: str, tmp_path: Path) -> None:
    """5,000 tokens took five seconds: whoever waits for the first is hardly answered later, and the server has computed
    them once in place of three times."""
    assert _fans_out(tmp_path, platform, seconds=5.0) == ["Send", "Wait", "Wait"]


def _rounds(folder: Path, *, keeps: bool) -> list[int]:
    """How many of two agents wait for a third one, in each of twelve rounds with a beginning of their own."""
    clock, held = ManualClock(now=1_795_000_000.0), list[int]()
    policy = Policy(strict=True, store=StorePolicy(path=folder / f"{keeps}.db"))
    with Accel(policy, clock=clock, environ={}) as accel:
        for number in range(12):
            opening = {"role": "system", "content": prose(3000, number)}
            turns = []
            for agent in range(3):
                with accel.session(f"{number} {agent}", agent="desk"):
                    said = [opening, {"role": "user", "content": f"Part {agent}."}]
                    body = {"model": "local", "messages": said, "stream": True}
                    turns.append(accel.turn(body, provider="compatible", platform="vllm"))
            told = [turn.handle(Started(clock.monotonic(), can_wait=True))[-1] for turn in turns]
            held.append(sum(not isinstance(one, Send) for one in told))
            for turn, one in zip(turns, told, strict=True):
                if not isinstance(one, Send):
                    assert isinstance(turn.handle(Waited(clock.monotonic()))[-1], Send)
                read = 4900 if keeps and turn is not turns[0] else 0
                clock.advance((5000 - read) / 1000)
                turn.handle(FirstByte(clock.monotonic()))
                turn.handle(Reported(usage=Usage(input=5000, read=read, output=9)))
                turn.handle(Finished(clock.monotonic()))
            clock.advance(30)
    return held


def test_who_waited_in_vain_does_not_wait_for_long(tmp_path: Path) -> None:
    """Several replicas behind one address keep no prefixes for each other: after a few rounds nobody waits there. On
    one server, all do, as soon as its speed is known."""
    assert _rounds(tmp_path, keeps=True) == [0] + [2] * 11
    in_vain = _rounds(tmp_path, keeps=False)
    assert sum(in_vain) <= 6
    assert in_vain[-6:] == [0] * 6


@pytest.mark.parametrize(
    ("platform", "seconds", "streamed"),
    [("llamacpp", 5.0, True), ("vllm", 0.01, True), ("vllm", 5.0, False)],
    ids=["one chain in each slot", "so fast that it saves nothing", "its speed is not known"],
)
def test_where_waiting_saves_nothing_nobody_waits(
    platform: str, seconds: float, streamed: bool, tmp_path: Path
) -> None:
    assert _fans_out(tmp_path, platform, seconds=seconds, streamed=streamed) == ["Send"] * 3

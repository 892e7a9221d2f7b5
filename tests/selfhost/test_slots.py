"""Slots of llama.cpp: which conversation gets which, and one that is kept in a file. Real HTTP, over the loopback."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from agentaccel import Accel, CachePolicy
from agentaccel.errors import ConfigError, EngineError
from agentaccel.selfhost.attach import Backend
from agentaccel.selfhost.probe import Server
from agentaccel.selfhost.slots import KeptSlot, Pins
from tests.clients.wire import an_accel, records
from tests.driver import prose
from tests.selfhost.serving import CHAT, Answer, Asked, Loopback, chat, engine, serving

ASK: dict[str, Any] = {"model": "tiny", "messages": [{"role": "user", "content": prose(200)}]}
LLAMA = "llamacpp-b11549"
"""Captured with two slots."""


def places(turns: str, slots: int) -> str:
    """The slot of each turn, one letter a conversation; `-` where the server chooses."""
    pins, given = Pins(), ""
    for name in turns:
        slot = pins.slot(name, slots)
        given += "-" if slot is None else str(slot)
        pins = pins.after(name, slots)
    return given


@pytest.mark.parametrize(
    ("slots", "turns", "given"),
    [
        (2, "aaa", "000"),
        (2, "ababba", "010110"),
        (2, "abcbcb", "010101"),  # a has ended: its slot was used longest ago
        (2, "abcdcdef", "01010101"),  # two at a time, one after the other
        (2, "abca", "010-"),  # a comes back to find its slot taken
        (2, "abca" + "cacacac" + "ac", "010-" + "-" * 7 + "10"),  # by hand: 4 · 2 changes that are as they should be
        (2, "abcabcabcabc", "010---------"),
        (2, "abca" + "aaaaaaaaaaaa", "010-" + "-" * 12),  # nothing is learned of one that goes on alone
        (1, "abc", "000"),
        (1, "aba", "00-"),
        (3, "abcabcabc", "012012012"),
    ],
)
def test_each_conversation_has_a_slot_of_its_own_while_there_are_enough(slots: int, turns: str, given: str) -> None:
    """Chosen by us: who is new gets the one used longest ago; once somebody comes back too late, nobody gets any."""
    assert places(turns, slots) == given


def test_a_server_that_has_fewer_slots_than_before_is_not_sent_one_that_it_lacks() -> None:
    """It was started anew: a number that it does not have is not refused."""
    pins = Pins().after("a", 4).after("b", 4).after("c", 4)
    assert (pins.slot("c", 4), pins.slot("c", 2)) == (2, 0)


def test_a_server_that_says_to_have_millions_of_slots_is_given_as_many_as_there_can_be() -> None:
    """By hand: 256 at most (`LLAMA_MAX_SEQ`), so the 257th goes where the first was. A number beyond what a list can
    have would fail, or take gigabytes, where all numbers were listed."""
    pins = Pins()
    for n in range(257):
        assert pins.slot(str(n), 10**30) == n % 256
        pins = pins.after(str(n), 10**30)
    assert len(pins.order) == 257
    assert len(pins.held) == 256


# --- wrapped ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def accel(tmp_path: Path) -> Iterator[Accel]:
    with an_accel(tmp_path) as made:
        yield made


def backend_of(accel: Accel, server: Loopback, **more: Any) -> Backend:
    backend = accel.backend(f"{server.url}/v1", **more)
    assert backend.wait_ready()
    return backend


def sent(accel: Accel, server: Loopback, turns: str, **more: Any) -> list[Any]:
    """The slots that a wrapped client's requests name, one session a letter."""
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="k", max_retries=0) as bare:
        wrapped = accel.wrap(bare)
        for name in turns:
            with accel.session(name):
                wrapped.chat.completions.create(**ASK, **more)
    return [call.body.get("id_slot") for call in server.calls]


def test_where_the_user_says_so_each_session_goes_to_its_slot(accel: Accel, tmp_path: Path) -> None:
    """And the plan says so; what else is sent stays as it was."""
    server = engine(LLAMA)
    with serving(server):
        backend = backend_of(accel, server, pin_slots=True)
        assert backend.slot_of("a") == 0
        assert sent(accel, server, "abbaa") == [0, 1, 1, 0, 0]
        assert (backend.slot_of("a"), backend.slot_of("b")) == (0, 1)
    assert all(call.body == {**ASK, "id_slot": call.body["id_slot"]} for call in server.calls)
    assert "id_slot keeps the conversation in a slot of its own" in records(tmp_path)[0].reasons


def test_a_request_beside_another_one_of_its_session_goes_where_the_server_chooses(accel: Accel) -> None:
    """In one slot it would wait. A stream is under way until it was read or closed; then the slot is free again."""
    server = engine(LLAMA)
    with serving(server), openai.OpenAI(base_url=f"{server.url}/v1", api_key="k", max_retries=0) as bare:
        backend, wrapped = backend_of(accel, server, pin_slots=True), accel.wrap(bare)
        with accel.session("a"), wrapped.chat.completions.create(**ASK, stream=True):
            assert backend.slot_of("a") is None
            assert backend.slot_of("b") == 1
            wrapped.chat.completions.create(**ASK)
            wrapped.chat.completions.create(**ASK)
            assert backend.slot_of("a") is None
        assert backend.slot_of("a") == 0
        with accel.session("a"):
            wrapped.chat.completions.create(**ASK)
    assert [call.body.get("id_slot") for call in server.calls] == [0, None, None, 0]


def test_a_request_that_failed_is_not_under_way(accel: Accel) -> None:
    server = engine(LLAMA, **{CHAT: Answer({"error": {"message": "busy"}}, 503)})
    with serving(server), openai.OpenAI(base_url=f"{server.url}/v1", api_key="k", max_retries=0) as bare:
        backend, wrapped = backend_of(accel, server, pin_slots=True), accel.wrap(bare)
        with accel.session("a"), pytest.raises(openai.InternalServerError):
            wrapped.chat.completions.create(**ASK)
        assert backend.slot_of("a") == 0


def test_a_session_that_announces_its_first_request_has_its_slot_from_then_on(tmp_path: Path) -> None:
    """By hand, with two slots: a is computed ahead in slot 0, so b, which asks first, gets slot 1; a finds its own."""
    came = threading.Event()

    def tells(asked: Asked) -> Answer:
        came.set()
        return chat(asked)

    server = engine(LLAMA, **{CHAT: tells})
    asks = {name: {**ASK, "messages": [{"role": "user", "content": f"{name} " + prose(9000)}]} for name in "ab"}
    with (
        serving(server),
        an_accel(tmp_path, cache=CachePolicy(prewarm=True)) as accel,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="k", max_retries=0) as bare,
    ):
        backend, wrapped = backend_of(accel, server, pin_slots=True), accel.wrap(bare)
        with accel.session("a") as session:
            session.prewarm(wrapped.chat.completions.create, **asks["a"])
            assert came.wait(20)
        assert (backend.slot_of("a"), backend.slot_of("b")) == (0, 1)
        for name in "ba":
            with accel.session(name):
                wrapped.chat.completions.create(**asks[name])
    told = [(call.body["messages"][0]["content"][0], call.body.get("id_slot")) for call in server.calls]
    assert told == [("a", 0), ("b", 1), ("a", 0)]


def test_otherwise_the_server_chooses(accel: Accel) -> None:
    """Somebody else may use it."""
    server = engine(LLAMA)
    with serving(server):
        assert backend_of(accel, server).slot_of("a") is None
        assert sent(accel, server, "ab") == [None, None]


def test_nobody_is_pinned_while_there_are_more_sessions_than_slots(accel: Accel) -> None:
    server = engine(LLAMA)
    with serving(server):
        backend = backend_of(accel, server, pin_slots=True)
        assert sent(accel, server, "abcabc") == [0, 1, 0, None, None, None]
        assert backend.slot_of("a") is None


def test_a_slot_that_the_sender_names_stays(accel: Accel) -> None:
    server = engine(LLAMA)
    with serving(server):
        backend_of(accel, server, pin_slots=True)
        assert sent(accel, server, "ab", extra_body={"id_slot": 1}) == [1, 1]


@pytest.mark.parametrize("name", ["vllm-0.32.0-cpu", "sglang-0.5.23", "dynamo-1.6.1", "smg-1.13.0"])
def test_servers_without_slots_are_sent_none(accel: Accel, name: str) -> None:
    server = engine(name)
    with serving(server):
        backend_of(accel, server, pin_slots=True)
        assert sent(accel, server, "ab") == [None, None]


def test_a_server_that_does_not_say_how_many_slots_it_has_is_sent_none(accel: Accel) -> None:
    server = engine(LLAMA, **{"/props": Answer({"build_info": "b1"})})
    with serving(server):
        backend_of(accel, server, pin_slots=True)
        assert sent(accel, server, "ab") == [None, None]


@pytest.mark.parametrize("mode", ["observe", "off"])
def test_where_agentaccel_changes_nothing_no_slot_is_sent(tmp_path: Path, mode: str) -> None:
    server = engine(LLAMA)
    with serving(server), an_accel(tmp_path, mode=mode) as accel:
        accel.backend(f"{server.url}/v1", pin_slots=True).wait_ready()
        assert sent(accel, server, "ab") == [None, None]


def test_what_is_no_consent_is_refused(accel: Accel) -> None:
    with pytest.raises(ConfigError, match="pin_slots is 'yes'"):
        accel.backend("http://127.0.0.1:1/v1", pin_slots="yes")  # type: ignore[arg-type]


# --- kept in a file ---------------------------------------------------------------------------------------------------

SAVED = Answer({"id_slot": 1, "filename": "triage", "n_saved": 67, "n_written": 46888, "timings": {"save_ms": 0.2}})
RESTORED = Answer({"id_slot": 1, "filename": "triage", "n_restored": 67, "n_read": 46888})


async def test_a_slot_is_saved_and_restored_by_the_name_of_a_file(accel: Accel) -> None:
    """As llama.cpp b11549 was seen to answer; a figure that it does not tell is not known, and not 0."""
    server = engine(LLAMA, **{"/slots/1?action=save": SAVED, "/slots/1?action=restore": RESTORED})
    with serving(server):
        backend = accel.backend(f"{server.url}/v1", headers={"authorization": "Bearer k"})
        assert await backend.ready()
        want = KeptSlot(name="triage", slot=1, tokens=67, bytes=46888)
        assert await backend.save_slot("triage", slot=1) == want
        assert await backend.restore_slot("triage", slot=1) == want
        server.says["/slots/1?action=save"] = Answer(b"saved")
        assert await backend.save_slot("triage", slot=1) == KeptSlot(name="triage", slot=1, tokens=None, bytes=None)
    assert [call.body for call in server.calls] == [{"filename": "triage"}] * 3
    assert {call.headers["authorization"] for call in server.calls} == {"Bearer k"}


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (Answer({"error": {"code": 501, "message": "This server does not support slots action."}}, 501),
         "slot 0 was not restored: the server was started without --slot-save-path"),
        (Answer({"error": {"code": 400, "message": "Unable to restore slot: No available space"}}, 400),
         "slot 0 was not restored: 'triage': Unable to restore slot: No available space"),
        (Answer(b"<h1>Bad gateway</h1>", 502), "slot 0 was not restored: 'triage': status 502"),
        (Answer(status=302, headers={"location": "/elsewhere"}), "status 302"),
        (Answer(hangs=True), "slot 0 was not restored: no answer within 0.1 s"),
    ],
)  # fmt: skip
async def test_what_the_server_does_not_do_is_said_in_its_words(accel: Accel, answer: Answer, says: str) -> None:
    """Captured, the first two; and it is asked once: nobody knows what a second time would do."""
    server = engine(LLAMA, **{"/slots/0?action=restore": answer})
    with serving(server):
        backend = accel.backend(f"{server.url}/v1")
        assert await backend.ready()
        with pytest.raises(EngineError) as caught:
            await backend.restore_slot("triage", slot=0, within=0.1 if answer.hangs else 60.0)
    assert says in str(caught.value)
    assert len(server.calls) == 1


@pytest.mark.parametrize(
    ("name", "slot", "says"),
    [
        ("../a", 0, "name is '../a'"),
        ("a/b", 0, "without a folder"),
        ("a\\b", 0, "without a folder"),
        ("", 0, "name is ''"),
        ("a\n", 0, "name is"),
        ("a" * 201, 0, "name is"),
        (None, 0, "name is None"),
        ("a", 2, "slot is 2; this server has the slots 0 to 1"),
        ("a", -1, "slot is -1"),
        ("a", True, "slot is True"),
    ],
)
async def test_what_cannot_be_meant_is_not_asked(accel: Accel, name: Any, slot: Any, says: str) -> None:
    """llama.cpp answers 200 to a slot that it does not have, and writes a file of nothing."""
    server = engine(LLAMA)
    with serving(server):
        backend = accel.backend(f"{server.url}/v1")
        assert await backend.ready()
        with pytest.raises(ConfigError, match="save_slot") as caught:
            await backend.save_slot(name, slot=slot)
        with pytest.raises(ConfigError, match="within is 0"):
            await backend.save_slot("a", slot=0, within=0)
    assert says in str(caught.value)
    assert not server.calls


async def test_other_engines_keep_no_slots_and_say_so(accel: Accel) -> None:
    server = engine("vllm-0.32.0-cpu")
    with serving(server):
        backend = accel.backend(f"{server.url}/v1")
        assert await backend.ready()
        with pytest.raises(EngineError, match="no slot can be kept: vLLM is not known to save slots"):
            await backend.save_slot("a", slot=0)
    assert not server.calls


async def test_where_agentaccel_is_off_no_slot_is_kept(tmp_path: Path) -> None:
    server = engine(LLAMA)
    with serving(server), an_accel(tmp_path, mode="off") as accel:
        assert await accel.backend(f"{server.url}/v1").save_slot("a", slot=0) is None
    assert not server.asked


def test_the_capability_is_that_of_the_row() -> None:
    assert [Server(dialect=one).can("slots") for one in ("llamacpp", "vllm", "unknown")] == [True, False, None]

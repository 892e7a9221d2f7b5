"""What the user's own functions make of a history: shorter results and summaries, made ahead, used where that pays."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

import pytest

import agentaccel
from agentaccel import Accel, HistoryPolicy, Policy, StorePolicy
from agentaccel.rewrite import extractive
from agentaccel.rewrite.jobs import Asides, Want
from agentaccel.testing import ManualClock
from agentaccel.testing.inside import engine
from agentaccel.turn import Finished, FirstByte, Reported, Send, Started
from agentaccel.types import Usage
from agentaccel.wire.openai.usage import usage_of
from agentaccel_emulator import Emulator, HttpRequest
from tests.driver import Driver, Json, assistant, body, prose, user
from tests.engine.test_editing import START, SYSTEM, TOOLS, blocks, driver, history, notes, plain, request, turn_of

T = TypeVar("T")


class Later:
    """Work that is done when the test says so: a background that takes its time."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def submit(self, owner: str, work: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(work())
            except BaseException as error:  # noqa: BLE001 - as a thread would hand it over
                future.set_exception(error)

        self.waiting.append(run)
        return future

    def all(self) -> None:
        waiting, self.waiting = self.waiting, []
        for run in waiting:
            run()


def started(folder: Path, later: Later, **history: Any) -> Driver:
    one = driver(folder, Policy(strict=True, history=HistoryPolicy(**history)))
    engine(one.accel).runs = later
    return one


def contents(sent: Json) -> list[Any]:
    return [block["content"] for one in sent["messages"] for block in blocks(one) if block["type"] == "tool_result"]


def short(text: str) -> str:
    return f"In short: {text[:40]}"


def test_a_long_result_is_distilled_ahead_and_used_when_an_edit_pays(tmp_path: Path) -> None:
    later = Later()
    one = started(tmp_path, later, distil=short, distil_from=500)
    for turn in range(20):
        one.ask(request(history(turn)))
        later.all()
    distilled = [i for i, content in enumerate(contents(one.sent)) if str(content).startswith("In short: ")]
    assert distilled[:7] == list(range(7))
    assert one.records[-1].consents == ("distil",)
    assert not notes(one.sent), "clearing was not consented to"


def test_a_request_never_waits_for_a_function(tmp_path: Path) -> None:
    """What is not there yet is left for later; a note is not put in its place meanwhile."""
    later = Later()
    one = started(tmp_path, later, distil=short, distil_from=500, clear_results=True)
    for turn in range(20):
        one.ask(request(history(turn)))
    assert not one.records[-1].consents
    assert len(later.waiting) == 8, "each is asked for once, and no more at a time"
    for turn in range(20, 23):
        later.all()
        one.ask(request(history(turn)))
    assert one.records[-1].consents == ("distil",)


def test_however_many_are_wanted_each_is_asked_for_once() -> None:
    """More than are kept: then the rest waits, and nothing that is still wanted is forgotten for it."""
    asked: list[int] = []

    class Now:
        def submit(self, owner: str, work: Callable[[], T]) -> Future[T]:
            future = Future[T]()
            future.set_result(work())
            return future

    def shorter(number: int) -> str:
        asked.append(number)
        return "short"

    asides = Asides()
    wants = [Want(str(number).encode(), "distil", shorter, number) for number in range(520)]
    for _ in range(100):
        asides.ask("s", wants, Now())
    assert asked == list(range(512))
    asides.ask("s", wants[100:], Now())
    assert asked == list(range(520))


@pytest.mark.slow
def test_a_function_that_fails_is_a_miss_and_a_log_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The result goes out as it is; with the consent to clear, as a note."""

    def broken(text: str) -> str:
        raise ValueError("no")

    for clears in (False, True):
        later = Later()
        one = started(tmp_path / str(clears), later, distil=broken, distil_from=500, clear_results=clears)
        with caplog.at_level(logging.WARNING, logger="agentaccel"):
            for turn in range(16):
                one.ask(request(history(turn)))
                later.all()
        assert bool(notes(one.sent)) == clears
        assert not any(str(content).startswith("In short") for content in contents(one.sent))
    assert any("distil failed" in line.message for line in caplog.records)


@pytest.mark.parametrize("error", [asyncio.CancelledError(), SystemExit(3), KeyboardInterrupt()])
def test_a_function_that_is_cancelled_or_exits_ends_its_own_thread_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    """Contract line 6: no request of the caller's raises it."""

    def leaves(text: str) -> str:
        raise error

    later = Later()
    one = started(tmp_path, later, distil=leaves, distil_from=500)
    with caplog.at_level(logging.WARNING, logger="agentaccel"):
        for turn in range(4):
            one.ask(request(history(turn)))
            later.all()
    assert [line.message.partition(";")[0] for line in caplog.records] == ["agentaccel: distil failed"] * 3


@pytest.mark.slow
@pytest.mark.many(3)
@pytest.mark.parametrize("made", ["", " \n", 42, None, ["short"], b"short", "half of \ud83d"])
def test_what_is_no_text_that_can_be_sent_is_a_failure_with_a_log_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, made: Any
) -> None:
    """Of a summary, too, which is not asked for again."""
    for name in ("distil", "summarise"):
        later = Later()
        asked: Any = {name: lambda given: made, f"{name}_from": 500}
        one = started(tmp_path / name, later, keep_results=1, **asked)
        with caplog.at_level(logging.WARNING, logger="agentaccel"):
            for turn in range(16):
                one.ask(request(history(turn)))
                later.all()
        said = [line.message.partition(";")[0] for line in caplog.records]
        assert set(said) == {f"agentaccel: {name} gave no text that can be sent"}
        assert name != "summarise" or len(said) == 1
        assert not one.records[-1].consents
        caplog.clear()


def test_an_asynchronous_function_is_awaited(tmp_path: Path) -> None:
    async def slow(text: str) -> str:
        await asyncio.sleep(0)
        return short(text)

    later = Later()
    one = started(tmp_path, later, distil=slow, distil_from=500)
    for turn in range(14):
        one.ask(request(history(turn)))
        later.all()
    assert one.records[-1].consents == ("distil",)


def test_an_accel_runs_functions_in_threads_of_its_own(tmp_path: Path) -> None:
    """Without a stand-in: the thread that asks is not the one that makes."""
    threads: set[int] = set()

    def noted(text: str) -> str:
        threads.add(threading.get_ident())
        return short(text)

    one = driver(tmp_path, Policy(strict=True, history=HistoryPolicy(distil=noted, distil_from=500)))
    with one.accel.session("s") as session:
        for turn in range(14):
            one.ask(request(history(turn)))
            for future in list(session.conversation.asides._asked.values()):
                future.result(timeout=30)
    assert one.records[-1].consents == ("distil",)
    assert threads
    assert threading.get_ident() not in threads


def test_the_extract_keeps_what_is_looked_for_again() -> None:
    """The same text gives the same result; errors, paths, head and tail are there, and it is short."""
    lines = [f"compiling unit {'abcdefg'[i % 7] * 9}" for i in range(400)]
    lines[200:200] = ["", "ERROR src/app/main.py: no such name", "retry", "retry"]
    text = "\n".join(["begin", *lines, "end"])
    made = extractive(text, 300)
    assert made == extractive(text, 300)
    assert len(made) < 400
    assert all(line in made for line in ("begin", "end", "ERROR src/app/main.py: no such name"))
    assert extractive("short") == "short"


def test_the_extract_keeps_the_last_line_however_long_it_is() -> None:
    """A conclusion is often the longest line; where both ends are, each is cut to half."""
    conclusion = "In the end " + "it was the lamp " * 30
    made = extractive("\n".join([*(f"step {'x' * i}" for i in range(400)), conclusion.strip()]), 2000)
    assert made.endswith(conclusion.strip())
    both = extractive("a" * 5000 + "\n" + "b" * 5000, 1000)
    assert both == "a" * 500 + " [cut]\n" + "b" * 500 + " [cut]"


# --- summaries --------------------------------------------------------------------------------------------------------


def summed(folder: Path, turns: int, **more: Any) -> tuple[Driver, list[Mapping[str, Any]]]:
    asked: list[Mapping[str, Any]] = []

    def summary(given: Mapping[str, Any]) -> str:
        asked.append(given)
        return f"{len(given['messages'])} messages were about lamps."

    later = Later()
    one = started(folder, later, summarise=summary, summarise_from=5_000, **more)
    for turn in range(turns):
        one.ask(request(history(turn)))
        later.all()
    return one, asked


@pytest.mark.slow
def test_a_summary_stands_in_place_of_the_oldest_messages_behind_the_first_words(tmp_path: Path) -> None:
    """What is kept begins with a reply; every call that is left has its result, and the task is there in its words."""
    one, asked = summed(tmp_path, 30)
    assert asked
    assert one.records[-1].consents == ("summarise",)
    sent = plain(one.sent)["messages"]
    assert sent[0]["content"][0]["text"] == prose(100)
    assert sent[0]["content"][1]["text"].endswith("messages were about lamps.")
    assert [message["role"] for message in sent] == ["user", *["assistant", "user"] * ((len(sent) - 1) // 2)]
    calls = [block["id"] for one in sent for block in one["content"] if block["type"] == "tool_use"]
    results = [block["tool_use_id"] for one in sent for block in one["content"] if block["type"] == "tool_result"]
    assert calls == results == [f"t{i}" for i in range(30 - 1 - len(calls), 29)]
    assert plain({"messages": sent[1:]})["messages"] == plain({"messages": history(29)[-len(sent) + 1 :]})["messages"]


@pytest.mark.slow
def test_the_function_is_given_what_the_provider_holds(tmp_path: Path) -> None:
    """A request like the one that was sent, cut off: who appends an instruction reads it from the cache."""
    _, asked = summed(tmp_path, 30)
    first = asked[0]
    assert first["system"] == SYSTEM
    assert first["tools"] == TOOLS
    assert first["messages"] == history(29)[: len(first["messages"])]
    assert first["messages"][-1]["role"] == "user"


@pytest.mark.slow
def test_between_two_summaries_what_is_sent_only_grows_and_is_read(tmp_path: Path) -> None:
    one, _ = summed(tmp_path, 40)
    summaries = [
        i
        for i, record in enumerate(one.records)
        if any(it.startswith("a summary in") and "tokens" in it and "waits" not in it for it in record.reasons)
    ]
    assert 1 <= len(summaries) < 6
    misses = {i for i, record in enumerate(one.records) if record.misses}
    assert misses <= {0, *summaries}


@pytest.mark.slow
def test_after_a_rewind_before_the_cut_the_whole_history_is_sent(tmp_path: Path) -> None:
    one, _ = summed(tmp_path, 30)
    one.ask(request([*history(3), assistant("Stop."), user("Another way.")]))
    assert "about lamps" not in json.dumps(one.sent)
    assert (
        plain(one.sent)["messages"]
        == plain(request([*history(3), assistant("Stop."), user("Another way.")]))["messages"]
    )


@pytest.mark.slow
def test_another_process_sends_the_whole_history(tmp_path: Path) -> None:
    """The text of a summary is in no store: a miss, and not an error."""
    one, _ = summed(tmp_path, 30)
    one.accel.close()
    other = driver(tmp_path, Policy(strict=True), clock=one.clock, emulator=one.emulator)
    other.ask(request(history(30)))
    assert "about lamps" not in json.dumps(other.sent)
    assert b"about lamps" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())


def test_a_message_of_the_operators_is_never_summed_up(tmp_path: Path) -> None:
    """Nothing is cut behind it."""
    later = Later()
    one = started(tmp_path, later, summarise=lambda given: "Short.", summarise_from=1_000)
    messages = history(30)
    said = [*messages[:3], {"role": "system", "content": "Be brief."}, *messages[3:]]
    one.ask(request(said, model="claude-opus-5"))
    later.all()
    one.ask(request([*said, *turn_of(30)], model="claude-opus-5"))
    assert {"role": "system", "content": "Be brief."} in plain(one.sent)["messages"] or "Be brief." in json.dumps(
        one.sent
    )


# --- where the provider edits -----------------------------------------------------------------------------------------


def test_where_the_provider_edits_we_do_not_and_its_price_is_said(tmp_path: Path) -> None:
    one = driver(tmp_path)
    clears = {"type": "clear_tool_uses_20250919", "trigger": {"type": "input_tokens", "value": 5000}}
    for edit, said in ((clears, True), ({**clears, "clear_at_least": {"type": "input_tokens", "value": 9000}}, False)):
        made = request(history(20), context_management={"edits": [edit]})
        plan = one.accel.plan(made)
        assert not plan.consents
        assert "history left as it is: the request has the provider edit it (context_management)" in plan.reasons
        assert any("has no clear_at_least" in reason for reason in plan.reasons) == said


# --- the other wires --------------------------------------------------------------------------------------------------


def chat(turns: int) -> Json:
    messages: list[Json] = [{"role": "system", "content": SYSTEM}, user(prose(100))]
    for i in range(turns):
        call = {"id": f"c{i}", "type": "function", "function": {"name": "search", "arguments": "{}"}}
        result = {"role": "tool", "tool_call_id": f"c{i}", "content": f"{i} {prose(900, i)}"}
        messages += [{"role": "assistant", "content": None, "tool_calls": [call]}, result]
    return {"model": "gpt-5.2", "messages": messages}


def responses(turns: int) -> Json:
    items: list[Json] = [user(prose(100))]
    for i in range(turns):
        call = {"type": "function_call", "call_id": f"c{i}", "name": "search", "arguments": "{}"}
        parts = [{"type": "input_text", "text": f"{i} {prose(900, i)}"}]
        result = {"type": "function_call_output", "call_id": f"c{i}", "output": parts if i % 2 else parts[0]["text"]}
        items += [{"type": "reasoning", "id": f"r{i}", "summary": []}, call, result]
    return {"model": "gpt-5.2", "instructions": SYSTEM, "input": items}


def billed(emulator: Emulator, sent: Json, now: float) -> Usage:
    """What the emulator bills; it must take the request."""
    path = "/v1/chat/completions" if "messages" in sent else "/v1/responses"
    headers = {"authorization": "Bearer k", "content-type": "application/json"}
    reply = emulator.handle(HttpRequest(method="POST", path=path, headers=headers, body=json.dumps(sent).encode()), now)
    assert reply.status == 200, reply.body
    return usage_of(json.loads(reply.body)["usage"])


@pytest.mark.slow
@pytest.mark.parametrize("made", [chat, responses])
def test_a_summary_is_legal_on_both_wires_of_openai(tmp_path: Path, made: Callable[[int], Json]) -> None:
    """One message of the user's: the first words, and the summary behind them."""
    clock, later = ManualClock(now=START), Later()
    emulator = Emulator(clock=clock)
    history = HistoryPolicy(summarise=lambda given: "It was about lamps.", summarise_from=4_000)
    policy = Policy(strict=True, store=StorePolicy(path=tmp_path / "t.db"), history=history)
    sent: Json = {}
    with Accel(policy, clock=clock, environ={}) as accel, accel.session("s"):
        engine(accel).runs = later
        for turn in range(30):
            clock.advance(5)
            planned = accel.turn(made(turn), provider="openai")
            send = planned.handle(Started(clock.monotonic()))[-1]
            assert isinstance(send, Send)
            sent = dict(send.request)
            planned.handle(FirstByte(clock.monotonic()))
            planned.handle(Reported(usage=billed(emulator, sent, clock.now)))
            planned.handle(Finished(clock.monotonic()))
            later.all()
    name = "messages" if made is chat else "input"
    first = next(one for one in sent[name] if one.get("role") == "user")
    assert str(first["content"]).startswith(prose(100))
    assert "It was about lamps." in str(first["content"])
    assert len(sent[name]) < len(made(29)[name])


@pytest.mark.parametrize("made", [chat, responses])
def test_results_are_cleared_on_both_wires_of_openai_and_nothing_else_changes(
    tmp_path: Path, made: Callable[[int], Json]
) -> None:
    clock = ManualClock(now=START)
    emulator = Emulator(clock=clock)
    policy = Policy(strict=True, store=StorePolicy(path=tmp_path / "t.db"), history=HistoryPolicy(clear_results=True))
    sent: list[Json] = []
    with Accel(policy, clock=clock, environ={}) as accel, accel.session("s"):
        for turn in range(16):
            clock.advance(5)
            planned = accel.turn(made(turn), provider="openai")
            send = planned.handle(Started(clock.monotonic()))[-1]
            assert isinstance(send, Send)
            sent.append(dict(send.request))
            planned.handle(FirstByte(clock.monotonic()))
            planned.handle(Reported(usage=billed(emulator, sent[-1], clock.now)))
            planned.handle(Finished(clock.monotonic()))
    name = "messages" if made is chat else "input"
    results = [one for one in sent[-1][name] if "tool_call_id" in one or "output" in one]
    cleared = [
        one for one in results if str(one.get("content", one.get("output"))).startswith("[cleared: the result of")
    ]
    assert 3 < len(cleared) <= 12
    assert results[: len(cleared)] == cleared
    written = made(15)[name]
    for old, new in zip(written, sent[-1][name], strict=True):
        assert old == new or {**old, "content": 0, "output": 0} == {**new, "content": 0, "output": 0}


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("keep_results", 0, "keep_results"),
        ("pinned_tools", "read", "pinned_tools"),
        ("distil", "shorter", "distil"),
        ("summarise", 3, "summarise"),
        ("distil_from", 0, "distil_from"),
        ("summarise_from", True, "summarise_from"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused_where_they_are_written(field: str, value: Any, said: str) -> None:
    with pytest.raises(agentaccel.ConfigError, match=f"HistoryPolicy.{said}"):
        HistoryPolicy(**{field: value})


def test_a_body_without_results_is_left_alone(tmp_path: Path) -> None:
    one = driver(tmp_path)
    made = body(user(prose(3000)), assistant("Yes."), user("And now?"))
    one.ask(made)
    assert not one.records[-1].consents

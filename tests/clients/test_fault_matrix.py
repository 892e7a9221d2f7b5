"""Whatever goes wrong, in any dialect: the caller sees what it would see without us; the store says what happened."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentaccel.records import TurnRecord
from agentaccel_emulator import Fault, RunningServer, call
from agentaccel_emulator.script import say
from tests.clients.dialects import DIALECTS, QUICK, Dialect, Look, closed, idle, look, plain, still_server
from tests.clients.wire import an_accel, records

SHORT = [call("search", {"q": "a lamp"}, text="Let me look.")]
LONG = [say("word " * 60_000)]
"""More than one read of a connection takes (256 KiB in asyncio): a reader who breaks off was not given the end."""
TRANSPORT = ("chat", "responses")
"""Dialects that are watched in the HTTP transport, where errors are the HTTP library's and not yet the SDK's."""

FAULTS = (
    "nothing",
    "429",
    "500",
    "529",
    "timeout",
    "disconnect_mid_stream",
    "malformed_sse",
    "missing_usage",
    "broken off",
)
STREAMED = ("broken off", "overloaded_mid_stream")
Case = tuple[str, str, bool, bool, int]
"""Dialect, fault, whether streamed, whether async, retries."""


def cases() -> Iterator[Case]:
    """All that there are; a reader can break off streams only, and errors come inside of streams only."""
    for name, fault, streamed, asynchronous, retries in itertools.product(
        DIALECTS, FAULTS, (False, True), (False, True), (0, 2)
    ):
        if fault not in STREAMED or (streamed and not retries):
            yield name, fault, streamed, asynchronous, retries


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with still_server() as running:
        yield running


def struck(server: RunningServer, fault: str) -> None:
    """The server as new, with a fault that strikes every call."""
    server.emulator.reset()
    server.emulator.use_script(LONG if fault == "broken off" else SHORT)
    headers = {"retry-after-ms": "1"} if fault.isdigit() else {}
    harmless = fault in ("nothing", "broken off")
    server.emulator.use_faults([] if harmless else [Fault(kind=fault, headers=headers)])  # type: ignore[arg-type]


ERRORS = {
    "messages": {"429": "rate_limit_error", "500": "api_error", "529": "overloaded_error"},
    "chat": {"429": "requests", "500": "server_error", "529": "server_error"},
    "responses": {"429": "requests", "500": "server_error", "529": "server_error"},
    "bedrock": {"429": "ThrottlingException", "500": "InternalServerException", "529": "ServiceUnavailableException"},
    "vertex": {"429": "RESOURCE_EXHAUSTED", "500": "INTERNAL", "529": "overloaded_error"},
}


OVERLOADED = {"chat": "server_error", "responses": "server_error", "bedrock": "serviceUnavailableException"}
"""What an error inside of a stream is called."""


def recorded(case: Case, *, last: bool) -> tuple[str, int | None, str | None]:
    """What the record of an attempt says: outcome, status, error. `last` is whether no other attempt followed."""
    name, fault, streamed, _, _ = case
    match fault:
        case "429" | "500" | "529":
            status = 503 if fault == "529" and name in ("chat", "responses", "bedrock") else int(fault)
            # Bedrock names the error in a header; elsewhere the body does, which nobody reads before a retry.
            told = not streamed or last or name == "bedrock"
            return "failed", status, ERRORS[name][fault] if told else None
        case "overloaded_mid_stream":
            return "failed", None, OVERLOADED.get(name, "overloaded_error")
        case "timeout":
            return "failed", None, "ReadTimeout" if name in TRANSPORT else "APITimeoutError"
        case "disconnect_mid_stream":
            return "failed", None, "RemoteProtocolError" if streamed or name in TRANSPORT else "APIConnectionError"
        case "malformed_sse" if not streamed:
            return "failed", None, "reply ended early"
        case "nothing" | "missing_usage":
            return "ok", None, None
    return "abandoned", None, None


def usage_seen(case: Case, record: TurnRecord) -> bool:
    """Whether the reply had told its usage before it went wrong: Claude's streams begin with it."""
    name, fault, streamed, _, _ = case
    if fault == "nothing":
        return True
    begins = fault in ("disconnect_mid_stream", "malformed_sse", *STREAMED) and streamed
    return begins and name not in TRANSPORT


def check(case: Case, server: RunningServer, folder: Path) -> None:
    name, fault, streamed, asynchronous, retries = case
    found, requests = [], list[int]()
    options = {"timeout": QUICK} if fault == "timeout" else {}
    for wrap in (lambda bare: bare, DIALECTS[name].wrapped(an_accel(folder))):
        struck(server, fault)
        found.append(
            look(
                DIALECTS[name],
                server,
                wrap=wrap,
                streamed=streamed,
                asynchronous=asynchronous,
                events=2 if fault == "broken off" else None,
                max_retries=retries,
                **options,
            )
        )
        server.wait_for_calls(1 + retries if fault == "timeout" else 1)  # the last may still be on its way
        requests.append(len(server.log))
    bare, ours = found
    assert ours.seen == bare.seen
    assert requests[1] == requests[0]
    assert ours.idle >= bare.idle
    assert ours.tasks <= bare.tasks
    turns = records(folder)
    assert len(turns) == requests[1], "each attempt is a turn that has ended, once"
    assert [turn.attempt for turn in turns] == list(range(len(turns)))
    for turn in turns:
        wanted = recorded(case, last=turn is turns[-1])
        assert (turn.outcome, turn.status, turn.error) == wanted
        assert (turn.usage.input is not None) == usage_seen(case, turn)
        assert turn.finished is not None
        assert turn.mode == "on"


def identified(case: Case) -> str:
    name, fault, streamed, asynchronous, retries = case
    return f"{name}-{fault}-{'stream' if streamed else 'json'}-{'async' if asynchronous else 'sync'}-{retries}"


def diagonal() -> Iterator[Case]:
    """One of the ways of each fault in each dialect; each dialect comes in every way, and each fault in five."""
    ways = list(itertools.product((False, True), (False, True), (0, 2)))
    wanted = set[Case]()
    for number, (name, fault) in enumerate(itertools.product(DIALECTS, FAULTS)):
        wanted.add((name, fault, *ways[number % 8]))
    for number, (fault, name) in enumerate(itertools.product(STREAMED, DIALECTS)):
        wanted.add((name, fault, True, bool(number % 2), 0))
    return (case for case in cases() if case in wanted)


QUICK_CASES = list(diagonal())
SLOW_CASES = [case for case in cases() if case not in QUICK_CASES]


@pytest.mark.soak
@pytest.mark.parametrize("case", SLOW_CASES, ids=identified)
def test_a_caller_sees_what_it_would_see_without_us_in_all_the_other_ways(
    tmp_path: Path, server: RunningServer, case: Case
) -> None:
    """As below."""
    check(case, server, tmp_path)


@pytest.mark.many(4)
@pytest.mark.parametrize("case", QUICK_CASES, ids=identified)
def test_a_caller_sees_what_it_would_see_without_us(tmp_path: Path, server: RunningServer, case: Case) -> None:
    """Chosen by us, and promised: same values, exception and number of attempts; one record for each attempt."""
    check(case, server, tmp_path)


# --- a task that is cancelled ----------------------------------------------------------------------------------------


async def cancelled(dialect: Dialect, client: Any, server: RunningServer, moment: str) -> list[Any]:
    """Cancels a task while it waits for the reply, or between two events; how many came with the first is chance."""
    got: list[Any] = []

    async def asks() -> None:
        streamed = {"stream": True} if moment != "before json" else {}
        reply = await dialect.calls(client).create(**dialect.ask, **streamed)
        async with reply:
            async for event in reply:
                got.append(plain(event))
                if len(got) == 1:
                    task.cancel()  # it is thrown in where the task waits next, for more of the connection

    task = asyncio.create_task(asks())
    if moment != "reading":
        await asyncio.to_thread(server.wait_for_calls, 1)
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return got[:1]


MOMENTS = ("before json", "before a stream", "reading")


@pytest.mark.many(3)
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("name", DIALECTS)
async def test_a_cancelled_task_ends_its_turn_and_leaves_nothing(
    tmp_path: Path, server: RunningServer, name: str, moment: str
) -> None:
    """Chosen by us: cancelling passes through at once, and the turn says so; what had been told is kept."""
    found = []
    for wrap in (lambda bare: bare, DIALECTS[name].wrapped(an_accel(tmp_path))):
        struck(server, "broken off" if moment == "reading" else "timeout")
        async with DIALECTS[name].async_client(server) as bare:
            seen = await cancelled(DIALECTS[name], wrap(bare), server, moment)
            found.append(Look(seen, idle(bare), await closed()))
    bare_, ours = found
    assert ours.seen == bare_.seen
    assert ours.idle >= bare_.idle
    assert ours.tasks <= bare_.tasks
    [turn] = records(tmp_path)
    assert (turn.outcome, turn.status, turn.error) == ("cancelled", None, "CancelledError")
    assert (turn.usage.input is not None) == (moment == "reading" and name not in TRANSPORT)


# --- the matrix itself -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DIALECTS)
def test_the_requests_of_the_matrix_are_changed_by_us(tmp_path: Path, server: RunningServer, name: str) -> None:
    """The twin: these callers see the same although what is sent is not, so there is something to notice."""
    dialect, sent = DIALECTS[name], []
    for wrap in (lambda bare: bare, dialect.wrapped(an_accel(tmp_path))):
        struck(server, "nothing")
        look(dialect, server, wrap=wrap, streamed=True, asynchronous=False)
        sent.append(server.log[0].request)
    assert sent[0] != sent[1]


def test_one_attempt_more_is_noticed(tmp_path: Path, server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: a layer that asks twice fails the comparison."""

    def asks_twice(bare: Any) -> Any:
        send = bare._client.send

        def sends(*given: Any, **named: Any) -> Any:
            send(*given, **named).close()
            return send(*given, **named)

        bare._client.send = sends
        return bare

    monkeypatch.setattr(Dialect, "wrapped", lambda self, accel: asks_twice)
    with pytest.raises(AssertionError, match="assert 2 == 1"):
        check(("chat", "429", True, False, 0), server, tmp_path)


def test_an_event_that_is_kept_back_is_noticed(
    tmp_path: Path, server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin: a filter that takes more than the usage chunk fails the comparison."""
    monkeypatch.setattr("agentaccel.clients.usage_filter._is_usage", lambda event: b"finish_reason" in event)
    with pytest.raises(AssertionError):
        check(("chat", "nothing", True, False, 0), server, tmp_path)

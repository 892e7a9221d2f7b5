"""A call that goes out streamed inside the client fails as one that is not streamed: same exception, same attempts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentaccel_emulator import Fault, RunningServer, call
from tests.clients.dialects import DIALECTS, QUICK, Look, look, still_server
from tests.clients.inside import consenting
from tests.clients.wire import records

SHORT = [call("search", {"q": "a lamp"}, text="Let me look.")]
WIRES = ("messages", "chat", "responses")
FAULTS = ("nothing", "429", "500", "529", "timeout", "disconnect_mid_stream", "malformed_sse", "missing_usage")
Case = tuple[str, str, bool, int]
"""Wire, fault, whether async, retries."""


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with still_server() as running:
        yield running


def struck(server: RunningServer, fault: str, **more: Any) -> None:
    server.emulator.reset()
    server.emulator.use_script(SHORT)
    headers = {"retry-after-ms": "1"} if fault.isdigit() else {}
    server.emulator.use_faults([] if fault == "nothing" else [Fault(kind=fault, headers=headers, **more)])  # type: ignore[arg-type]


def kind(found: Look) -> Any:
    """What is the same whatever the words: values, the exception's class, status, body and cause."""
    got, error = found.seen
    return got, None if error is None else (error[0], error[4], error[3] if error[4] is not None else None, error[5])


def both(
    case: Case, server: RunningServer, folder: Path, *, of_bare: str | None = None
) -> tuple[Look, Look, list[int]]:
    """What the caller sees of the bare client, struck by another fault where that is said, and of ours."""
    name, fault, asynchronous, retries = case
    options: Any = {"timeout": QUICK} if fault == "timeout" else {}
    found, requests = [], []
    for wrap, struck_by in (
        (lambda bare: bare, of_bare or fault),
        (DIALECTS[name].wrapped(consenting(folder)), fault),
    ):
        struck(server, struck_by)
        found.append(
            look(
                DIALECTS[name],
                server,
                wrap=wrap,
                streamed=False,
                asynchronous=asynchronous,
                max_retries=retries,
                **options,
            )
        )
        server.wait_for_calls(1 + retries if fault == "timeout" else 1)
        requests.append(len(server.log))
    return found[0], found[1], requests


CASES = list(itertools.product(WIRES, FAULTS, (False, True), (0, 2)))


@pytest.mark.many(3)
@pytest.mark.parametrize("case", CASES)
def test_a_caller_sees_what_it_would_see_without_us(tmp_path: Path, server: RunningServer, case: Case) -> None:
    bare, ours, requests = both(case, server, tmp_path)
    assert kind(ours) == kind(bare)
    assert requests[1] == requests[0]
    assert ours.idle >= bare.idle
    assert ours.tasks <= bare.tasks
    turns = records(tmp_path)
    assert len(turns) == requests[1]
    assert all(turn.streamed and turn.consents == ("stream_inside",) for turn in turns)


@pytest.mark.parametrize("case", list(itertools.product(WIRES, ("overloaded_mid_stream",), (False, True), (0, 2))))
def test_an_error_inside_of_the_stream_is_the_refusal_of_a_whole_call(
    tmp_path: Path, server: RunningServer, case: Case
) -> None:
    bare, ours, requests = both(case, server, tmp_path, of_bare="529")
    assert ours.seen[0] == bare.seen[0] == []
    assert ours.seen[1][0] == bare.seen[1][0]
    assert requests[1] == requests[0]

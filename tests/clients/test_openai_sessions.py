"""Which session a request of the OpenAI SDK belongs to, what that teaches, and that it never costs a cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import openai
import pytest

from agentaccel import Accel, Policy, StorePolicy
from agentaccel.store.store import open_reader
from agentaccel.testing import ManualClock
from agentaccel_emulator import RunningServer, serve
from tests.clients.test_openai_savings import MODEL, Calls, cost, user

SAID = {"role": "assistant", "content": "ok " * 20}


def chains(client: Any, server: RunningServer) -> None:
    """Responses that go on from one another; the provider holds the history."""
    for number in range(12):
        before: dict[str, Any] = {}
        for turn in range(4):
            given = [user(f"doc {number} " + "d " * 4000)] if turn == 0 else [user(f"more {turn}")]
            before = {"previous_response_id": client.responses.create(model=MODEL, input=given, **before).id}
            server.clock.advance(20)


def strings_then_lists(client: Any, server: RunningServer) -> None:
    """The first input is a string, later ones are lists that begin with it."""
    for number in range(12):
        given: Any = f"doc {number} " + "d " * 4000
        for turn in range(3):
            client.responses.create(model=MODEL, input=given)
            given = [*([user(given)] if isinstance(given, str) else given), SAID, user(f"more {turn}")]
            server.clock.advance(20)


def resumed_after_one_shots(client: Any, server: RunningServer) -> None:
    """A long chat that begins late, in a store that knows few-shot one-shots of the same model alone."""
    shots = [one for number in range(4) for one in (user(f"example {number}"), SAID)]
    for number in range(10):
        client.chat.completions.create(model=MODEL, messages=[*shots, user(f"case {number} " + "data " * 900)])
        server.clock.advance(20)
    history = [user("the task " + "data " * 2000), *(one for n in range(4) for one in (SAID, user(f"earlier {n}")))]
    for turn in range(30):
        client.chat.completions.create(model=MODEL, messages=history)
        history = [*history, SAID, user(f"more {turn} " * 60)]
        server.clock.advance(2400 if turn == 5 else 20)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("calls", "at_most"),
    [
        (chains, 1.0),
        pytest.param(strings_then_lists, 1.0, marks=pytest.mark.soak),
        pytest.param(resumed_after_one_shots, 1.05, marks=pytest.mark.soak),
    ],
)
def test_a_conversation_that_goes_on_keeps_its_cache(calls: Calls, at_most: float, tmp_path: Path) -> None:
    """Promised: never knowingly costlier. The third loses one request before the chat has gone on."""
    assert cost(calls, tmp_path) <= at_most * cost(calls, None) + 1e-9


def test_requests_that_go_on_from_a_held_reply_belong_to_its_session(tmp_path: Path) -> None:
    """And nothing is said of misses there: what the provider holds is not in the request."""
    with (
        serve(script=["ok"] * 9, clock=ManualClock(now=1e9)) as server,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="k", max_retries=0) as bare,
        Accel(Policy(strict=True, store=StorePolicy(path=tmp_path / "t.db")), clock=server.clock, environ={}) as accel,
    ):
        client = accel.wrap(bare, platform="api")
        opening = [user("d " * 4000)]
        for _ in range(2):
            first = client.responses.create(model=MODEL, input=opening)
            client.responses.create(model=MODEL, input=[user("more")], previous_response_id=first.id)
    with open_reader(tmp_path / "t.db") as store:
        turns = list(store.turns())
    assert len({turn.session for turn in turns}) == 2
    assert [turn.held for turn in turns] == ["", "previous response"] * 2
    assert all(not turn.misses for turn in turns if turn.held)
    assert all(turn.as_written == turn.usage for turn in turns)

"""Any request at all, from its decoding to its row in the store: nothing raises under `strict`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from agentaccel import Accel, Policy, StorePolicy
from agentaccel.testing import ManualClock
from agentaccel.turn import CallClosed, Finished, FirstByte, Reported, Send, Started
from agentaccel.wire.anthropic import MessagesTap
from tests.driver import body, user
from tests.wire.bodies import Json, mangled, requests
from tests.wire.replies import call, end, sse, start

NO_SHRINK = (Phase.explicit, Phase.reuse, Phase.generate)
"""Each example opens a store, so making a failing one smaller takes minutes."""


def whole_turns(bodies: list[Json], words: str, keep: bool) -> None:
    """Each request as a turn of one session, answered with a call named `words`."""
    with tempfile.TemporaryDirectory() as folder:
        store = StorePolicy(path=Path(folder) / "trace.db", content=keep)
        clock = ManualClock()
        with Accel(Policy(strict=True, store=store), clock=clock) as accel:
            for body in bodies:
                clock.advance(1)
                turn = accel.turn(body)
                sent = turn.handle(Started(clock.monotonic()))[-1]
                assert isinstance(sent, Send)
                turn.handle(FirstByte(clock.monotonic()))
                tap = MessagesTap(streamed=True)
                for told in tap.feed(sse([start(), *call(words, ['{"a": ["\\ud83d"]}'])]) if keep else b""):
                    turn.handle(CallClosed(told, clock.monotonic()))
                list(tap.feed(b"\n\n".join([sse([start()]), sse(end())])))
                turn.handle(Reported(usage=tap.usage, stop=words, message_id=words))
                turn.handle(Finished(clock.monotonic()))
                assert turn.ended is not None
        with Accel(Policy(strict=True, store=store), clock=clock) as again:
            again.turn(bodies[-1])


NAMES = st.sampled_from(["search", "", "Grüße", "a" * 300])


def sound(body: Any) -> bool:
    """`accel.turn` itself refuses, with a reason, what is no list of messages."""
    return isinstance(body.get("messages", []), list | None)


@settings(max_examples=6, phases=NO_SHRINK, suppress_health_check=list(HealthCheck))
@given(st.lists(st.one_of(requests(), mangled()).filter(sound), min_size=1, max_size=3), NAMES, st.booleans())
def test_any_request_is_planned_settled_and_recorded(bodies: list[Json], words: str, keep: bool) -> None:
    """Chosen by us: whatever an agent sends and whatever it gets, recording it never fails."""
    whole_turns(bodies, words, keep)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@settings(max_examples=1500, deadline=None, phases=NO_SHRINK, suppress_health_check=list(HealthCheck))
@given(st.lists(st.one_of(requests(), mangled()).filter(sound), min_size=1, max_size=3), NAMES, st.booleans())
def test_any_request_is_planned_settled_and_recorded_at_length(bodies: list[Json], words: str, keep: bool) -> None:
    """As the test before, many times."""
    whole_turns(bodies, words, keep)


LATER = {"type": "ephemeral", "ttl": "24h"}
ODD: dict[str, Json] = {
    "a lifetime that our facts do not know": body(user([{"type": "text", "text": "x", "cache_control": LATER}])),
    "lone surrogates in names": body(
        {"role": "user\ud800", "content": "x"},
        tools=[{"name": "f\ud800", "type": "custom\ud800"}],
        output_config={"\ud800": 1},
        **{"x\ud800": 1, "model": "claude-\ud800"},
    ),
    "no messages": {"model": "claude-sonnet-5", "messages": []},
    "a thread that goes on": {"model": "claude-sonnet-5", "thread": {"type": "continue"}},
}


@pytest.mark.parametrize("why", sorted(ODD))
def test_an_odd_request_that_the_provider_accepts_is_recorded(why: str) -> None:
    """Chosen by us: what the provider takes and we do not know is settled as far as it is known."""
    whole_turns([ODD[why]] * 3, "search", keep=True)

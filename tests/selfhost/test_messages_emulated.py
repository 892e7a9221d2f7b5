"""An agent of Anthropic's SDK on an emulated server with slots, in virtual time: what has to be computed, and why.

The right values are those of the same conversation arranged by hand: what changes stands last, and the tools in one
order. No marker is sent, and nobody names the server: the emulator runs in this process.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anthropic
import pytest

from agentaccel import Accel, CachePolicy
from agentaccel.policy import HistoryPolicy
from agentaccel.testing import ManualClock
from agentaccel_emulator import Behaviour, Emulator, RunningServer, Tokenizer, serve
from tests.clients.wire import an_accel, records
from tests.driver import prose, tool

TURNS = 6
TOOLS = [tool("search", 150), tool("refund", 150), tool("note", 150)]
RULES = prose(900)
Json = dict[str, Any]


def clock_of(turn: int) -> str:
    return f"It is 2026-11-21 09:{10 + 7 * turn}:{11 + 3 * turn} UTC."


def history(turn: int) -> list[Json]:
    """An agent that calls a tool on every turn, and sends back what came of it."""
    said: list[Json] = [{"role": "user", "content": "Where is my parcel? I have waited for it since the last week."}]
    for at in range(turn):
        call = {"type": "tool_use", "id": f"toolu_{at}", "name": "search", "input": {"at": at}}
        result = {"type": "tool_result", "tool_use_id": f"toolu_{at}", "content": prose(250, at)}
        said += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    return said


def written(turn: int) -> Json:
    """A clock in front of the rules, and the tools in another order each time."""
    order = [TOOLS[(turn + at) % 3] for at in range(3)]
    return {"system": f"{clock_of(turn)}\n{RULES}", "tools": order, "messages": history(turn)}


def by_hand(turn: int) -> Json:
    """The clock in the last message of the user, behind the result."""
    *before, last = history(turn)
    content = last["content"]
    note = {"type": "text", "text": clock_of(turn)}
    if isinstance(content, str):
        told: list[Json] = [{"type": "text", "text": content}, note]
    else:
        told = [{**content[0], "content": [{"type": "text", "text": content[0]["content"]}, note]}]
    return {"system": RULES, "tools": TOOLS, "messages": [*before, {"role": "user", "content": told}]}


def emulated(platform: str = "llamacpp") -> Emulator:
    """One that counts four bytes as a token and keeps one conversation."""
    slots = {"slots": 1} if platform == "llamacpp" else {}
    behaviour = Behaviour(tokenizer=Tokenizer(bytes_per_token=4.0), **slots)
    return Emulator(platform=platform, behaviour=behaviour, clock=ManualClock())


def computed(server: RunningServer) -> int:
    return sum(one.usage.uncached for one in server.log if one.usage is not None)


def played(server: RunningServer, ask: Any, accel: Accel | None = None, session: str = "s") -> int:
    """Tokens computed for a session, asked through the real SDK."""
    before = computed(server)
    with anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0) as bare:
        client = bare if accel is None else accel.wrap(bare)
        for turn in range(TURNS):
            if accel is None:
                client.messages.create(model="m", max_tokens=9, **ask(turn))
                continue
            with accel.session(session, agent="desk"):
                client.messages.create(model="m", max_tokens=9, **ask(turn))
    return computed(server) - before


@pytest.mark.slow
@pytest.mark.parametrize("platform", ["llamacpp", "vllm", "sglang"])
def test_with_consent_an_agent_computes_little_more_than_one_arranged_by_hand(tmp_path: Path, platform: str) -> None:
    """From an empty store at most one prompt more; with what two sessions have taught, within a tenth."""
    bare, hand, ours = (emulated(platform) for _ in range(3))
    policy = CachePolicy(move_volatile=True, freeze_tools=True)
    with serve(bare) as one, serve(hand) as two, serve(ours) as three:
        as_written, arranged = played(one, written), played(two, by_hand)
        first_prompt = two.log[0].usage.input  # type: ignore[union-attr]
        with an_accel(tmp_path, cache=policy) as accel:
            found = []
            for session in range(3):
                ours.reset()
                found.append(played(three, written, accel, f"s{session}"))
        sent = [entry.request for entry in three.log]
    assert "cache_control" not in str(sent)
    assert clock_of(TURNS - 1) in str(sent[-1]["messages"][-1])  # type: ignore[index]
    assert as_written > 2.5 * arranged
    assert found[0] <= arranged + first_prompt
    assert found[2] <= 1.10 * arranged
    assert {(one.provider, one.platform) for one in records(tmp_path)} == {("compatible", platform)}


def test_without_consent_nothing_is_sent_but_what_was_written(tmp_path: Path) -> None:
    """And the plans say what the clock and the order of the tools cost."""
    emulator = emulated()
    with serve(emulator) as server, an_accel(tmp_path) as accel:
        played(server, written, accel)
        sent = [entry.request for entry in server.log]
    assert sent == [{"model": "m", "max_tokens": 9, **written(turn)} for turn in range(TURNS)]
    said = " ".join(reason for record in records(tmp_path) for reason in record.reasons)
    assert "CachePolicy(freeze_tools=True) consents" in said


def test_old_results_become_notes_where_that_pays_in_what_is_computed(tmp_path: Path) -> None:
    """A server whose slot is taken by another conversation each time computes all of the history: a shorter one is
    cheaper."""
    emulator = emulated()
    history_policy = HistoryPolicy(clear_results=True, keep_results=1)
    with serve(emulator) as server, an_accel(tmp_path, history=history_policy) as accel:
        with anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0) as bare:
            client = accel.wrap(bare)
            for turn in range(8):
                for session in ("a", "b"):
                    with accel.session(session, agent="desk"):
                        client.messages.create(
                            model="m", max_tokens=9, system=f"You serve {session}. {RULES}", messages=history(turn)
                        )
        last = server.log[-1]
    assert last.request is not None
    results = [one for message in last.request["messages"] for one in message["content"] if isinstance(one, dict)]
    notes = [one for one in results if one.get("type") == "tool_result" and len(str(one["content"])) < 400]
    assert notes
    assert last.usage is not None
    assert last.usage.input < 8 * 350 + 1500

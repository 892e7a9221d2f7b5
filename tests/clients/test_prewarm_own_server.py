"""What a session announces is computed ahead on a server of the user's own, where it mostly comes: no price is needed.

The real SDK against the emulator, in virtual time: 0.3 s to the first byte, and a second more for each 10,000 tokens
that are to be computed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from agentaccel import Accel, CachePolicy, Policy, StorePolicy, TurnRecord
from agentaccel.engine import own_requests
from agentaccel.records import PREWARM
from agentaccel.store.store import open_reader
from agentaccel.testing import ManualClock
from agentaccel.testing.virtual import EmulatedTransport, run
from agentaccel_emulator import Emulator
from tests.clients.branches import EXACT
from tests.driver import Json, prose, user

SYSTEM: Json = {"role": "system", "content": prose(30_200)}
"""About 50,000 tokens: five seconds."""
QUESTION = user("Where is order 7?")


class Room:
    """One process in virtual time in front of a server."""

    def __init__(self, folder: Path, platform: str, **cache: Any) -> None:
        self.clock, self.path = ManualClock(), folder / "trace.db"
        self.emulator = Emulator(script=["Done."], platform=platform, behaviour=EXACT, clock=self.clock)
        policy = Policy(strict=True, store=StorePolicy(path=self.path), cache=CachePolicy(**{"prewarm": True, **cache}))
        self.accel = Accel(policy, clock=self.clock, environ={})
        http = httpx2.AsyncClient(transport=EmulatedTransport(self.emulator, self.clock, set()))
        bare = openai.AsyncOpenAI(base_url="http://10.0.0.9:8000/v1", api_key="k", http_client=http, max_retries=0)
        self.client = self.accel.wrap(bare, platform=platform)

    def run(self, main: Callable[[Room], Awaitable[None]]) -> list[TurnRecord]:
        async def whole() -> None:
            await main(self)

        run(whole, self.clock)
        self.accel.close()
        with open_reader(self.path) as store:
            return list(store.turns())

    @property
    def sent(self) -> list[Json]:
        return [dict(entry.request) for entry in self.emulator.log if entry.request is not None]

    async def ask(self, wire: str, **more: Any) -> float:
        """Seconds to the first byte of a reply."""
        if wire == "chat":
            await self.client.chat.completions.create(
                model="qwen3",
                max_tokens=1,
                messages=[SYSTEM, QUESTION],
                **more,  # type: ignore[list-item]
            )
        else:
            await self.client.responses.create(model="qwen3", max_output_tokens=16, input=[SYSTEM, QUESTION], **more)  # type: ignore[arg-type, list-item]
        first = self.emulator.log[-1].first_byte
        assert first is not None
        return first

    def announce(self, session: Any, wire: str) -> None:
        if wire == "chat":
            session.prewarm(self.client.chat.completions.create, model="qwen3", messages=[SYSTEM])
        else:
            session.prewarm(self.client.responses.create, model="qwen3", input=[SYSTEM])


@pytest.mark.parametrize("wire", ["chat", "responses"])
@pytest.mark.parametrize("platform", ["vllm", "sglang", "llamacpp", "ollama", "trtllm"])
def test_what_was_announced_is_there(tmp_path: Path, platform: str, wire: str) -> None:
    """Five seconds sooner; the server was asked for one token, with a word in the place of what was not known."""
    firsts = []

    async def main(room: Room) -> None:
        async with room.accel.session("s", agent="clerk") as session:
            room.announce(session, wire)
            await asyncio.sleep(30)
            firsts.append(await room.ask(wire))

    room = Room(tmp_path, platform)
    ours, asked = room.run(main)
    assert firsts == [pytest.approx(0.3, abs=0.02)]
    assert (ours.mode, ours.consents) == (PREWARM, ("prewarm",))
    assert "s of the server's" in " ".join(ours.reasons)
    ahead = room.sent[0]
    assert ahead["messages" if wire == "chat" else "input"][-1]["content"] == "."
    assert ahead["max_tokens" if wire == "chat" else "max_output_tokens"] == 1
    assert (asked.usage.read or 0) > 45_000
    assert asked.expected is not None
    assert asked.expected.read == pytest.approx(asked.usage.read, rel=0.01)


def test_without_consent_nothing_is_sent(tmp_path: Path) -> None:
    """The twin: then the first byte takes what it takes."""
    firsts = []

    async def main(room: Room) -> None:
        async with room.accel.session("s", agent="clerk") as session:
            room.announce(session, "chat")
            await asyncio.sleep(30)
            firsts.append(await room.ask("chat"))

    room = Room(tmp_path, "vllm", prewarm=False)
    assert len(room.run(main)) == 1
    assert firsts == [pytest.approx(5.3, abs=0.3)]


def _announced(folder: Path, *, comes: bool, times: int = 30) -> int:
    """How many of so many announcements, of other beginnings each, are listened to."""

    async def main(room: Room) -> None:
        for n in range(times):
            rules: Json = {"role": "system", "content": f"Rule {n}. {prose(5_000, n)}"}
            async with room.accel.session(f"s-{n}", agent="clerk") as session:
                session.prewarm(room.client.chat.completions.create, model="qwen3", messages=[rules])
                await asyncio.sleep(30)
                if comes:
                    await room.client.chat.completions.create(model="qwen3", messages=[rules, QUESTION])  # type: ignore[list-item]

    return sum(record.mode == PREWARM for record in Room(folder, "vllm").run(main))


def test_who_announces_in_vain_is_not_listened_to_for_long(tmp_path: Path) -> None:
    """What is computed for nothing takes the server's time: no more of that once it is half of what is announced."""
    assert _announced(tmp_path, comes=True) == 30
    (tmp_path / "vain").mkdir()
    assert 5 <= _announced(tmp_path / "vain", comes=False) <= 15


def test_the_test_above_bites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is not asked how often what is announced comes, all are sent."""
    monkeypatch.setattr(own_requests, "comes_as_announced", lambda beliefs: 1.0)
    assert _announced(tmp_path, comes=False) == 30


def test_what_is_there_already_is_not_computed_ahead(tmp_path: Path) -> None:
    async def main(room: Room) -> None:
        async with room.accel.session("s", agent="clerk") as session:
            await room.ask("chat")
            room.announce(session, "chat")
            await asyncio.sleep(30)

    assert [record.mode for record in Room(tmp_path, "vllm").run(main)] == ["on"]

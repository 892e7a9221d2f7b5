"""Branches of one agent that begin alike, in virtual time: the real SDK, the emulator behind it, and no sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

import anthropic
import httpx2
import openai

from agentaccel import Accel, CachePolicy, Policy, StorePolicy, TurnRecord
from agentaccel.hooks import Told
from agentaccel.testing import ManualClock
from agentaccel.testing.virtual import EmulatedTransport, run
from agentaccel_emulator import Behaviour, Emulator, Tokenizer
from agentaccel_emulator.faults import FaultsLike
from tests.driver import Json, body, prose, tool, user

R = TypeVar("R")

COUNT = 8
"""Branches, as a rule."""
TWENTY = 20
"""Branches of the issue's case; more than a machine of an automatic cache stands in a minute."""
SYSTEM = prose(30_200)
"""With the tools about 50,000 tokens as the emulator counts them."""
TOOLS = [tool("search", 600)]
EXACT = Behaviour(tokenizer=Tokenizer(bytes_per_token=4.0))


def request(number: int, **more: Any) -> Json:
    """What branch `number` asks: all have tools and instructions in common."""
    return {**body(user(f"Look into part {number}."), system=SYSTEM, tools=TOOLS), **more}


class Branches:
    """One process with a wrapped client, and what came of its requests."""

    def __init__(
        self,
        *,
        faults: FaultsLike = None,
        breaks: Iterable[int] = (),
        behaviour: Behaviour = EXACT,
        mode: Any = "on",
        **cache: Any,
    ) -> None:
        self.clock = ManualClock()
        self.emulator = Emulator(script=["Done."], faults=faults, behaviour=behaviour, clock=self.clock)
        self.transport = EmulatedTransport(self.emulator, self.clock, set(breaks))
        policy = Policy(mode=mode, strict=True, store=StorePolicy(enabled=False), cache=CachePolicy(**cache))
        self.accel = Accel(policy, clock=self.clock)
        self.records: list[TurnRecord] = []
        self.accel.add_hook(self)

    def begins(self, at: float, tool: str | None) -> object:
        return None

    def ended(self, began: object, told: Told | None) -> None:
        assert told is not None
        assert isinstance(told.record, TurnRecord)
        self.records.append(told.record)

    def client(self, **options: Any) -> anthropic.AsyncAnthropic:
        http = httpx2.AsyncClient(transport=self.transport)
        bare = anthropic.AsyncAnthropic(
            base_url="http://api.anthropic.com", http_client=http, **{"api_key": "k", "max_retries": 0, **options}
        )
        return self.accel.wrap(bare)

    def gpt(self) -> openai.AsyncOpenAI:
        http = httpx2.AsyncClient(transport=self.transport)
        bare = openai.AsyncOpenAI(base_url="http://api.openai.com/v1", api_key="k", http_client=http, max_retries=0)
        return self.accel.wrap(bare)

    def run(self, main: Callable[[Branches], Awaitable[R]]) -> R:
        """What `main` returns, in virtual time."""

        async def whole() -> R:
            return await main(self)

        return run(whole, self.clock)

    @property
    def written(self) -> list[int]:
        """Tokens written by each request that wrote more than a branch has for itself."""
        counts = [entry.usage.write_5m + entry.usage.write_30m for entry in self.emulator.log if entry.usage]
        return [count for count in counts if count > 1000]

    @property
    def held(self) -> list[float]:
        """Seconds for which requests were held back."""
        return [record.waited for record in self.records if record.waited is not None]

    @property
    def outcomes(self) -> dict[str, int]:
        names = [record.outcome for record in self.records]
        return {name: names.count(name) for name in sorted(set(names))}


async def asked(client: anthropic.AsyncAnthropic, number: int, *, stream: bool = True, **more: Any) -> None:
    """One request of a branch, read to its end."""
    if not stream:
        await client.messages.create(**request(number, **more))
        return
    async with client.messages.stream(**request(number, **more)) as reply:
        async for _ in reply:
            pass


async def all_asked(branches: Branches, *, count: int = COUNT, stream: bool = True, **more: Any) -> list[object]:
    """All branches at once: what each came to, None for an answer."""
    async with branches.client() as client:
        tasks = [asked(client, number, stream=stream, **more) for number in range(count)]
        return list(await asyncio.gather(*tasks, return_exceptions=True))

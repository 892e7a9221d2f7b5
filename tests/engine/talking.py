"""Sessions that talk to an emulated provider through its real SDK, in virtual time, and what that costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anthropic
import openai

from agentaccel import Accel, Policy, StorePolicy
from agentaccel.records import TurnRecord
from agentaccel.report.aggregate import report
from agentaccel.report.figures import Costs
from agentaccel.store.store import open_reader
from agentaccel.testing import ManualClock
from agentaccel_emulator import serve

RULES = "Be kind. " * 1500


@dataclass
class Talk:
    """Sessions of one program, or with `processes` of one each, with one provider."""

    api: str
    policy: Policy
    server: Any
    clock: ManualClock
    tools: tuple[str, ...] = ()
    """What a request has where it says nothing else."""
    processes: bool = False
    key: str = "k"
    accel: Accel = field(init=False)
    clients: ExitStack = field(default_factory=ExitStack)
    _bare: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.accel = Accel(self.policy, clock=self.clock, environ={})

    def session(self, name: str, agent: str = "desk") -> Any:
        if self.processes:
            self.accel.close()
            self.__post_init__()
        return self.accel.session(name, agent=agent)

    def ask(self, messages: list[Any], rules: str = RULES, tools: tuple[str, ...] | None = None) -> None:
        limit = {"max_tokens": 20} if self.api == "anthropic" else {}
        self.method(**self.request(messages, rules, tools), **limit)
        self.clock.advance(20)

    def request(self, messages: list[Any], rules: str = RULES, tools: tuple[str, ...] | None = None) -> dict[str, Any]:
        """A request with a marker of the user's own, where the provider sets none by itself."""
        names, schema = self.tools if tools is None else tools, {"type": "object", "properties": {}}
        if self.api == "anthropic":
            listed = [{"name": name, "description": name * 200, "input_schema": schema} for name in names]
            own = {"cache_control": {"type": "ephemeral"}} if messages else {}
            made = {"model": "claude-sonnet-5", "system": rules, "messages": messages, **own}
        else:
            functions = [{"name": name, "description": name * 200, "parameters": schema} for name in names]
            listed = [{"type": "function", "function": one} for one in functions]
            made = {"model": "gpt-6-sol", "messages": [{"role": "system", "content": rules}, *messages]}
        return {**made, "tools": listed} if listed else made

    @property
    def method(self) -> Any:
        """The method of the SDK that sends a request, for the `key`."""
        if self.key not in self._bare:
            made = (
                anthropic.Anthropic(base_url=self.server.url, api_key=self.key, max_retries=0)
                if self.api == "anthropic"
                else openai.OpenAI(base_url=f"{self.server.url}/v1", api_key=self.key, max_retries=0)
            )
            self._bare[self.key] = self.clients.enter_context(made)
        where = {} if self.api == "anthropic" else {"platform": "api"}
        client: Any = self.accel.wrap(self._bare[self.key], **where)
        return client.messages.create if self.api == "anthropic" else client.chat.completions.create


Loop = Callable[[Talk], None]


@contextmanager
def talking(api: str, policy: Policy, *, tools: tuple[str, ...] = (), processes: bool = False) -> Iterator[Talk]:
    clock = ManualClock(now=1.76e9)
    with serve(script=["ok " * 20] * 99, clock=clock) as server:
        talk = Talk(api, policy, server, clock, tools, processes)
        with talk.clients:
            yield talk
            talk.accel.close()


def played(
    loop: Loop, api: str, path: Path, *, tools: tuple[str, ...] = (), processes: bool = False, **policy: Any
) -> tuple[Costs, list[TurnRecord], list[Mapping[str, Any]]]:
    """What it costs, the turns, and the requests as they were sent. The store is made at `path`."""
    made = Policy(strict=True, store=StorePolicy(path=path), **policy)
    with talking(api, made, tools=tools, processes=processes) as talk:
        loop(talk)
        sent = [entry.request for entry in talk.server.log]
    with open_reader(path) as store:
        turns = [turn for turn in store.turns() if isinstance(turn, TurnRecord)]
    return report(turns).total.costs, turns, sent


def costs(loop: Loop, api: str, path: Path, **options: Any) -> Costs:
    return played(loop, api, path, **options)[0]


HELLO = {"role": "user", "content": "Hello " * 300}


def more(messages: list[Any], words: str, size: int = 150) -> list[Any]:
    return [*messages, {"role": "assistant", "content": "ok " * 60}, {"role": "user", "content": f"{words} " * size}]


def main_session(talk: Talk, turns: int, size: int = 150) -> list[Any]:
    """A session of so many requests; what the next one would begin with."""
    history: list[Any] = [HELLO]
    with talk.session("main"):
        for turn in range(turns):
            talk.ask(history)
            history = more(history, f"next {turn}", size)
    return history


def renamed(talk: Talk) -> None:
    """One conversation under another name in each request."""
    history: list[Any] = [HELLO]
    for turn in range(12):
        with talk.session(f"request {turn}"):
            talk.ask(history)
        history = more(history, f"next {turn}")

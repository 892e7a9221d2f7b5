"""The conformance kit holds for loops without a framework, and tells each of eight adapters that are broken."""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from agentaccel import ConfigError
from agentaccel.testing.conformance import GATED, READS, Ask, Setting, Tool, assert_conforms, faults
from tests.frameworks.early import seen_by_the_kit
from tests.frameworks.loops import LOOPS, Adapter

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("means", ["adapter", "install"])
@pytest.mark.parametrize("wire", LOOPS)
def test_a_loop_is_what_it_was(wire: str, means: Any) -> None:
    assert_conforms(LOOPS[wire], means=means, wire=wire)


def test_tools_do_run_early_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The floor: a kit that sees nothing begun early would tell nothing of gates. The Responses loop streams."""
    began = seen_by_the_kit(monkeypatch)
    assert_conforms(LOOPS["responses"], wire="responses")
    assert any(began)


# --- adapters that are broken -----------------------------------------------------------------------------------------


def around(answer: Callable[[Tool, dict[str, Any]], Awaitable[str]]) -> Callable[[Tool], Tool]:
    """Tools with something around them."""

    def change(tool: Tool) -> Tool:
        @functools.wraps(tool)
        async def run(**arguments: Any) -> str:
            return await answer(tool, arguments)

        return run

    return change


async def twice(tool: Tool, arguments: dict[str, Any]) -> str:
    await tool(**arguments)
    return await tool(**arguments)


async def content(tool: Tool, arguments: dict[str, Any]) -> str:
    return f"{await tool(**arguments)} "


async def swallowed(tool: Tool, arguments: dict[str, Any]) -> str:
    try:
        return await tool(**arguments)
    except LookupError as error:
        return str(error)


async def leaking(tool: Tool, arguments: dict[str, Any]) -> str:
    LEAKED.append(asyncio.create_task(asyncio.Event().wait()))
    return await tool(**arguments)


LEAKED: list[Any] = []


async def shared(tool: Tool, arguments: dict[str, Any]) -> str:
    return await SHARED.setdefault(tool.__name__, tool)(**arguments)


SHARED: dict[str, Tool] = {}


def mutates(client: Any) -> None:
    client.max_retries = 0


BROKEN = {
    "runs a tool twice": ("messages", Adapter(tool=around(twice)), r"was run \d times, and \+1"),
    "drops an artifact": ("chat", Adapter(keeps_artifacts=False), r"state\[0\].artifacts"),
    "changes the user's client": ("messages", Adapter(client=mutates), "changed: AsyncAnthropic.max_retries"),
    "swallows an exception": ("messages", Adapter(tool=around(swallowed)), "used to raise .*LookupError"),
    "leaks a task": ("messages", Adapter(tool=around(leaking)), "left behind: task"),
    "loses a stream event": ("responses", Adapter(event=lambda kind: kind != "response.in_progress"), "events"),
    "changes the content of a message": ("messages", Adapter(tool=around(content)), "state.*on its way '"),
    "shares a tool between two agents": ("messages", Adapter(tool=around(shared)), r"a sub-agent: state.* 'main: "),
    "launches a gated tool": ("responses", Adapter(reads=READS | GATED), r"pay\('5'\) was begun before"),
}


@pytest.mark.parametrize("how", BROKEN)
def test_an_adapter_that_is_broken_is_told(how: str) -> None:
    wire, adapter, said = BROKEN[how]
    found = faults(functools.partial(LOOPS[wire], adapter=adapter), wire=wire)
    assert any(re.search(said, one) for one in found), found


def test_an_agent_that_does_not_work_at_all_conforms_to_nothing() -> None:
    """Both arms raise the same."""

    @asynccontextmanager
    async def useless(setting: Setting) -> AsyncIterator[Ask]:
        async def ask(question: str, conversation: str) -> Any:
            raise ValueError("unknown model")

        yield ask

    [found, *_] = faults(useless)
    assert "does not call cancel_order, find_order, stock: ['ValueError: unknown model'" in found


def test_a_wire_that_nobody_speaks_is_refused() -> None:
    with pytest.raises(ConfigError, match="'grpc'"):
        faults(LOOPS["chat"], wire="grpc")

"""The whole of it, with the predictor and the decision that ship: a loop that repeats itself is served early."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from agentaccel.policy import StorePolicy, ToolPolicy
from agentaccel.testing.inside import speculator
from agentaccel.testing.virtual import run
from tests.predict.scripted import Agent, call


def desk(**policy: Any) -> tuple[Agent, Any]:
    """Tickets of a service desk: look up the customer that the user names, then each order of theirs, then answer."""
    agent = Agent(ToolPolicy(eager=False), **policy)
    speculator(agent.accel).predictor = speculator(agent.accel).learning
    read: dict[str, Any] = {"effect": "read_local", "concurrent": True}

    @agent.accel.tool(**read)
    async def find_customer(customer: str) -> str:
        agent.log.append(customer)
        await asyncio.sleep(2.0)
        number = int(customer.rpartition("_")[2])
        return json.dumps({"customer": customer, "orders": [f"W{number}{k}" for k in range(3)]})

    @agent.accel.tool(**read)
    async def find_order(order: str) -> str:
        agent.log.append(order)
        await asyncio.sleep(2.0)
        return json.dumps({"order": order, "state": "sent"})

    async def ticket(number: int) -> float:
        start = agent.clock.now
        async with agent.accel.session(f"t{number}", agent="desk") as session:
            agent.messages = [{"role": "user", "content": f"I am mia_{number}. Where are my orders?"}]
            await agent.model(call("find_customer", customer=f"mia_{number}"))
            found = await find_customer(f"mia_{number}")
            agent.answers(found)
            for order in json.loads(found)["orders"]:
                await agent.model(call("find_order", order=order))
                agent.answers(await find_order(order))
            await agent.model()
        agent.ledger = session.speculation
        return agent.clock.now - start

    return agent, ticket


def tickets(path: Path, first: int, count: int, *, close: bool = True, **policy: Any) -> tuple[list[float], Any]:
    """A process that lives for so many tickets: their seconds, and the agent."""
    agent, ticket = desk(store=StorePolicy(path=path), **policy)

    async def main() -> list[float]:
        return [await ticket(number) for number in range(first, first + count)]

    seconds = run(main, agent.clock)
    if close:
        agent.accel.close()
    return seconds, agent


@pytest.mark.slow
def test_a_loop_that_repeats_itself_is_served_early_after_a_while() -> None:
    agent, ticket = desk()

    async def main() -> list[float]:
        return [await ticket(number) for number in range(100, 114)]

    seconds = run(main, agent.clock)
    assert max(seconds) <= 5 * 3.0 + 4 * 2.0, "none is slower than it would be without"
    assert seconds[-1] <= 5 * 3.0 + 2.0, "most of its tools are hidden in the end"
    assert agent.ledger.predicted.served >= 3
    assert agent.ledger.predicted.hidden >= 6.0


@pytest.mark.slow
def test_sessions_of_which_nothing_repeats_launch_next_to_nothing() -> None:
    agent = Agent(ToolPolicy(eager=False))
    speculator(agent.accel).predictor = speculator(agent.accel).learning
    look = agent.reads()
    launched = 0

    async def main() -> None:
        nonlocal launched
        for number in range(30):
            async with agent.accel.session(f"t{number}", agent="web") as session:
                agent.messages = [{"role": "user", "content": "Find out."}]
                for step in range(4):
                    key = f"words {hash((number, step)) % 10**9} of its own"
                    await agent.model(call("look", key=key))
                    agent.answers(await look(key))
                launched += session.speculation.predicted.launched

    run(main, agent.clock)
    assert launched <= 12, "a tenth of the calls"

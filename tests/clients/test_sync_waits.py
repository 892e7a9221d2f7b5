"""A sync client waits in a thread; on an event loop it does not, because nothing there could go on meanwhile."""

from __future__ import annotations

import asyncio

from agentaccel import Accel, Policy, StorePolicy
from agentaccel.clients.attempt import Attempt
from agentaccel.testing.inside import engine
from agentaccel.turn import Command, Event, Send, Started, Turn
from agentaccel.types import CachePlan


class Asked(Turn):
    """Notes whether it may have to wait."""

    can_wait: bool | None = None

    def handle(self, event: Event) -> list[Command]:
        if isinstance(event, Started):
            self.can_wait = event.can_wait
        return [Send(self.request)]


def test_a_sync_client_waits_unless_it_is_on_an_event_loop() -> None:
    with Accel(Policy(strict=True, store=StorePolicy(enabled=False))) as accel:

        def waits() -> bool | None:
            turn = Asked(request={}, plan=CachePlan(), on_end=lambda ended: None)
            Attempt(engine(accel), turn).wait()
            return turn.can_wait

        async def on_a_loop() -> bool | None:
            return waits()

        assert waits() is True
        assert asyncio.run(on_a_loop()) is False

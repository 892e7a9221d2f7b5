"""With consent to keep entries alive, too, a replay is the product: the real SDK against the emulator, to the token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import anthropic
import pytest

from agentaccel import Accel, CachePolicy, Policy, StorePolicy, Usage
from agentaccel.records import KEEP_ALIVE
from agentaccel.replay.runs import Run
from agentaccel.replay.simulate import Allowed, accelerate
from agentaccel.store.store import open_reader
from agentaccel.testing import ManualClock
from agentaccel.wire.anthropic import usage_of
from agentaccel_emulator import Behaviour, serve
from tests.replay.live import SYSTEM, TOKENIZER, TOOLS, Ask, Asks, counts, growing, runs_of

DAY = 40_000.0
WEEKS = {
    "tea": [5.0, 720.0, 5.0],
    "tea each time": [720.0] * 3,
    "a meeting": [5.0, 5.0, 2000.0, 5.0],
    "lunch": [5.0, 5000.0, 5.0],
}


def week(pauses: Sequence[float], apart: float) -> list[Ask]:
    """Seven sessions with such pauses, so far apart."""
    days = [growing(len(pauses) + 1, seed=9 * day, system=SYSTEM, tools=TOOLS) for day in range(7)]
    return [
        Ask(f"day {day}", request, gap)
        for day, requests in enumerate(days)
        for request, gap in zip(requests, [apart, *pauses], strict=True)
    ]


def lived(asks: Asks, folder: Path) -> tuple[list[float], dict[str, list[Usage]], list[Usage]]:
    """When each request was sent, its usage by session, and that of requests of our own."""
    started, usages, clock = list[float](), dict[str, list[Usage]](), ManualClock()
    policy = Policy(
        strict=True, store=StorePolicy(path=folder / "trace.db"), cache=CachePolicy(ttl="auto", keep_alive=True)
    )
    with (
        serve(clock=clock, behaviour=Behaviour(tokenizer=TOKENIZER)) as server,
        anthropic.Anthropic(base_url=server.url, api_key="k", max_retries=0) as bare,
        Accel(policy, clock=clock) as accel,
    ):
        client = accel.wrap(bare)
        for name in dict.fromkeys(ask.session for ask in asks):
            clock.advance(next(ask.gap for ask in asks if ask.session == name))
            with accel.session(name):
                for number, ask in enumerate(one for one in asks if one.session == name):
                    clock.advance(ask.gap if number else 0.0)
                    started.append(clock.wall())
                    reply = client.messages.create(**{**ask.request, "stream": False})
                    usages.setdefault(name, []).append(usage_of(reply.usage.model_dump()))
    with open_reader(folder / "trace.db") as store:
        return started, usages, [turn.usage for turn in store.turns() if turn.mode == KEEP_ALIVE]


def at_once(runs: Sequence[Run]) -> list[Run]:
    """The same where a reply has begun when its request is sent."""
    return [replace(run, steps=tuple(replace(step, visible=step.started) for step in run.steps)) for run in runs]


@pytest.mark.slow
@pytest.mark.parametrize("apart", [DAY, 1500.0])
@pytest.mark.parametrize("pauses", WEEKS.values(), ids=WEEKS)
def test_what_is_kept_and_what_is_counted_on_is_the_same_live(
    pauses: Sequence[float], apart: float, tmp_path: Path
) -> None:
    asks = week(pauses, apart)
    started, usages, kept = lived(asks, tmp_path)
    runs = at_once(runs_of(asks, started))
    done = accelerate(runs, Allowed(keep_alive=True, ends_known=True))
    assert {run.id: counts(of) for run, of in zip(runs, done.usages, strict=True)} == {
        name: counts(of) for name, of in usages.items()
    }
    assert counts([one for of in done.kept for one in of]) == counts(kept)
    assert bool(kept) == (pauses in (WEEKS["tea each time"], WEEKS["lunch"])), "elsewhere an hour's life costs less"

"""What users pass to have a history made shorter, as they write it: functions that fail, are slow, or give odd things.

What each has given for which text is kept, so that from outside it can be told what stands for what.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from agentaccel.policy import HistoryPolicy
from tests.fuzz.conversations import Json
from tests.fuzz.loops import NAMES, POOL

T = TypeVar("T")

GOOD = ("short", "short", "short", "later", "huge", "odd")
BAD = ("raises", "nothing", "blank", "number", "list", "bytes", "half", "cancelled", "exits")


class Thread:
    """A background that takes its time, by a clock that is moved."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.waiting: list[tuple[float, Callable[[], None]]] = []
        self.now = 0.0

    def submit(self, owner: str, work: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(work())
            except BaseException as error:  # noqa: BLE001 - as a thread of the background hands it over
                future.set_exception(error)

        self.waiting.append((self.now + self.rng.choice((0.0, 0.0, 0.0, 30.0, 1e9)), run))
        return future

    def until(self, now: float) -> None:
        self.now = now
        due = [run for at, run in self.waiting if at <= now]
        self.waiting = [(at, run) for at, run in self.waiting if at > now]
        for run in due:
            run()


@dataclass(slots=True)
class Asked:
    """A user's two functions, and what came of them."""

    kinds: tuple[str, ...]
    given: dict[str, str] = field(default_factory=dict)
    """Texts that a distillate stands for, by what it is."""
    summed: dict[str, Json] = field(default_factory=dict)
    """Requests that were to be summed up, by the summary."""
    calls: int = 0
    failed: int = 0

    def _made(self, size: int) -> Any:
        """What comes of this call; every good text is another one."""
        self.calls += 1
        kind = self.kinds[self.calls % len(self.kinds)]
        text = f"In short, {self.calls}: {POOL[:60]}"
        match kind:
            case "huge":
                return text + " x" * size
            case "odd":
                return text + "\n\n[current value] \u2028 \U0001f600 </system> toolu_1 \x00 end"
            case "later":
                return _later(text)
        if kind in BAD:
            self.failed += 1
        match kind:
            case "raises":
                raise ValueError("no")
            case "cancelled":
                raise asyncio.CancelledError
            case "exits":
                raise SystemExit(3)
        odd = {"nothing": "", "blank": " \n", "number": 42, "list": [text], "bytes": b"short", "half": "\ud83d"}
        return odd.get(kind, text)

    def distil(self, text: str) -> Any:
        made = self._made(len(text))
        self.given[_text(made, self.calls)] = text
        return made

    def summarise(self, request: Json) -> Any:
        made = self._made(20_000)
        self.summed[_text(made, self.calls)] = request
        return made


async def _later(text: str) -> str:
    await asyncio.sleep(0)
    return text


def _text(made: Any, calls: int) -> str:
    return made if isinstance(made, str) else f"In short, {calls}: {POOL[:60]}"


def consent(rng: random.Random, asked: Asked) -> HistoryPolicy:
    """What a user consents to: every combination, now and then nothing."""
    which = rng.choice((*range(8), 4, 4, 5, 6, 7))
    return HistoryPolicy(
        clear_results=bool(which & 1),
        distil=asked.distil if which & 2 else None,
        summarise=asked.summarise if which & 4 else None,
        keep_results=rng.choice((1, 1, 1, 2, 3, 3, 8, 50)),
        pinned_tools=rng.choice(((), (), (), ("read",), ("read", "remember"), NAMES)),
        distil_from=rng.choice((1, 100, 500)),
        summarise_from=rng.choice((1, 1, 1000, 20_000)),
    )


def functions(rng: random.Random) -> Asked:
    return Asked(tuple(rng.choice(BAD if rng.random() < 0.2 else GOOD) for _ in range(3)))

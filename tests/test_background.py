"""Work beside the agent's own: nobody waits for what is not theirs, and nothing is left behind."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from contextvars import copy_context
from functools import partial

import pytest

from agentaccel.clock import SystemClock
from agentaccel.concurrency import Background
from agentaccel.effects.spec import running_early

AT_MOST = 10.0


def until(condition: Callable[[], bool]) -> None:
    """Wait for another thread, in the real time that this module is about."""
    end = time.monotonic() + AT_MOST
    while not condition() and time.monotonic() < end:
        threading.Event().wait(0.005)
    assert condition()


def test_work_that_blocks_keeps_nobody_else_waiting() -> None:
    background, goes_on, done = Background(SystemClock()), threading.Event(), threading.Event()

    def blocks() -> None:
        goes_on.wait(3 * AT_MOST)

    background.later("one", 0.0, blocks)
    background.later("other", 0.01, done.set)
    assert done.wait(AT_MOST)
    goes_on.set()


def test_leaving_waits_for_a_thread_in_the_middle_of_its_work() -> None:
    background, begun, goes_on = Background(SystemClock()), threading.Event(), threading.Event()
    ended: list[bool] = []

    def work() -> None:
        begun.set()
        goes_on.wait(AT_MOST)
        ended.append(True)

    background.later("one", 0.0, work)
    assert begun.wait(AT_MOST)
    threading.Timer(0.02, goes_on.set).start()
    background.leave("one")
    assert ended


def test_leaving_does_not_wait_for_a_loop_that_stands_still() -> None:
    """Its owner left it before what was due on it could begin, and then nothing of it begins."""
    background, loop = Background(SystemClock()), asyncio.new_event_loop()
    begun: list[bool] = []

    async def work() -> None:
        begun.append(True)

    background.on_loop("one", loop, work)
    start = time.monotonic()
    background.leave("one")
    assert time.monotonic() - start < 5.0
    loop.run_until_complete(asyncio.sleep(0))
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    assert not begun


def test_its_thread_ends_when_nothing_is_due() -> None:
    background, done = Background(SystemClock()), threading.Event()
    background.later("one", 0.0, done.set)
    assert done.wait(AT_MOST)
    until(lambda: background._thread is None)
    done.clear()
    background.later("one", 0.0, done.set)
    assert done.wait(AT_MOST)
    background.close()


def test_closing_takes_everything_back_before_it_waits_for_anything() -> None:
    """So that what waits for another owner's work to end is not waited for in vain."""
    background, loop = Background(SystemClock()), asyncio.new_event_loop()
    around = threading.Thread(target=loop.run_forever)
    around.start()
    begun, ended = threading.Semaphore(0), {"one": threading.Event(), "other": threading.Event()}
    heard: list[bool] = []

    async def task(owner: str) -> None:
        begun.release()
        try:
            await asyncio.sleep(3 * AT_MOST)
        finally:
            ended[owner].set()

    for owner, other in (("one", "other"), ("other", "one")):
        background.on_loop(owner, loop, partial(task, owner))
        background.submit(owner, lambda other=other: heard.append(ended[other].wait(AT_MOST)))  # type: ignore[misc]
    assert begun.acquire(timeout=AT_MOST)
    assert begun.acquire(timeout=AT_MOST)
    background.close()
    loop.call_soon_threadsafe(loop.stop)
    around.join(AT_MOST)
    loop.close()
    assert heard == [True, True]


def test_closing_waits_no_longer_for_many_owners_than_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentaccel.concurrency._MOST_SECONDS", 0.05)
    background, goes_on = Background(SystemClock()), threading.Event()
    for number in range(100):
        background.submit(f"s{number}", partial(goes_on.wait, AT_MOST))
    late = threading.Timer(2.5, goes_on.set)
    late.start()
    background.close()
    late.cancel()
    assert not goes_on.is_set(), "each was waited for in its turn"
    goes_on.set()


def test_where_no_thread_can_be_begun_any_more_nobody_is_troubled(monkeypatch: pytest.MonkeyPatch) -> None:
    """As from Python 3.12 on, once the program has come to its end: the work is not done."""
    background = Background(SystemClock())

    def refuses(_: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuses)
        background.later("one", 0.0, lambda: None)
        assert background.submit("one", lambda: None).cancelled()
    background.close()


def said_of_tasks(begin: Callable[[Background, asyncio.AbstractEventLoop], object]) -> list[str]:
    """What an event loop says that is closed while work goes on in it."""
    background, loop, said = Background(SystemClock()), asyncio.new_event_loop(), list[str]()
    loop.set_exception_handler(lambda _, context: said.append(context["message"]))

    async def main(background: Background = background) -> None:
        begin(background, loop)
        for _ in range(3):
            await asyncio.sleep(0)

    loop.run_until_complete(main())
    loop.close()
    del background, main
    gc.collect()
    return said


async def forever() -> None:
    await asyncio.Event().wait()


BEGINS: dict[str, Callable[[Background, asyncio.AbstractEventLoop], object]] = {
    "owned": lambda background, loop: background.spawn("one", forever, copy_context()),
    "the caller's": lambda background, loop: background.spawn(None, forever, copy_context()),
    "on a loop": lambda background, loop: background.on_loop("one", loop, forever),
}


@pytest.mark.parametrize("kind", BEGINS)
def test_a_loop_that_is_closed_under_our_work_says_nothing_of_it(kind: str) -> None:
    """A program that runs its own loop, and closes it, has no task of ours in its log: it began none."""
    assert said_of_tasks(BEGINS[kind]) == []


@pytest.mark.parametrize("kind", BEGINS)
def test_without_telling_asyncio_that_it_ends_with_the_loop_the_program_hears_of_it(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin."""
    monkeypatch.setattr("agentaccel.concurrency._ends_with_loop", lambda task: None)
    assert said_of_tasks(BEGINS[kind]) == ["Task was destroyed but it is pending!"]


def test_an_early_run_that_is_dropped_in_another_context_ends_quietly(monkeypatch: pytest.MonkeyPatch) -> None:
    """So is one under way when its event loop is closed: whoever collects it is elsewhere. And its twin."""
    early = running_early()
    copy_context().run(early.__enter__)
    assert not early.__exit__(None, None, None)
    early = running_early()
    copy_context().run(early.__enter__)
    monkeypatch.setattr("agentaccel.effects.spec.suppress", lambda *_: nullcontext())
    with pytest.raises(ValueError, match="different Context"):
        early.__exit__(None, None, None)

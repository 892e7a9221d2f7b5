"""A lock knows when this thread is inside of one, and survives a fork."""

from __future__ import annotations

import gc
import os
import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import pytest

from agentaccel.locks import Lock, when_free
from tests.children import in_a_child


@contextmanager
def held_by_another_thread(lock: Lock) -> Iterator[None]:
    inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            inside.set()
            leave.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait()
    try:
        yield
    finally:
        leave.set()
        thread.join()


def test_what_must_not_run_inside_a_lock_waits_until_the_last_one_is_left() -> None:
    done: list[str] = []
    outer, inner = Lock(), Lock()
    with outer:
        with inner, inner:
            when_free(lambda: done.append("first"))
            when_free(lambda: done.append("second"))
        assert done == []
    assert done == ["first", "second"]
    when_free(lambda: done.append("third"))
    assert done[-1] == "third"


def test_locks_that_are_left_out_of_order_hold_it_off_until_both_are() -> None:
    done: list[str] = []
    first, second = ExitStack(), ExitStack()
    first.enter_context(Lock())
    second.enter_context(Lock())
    when_free(lambda: done.append("done"))
    first.close()
    assert done == []
    second.close()
    assert done == ["done"]


def test_another_threads_lock_holds_nothing_off() -> None:
    """Nor does its end do what this thread waits with."""
    lock, mine, done = Lock(), Lock(), list[int]()
    with ExitStack() as other:
        other.enter_context(held_by_another_thread(lock))
        when_free(lambda: done.append(threading.get_ident()))
        assert done == [threading.get_ident()]
        with mine:
            when_free(lambda: done.append(threading.get_ident()))
            other.close()
            assert len(done) == 1
    assert done == [threading.get_ident()] * 2


class Dropped:
    """Something that the garbage collector finds, and whose end takes a lock."""

    def __init__(self, lock: Lock) -> None:
        self.itself, self.lock = self, lock

    def __del__(self) -> None:
        with self.lock:
            pass


def test_what_is_dropped_while_work_is_caught_up_with_disturbs_nothing() -> None:
    """Wherever the garbage collector runs."""
    lock, other, done = Lock(), Lock(), list[int]()
    before = gc.get_threshold()
    try:
        for at in range(3000):
            with lock:
                when_free(partial(done.append, at))
                Dropped(other)
                gc.set_threshold(1 + at % 9)
    finally:
        gc.set_threshold(*before)
    assert done == list(range(3000))


def test_much_work_that_takes_locks_itself_is_done_in_turn() -> None:
    lock, other, done = Lock(), Lock(), list[int]()

    def work(at: int) -> None:
        with other:
            done.append(at)

    with lock:
        for at in range(3000):
            when_free(partial(work, at))
    assert done == list(range(3000))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_work_that_forks_leaves_what_follows_to_the_parent() -> None:
    done: list[str] = []
    children: list[int] = []
    with warnings.catch_warnings(), Lock():
        warnings.simplefilter("ignore", DeprecationWarning)  # that this process has threads
        when_free(lambda: children.append(os.fork()))
        when_free(lambda: done.append("after"))
    if not children[0]:
        os._exit(len(done))
    assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 0
    assert done == ["after"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_child_goes_on_inside_of_its_own_lock_and_is_not_kept_out_by_anothers() -> None:
    """And does not do what its parent waits with."""
    held, free, done = Lock(), Lock(), list[str]()

    def in_child() -> None:
        signal.alarm(60)  # of a hang, which is what failing looks like
        when_free(lambda: done.append("child"))
        with held:
            pass
        stack.close()
        assert done == ["child"]
        when_free(lambda: done.append("after"))
        assert done == ["child", "after"]
        entered = threading.Thread(target=lambda: free.__enter__())
        entered.start()
        entered.join()

    with held_by_another_thread(held), ExitStack() as stack:
        stack.enter_context(free)
        when_free(lambda: done.append("parent"))
        child = in_a_child(in_child)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert done == ["parent"]

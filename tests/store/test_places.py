"""Whose conversation a request goes on with, by the places that sessions of all processes have come to."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentaccel.cache.beliefs import Beliefs
from agentaccel.records import TurnRecord
from agentaccel.store.store import SessionRow, Store, TurnWrite

SHARED, OTHER, LATER, LAST = b"shared", b"other", b"later", b"last"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "trace.db")


def comes(store: Store, session: str, messages: int, *places: bytes, workload: str = "w") -> None:
    """The session is answered a request of so many messages, and waits at these places from now on."""
    row = SessionRow(
        id=session, agent=None, tenant=None, parent=None, workload=workload, created=0.0, turns=1, snapshot=Beliefs(),
        state="{}", head=None,
    )  # fmt: skip
    record = TurnRecord(session=session, provider="p", model="m", started=1.0)
    store.write_turn(
        TurnWrite(
            record=record, session=row, segments=(), content=None, lineage=places, messages=messages, learned=(),
            beginnings=(),
        )
    )  # fmt: skip


def test_a_session_that_waits_comes_before_one_that_has_gone_on(store: Store) -> None:
    """Chosen: a request goes on from where somebody waits for it; though the other was there later."""
    comes(store, "waits", 3, SHARED)
    comes(store, "went", 3, SHARED)
    comes(store, "went", 5, LATER)
    assert store.session_of([SHARED], 7) == "waits"


def test_of_two_that_wait_it_is_the_one_that_has_waited_longer(store: Store) -> None:
    """Chosen, as in memory; coming there again begins the wait anew."""
    comes(store, "one", 3, SHARED)
    comes(store, "two", 3, SHARED)
    assert store.session_of([SHARED], 5) == "one"
    comes(store, "one", 3, SHARED)
    assert store.session_of([SHARED], 5) == "two"


def test_of_two_that_wait_it_is_the_one_of_the_same_workload(store: Store) -> None:
    comes(store, "one", 3, SHARED, workload="other")
    comes(store, "two", 3, SHARED)
    assert [store.session_of([SHARED], 5, workload) for workload in ("w", "other", "third")] == ["two", "one", "one"]


def test_of_two_that_went_on_it_is_the_one_that_was_there_last(store: Store) -> None:
    """Chosen: where one branches off, it is from what is fresh."""
    for session in ("one", "two"):
        comes(store, session, 3, SHARED)
    for session, place in (("two", OTHER), ("one", LATER)):
        comes(store, session, 5, place)
    assert store.session_of([SHARED], 7) == "two"


def test_a_request_goes_on_only_where_it_is_longer(store: Store) -> None:
    """Than the one that came there, where the session waits; than the one that went on from there, where it does not.
    Else it is another attempt at the same."""
    comes(store, "s", 3, SHARED)
    assert [store.session_of([SHARED], messages) for messages in (3, 4)] == [None, "s"]
    comes(store, "s", 6, LATER)
    assert [store.session_of([SHARED], messages) for messages in (4, 6, 7)] == [None, None, "s"]
    comes(store, "s", 9, LAST)
    assert [store.session_of([SHARED], messages) for messages in (6, 7)] == [None, "s"]


def test_a_session_that_was_rewound_is_branched_off_as_before(store: Store) -> None:
    """A place that it comes to again says nothing of the one before that."""
    for messages, place in ((3, SHARED), (5, OTHER), (7, LATER), (5, OTHER)):
        comes(store, "s", messages, place)
    assert [store.session_of([SHARED], messages) for messages in (5, 6)] == [None, "s"]


def test_the_first_of_the_places_that_any_session_has_come_to_decides(store: Store) -> None:
    """They are sought from the end of the request on."""
    comes(store, "near", 5, LATER)
    comes(store, "far", 3, SHARED)
    assert store.session_of([LAST, LATER, SHARED], 7) == "near"
    assert store.session_of([LAST, OTHER], 7) is None
    assert store.session_of([], 7) is None

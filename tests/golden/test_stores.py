"""What older versions learned is used by this one; that they are read as before the corpus says."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.golden.form import Rows, fixed_chance
from tests.golden.stores import FORMATS, session_after, unpacked


def after(number: int, folder: Path, *forget: str) -> Rows:
    """The rows of a session after a store of that format from which the tables of `forget` were emptied."""
    folder.mkdir()
    store = unpacked(number, folder)
    with closing(sqlite3.connect(store)) as connection, connection:
        for table in forget:
            connection.execute(f"DELETE FROM {table}")
    with fixed_chance():
        return session_after(store)


def predicted(rows: Rows) -> int:
    """How many of the last session's calls were answered by an early run that was predicted."""
    calls = [row["tools"] for row in rows if "tools" in row]
    return sum(one["served_from"] == "predicted" for one in calls if one["session"] == calls[-1]["session"])


def marked_last(rows: Rows) -> int:
    """How many markers the last turn had."""
    return len([row["turns"] for row in rows if "turns" in row][-1]["markers"])


@pytest.mark.parametrize("number", FORMATS)
def test_patterns_of_an_older_store_predict_calls_and_without_them_fewer_are_predicted(
    number: int, tmp_path: Path
) -> None:
    kept, forgotten = after(number, tmp_path / "kept"), after(number, tmp_path / "forgotten", "patterns", "experience")
    assert predicted(kept) > predicted(forgotten)


@pytest.mark.parametrize("number", FORMATS)
def test_beliefs_of_an_older_store_tell_that_a_last_turn_is_the_last(number: int, tmp_path: Path) -> None:
    """Nobody reads what it would write: without them it writes."""
    assert marked_last(after(number, tmp_path / "kept")) == 2
    assert marked_last(after(number, tmp_path / "forgotten", "beliefs")) == 3

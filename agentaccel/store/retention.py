"""Making room in the trace store: what goes first, and that nothing goes which something that stays needs.

The size kept is that of the pages in use. Pages set free are used again, so the file grows no further; it gets smaller
only when it is purged, because that takes longer than an agent's call should. No call waits for room, either: it is
made in the background, step by step (`Recorder`).
"""

from __future__ import annotations

import sqlite3

_MOST_ROWS = 100
"""Rows that one step removes, or a little more: some milliseconds, for which a write may have to wait."""
_MOST_RECORDS = 50
"""Turns and tool calls that one step looks at."""
_ROOM_MADE = 0.95
"""A store that has grown too large is brought down to this part of the size that it may have."""
_LOOK_EVERY = 16
"""Records between two looks at the size of the store: by so many it may be exceeded."""

_LEAF = (
    "DELETE FROM segments WHERE id = ?1"
    " AND NOT EXISTS (SELECT 1 FROM turns WHERE tools = ?1)"
    " AND NOT EXISTS (SELECT 1 FROM turns WHERE system = ?1)"
    " AND NOT EXISTS (SELECT 1 FROM turns WHERE messages = ?1)"
    " AND NOT EXISTS (SELECT 1 FROM segments WHERE parent = ?1)"
    " RETURNING parent"
)
_OLDEST = (
    "SELECT kind, id, started FROM ("
    " SELECT * FROM (SELECT 'turn' AS kind, id, started FROM turns ORDER BY started, id LIMIT ?1)"
    " UNION ALL SELECT * FROM (SELECT 'tool', id, started FROM tools ORDER BY started, id LIMIT ?1)"
    ") ORDER BY started, id LIMIT ?1"
)


class Retention:
    """Whether a store takes more than it may, as far as one process has looked."""

    def __init__(self) -> None:
        self.short = False
        """True if some of it should be removed."""
        self._since = 0
        """Records written since somebody looked."""

    def look(self, connection: sqlite3.Connection, max_bytes: int) -> bool:
        """Whether room should be made."""
        self.short, self._since = used_bytes(connection) > max_bytes, 0
        return self.short

    def written(self, connection: sqlite3.Connection, max_bytes: int) -> None:
        """A record was: look once in a while, in its transaction, where that needs no lock of its own."""
        self._since += 1
        if self._since >= _LOOK_EVERY and not self.short:
            self.look(connection, max_bytes)

    def make(self, connection: sqlite3.Connection, max_bytes: int) -> None:
        """Remove some of what is oldest, if the store is too large: one step."""
        if self.short or self.look(connection, max_bytes):
            self.short = remove_oldest(connection, max_bytes * _ROOM_MADE)


def used_bytes(connection: sqlite3.Connection) -> int:
    """The size of the pages in use."""
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    return int((pages - free) * size)


def remove_oldest(connection: sqlite3.Connection, down_to: float) -> bool:
    """Remove some of the oldest records and what only they needed, until `down_to` bytes are in use or enough is done.

    False means that there is no more to do.
    """
    gone, newest = 0, None
    for kind, row_id, started in connection.execute(_OLDEST, (_MOST_RECORDS,)).fetchall():
        if gone >= _MOST_ROWS or used_bytes(connection) <= down_to:
            break
        newest = started
        if kind == "tool":
            gone += connection.execute("DELETE FROM tools WHERE id = ?", (row_id,)).rowcount
        else:
            gone += _remove_turn(connection, row_id)
    if newest is not None:
        gone += connection.execute(
            "DELETE FROM statics WHERE hash IN (SELECT hash FROM statics WHERE at < ? ORDER BY at LIMIT ?)",
            (newest, _MOST_RECORDS),
        ).rowcount
        connection.execute("UPDATE clearings SET n = n + 1")
    return newest is not None and used_bytes(connection) > down_to


def _remove_turn(connection: sqlite3.Connection, turn: int) -> int:
    session, *ends = connection.execute(
        "SELECT session, tools, system, messages FROM turns WHERE id = ?", (turn,)
    ).fetchone()
    gone = connection.execute("DELETE FROM turns WHERE id = ?", (turn,)).rowcount
    gone += connection.execute("DELETE FROM places WHERE session = ? AND turn <= ?", (session, turn)).rowcount
    if connection.execute("DELETE FROM sessions WHERE id = ? AND turn = ?", (session, turn)).rowcount:
        gone += 1 + connection.execute("DELETE FROM places WHERE session = ?", (session,)).rowcount
    for end in ends:
        while end:  # from the leaf towards the root, as far as nothing else needs it
            parent = connection.execute(_LEAF, (end,)).fetchone()
            if parent is None:
                break
            gone += 1
            end = parent[0]
    return gone


def remove_before(connection: sqlite3.Connection, before: float) -> int:
    """Remove every record that started before `before`, and all that no other needs; returns the number of records."""
    gone = connection.execute("DELETE FROM turns WHERE started < ?", (before,)).rowcount
    gone += connection.execute("DELETE FROM tools WHERE started < ?", (before,)).rowcount
    connection.execute("DELETE FROM sessions WHERE turn NOT IN (SELECT id FROM turns)")
    connection.execute(
        "DELETE FROM places WHERE turn NOT IN (SELECT id FROM turns) OR session NOT IN (SELECT id FROM sessions)"
    )
    connection.execute("DELETE FROM statics WHERE at < ?", (before,))
    connection.execute("DELETE FROM patterns WHERE at < ?", (before,))
    connection.execute("DELETE FROM experience WHERE at < ?", (before,))
    connection.execute("DELETE FROM lessons WHERE at < ?", (before,))
    connection.execute(
        "WITH RECURSIVE kept(id) AS ("
        " SELECT tools FROM turns UNION SELECT system FROM turns UNION SELECT messages FROM turns"
        " UNION SELECT s.parent FROM segments s JOIN kept ON s.id = kept.id)"
        " DELETE FROM segments WHERE id NOT IN (SELECT id FROM kept)"
    )
    connection.execute("UPDATE clearings SET n = n + 1")
    return gone

"""The trace store: one SQLite file in the user's data folder, written by every process that uses agentaccel.

It holds keyed hashes, sizes, names, usage and times; message content only where the policy says so. One turn is one
transaction, so a killed process loses at most the row being written. Failures never reach the agent: `Recorder`
(in `recorder.py`) turns them into one log line.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import orjson

from agentaccel.cache.beliefs import Beliefs
from agentaccel.errors import TraceError
from agentaccel.records import ToolRecord, TurnRecord, key_of, threads_of
from agentaccel.store.codec import (
    UNREADABLE,
    Routed,
    SessionRow,
    dump_json,
    dump_tool,
    dump_turn,
    load_beliefs,
    load_tool,
    load_turn,
    text,
)
from agentaccel.store.codec import TurnWrite as TurnWrite
from agentaccel.store.database import DAMAGED, Database, check_place, store_path
from agentaccel.store.learned import believed, learn
from agentaccel.store.retention import Retention, remove_before
from agentaccel.store.segments import Chains, Ends
from agentaccel.types import Segment

CHUNK = 100
"""Rows read at a time: no lock is held between two chunks."""
_MESSAGES_BY_THEN = (
    "coalesce((SELECT min(messages) FROM places WHERE session = p.session AND turn > p.turn), p.messages)"
)
"""Messages of the shortest request that went on from a place; where none left a place, of the one that came there."""
R = TypeVar("R")


class Store:
    """One open trace store; thread-safe. Methods raise what SQLite raises."""

    def __init__(self, path: Path, *, max_bytes: int = 2**63, read_only: bool = False, patient: bool = True) -> None:
        self.path = path
        self.max_bytes = max_bytes
        self.database = Database(path, read_only=read_only, patient=patient)
        """The file, for the other tables in it."""
        self._chains = Chains()
        self._room = Retention()
        if not read_only:
            with self.database.using() as connection:
                self._room.look(connection, max_bytes)
        self.skipped = 0
        """Rows that readers left out, because they are not what this module writes."""

    @property
    def reopened(self) -> int:
        """How often the file was found deleted or replaced, and begun again."""
        return self.database.reopened

    def wait_for_others(self, patient: bool) -> None:
        """Whether a write waits a moment for another process that writes, or fails at once."""
        self.database.patient = patient

    def close(self) -> None:
        """Close the file."""
        self.database.close()

    # --- sessions and what was learned --------------------------------------------------------------------------------

    def session(self, session_id: str) -> SessionRow | None:
        """The session called `session_id`, as the last turn of any process left it."""
        with self.database.using() as connection:
            row = connection.execute(
                f"SELECT {', '.join(SessionRow._fields)} FROM sessions WHERE id = ?", (text(session_id),)
            ).fetchone()
        if row is None:
            return None
        known = dict(zip(SessionRow._fields, row, strict=True))
        return SessionRow(**{**known, "snapshot": load_beliefs(orjson.loads(known["snapshot"]))})

    def turns_of(self, session_id: str) -> int:
        """How many turns of the session were answered, or taught something; 0 for one that is not known."""
        with self.database.using() as connection:
            row = connection.execute("SELECT turns FROM sessions WHERE id = ?", (text(session_id),)).fetchone()
        return 0 if row is None else int(row[0])

    def workload_of(self, session_id: str) -> str | None:
        """The workload of the session; None for one that is not known. Raises TraceError where it cannot be read."""
        with self.legible(), self.database.using() as connection:
            row = connection.execute("SELECT workload FROM sessions WHERE id = ?", (text(session_id),)).fetchone()
        return None if row is None else str(row[0])

    def session_of(self, hashes: Sequence[bytes], messages: int, workload: str = "") -> str | None:
        """The session that a request of so many messages goes on from, by the first of `hashes` that any waits at.

        Where several do, the one that has waited longest at that very point; else the last that came past it. Those of
        the request's own `workload` come before the others.
        """
        if not hashes:
            return None
        with self.database.using() as connection:
            rows = connection.execute(
                "SELECT p.hash, p.session FROM places p JOIN sessions s ON s.id = p.session"
                f" WHERE p.hash IN ({','.join('?' * len(hashes))}) AND {_MESSAGES_BY_THEN} < ?"
                " ORDER BY p.turn < s.turn, s.workload <> ?, CASE WHEN p.turn < s.turn THEN -p.turn ELSE p.turn END",
                (*hashes, messages, text(workload)),
            ).fetchall()
        found: dict[bytes, str] = {}
        for hash_, session in rows:
            found.setdefault(hash_, str(session))
        return next((found[hash_] for hash_ in hashes if hash_ in found), None)

    def beliefs(self, workload: str, now: float, *, tools: bool) -> Beliefs:
        """What all sessions of `workload` have shown, and what is expected of those that may go on yet."""
        with self.database.using() as connection:
            return believed(connection, text(workload), now, tools=tools)

    def routes(self, since: float, most: int) -> list[Routed]:
        """The sessions of the latest requests since then, of those that have a route."""
        with self.database.using() as connection:
            rows = connection.execute(
                "SELECT CASE WHEN json_valid(s.state) THEN json_extract(s.state, '$.route') END, t.n, s.created"
                " FROM (SELECT session, count(*) AS n FROM (SELECT session FROM turns WHERE started > ? AND id > 0"
                " ORDER BY started DESC LIMIT ?) GROUP BY session) t JOIN sessions s ON s.id = t.session",
                (since, most),
            ).fetchall()
        return [Routed(str(row[0]), *row[1:]) for row in rows if row[0]]

    def beginning_last_used(self, hash_: bytes) -> float | None:
        """When a session that begins so was last answered."""
        with self.database.using() as connection:
            row = connection.execute("SELECT at FROM statics WHERE hash = ?", (hash_,)).fetchone()
        return None if row is None else float(row[0])

    def chain_to(self, end: int) -> list[Segment]:
        """The segments of the chain that ends with row `end`, first to last; paths are not kept, so they are empty."""
        with self.database.using() as connection:
            rows = connection.execute(
                "WITH RECURSIVE up(id, parent, digest, level, kind, role, name, size, depth) AS ("
                " SELECT id, parent, digest, level, kind, role, name, size, 0 FROM segments WHERE id = ?"
                " UNION ALL SELECT s.id, s.parent, s.digest, s.level, s.kind, s.role, s.name, s.size, depth + 1"
                " FROM segments s JOIN up ON s.id = up.parent)"
                " SELECT digest, level, kind, role, name, size FROM up ORDER BY depth DESC",
                (end,),
            ).fetchall()
        return [
            Segment(level=level, path=(), kind=kind, role=role, name=name, digest=digest_, size=size, markable=False)
            for digest_, level, kind, role, name, size in rows
        ]

    # --- writing ------------------------------------------------------------------------------------------------------

    def write_turn(self, write: TurnWrite) -> None:
        """Add one turn; nothing where `once` is there already. Raises what SQLite raises."""
        record = write.record
        with self.database.transaction() as connection:
            ends = self._chains.write(connection, write, self.database.generation)
            turn = connection.execute(
                "INSERT INTO turns (id, session, started, tools, system, messages, record) VALUES (coalesce(?, (SELECT"
                " max(coalesce(max(id), 0), 0) + 1 FROM turns)), ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
                (write.once, text(key_of(record.session, record.thread)), record.started, *ends, dump_turn(record)),
            ).lastrowid
            if write.session is not None:
                self._write_session(connection, write, ends, turn or 0)
            self._room.written(connection, self.max_bytes)

    def _write_session(self, connection: sqlite3.Connection, write: TurnWrite, ends: Ends, turn: int) -> None:
        row = write.session
        assert row is not None
        name, workload = text(row.id), text(row.workload)
        head = write.ends(ends) if write.ends is not None else row.head
        agent = text(row.agent) if row.agent is not None else None
        now = row.turns, row.state, head, turn, agent, name
        known = connection.execute(
            "UPDATE sessions SET turns = max(turns + 1, ?), state = ?, head = ?, turn = ?, agent = coalesce(?, agent)"
            " WHERE id = ?",
            now,
        ).rowcount
        if not known:
            tenant, parent = (text(one) if one is not None else None for one in (row.tenant, row.parent))
            connection.execute(
                "INSERT INTO sessions"
                " (turns, state, head, turn, agent, id, tenant, parent, workload, created, snapshot)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*now, tenant, parent, workload, row.created, dump_json(row.snapshot.counts)),
            )
        connection.executemany(
            "INSERT OR REPLACE INTO places (hash, session, turn, messages) VALUES (?, ?, ?, ?)",
            [(hash_, name, turn, write.messages) for hash_ in write.lineage],
        )
        learn(connection, workload, write.learned)
        # An entry can be read from the first byte on, so that is when the prefix was last of use to others.
        seen = write.record.first_byte or write.record.finished or write.record.started
        connection.executemany(
            "INSERT OR REPLACE INTO statics (hash, at) VALUES (?, ?)", [(hash_, seen) for hash_ in write.beginnings]
        )

    def write_tool(self, record: ToolRecord) -> None:
        """Add one tool execution. Raises what SQLite raises."""
        with self.database.transaction() as connection:
            connection.execute(
                "INSERT INTO tools (session, started, record) VALUES (?, ?, ?)",
                (text(record.session), record.started, dump_tool(record)),
            )
            self._room.written(connection, self.max_bytes)

    @property
    def is_too_large(self) -> bool:
        """True if room should be made, as far as is known: it is looked now and then."""
        return self._room.short

    def make_room(self) -> None:
        """If the store is too large, remove some of what is oldest: a step of some milliseconds."""
        with self.database.transaction() as connection:
            self._room.make(connection, self.max_bytes)

    # --- reading and clearing -----------------------------------------------------------------------------------------

    def turns(self) -> Iterator[TurnRecord]:
        """Every turn, oldest first."""
        return self._records("turns", load_turn)

    def tools(self) -> Iterator[ToolRecord]:
        """Every tool execution, oldest first."""
        return self._records("tools", load_tool)

    def _records(self, table: str, load: Callable[[bytes], R]) -> Iterator[R]:
        with self.legible():
            with self.database.using() as connection:
                cursor = connection.execute(f"SELECT CAST(record AS BLOB) FROM {table} ORDER BY started, id")
            while True:
                with self.database.using():
                    rows = cursor.fetchmany(CHUNK)
                if not rows:
                    return
                for (row,) in rows:
                    try:
                        record = load(row)
                    except UNREADABLE:
                        self.skipped += 1
                    else:
                        yield record

    @contextmanager
    def legible(self) -> Iterator[None]:
        """Raises TraceError where the file turns out to be damaged, or none of ours, as it is read."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise TraceError(f"{self.path} cannot be read as a trace store: {error}") from error

    def purge(self, before: float) -> int:
        """Remove turns and tool calls that started before `before`, and what only they needed; returns their number.

        The file then gives up the space. That takes time: not for the agent's calls.
        """
        with self.database.transaction() as connection:
            gone = remove_before(connection, before)
        with self.database.using() as connection:
            connection.execute("VACUUM")
        return gone


@contextmanager
def open_reader(path: Path | None = None, *, empty: bool = False) -> Iterator[Store]:
    """The store at `path` for reading only; the default one where none is named. Raises `TraceError`, also where the
    file is no store yet, unless it may be `empty`.
    """
    chosen = store_path(path)
    if chosen.is_dir():
        raise TraceError(f"the trace store cannot be at {chosen}, which is a folder: give the path of a file")
    try:
        store = Store(chosen, read_only=True)
    except DAMAGED as error:
        raise TraceError(f"{chosen} cannot be opened as a trace store: {error}") from error
    try:
        if store.database.empty and not empty:
            raise TraceError(f"there is no trace store at {chosen}")
        yield store
    finally:
        store.close()


# --- What the trace store knows of the conversations that share a session's name --------------------------------------

MOST_THREADS = 64
"""Conversations under one name that a request is compared with: those used last."""
_MOST_PLACES = 24
"""Places that a conversation is known by: some ten turns back."""


def threads_in(store: Store, session: str) -> dict[str, int]:
    """The keys of all but the first of the conversations under a session's name, each with how many turns of it are
    known; the one used last comes last."""
    start = text(threads_of(session))
    with store.database.using() as connection:
        rows = connection.execute(
            "SELECT id, turns FROM sessions WHERE id >= ? AND id < ? ORDER BY turn DESC LIMIT ?",
            (start, f"{start[:-1]}0", MOST_THREADS),  # "0" comes after "/"
        ).fetchall()
    return {str(key): int(turns) for key, turns in reversed(rows)}


def places_of(store: Store, key: str) -> list[tuple[tuple[bytes, ...], int]]:
    """The last places that the conversation came to, oldest first: lineage hashes, and the messages of the request."""
    with store.database.using() as connection:
        rows = connection.execute(
            "SELECT hash, turn, messages FROM places WHERE session = ? ORDER BY turn DESC LIMIT ?",
            (text(key), _MOST_PLACES),
        ).fetchall()
    turns: dict[int, tuple[tuple[bytes, ...], int]] = {}
    for hash_, turn, messages in rows:
        turns[turn] = ((*turns.get(turn, ((), 0))[0], bytes(hash_)), messages)
    return [turns[turn] for turn in sorted(turns)]


# --- Whether a trace store is whole: asked before a command writes to one, and where reading one gave nothing ---------


def check(store: Store) -> None:
    """Raises `TraceError` where the file is damaged. Reads all of it."""
    with store.legible(), store.database.using() as connection:
        (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise TraceError(f"{store.path} is damaged: {' '.join(found.split())}")


def explain_nothing(store: Store) -> None:
    """For who has read `store` and found nothing: raises `TraceError` where that is because it cannot be read."""
    if store.skipped:
        raise TraceError(f"{store.path} is damaged: {store.skipped:,} of its rows cannot be read")
    check(store)


def check_before_writing(path: Path, *, new: bool) -> None:
    """Raises `ConfigError` or `TraceError` where a file stands at `path` that is no store, or a damaged one.

    Also, unless a `new` one may be made there, where there is none.
    """
    check_place(path)
    if not path.exists() or not path.stat().st_size:
        if new:
            return
        raise TraceError(f"there is no trace store at {path}")
    with open_reader(path, empty=new) as store:
        check(store)

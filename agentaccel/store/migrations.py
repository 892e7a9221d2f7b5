"""The tables of the trace store, as numbered migrations: the number of those applied is SQLite's `user_version`.

Segments are a content-addressed, parent-linked chain per level: a turn points at the ends of three chains, and a
conversation that grows by two blocks adds two rows.

What may be removed follows from indexes alone: a session's head ends where its `turn` does, so it goes with that turn;
a segment goes when no turn ends with it and no segment follows it. `clearings` counts removals, so that a process
knows when segment ids that it remembers may be gone.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from agentaccel.errors import TraceError

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE sessions (
        id TEXT PRIMARY KEY, agent TEXT, tenant TEXT, parent TEXT, workload TEXT NOT NULL,
        created REAL NOT NULL, turns INTEGER NOT NULL, snapshot TEXT NOT NULL, state TEXT NOT NULL, head TEXT,
        turn INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX sessions_by_turn ON sessions (turn);
    CREATE TABLE segments (
        id INTEGER PRIMARY KEY, parent INTEGER NOT NULL, digest BLOB NOT NULL, level TEXT NOT NULL,
        kind TEXT NOT NULL, role TEXT NOT NULL, name TEXT NOT NULL, size INTEGER NOT NULL, content BLOB,
        UNIQUE (parent, digest, level)
    );
    CREATE TABLE turns (
        id INTEGER PRIMARY KEY, session TEXT NOT NULL, started REAL NOT NULL,
        tools INTEGER NOT NULL, system INTEGER NOT NULL, messages INTEGER NOT NULL, record TEXT NOT NULL
    );
    CREATE INDEX turns_by_time ON turns (started);
    CREATE INDEX turns_by_tools ON turns (tools);
    CREATE INDEX turns_by_system ON turns (system);
    CREATE INDEX turns_by_messages ON turns (messages);
    CREATE TABLE tools (id INTEGER PRIMARY KEY, session TEXT NOT NULL, started REAL NOT NULL, record TEXT NOT NULL);
    CREATE INDEX tools_by_time ON tools (started);
    CREATE TABLE lineage (
        hash BLOB NOT NULL, session TEXT NOT NULL, at REAL NOT NULL, passed INTEGER NOT NULL, messages INTEGER NOT NULL,
        PRIMARY KEY (hash, session)
    ) WITHOUT ROWID;
    CREATE INDEX lineage_by_session ON lineage (session);
    CREATE TABLE beliefs (
        workload TEXT NOT NULL, topic TEXT NOT NULL, yes REAL NOT NULL, n REAL NOT NULL, PRIMARY KEY (workload, topic)
    ) WITHOUT ROWID;
    CREATE TABLE statics (hash BLOB PRIMARY KEY, at REAL NOT NULL) WITHOUT ROWID;
    CREATE INDEX statics_by_time ON statics (at);
    CREATE TABLE clearings (n INTEGER NOT NULL);
    INSERT INTO clearings VALUES (0);
    """,
    # Every turn writes its session anew: as a row of an ordinary table it needs no overflow pages, and a turn knows its
    # session, so no index has to lead from the one to the other. A long session has passed all but its last places.
    """
    CREATE TABLE sessions_2 (
        id TEXT PRIMARY KEY NOT NULL, agent TEXT, tenant TEXT, parent TEXT, workload TEXT NOT NULL,
        created REAL NOT NULL, turns INTEGER NOT NULL, snapshot TEXT NOT NULL, state TEXT NOT NULL, head TEXT,
        turn INTEGER NOT NULL
    );
    INSERT INTO sessions_2 SELECT id, agent, tenant, parent, workload, created, turns, snapshot, state, head, turn
        FROM sessions;
    DROP TABLE sessions;
    ALTER TABLE sessions_2 RENAME TO sessions;
    DROP INDEX lineage_by_session;
    CREATE INDEX lineage_by_session ON lineage (session, passed);
    """,
    # What was learned of tool calls: one row for each workload, and one with an empty name for all of them; and keyed
    # hashes of the recorded runs that it was learned from, so that none teaches twice.
    """
    CREATE TABLE patterns (
        workload TEXT PRIMARY KEY NOT NULL, version INTEGER NOT NULL, at REAL NOT NULL, known TEXT NOT NULL
    );
    CREATE TABLE lessons (run BLOB PRIMARY KEY, at REAL NOT NULL) WITHOUT ROWID;
    CREATE INDEX lessons_by_time ON lessons (at);
    """,
    # What came of running tools early: one row.
    """
    CREATE TABLE experience (
        one INTEGER PRIMARY KEY CHECK (one = 1), version INTEGER NOT NULL, at REAL NOT NULL, known TEXT NOT NULL
    );
    """,
    # A place of a session is one that it waits at if its last turn came there: nothing has to be written to pass it.
    # Places that older versions had seen passed are left out.
    """
    CREATE TABLE places (
        hash BLOB NOT NULL, session TEXT NOT NULL, turn INTEGER NOT NULL, messages INTEGER NOT NULL,
        PRIMARY KEY (hash, session)
    ) WITHOUT ROWID;
    INSERT INTO places SELECT l.hash, l.session, s.turn, l.messages
        FROM lineage l JOIN sessions s ON s.id = l.session WHERE l.passed = 0;
    CREATE INDEX places_by_session ON places (session, turn);
    DROP TABLE lineage;
    """,
    # Reports read session by session, and of a call that was simply run no more than an index holds: `simply` is 0 for
    # one that went well, 1 for one that failed, and NULL for what only its record tells.
    """
    ALTER TABLE tools ADD COLUMN finished REAL AS
        (CASE WHEN json_valid(record) THEN json_extract(record, '$.finished') END);
    ALTER TABLE tools ADD COLUMN simply INTEGER AS (CASE WHEN json_valid(record) AND typeof(started) = 'real'
        AND json_type(record, '$.finished') IN ('real', 'null') AND json_type(record, '$.speculative') = 'false'
        AND json_type(record, '$.served_from') = 'null' THEN json_extract(record, '$.outcome') = 'failed' END);
    CREATE INDEX tools_by_session ON tools (session, started, finished, simply);
    CREATE INDEX turns_by_session ON turns (session, started);
    """,
)


_OF_EVERY_FORMAT = frozenset({"sessions", "segments", "turns", "tools", "beliefs", "statics", "clearings"})
"""Tables that a trace store has had since the first migration."""


def format_of(connection: sqlite3.Connection, path: Path) -> int:
    """The number of migrations that the store at `path` has had; 0 for a database with nothing in it.

    Raises `TraceError` for a store of a newer version, and for a database that is another program's. One statement, so
    that it sees what another process creates as a whole or not at all.
    """
    version, names = connection.execute(
        "SELECT user_version, (SELECT group_concat(name) FROM sqlite_master) FROM pragma_user_version"
    ).fetchone()
    ours = _OF_EVERY_FORMAT.intersection((names or "").split(","))
    if version > len(MIGRATIONS) and ours:
        raise TraceError(
            f"this trace store has format {version}, and this agentaccel knows up to {len(MIGRATIONS)}: upgrade it"
        )
    if (names or version) and (not version or ours != _OF_EVERY_FORMAT):
        raise TraceError(f"{path} is an SQLite database but not a trace store of agentaccel")
    return int(version)


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Bring the tables up to date; safe when several processes do it at once. Raises as `format_of` does."""
    if connection.execute("PRAGMA user_version").fetchone()[0] == len(MIGRATIONS):
        return
    try:
        connection.execute("BEGIN IMMEDIATE")
        version = format_of(connection, path)
        for script in MIGRATIONS[version:]:
            for statement in filter(str.strip, script.split(";")):
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise

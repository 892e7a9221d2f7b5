"""What it means that the trace store has failed, and what is said of it."""

from __future__ import annotations

import errno
import sqlite3

from agentaccel.errors import TraceError

_ODD = (sqlite3.InterfaceError, sqlite3.ProgrammingError, sqlite3.DataError, sqlite3.IntegrityError)
"""What SQLite raises for a value, whatever the state of the file."""

LAST = "finish writing to"
_STOPS = "recording to it stops, sessions go on in memory"
_AFTER = {
    LAST: "the records that waited for it are lost",
    "read": "sessions go on without what it holds",
    "change": "what was learned is left out",
}
"""How it goes on when the store was not locked and may still be used, or is not needed any more."""


def told(doing: str, error: Exception, *, ends: bool) -> tuple[str, str]:
    """A line about what could not be done with the store, and the kind of trouble, each of which is told once.

    `ends` says that the store was given up for that.
    """
    if is_lock(error) and doing != LAST:
        then, about = "recording waits in memory", "locked"
    else:
        then, about = _STOPS if ends and doing != LAST else _AFTER[doing], f"{doing}: {_kind(error)}"
    return f"cannot {doing} the trace store: {error}; {then}", about


def is_lock(error: BaseException) -> bool:
    """Whether another process is in the way."""
    return isinstance(error, sqlite3.OperationalError) and "locked" in str(error)


def is_the_stores(error: Exception) -> bool:
    """Whether the store has failed, rather than what was to be written."""
    return isinstance(error, sqlite3.Error | OSError | TraceError) and not isinstance(error, _ODD)


def _kind(error: Exception) -> str:
    """What tells a full disk from a damaged file."""
    if isinstance(error, OSError) and error.errno is not None:
        return errno.errorcode.get(error.errno, str(error.errno))
    return getattr(error, "sqlite_errorname", None) or type(error).__name__

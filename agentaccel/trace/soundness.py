"""Whether a trace store is whole: asked before a command writes to one, and where reading one gave nothing."""

from __future__ import annotations

from pathlib import Path

from agentaccel.errors import TraceError
from agentaccel.trace.database import check_place
from agentaccel.trace.store import Store, open_reader


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

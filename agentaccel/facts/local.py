"""Emulators that this process serves: who answers at their addresses, which no data file can list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

Server = tuple[str, int]
"""Host and port."""
_SERVED: dict[Server, Sequence[tuple[str, tuple[str, str]]]] = {}


@contextmanager
def served_at(server: Server, places: Sequence[tuple[str, tuple[str, str]]]) -> Iterator[None]:
    """While the block lasts, `places` answer at `server`: beginnings of paths, each with its provider and platform."""
    _SERVED[server] = sorted(places, key=lambda place: len(place[0]), reverse=True)
    try:
        yield
    finally:
        _SERVED.pop(server, None)


def local_platform(server: Server | None, path: str) -> tuple[str, str] | None:
    """The provider and platform that this process itself serves there; None where it serves nothing."""
    if server is None:
        return None
    host, port = server
    places = _SERVED.get(("127.0.0.1" if host == "localhost" else host, port), ())
    return next((place for prefix, place in places if path.startswith(prefix + "/")), None)

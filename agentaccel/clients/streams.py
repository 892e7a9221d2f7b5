"""Streams of httpx and httpx2, and others of the same kind in their place."""

from __future__ import annotations

import functools
import sys
from typing import Any


def in_place_of(stream: Any, in_threads: type, on_loops: type, *given: object) -> Any:
    """A stream of the same kind as `stream` (for threads, for event loops, or both), made of those classes and from
    `stream` and what else is `given`."""
    library = sys.modules[_library(stream)]
    is_sync, is_async = isinstance(stream, library.SyncByteStream), isinstance(stream, library.AsyncByteStream)
    return _class(library, in_threads if is_sync else None, on_loops if is_async else None)(stream, *given)


def _library(stream: Any) -> str:
    """The HTTP library whose stream classes `stream` derives from."""
    roots = [base.__module__.partition(".")[0] for base in type(stream).__mro__]
    return next(root for root in roots if root in ("httpx2", "httpx"))


@functools.cache
def _class(library: Any, in_threads: type | None, on_loops: type | None) -> Any:
    """The library checks which kind a stream is by its base classes, so ours has the same."""
    bases: tuple[type, ...] = () if in_threads is None else (in_threads, library.SyncByteStream)
    bases += () if on_loops is None else (on_loops, library.AsyncByteStream)
    return type("Stream", bases, {})

"""Tier 0: a call that reads, made again while nothing that may write has run, is answered by its earlier result.

Only results that are plain JSON, and not long, are kept, and as its text: what one caller does to its result is not
seen by the next. Errors are never kept. A read whose owner says neither for how long a result is fresh nor how a change
shows is not kept either: a model that asks again may be waiting for a change.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from agentaccel.locks import Lock
from agentaccel.predict.identity import Key, Principal, plain_bytes
from agentaccel.tools.epochs import Version, WriteEpochs
from agentaccel.validators import Validator, is_unchanged

_EVERYBODY = ""
"""The session of results that all sessions of a tenant share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """What a call depends on, noted before it runs."""

    key: Key
    arguments: Mapping[str, Any]
    scope: str | None
    version: Version
    at: float
    """Monotonic time."""
    max_age: float
    """Seconds."""
    validator: Validator | None = None
    seen: object = None
    """The validator's version."""
    everybodys: bool = True
    """Whether the call is of a tool that all sessions have; one that wrapped its own may mean another by the name."""

    def holds(self, world: WriteEpochs, now: float) -> bool:
        """Whether running it again would read the same, as far as can be told."""
        return (
            now - self.at <= self.max_age
            and world.holds(self.version, self.scope)
            and is_unchanged(self.validator, self.arguments, self.seen)
        )


class Remembered(NamedTuple):
    """The result of a call, and what it took."""

    result: Any
    """The caller's own."""
    seconds: float


class _CachedResult(NamedTuple):
    read: Read
    text: bytes
    """Its result as JSON."""
    seconds: float


@dataclass(slots=True)
class ResultCache:
    """Results of reads, by call. Thread-safe."""

    world: WriteEpochs
    across: float | None = None
    """Seconds for which sessions of one tenant share results; None where they do not."""
    most: int = 512
    """Results that are kept; the one used longest ago makes room."""
    most_bytes: int = 256 * 1024
    """Of one result; a longer one is not kept, so that neither memory nor the time to copy it grows with it."""
    _kept: OrderedDict[Key, _CachedResult] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, read: Read, result: Any, seconds: float, now: float) -> None:
        """`read` has returned `result` after so many `seconds`."""
        text = plain_bytes(result, self.most_bytes)
        if text is None or not read.holds(self.world, now):
            return
        with self._lock:
            found = _CachedResult(read, text, seconds)
            shared = self.across is not None and read.everybodys
            for key in (read.key, _shared(read.key)) if shared else (read.key,):
                self._kept[key] = found
                self._kept.move_to_end(key)
            while len(self._kept) > self.most:
                self._kept.popitem(last=False)

    def find(self, key: Key, now: float, *, everybodys: bool = True) -> Remembered | None:
        """What the call under `key` returned, where it would return it again; a copy that is the caller's own.
        `everybodys` as in `Read`."""
        for name, age in ((key, None), (_shared(key), self.across)) if everybodys else ((key, None),):
            kept = self._kept.get(name)
            if kept is None:
                continue
            if not kept.read.holds(self.world, now):
                with self._lock:
                    self._kept.pop(name, None)
            elif name is key or (age is not None and now - kept.read.at <= age):
                return Remembered(orjson.loads(kept.text), kept.seconds)
        return None

    def leave(self, session: str) -> None:
        """Forget what is `session`'s own."""
        with self._lock:
            for key in [key for key in self._kept if key.principal.session == session]:
                del self._kept[key]


def _shared(key: Key) -> Key:
    return key._replace(principal=Principal(key.principal.tenant, _EVERYBODY))

"""What a suite's agent has done, wherever it is told: requests as they were sent, and records of what came of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

from agentaccel.accel import Accel
from agentaccel.clock import ManualClock
from agentaccel.errors import TraceError
from agentaccel.facts import platforms
from agentaccel.listening import Told
from agentaccel.policy import Policy, StorePolicy
from agentaccel.records import TurnRecord
from agentaccel.trace.store import open_reader
from agentaccel.turn import Finished, FirstByte, Reported, Started
from agentaccel.types import Request, Usage
from agentaccel_emulator import Emulator, LogEntry, RunningServer

Subject: TypeAlias = Emulator | RunningServer | Accel | Path | str | Iterable[TurnRecord]
"""What can be asserted of: an emulator, what an `Accel` has recorded, a trace store by its path, or records."""


Conversation: TypeAlias = Callable[[Request], object]
"""Tells which conversation a request belongs to."""


def records_of(subject: Subject, conversation: Conversation | None = None) -> list[TurnRecord]:
    """The requests that `subject` tells of. Raises `TraceError` for a store that cannot be read.

    Those of an emulator are of one conversation, unless `conversation` tells them apart; others know their session.
    """
    if isinstance(subject, Emulator | RunningServer):
        return _observed(answered(subject), conversation or (lambda request: None), platform_of(subject))
    if isinstance(subject, Accel):
        store = subject.policy.store
        assert store.enabled, "this Accel keeps no trace store: give it StorePolicy(path=…)"
        return _stored(None if store.path is None else Path(store.path).expanduser())
    if isinstance(subject, Path | str):
        return _stored(Path(subject))
    return list(subject)


def _stored(path: Path | None) -> list[TurnRecord]:
    with open_reader(path) as store:
        turns = list(store.turns())
        if store.skipped:
            raise TraceError(f"{store.path} is damaged: {store.skipped:,} of its rows cannot be read")
        return turns


def answered(emulator: Emulator | RunningServer) -> list[LogEntry]:
    """The model calls that it answered, in the order in which they were sent."""
    return [entry for entry in emulator.log if entry.usage is not None and entry.request is not None]


class _Heard:
    """Collects records as they end."""

    def __init__(self) -> None:
        self.records: list[TurnRecord] = []

    def begins(self, at: float, tool: str | None) -> object:
        return None

    def ended(self, began: object, told: Told | None) -> None:
        if told is not None and isinstance(told.record, TurnRecord):
            self.records.append(told.record)


def platform_of(subject: object) -> str | None:
    """The platform whose rules an emulator has, where no model's name tells it; None where it does."""
    core = subject.emulator if isinstance(subject, RunningServer) else subject
    return core.platform if isinstance(core, Emulator) and core.platform in platforms("compatible") else None


def _observed(entries: list[LogEntry], conversation: Conversation, platform: str | None) -> list[TurnRecord]:
    """What an `Accel` that changes nothing would have recorded of these calls."""
    if not entries:
        return []
    heard, clock = _Heard(), ManualClock(now=entries[0].at)
    policy = Policy(mode="observe", strict=True, store=StorePolicy(enabled=False))
    with Accel(policy, clock=clock, environ={}) as accel:
        accel.listen(heard)
        for entry, after in pairwise([*entries, None]):
            assert entry is not None
            assert entry.request is not None
            with accel.session(f"conversation {conversation(entry.request)!r}"):
                turn = accel.turn(entry.request, platform=platform)
                for event in (
                    Started(entry.at),
                    FirstByte(entry.at + entry.first_byte),
                    Reported(usage=_usage(entry)),
                    Finished(entry.at + entry.seconds),
                ):
                    turn.handle(event)
            if after is not None:
                clock.advance(max(0.0, after.at - clock.wall()))
    return heard.records


def _usage(entry: LogEntry) -> Usage:
    used = entry.usage
    assert used is not None
    labels = {"5m": used.write_5m, "1h": used.write_1h, "30m": used.write_30m, "12h": used.write_12h}
    write = {label: tokens for label, tokens in labels.items() if tokens}
    return Usage(input=used.input, read=used.read, write=write, output=used.output)


def requests_of(subject: Emulator | RunningServer | Iterable[Request]) -> list[Request]:
    """The requests as they were sent; of an emulator, those that it answered."""
    if isinstance(subject, Emulator | RunningServer):
        return [entry.request for entry in answered(subject) if entry.request is not None]
    return list(subject)

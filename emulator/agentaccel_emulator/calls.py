"""A call while it is answered, and what every emulated API has in common: its line in the log, and its faults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from agentaccel_emulator.accounts import LogEntry
from agentaccel_emulator.exchange import HttpReply
from agentaccel_emulator.faults import Fault
from agentaccel_emulator.script import Script


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call while it is answered."""

    number: int
    """Calls are counted from 1."""
    now: float
    """When it starts, seconds since the epoch."""
    path: str
    """The path, without its query."""
    headers: Mapping[str, str]
    """Headers, names in lower case."""
    body: bytes
    """The body, undecoded."""
    fault: Fault | None
    """What goes wrong."""
    method: str = "POST"
    """Upper case, as in the request line."""
    query: str = ""
    """The query, without its question mark."""

    @property
    def request_id(self) -> str:
        """The id of the call, equal in every run."""
        return f"req_emulated{self.number:012d}"

    def goes_wrong(self, *kinds: str) -> bool:
        """Whether a fault of one of these kinds strikes it."""
        return self.fault is not None and self.fault.kind in kinds

    @property
    def delay(self) -> float:
        """Seconds that a fault keeps the first byte back."""
        return self.fault.seconds if self.fault is not None and self.fault.kind == "slow_first_token" else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A call's reply and its line in the log."""

    reply: HttpReply
    """What is sent."""
    entry: LogEntry
    """What is logged."""


class Api(Protocol):
    """One API of one provider; `core.Emulator` finds it by its paths."""

    def takes(self, path: str) -> bool:
        """Whether it answers at this path."""
        ...

    def methods(self, path: str) -> tuple[str, ...]:
        """The methods of this path."""
        ...

    def generates(self, path: str) -> bool:
        """Whether a call of this path asks for a reply of the model: such calls are what faults strike."""
        ...

    def serves(self, model: str) -> bool:
        """Whether something is known of the model that is called so here."""
        ...

    def reset(self) -> None:
        """Forget everything but the settings."""
        ...

    def answer(self, call: Call, script: Script) -> Outcome:
        """Answer one call."""
        ...


def entry_of(call: Call, *, status: int, request: Mapping[str, Any] | None = None, **fields: Any) -> LogEntry:
    """The line in the log; the request is decoded from the call where it is not given."""
    if request is None:
        request = decoded(call.body)
    model = fields.pop("model", None) or (request.get("model") if request is not None else None)
    return LogEntry(
        number=call.number,
        path=call.path,
        at=call.now,
        status=status,
        streamed=fields.pop("streamed", bool(request and request.get("stream"))),
        model=model if isinstance(model, str) else None,
        fault=call.fault.kind if call.fault is not None else None,
        request=request,
        **fields,
    )


def decoded(raw: bytes) -> Mapping[str, Any] | None:
    """The object that `raw` is, or None."""
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def hung(call: Call) -> Outcome:
    """Nothing is ever sent."""
    return Outcome(reply=HttpReply(status=0, headers={}, ending="hang"), entry=entry_of(call, status=0))

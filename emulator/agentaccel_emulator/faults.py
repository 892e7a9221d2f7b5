"""Faults on demand: what a provider does wrong, when, and how often.

A faults file is a JSON list (or JSON lines) of objects, for example::

    [{"kind": "429", "at": 2, "headers": {"retry-after-ms": "20"}},
     {"kind": "529", "probability": 0.05, "seed": 7},
     {"kind": "slow_first_token", "seconds": 8, "match": "summarise"},
     {"kind": "disconnect_mid_stream", "after_events": 4, "at": 5}]

`at` counts calls that ask for a reply of the model from 1, retries included. Without `at`, `match` and `probability`
a fault strikes every call. The first fault of the list that strikes counts; `times` bounds how often it may.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from agentaccel.errors import ConfigError
from agentaccel_emulator.given import fields, number, shown, text
from agentaccel_emulator.script import read_json

FaultKind = Literal[
    "429",
    "500",
    "503",
    "529",
    "slow_first_token",
    "disconnect_mid_stream",
    "overloaded_mid_stream",
    "malformed_sse",
    "missing_usage",
    "timeout",
]
"""What goes wrong: a status, a late first byte, a cut stream, an error event in it, a broken event in it, a reply
without usage, or no reply at all; each in the form of the API that is called (OpenAI's says 503 for 529)."""

_STATUS_ERRORS: Mapping[str, tuple[str, str]] = {
    "429": ("rate_limit_error", "This request would exceed your organization's rate limit."),
    "500": ("api_error", "Internal server error"),
    "503": ("api_error", "Service unavailable"),
    "529": ("overloaded_error", "Overloaded"),
}


_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e\xa0-\xff]*")
"""Header names and values as RFC 9110 (5.1, 5.5) has them; bytes that Latin-1 takes for control characters left out."""
_FRAMING = ("content-length", "transfer-encoding")
_MOST_HEADERS = 64
_MOST_IN_HEADERS = 16_384
"""Characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that goes wrong."""

    kind: FaultKind
    """What goes wrong."""
    at: int | None = None
    """Which call it strikes, counted from 1; None is any."""
    match: str | None = None
    """Text that the request's body contains; None is any."""
    probability: float = 1.0
    """How likely it strikes where it could."""
    seed: int = 0
    """Seed of that probability."""
    times: int | None = None
    """How often it strikes at most; None is without limit."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers of a reply with a status of its own, such as retry-after-ms or x-should-retry."""
    seconds: float = 30.0
    """How much later the first byte comes (slow_first_token)."""
    after_events: int = 2
    """Events sent before the stream goes wrong (disconnect, overloaded, malformed)."""

    def __post_init__(self) -> None:
        if self.kind not in get_args(FaultKind):
            raise ConfigError(f"there is no fault {shown(self.kind)}: use one of {', '.join(get_args(FaultKind))}")
        number("probability of a fault", self.probability, most=1)
        number("seconds of a fault", self.seconds)
        number("after_events of a fault", self.after_events, whole=True)
        if isinstance(self.seed, bool) or not isinstance(self.seed, int):
            raise ConfigError(f"seed of a fault is a whole number, not {shown(self.seed)}")
        if self.at is not None:
            number("at of a fault", self.at, least=1, whole=True)
        if self.times is not None:
            number("times of a fault", self.times, whole=True)
        if self.match is not None:
            text("match of a fault", self.match)
        _check_headers(self.headers)

    @property
    def status(self) -> int | None:
        """The HTTP status that the fault answers with, or None where the call goes through at first."""
        return int(self.kind) if self.kind in _STATUS_ERRORS else None

    @property
    def error(self) -> tuple[str, str]:
        """Type and message of the error that the fault reports."""
        return _STATUS_ERRORS.get(self.kind, _STATUS_ERRORS["529"])


def _check_headers(headers: object) -> None:
    if not isinstance(headers, Mapping) or not all(isinstance(one, str) for pair in headers.items() for one in pair):
        raise ConfigError(f"the headers of a fault are an object of texts, not {shown(headers)}")
    for name, value in headers.items():
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise ConfigError(f"no header of a fault can be {shown(name)}: {shown(value)}")
        if name.lower() in _FRAMING:
            raise ConfigError(f"the server frames a reply itself: no fault has the header {shown(name)}")
    if len(headers) > _MOST_HEADERS or sum(len(one) for pair in headers.items() for one in pair) > _MOST_IN_HEADERS:
        raise ConfigError(f"a fault has at most {_MOST_HEADERS} headers, of {_MOST_IN_HEADERS:,} characters in all")


@dataclass(slots=True)
class FaultPlan:
    """The faults of one emulator and how often each has struck. Mutable: the counts and the dice are its state."""

    faults: tuple[Fault, ...] = ()
    """Faults in order of precedence."""
    _struck: list[int] = field(init=False)
    _dice: list[random.Random] = field(init=False)

    def __post_init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget what has struck."""
        self._struck = [0] * len(self.faults)
        self._dice = [random.Random(fault.seed) for fault in self.faults]

    def strike(self, call: int, body: bytes) -> Fault | None:
        """The fault that strikes the `call`th call, whose body is `body`."""
        for place, fault in enumerate(self.faults):
            if fault.times is not None and self._struck[place] >= fault.times:
                continue
            if fault.at not in (None, call) or (fault.match is not None and fault.match.encode() not in body):
                continue
            if fault.probability < 1 and self._dice[place].random() >= fault.probability:
                continue
            self._struck[place] += 1
            return fault
        return None


FaultsLike = Sequence[Fault | Mapping[str, Any]] | str | Path | None
"""Faults, decoded objects of a faults file, or the path of one."""


def faults_of(value: FaultsLike) -> tuple[Fault, ...]:
    """The faults that `value` stands for. Raises ConfigError where it is none, or the file cannot be read."""
    if isinstance(value, (str, Path)):
        decoded = read_json(Path(value), "faults")
        return faults_of([decoded] if isinstance(decoded, Mapping) else decoded)
    if value is not None and not isinstance(value, list | tuple):
        raise ConfigError(f"faults are a list, not {shown(value)}")
    return tuple(item if isinstance(item, Fault) else _fault_of(item) for item in value or ())


def _fault_of(value: object) -> Fault:
    if not isinstance(value, Mapping):
        raise ConfigError(f"a fault is malformed: it is an object, not {shown(value)}")
    fields("a fault is malformed: it", value, tuple(Fault.__dataclass_fields__))
    return Fault(**{**value, "kind": str(value.get("kind"))})

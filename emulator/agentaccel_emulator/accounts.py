"""What the emulator keeps in its books: a log of requests, running totals, and rate limits. It decides no caching."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from agentaccel_emulator.usage import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """One call of an API."""

    number: int
    """Calls are counted from 1; all paths share one count."""
    path: str
    """The path, without its query."""
    at: float
    """Server time of its start, seconds since the epoch."""
    status: int
    """The HTTP status; 0 where no reply was sent."""
    model: str | None
    """The model asked for, if the body could be read."""
    workspace: str | None = None
    """Whose cache it could see; None where it was refused."""
    streamed: bool = False
    """Whether a stream was asked for."""
    message_id: str | None = None
    """Id of the reply."""
    usage: Usage | None = None
    """What it is billed for; None where it was refused."""
    markers: tuple[tuple[int, str], ...] = ()
    """Leaf and lifetime of each marker on the tape, the provider's own included."""
    hit: int | None = None
    """The leaf that was read up to."""
    leaves: int = 0
    """Leaves on the tape."""
    first_byte: float = 0.0
    """Seconds from the start to the first byte."""
    seconds: float = 0.0
    """Seconds from the start to the last byte."""
    check: str | None = None
    """Name of the check that objected."""
    error: str | None = None
    """Text of the refusal."""
    fault: str | None = None
    """Kind of the fault that struck."""
    request: Mapping[str, Any] | None = None
    """The request as decoded JSON; treat it as immutable. Where Claude was asked in disguise, on Bedrock, on Vertex or
    through a gateway, it is the Messages request that this stands for; a deployment stands in it as the model."""


@dataclass(slots=True)
class Totals:
    """Running totals over the requests that were answered with 200. Mutable: it counts."""

    requests: int = 0
    """Requests answered with 200, streams that were cut later included."""
    input: int = 0
    """Tokens of whole prompts: read, written and uncached."""
    read: int = 0
    """Tokens read from the cache."""
    write_5m: int = 0
    """Tokens written for five minutes."""
    write_1h: int = 0
    """Tokens written for an hour."""
    write_30m: int = 0
    """Tokens written for half an hour."""
    write_12h: int = 0
    """Tokens written for twelve hours."""
    uncached: int = 0
    """Input tokens neither read nor written."""
    output: int = 0
    """Output tokens."""

    def add(self, usage: Usage) -> None:
        """Count one request."""
        self.requests += 1
        self.input += usage.input
        self.read += usage.read
        self.write_5m += usage.write_5m
        self.write_1h += usage.write_1h
        self.write_30m += usage.write_30m
        self.write_12h += usage.write_12h
        self.uncached += usage.uncached
        self.output += usage.output


@dataclass(slots=True)
class Counters:
    """Totals per model and in all, and how often each refusal was given. Mutable: it counts."""

    total: Totals = field(default_factory=Totals)
    """Over all models."""
    models: dict[str, Totals] = field(default_factory=dict)
    """Per model, by the name that was asked for."""
    errors: dict[int, int] = field(default_factory=dict)
    """Calls refused, per HTTP status (0: no reply at all)."""

    def answered(self, model: str, usage: Usage) -> None:
        """Count a request answered with 200."""
        self.total.add(usage)
        self.models.setdefault(model, Totals()).add(usage)

    def refused(self, status: int) -> None:
        """Count a refusal."""
        self.errors[status] = self.errors.get(status, 0) + 1

    def as_json(self) -> dict[str, object]:
        """The totals as `GET /_ctl/counters` shows them."""
        return {**asdict(self), "errors": {str(status): count for status, count in self.errors.items()}}


_LATEST = 253_402_300_799
"""The last second, since the epoch, that has a date: of the year 9999."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimits:
    """Limits per workspace and model, as token buckets that refill continuously."""

    requests: int = 4_000
    """Requests per minute."""
    input_tokens: int = 40_000_000
    """Input tokens per minute; tokens read from the cache count only where the facts say so."""
    output_tokens: int = 8_000_000
    """Output tokens per minute."""
    enforced: bool = False
    """Whether a request that finds a bucket empty is refused with 429."""


@dataclass(slots=True)
class Bucket:
    """One limit's state. Mutable: it drains and fills."""

    limit: int
    """Most that it holds, which is also what flows in per minute."""
    level: float
    """What it holds."""
    at: float
    """When `level` held, seconds since the epoch."""

    def fill(self, now: float) -> None:
        """Let in what has flowed until `now`."""
        self.level = min(float(self.limit), self.level + max(0.0, now - self.at) * self.limit / 60)
        self.at = max(self.at, now)

    def wait(self) -> float:
        """Seconds until a unit is there."""
        return max(0.0, (1 - self.level) * 60 / self.limit)

    def full_at(self) -> str:
        """When it is full again, as RFC 3339."""
        moment = min(self.at + (self.limit - self.level) * 60 / self.limit, _LATEST)
        return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


_NAMES = ("requests", "input-tokens", "output-tokens")


@dataclass(slots=True)
class RateMeter:
    """The buckets of every workspace and model. Mutable: they are its state."""

    limits: RateLimits
    """The limits."""
    _buckets: dict[tuple[str, str], tuple[Bucket, ...]] = field(default_factory=dict)

    def open(self, workspace: str, model: str, now: float) -> tuple[Bucket, ...]:
        """The buckets for requests, input and output, filled up to `now`."""
        key = (workspace, model)
        if key not in self._buckets:
            limits = (self.limits.requests, self.limits.input_tokens, self.limits.output_tokens)
            self._buckets[key] = tuple(Bucket(limit, float(limit), now) for limit in limits)
        for bucket in self._buckets[key]:
            bucket.fill(now)
        return self._buckets[key]

    def refusal(self, buckets: tuple[Bucket, ...]) -> tuple[str, float] | None:
        """The limit that is used up and the seconds until it is not, if limits are enforced."""
        if not self.limits.enforced:
            return None
        return next(
            ((name, bucket.wait()) for name, bucket in zip(_NAMES, buckets, strict=True) if bucket.level < 1), None
        )


def drain(buckets: tuple[Bucket, ...], input_tokens: int, output_tokens: int) -> None:
    """Take one request out of the buckets."""
    for bucket, amount in zip(buckets, (1, input_tokens, output_tokens), strict=True):
        bucket.level = max(0.0, bucket.level - amount)


def limit_headers(buckets: tuple[Bucket, ...]) -> dict[str, str]:
    """The anthropic-ratelimit headers; `tokens` shows the scarcer of input and output."""
    shown: dict[str, Bucket] = dict(zip(_NAMES, buckets, strict=True))
    shown["tokens"] = min(buckets[1:], key=lambda bucket: bucket.level)
    headers = {}
    for name, bucket in shown.items():
        headers[f"anthropic-ratelimit-{name}-limit"] = str(bucket.limit)
        headers[f"anthropic-ratelimit-{name}-remaining"] = str(int(bucket.level))
        headers[f"anthropic-ratelimit-{name}-reset"] = bucket.full_at()
    return headers

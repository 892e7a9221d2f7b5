"""Replies that say no: the provider's own name for the error, never its text.

Read from what the caller reads anyway: a refusal whose body nobody asks for keeps its name to itself.
"""

from __future__ import annotations

import json
import logging
from typing import Any

from agentaccel.clients.watch import Headers, decoder
from agentaccel.clock import Clock
from agentaccel.locks import when_free
from agentaccel.turn import Failed, Turn

log = logging.getLogger("agentaccel")

_MOST = 65_536
"""Bytes of a body that are looked at; refusals are short."""

_NAMES = ("type", "status", "code")
"""Where an error object has its name: most providers', Google's, and gateways'."""


def error_name(headers: Headers, body: bytes) -> str | None:
    """What the provider calls the error.

    >>> error_name({"x-amzn-errortype": "ThrottlingException:http://internal"}, b"")
    'ThrottlingException'
    >>> error_name({}, b'{"error": {"code": 429, "message": "Slow down.", "status": "RESOURCE_EXHAUSTED"}}')
    'RESOURCE_EXHAUSTED'
    >>> error_name({}, b"<html>") is None
    True
    """
    named = headers.get("x-amzn-errortype", "").partition(":")[0]
    if named:
        return named
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        return None
    told = told[0] if isinstance(told, list) and told else told  # Google's streams are lists
    error = told.get("error") if isinstance(told, dict) else None
    names = [error.get(name) for name in _NAMES] if isinstance(error, dict) else []
    return next((name for name in names if isinstance(name, str) and name), None)


class RefusalWatch:
    """Ends the turn of a request that was refused, once the body has been read or given up."""

    def __init__(self, turn: Turn, clock: Clock, http: Any, *, strict: bool) -> None:
        self._turn, self._clock, self._strict = turn, clock, strict
        self._status, self._headers = http.status_code, http.headers
        self._decode = decoder(http.headers.get("content-encoding", ""))
        self._body = b""

    def chunk(self, raw: bytes) -> None:
        """The next raw bytes of the refusal, before they are handed on."""
        if self._decode is None or len(self._body) > _MOST:
            return
        try:
            self._body += self._decode(raw)
        except Exception:
            # It is not encoded as it says, in words that differ by library; its reader is the one to complain.
            log.debug("agentaccel: could not read a refusal", exc_info=True)
            self._decode = None

    def decoded(self, body: bytes) -> None:
        """The whole body, which the HTTP library has read and decoded before."""
        self._body = body

    def end(self, how: str, error: str | None = None) -> None:
        """The refusal is over, however that came about: the provider had said no before."""
        when_free(self._end_guarded)

    def _end_guarded(self) -> None:
        try:
            name = error_name(self._headers, self._body)
            self._turn.handle(Failed(at=self._clock.monotonic(), status=self._status, error=name))
        except Exception:
            if self._strict:
                raise
            log.exception("agentaccel: could not record a refusal")

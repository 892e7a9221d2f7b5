"""Results of batches: they are asked for long before they are read, and told as requests when they are read."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

from agentaccel.clients.later import attach
from agentaccel.clients.watch import Headers, decoder
from agentaccel.providers.batches import result_of
from agentaccel.session import Composer
from agentaccel.session.batches import Batch, batch_here, record_result
from agentaccel.types import Endpoint

log = logging.getLogger("agentaccel")

_LONGEST = 16 * 2**20
"""Bytes of a result that are held until its line is over; one that is longer is left out."""

_PLACES = (
    (re.compile("(.*/messages)/batches/([^/]+)/results/?"), ""),
    (re.compile("(.*)/files/([^/]+)/content/?"), "/chat/completions"),
)
"""Paths of what may hold results, and where, beside what they begin with, requests like those of the batch are sent."""


def watch_results(
    composer: Composer, method: str, path: str, http: Any, endpoint: Callable[[str], Endpoint | None]
) -> None:
    """Watch the response `http` to a request for `path`, if it may hold the results of a batch.

    `endpoint` tells where the provider's requests go from the path that they are sent to.
    """
    try:
        if method.upper() != "GET" or http is None or not http.is_success:
            return
        for place, calls in _PLACES:
            found = place.fullmatch(path)
            to = endpoint(found[1] + calls) if found is not None else None
            if found is not None and to is not None:
                attach(http, composer, partial(_ResultsWatch, composer, batch_here(composer, found[2], to)))
                return
    except Exception:
        if composer.policy.strict:
            raise
        log.exception("agentaccel: could not watch the results of a batch; they go on, unrecorded")


class _ResultsWatch:
    """Records each result as its line goes by. Nothing is held but the line that has begun.

    Where the first line is no result, neither is the rest: any file can be downloaded as one of OpenAI's.
    """

    def __init__(self, composer: Composer, batch: Batch, headers: Headers) -> None:
        self._composer, self._batch = composer, batch
        self._decode = decoder(headers.get("content-encoding", ""))
        self._line = bytearray()
        self._known = False
        """True if a line has turned out to be a result."""
        self._too_long = False
        self._over = self._decode is None

    def chunk(self, raw: bytes) -> None:
        """The next raw bytes, before they are handed on."""
        if not self._over and self._decode is not None:
            self._guarded(self._take, self._decode, raw)

    def end(self, how: Literal["read", "closed", "cancelled", "failed"], error: str | None = None) -> None:
        """They are over; what was broken off within a line is no result."""
        if how == "read" and not self._over:
            self._guarded(self._line_ends)
        self._over = True

    def _guarded(self, work: Callable[..., None], *given: Any) -> None:
        try:
            work(*given)
        except Exception:
            self._over = True
            if self._composer.policy.strict:
                raise
            log.exception("agentaccel: could not read the results of a batch; they go on, and the rest is unrecorded")

    def _take(self, decode: Callable[[bytes], bytes], raw: bytes) -> None:
        data, start = decode(raw), 0
        while not self._over and (end := data.find(b"\n", start)) >= 0:
            self._goes_on(data, start, end)
            self._line_ends()
            start = end + 1
        if not self._over:
            self._goes_on(data, start, len(data))

    def _goes_on(self, data: bytes, start: int, end: int) -> None:
        if len(self._line) + end - start > _LONGEST:
            self._too_long = True
        if self._too_long:
            self._line.clear()
        else:
            self._line += memoryview(data)[start:end]

    def _line_ends(self) -> None:
        line, too_long = bytes(self._line).strip(), self._too_long
        self._line.clear()
        self._too_long = False
        if too_long:
            log.warning("agentaccel: a result of a batch is too long to be read; it is not recorded")
        if not line:
            return
        result = result_of(line)
        if result is not None:
            self._known = True
            record_result(self._composer, self._batch, result)
        elif not self._known:
            self._over = True

"""Server-sent events from bytes that arrive in any pieces; linear in the bytes, exact under any cut.

The grammar is the HTML standard's (html.spec.whatwg.org, "Server-sent events"): lines end in CR, LF or CRLF, an empty
line ends an event, `data` lines join with a newline, comments and unknown fields are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(slots=True)
class SseParser:
    """Feed it bytes; it yields each event as (name, data) when its empty line has arrived.

    >>> parser = SseParser()
    >>> list(parser.feed(b"event: ping\\r\\ndata: {")), list(parser.feed(b"}\\r\\n\\r")), list(parser.feed(b"\\n"))
    ([], [('ping', b'{}')], [])
    """

    _pieces: list[bytes] = field(default_factory=list)
    """The line that has begun and not ended."""
    _name: str = ""
    _data: list[bytes] = field(default_factory=list)
    _after_cr: bool = False
    """A LF that follows belongs to the CR that already ended the line."""

    def feed(self, chunk: bytes) -> Iterator[tuple[str, bytes]]:
        if self._after_cr and chunk:
            self._after_cr = False
            if chunk[:1] == b"\n":
                chunk = chunk[1:]
        if not chunk:
            return
        lines = chunk.splitlines(keepends=True)
        for line in lines:
            body = line.rstrip(b"\r\n")
            if len(body) == len(line):
                self._pieces.append(body)
                break
            if self._pieces:
                body = b"".join((*self._pieces, body))
                self._pieces.clear()
            event = self._line(body)
            if event is not None:
                yield event
        self._after_cr = chunk.endswith(b"\r")

    def end(self) -> Iterator[tuple[str, bytes]]:
        """The bytes have ended: an event that lacks its empty line has ended with them.

        >>> parser = SseParser()
        >>> list(parser.feed(b"data: {}")), list(parser.end()), list(parser.end())
        ([], [('', b'{}')], [])
        """
        line = b"".join(self._pieces)
        self._pieces.clear()
        for one in (line, b"") if line else (b"",):
            event = self._line(one)
            if event is not None:
                yield event

    def _line(self, line: bytes) -> tuple[str, bytes] | None:
        if not line:
            event = (self._name, b"\n".join(self._data)) if self._data else None
            self._name, self._data = "", []
            return event
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._name = value.decode("utf-8", "replace")
        return None

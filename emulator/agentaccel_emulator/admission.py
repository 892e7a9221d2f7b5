"""Which HTTP requests the emulator's server takes: those of programs on this machine, framed as HTTP/1.1 has it.

A web page can make a browser send requests to a loopback address. It cannot make it leave out `Origin` or
`Sec-Fetch-Site`, name another `Host` than the address that it asked for, nor send `application/json` to another origin
without asking first (Fetch standard, *CORS-safelisted request-header* and *forbidden request-header*; read 2026-11).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Collection
from email.message import Message
from typing import Protocol
from urllib.parse import urlsplit

from agentaccel_emulator.anthropic_wire import error_body
from agentaccel_emulator.exchange import HttpReply, json_reply
from agentaccel_emulator.trial import Problem

MOST_BYTES = 256 * 1024 * 1024
"""Of a body; a longer one is refused."""
_LONGEST_LINE = 4096
"""Bytes of the line before a chunk, and of all trailers."""
_JSON = re.compile(r"application/(?:[\w.+-]+\+)?json", re.IGNORECASE)
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::\d{1,5})?")


class NotAdmitted(Exception):
    """A request that is refused before anybody looks at what it asks for."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status

    @property
    def reply(self) -> HttpReply:
        kinds = {403: "permission_error", 413: "request_too_large"}
        problem = Problem(str(self), kinds.get(self.status, "invalid_request_error"), self.status)
        return json_reply(self.status, error_body(problem, "req_emulated"), {"connection": "close"})


class Readable(Protocol):
    """The part of a connection's file that is read."""

    def read(self, size: int, /) -> bytes: ...
    def readline(self, size: int, /) -> bytes: ...


def admit(headers: Message, hosts: Collection[str]) -> None:
    """Raises `NotAdmitted` for a request that a web page may have made a browser send.

    `hosts`: names of the server beside those of the loopback interface.
    """
    named = headers.get_all("host", [])
    if len(named) != 1 or not _is_here(named[0], hosts):
        raise NotAdmitted(403, "the Host of a request is localhost or 127.0.0.1, or one that Behaviour.hosts names")
    for origin in headers.get_all("origin", []):
        if not _is_here(urlsplit(origin).netloc if origin.count("/") == 2 else "", hosts):
            raise NotAdmitted(403, "a request of a web page from elsewhere is not answered")
    if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        raise NotAdmitted(403, "a request of a web page from elsewhere is not answered")


def admit_body(headers: Message, body: bytes) -> None:
    """Raises `NotAdmitted` for a body that is not said to be JSON."""
    kinds = [kind.partition(";")[0].strip() for kind in headers.get_all("content-type", [])]
    if body and not (len(kinds) == 1 and _JSON.fullmatch(kinds[0])):
        raise NotAdmitted(415, "the content-type of a body is application/json")


def _is_here(named: str, hosts: Collection[str]) -> bool:
    """True if a host, perhaps with a port, is this machine's own, or one of `hosts`."""
    match = _HOST.fullmatch(named.strip())
    if match is None:
        return False
    host = match[1].lower().rstrip(".")
    if host in hosts or host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def read_body(headers: Message, connection: Readable, go_on: Callable[[], object]) -> bytes:
    """The body, whole. Raises `NotAdmitted` where it is not clear where it ends, and `ConnectionError` where it ends
    too soon. `go_on` is called before the first byte is read.
    """
    lengths, codings = headers.get_all("content-length", []), headers.get_all("transfer-encoding", [])
    if codings:
        if lengths or [one.strip().lower() for one in codings] != ["chunked"]:
            raise NotAdmitted(400, "a body has a Content-Length or is chunked, and is not coded otherwise")
        go_on()
        return _chunked(connection)
    if len(lengths) > 1 or not all(re.fullmatch("[0-9]+", one.strip()) for one in lengths):
        raise NotAdmitted(400, "the Content-Length of a request is one number")
    length = int(lengths[0].strip()[:20]) if lengths else 0
    if length > MOST_BYTES:
        raise NotAdmitted(413, f"a request has at most {MOST_BYTES:,} bytes")
    if length:
        go_on()
    return _exactly(connection, length)


def _chunked(connection: Readable) -> bytes:
    """RFC 9112, 7.1."""
    body = bytearray()
    while True:
        size = re.fullmatch(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?\r?\n", connection.readline(_LONGEST_LINE))
        if size is None:
            raise NotAdmitted(400, "a chunk of a body begins with its length")
        length = int(size[1], 16)
        if len(body) + length > MOST_BYTES:
            raise NotAdmitted(413, f"a request has at most {MOST_BYTES:,} bytes")
        if not length:
            break
        body += _exactly(connection, length)
        if connection.readline(3) not in (b"\r\n", b"\n"):
            raise NotAdmitted(400, "a chunk of a body is longer than it says")
    left = _LONGEST_LINE
    while (trailer := connection.readline(left)) not in (b"\r\n", b"\n"):
        left -= len(trailer)
        if not trailer or left <= 0:
            raise NotAdmitted(400, "the trailers of a body do not end")
    return bytes(body)


def _exactly(connection: Readable, length: int) -> bytes:
    body = connection.read(length) if length else b""
    if len(body) < length:
        raise ConnectionError("the client went away")
    return body

"""A server on the loopback interface that gives every request the same answer, and notes what it was sent."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

MIDDLEWARE_HEADER = "x-stainless-raw-response"
"""The anthropic SDK sends this header, with the value "raw", from any client that has any middleware."""


class Sent(NamedTuple):
    """A request as the server has seen it."""

    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes


class Far:
    """What the server answers, and what it was sent. Not for tests that send from several threads at a time."""

    def __init__(self) -> None:
        self.url = ""
        self.kind, self.pieces = "application/json", [b"{}"]
        self.elsewhere: dict[str, bytes] = {}
        """JSON that is answered at some paths, whatever else is asked for."""
        self.refusals = 0
        """How many of the next requests are answered with 503."""
        self.sent: list[Sent] = []

    def begin(self, kind: str, pieces: list[bytes], *, refusals: int = 0) -> None:
        """Answer with `pieces` of this content type from now on, after `refusals` of 503; forget what was sent."""
        self.kind, self.pieces, self.refusals = kind, pieces, refusals
        self.sent.clear()


_REFUSAL = b'{"error": {"type": "overloaded", "message": "Later."}}'


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # headers and body in one packet: two of them wait for one another

    def log_message(self, *of: object) -> None:
        pass

    def _answer(self) -> None:
        far: Far = self.server.far  # type: ignore[attr-defined]
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = sorted((name.lower(), value) for name, value in self.headers.items())
        seen = tuple((name, value) for name, value in headers if name != MIDDLEWARE_HEADER)
        far.sent.append(Sent(self.command, self.path, seen, body))
        refused = far.refusals > 0
        far.refusals -= refused
        self.send_response_only(503 if refused else 200)
        self.send_header("request-id", "req_1")
        self.send_header("x-request-id", "req_1")
        other = _REFUSAL if refused else far.elsewhere.get(self.path.partition("?")[0])
        kind, pieces = (far.kind, far.pieces) if other is None else ("application/json", [other])
        self.send_header("content-type", kind)
        if refused:
            self.send_header("retry-after-ms", "1")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for piece in (*pieces, b""):
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer


@contextmanager
def far_side() -> Iterator[Far]:
    """A running server; it is closed with its threads on the way out."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    far = server.far = Far()  # type: ignore[attr-defined]
    far.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield far
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

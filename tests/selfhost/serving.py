"""Small servers on the loopback that answer what they are told, well or badly, and remember what they were asked."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from tests.selfhost.captured import pages

CHAT = "/v1/chat/completions"


class Asked(NamedTuple):
    """One request that came."""

    method: str
    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: Any
    """The JSON, or None."""


@dataclass
class Answer:
    """What is said."""

    body: Any = None
    """Bytes as they are; anything else as JSON."""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    hangs: bool = False
    """True if nothing is said before the server ends."""
    repeats: int = 1
    """The body, so many times over."""

    @property
    def data(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


Says = Answer | Callable[[Asked], Answer]


def reply(**more: Any) -> Answer:
    """A chat's reply, which is nobody's real one."""
    choice = {"index": 0, "message": {"role": "assistant", "content": "Hello."}, "finish_reason": "stop"}
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 2,
        "total_tokens": 102,
        "prompt_tokens_details": {"cached_tokens": 96},
    }
    base = {"id": "c1", "object": "chat.completion", "created": 1, "model": "tiny"}
    return Answer({**base, "choices": [choice], "usage": usage, **more})


def streamed(asked: Asked) -> Answer:
    """The same as a stream; its usage where that is asked for."""
    base = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "tiny"}
    delta = {"index": 0, "delta": {"role": "assistant", "content": "Hello."}, "finish_reason": None}
    chunks: list[Any] = [{**base, "choices": [delta]}]
    chunks.append({**base, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    if (asked.body.get("stream_options") or {}).get("include_usage"):
        chunks.append({**base, "choices": [], "usage": reply().body["usage"]})
    data = b"".join(b"data: " + json.dumps(one).encode() + b"\n\n" for one in chunks) + b"data: [DONE]\n\n"
    return Answer(data, headers={"content-type": "text/event-stream"})


def chat(asked: Asked) -> Answer:
    """As it is asked for."""
    return streamed(asked) if asked.body.get("stream") else reply()


NOT_FOUND = Answer({"detail": "Not Found"}, 404)


@dataclass
class Loopback:
    """A server: what each path says, and what all others do."""

    says: dict[str, Says]
    otherwise: Says = field(default_factory=lambda: NOT_FOUND)
    asked: list[Asked] = field(default_factory=list)
    ends: threading.Event = field(default_factory=threading.Event)
    url: str = ""
    port: int = 0

    def answer(self, asked: Asked) -> Answer:
        self.asked.append(asked)
        says = self.says.get(asked.path, self.otherwise)
        return says if isinstance(says, Answer) else says(asked)

    @property
    def calls(self) -> list[Asked]:
        """The model calls that came."""
        return [one for one in self.asked if one.method == "POST"]

    @property
    def looks(self) -> list[Asked]:
        """The questions that came beside them."""
        return [one for one in self.asked if one.method == "GET"]


def engine(name: str, **says: Says) -> Loopback:
    """A server that answers every path as a real engine was captured to do, and chats."""
    probed: dict[str, Says] = {
        path: Answer(page.body, page.status, dict(page.headers)) for path, page in pages(name).items()
    }
    return Loopback({**probed, CHAT: chat, **says})


@contextmanager
def serving(*servers: Loopback) -> Iterator[None]:
    """While the block lasts, each of them answers at its `url`, which has no path."""
    running = [_running(one) for one in servers]
    try:
        yield
    finally:
        for one, http, thread in running:
            one.ends.set()
            http.shutdown()
            http.server_close()
            thread.join()


def _running(server: Loopback) -> tuple[Loopback, ThreadingHTTPServer, threading.Thread]:
    class Handler(BaseHTTPRequestHandler):
        server_version = sys_version = ""
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            size = int(self.headers.get("content-length", 0))
            data = self.rfile.read(size)
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer = server.answer(Asked(self.command, self.path, headers, json.loads(data) if data else None))
            if answer.hangs:
                server.ends.wait()
                self.close_connection = True
                return
            self.send_response_only(answer.status)
            for name, value in {"content-type": "application/json", **answer.headers}.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(answer.data) * answer.repeats))
            try:
                self.end_headers()
                for _ in range(answer.repeats):
                    self.wfile.write(answer.data)
            except OSError:  # the reader has had enough
                self.close_connection = True

        do_POST = do_GET

        def log_message(self, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        request_queue_size = 64

        def handle_error(self, request: Any, address: Any) -> None:
            pass  # a reader that has gone away

    http = Server(("127.0.0.1", server.port), Handler)
    http.daemon_threads = True
    http.block_on_close = False
    server.url = f"http://127.0.0.1:{http.server_address[1]}"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    return server, http, thread


@contextmanager
def told(words: str) -> Iterator[threading.Event]:
    """An event that is set once agentaccel logs a line with these words: what is done beside a call has ended."""
    event = threading.Event()

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if words in record.getMessage():
                event.set()

    log, handler = logging.getLogger("agentaccel"), Handler()
    before = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield event
    finally:
        log.removeHandler(handler)
        log.setLevel(before)

"""The emulator behind a real HTTP/1.1 server on the loopback interface, for tests and for trying things out.

::

    with serve(script=["Hello."]) as server:
        client = anthropic.Anthropic(base_url=server.url, api_key="any")
        ...
        server.clock.advance(301)        # the five-minute entries are gone
        server.counters.total.read       # what the provider says was read

Time is virtual unless `realtime`: no one sleeps, and each reply moves the server's clock to the moment at which its
bytes are due, so that requests in a row take the time that they would take. With `advance=False` the clock stands
still until the test moves it. A prefix is then unreadable until the clock has passed the first byte of its writer.
No reader paces a stream in virtual time: when its first event has been read, the clock may stand at its last.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

from agentaccel.clock import ManualClock
from agentaccel.errors import ConfigError
from agentaccel.facts import served_at
from agentaccel_emulator.accounts import Counters, LogEntry
from agentaccel_emulator.admission import NotAdmitted, admit, admit_body, read_body
from agentaccel_emulator.behaviour import Behaviour
from agentaccel_emulator.core import Emulator
from agentaccel_emulator.exchange import Chunk, HttpReply, HttpRequest
from agentaccel_emulator.faults import FaultsLike
from agentaccel_emulator.script import ScriptLike
from agentaccel_emulator.server_clock import Advancing, Pace, RealClock, Sleeping, Still


class _Server(ThreadingHTTPServer):
    """Accepts connections, and can cut all of them."""

    daemon_threads = False  # so that closing waits for them; `cut` sees to it that they end
    request_queue_size = 512
    timeout = 1.0  # seconds after which `accept_all` looks by itself whether it is to stop

    def __init__(self, port: int, emulator: Emulator, pace: Pace) -> None:
        self.emulator, self.pace = emulator, pace
        self.gate = threading.Event()
        self.gate.set()
        self.arrived = threading.Condition()
        self.failures: list[BaseException] = []
        self._open: set[socket.socket] = set()
        self._open_lock = threading.Lock()
        self._stopping = False
        super().__init__(("127.0.0.1", port), _Handler)

    def accept_all(self) -> None:
        """Take connections until `stop`."""
        while not self._stopping:
            self.handle_request()

    def stop(self) -> None:
        """End `accept_all` at once: it waits for a connection, so it gets one."""
        self._stopping = True
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", self.server_port), timeout=1.0).close()

    def verify_request(self, request: Any, client_address: Any) -> bool:
        return not self._stopping

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._open_lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._open_lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep what went wrong for `serve` to raise; a client that goes away is no error of ours."""
        error = sys.exc_info()[1]
        if error is not None and not isinstance(error, ConnectionError):
            self.failures.append(error)

    def cut(self) -> None:
        """End every connection, so that no thread waits for a further request."""
        self.gate.set()
        with self._open_lock:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    """Reads requests and sends planned replies; decides nothing."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    @property
    def _host(self) -> _Server:
        return cast(_Server, self.server)

    def do_POST(self) -> None:
        self._handle()

    def do_GET(self) -> None:
        self._handle()

    def do_DELETE(self) -> None:
        self._handle()

    def _hang_up(self) -> None:
        """End the connection once the client has, or in a second: where something is left unread, the system would
        take back the answer."""
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
            self.connection.settimeout(1.0)
            for _ in range(64):
                if not self.connection.recv(65_536):
                    return

    def handle_expect_100(self) -> bool:
        """Nobody is asked to go on before it is clear that the request is taken (`_go_on`)."""
        return True

    def _go_on(self) -> None:
        if self.headers.get("expect", "").lower() == "100-continue":
            self.connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the base class's name
        """Keep quiet: the emulator has a log of its own."""

    def _handle(self) -> None:
        start = self._host.emulator.clock.wall()
        try:
            admit(self.headers, self._host.emulator.behaviour.hosts)
            body = read_body(self.headers, self.rfile, self._go_on)
            admit_body(self.headers, body)
        except NotAdmitted as refusal:  # what is left of it is not read, so the connection ends
            self._send(refusal.reply, start)
            self._hang_up()
            return
        request = HttpRequest(method=self.command, path=self.path, headers=dict(self.headers.items()), body=body)
        reply = self._host.emulator.handle(request, start)
        with self._host.arrived:
            self._host.arrived.notify_all()
        if not self.path.startswith("/_ctl"):
            self._host.gate.wait()
        self._send(reply, start)

    def _send(self, reply: HttpReply, start: float) -> None:
        if reply.ending == "hang":
            self.rfile.read(1)  # returns when the client gives up, or the server is stopped
            self.close_connection = True
            return
        head = self._head(reply)
        for chunk in reply.chunks:
            self._host.pace.reach(start + chunk.at)
            self.connection.sendall(head + self._framed(reply, chunk))
            head = b""
        if reply.ending == "disconnect":
            self.close_connection = True
            return
        if head or reply.streamed:
            self.connection.sendall(head + (b"0\r\n\r\n" if reply.streamed else b""))

    def _head(self, reply: HttpReply) -> bytes:
        framing = ("transfer-encoding", "chunked")
        if not reply.streamed:
            # A reply that breaks off promises the length that it does not keep.
            short = 1 if reply.ending == "disconnect" else 0
            framing = ("content-length", str(len(reply.body) + short))
        lines = [f"HTTP/1.1 {reply.status} {self.responses.get(reply.status, ('Unknown',))[0]}"]
        lines += [f"{name}: {value}" for name, value in (*reply.headers.items(), framing)]
        return "\r\n".join([*lines, "", ""]).encode("latin-1")

    def _framed(self, reply: HttpReply, chunk: Chunk) -> bytes:
        return b"%x\r\n%b\r\n" % (len(chunk.data), chunk.data) if reply.streamed else chunk.data


class RunningServer:
    """A server that runs. Made by `serve`."""

    def __init__(self, server: _Server, clock: ManualClock | RealClock) -> None:
        self._server = server
        self.clock = clock
        self.emulator = server.emulator
        self.url = f"http://127.0.0.1:{server.server_address[1]}"

    @property
    def log(self) -> tuple[LogEntry, ...]:
        """Every call so far, oldest first."""
        return self.emulator.log

    @property
    def counters(self) -> Counters:
        """The running totals."""
        return self.emulator.counters

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Accept and decide requests, and send no reply until the block is left.

        All requests that arrive inside are in flight at once: none can see what another of them writes, as long as
        the clock stands.
        """
        self._server.gate.clear()
        try:
            yield
        finally:
            self._server.gate.set()

    def wait_for_calls(self, count: int, timeout: float = 10.0) -> None:
        """Block until `count` calls have been logged since the last reset. Raises TimeoutError after `timeout` s."""
        with self._server.arrived:
            if not self._server.arrived.wait_for(lambda: len(self.emulator.log) >= count, timeout):
                raise TimeoutError(f"{len(self.emulator.log)} of {count} calls arrived within {timeout} s")


@contextlib.contextmanager
def serve(
    emulator: Emulator | None = None,
    *,
    script: ScriptLike = None,
    faults: FaultsLike = None,
    behaviour: Behaviour | None = None,
    clock: ManualClock | None = None,
    advance: bool = True,
    realtime: bool = False,
    port: int = 0,
) -> Iterator[RunningServer]:
    """Run a server while the block lasts; `port` 0 takes a free one.

    Either an `emulator` is given, whose clock is then used, or one is made of the other arguments. Raises ConfigError
    where they contradict each other.
    An exception inside the server, such as one of a script that is a function, cuts the connection and is raised
    when the block is left.
    """
    if emulator is not None and (script or faults or behaviour or clock or realtime):
        raise ConfigError("give serve() an emulator, or what to make one of, not both")
    if clock is not None and realtime:
        raise ConfigError("real time has a clock of its own: give serve() a clock or realtime=True, not both")
    if emulator is None:
        made = RealClock() if realtime else clock or ManualClock()
        emulator = Emulator(script=script, faults=faults, behaviour=behaviour, clock=made)
    with _running(emulator, advance=advance, port=port) as server:
        yield server


@contextlib.contextmanager
def _running(emulator: Emulator, *, advance: bool, port: int) -> Iterator[RunningServer]:
    clock = emulator.clock
    if not isinstance(clock, (ManualClock, RealClock)):
        raise ConfigError("a served emulator needs a ManualClock, or a RealClock for real time")
    pace: Pace = Still()
    if isinstance(clock, RealClock):
        pace = Sleeping(clock)
    elif advance:
        pace = Advancing(clock)
    server = _Server(port, emulator, pace)
    thread = threading.Thread(target=server.accept_all, name="agentaccel-emulator", daemon=True)
    thread.start()
    try:
        with served_at(("127.0.0.1", server.server_port), emulator.places):
            yield RunningServer(server, clock)
    except Exception as error:
        for failure in server.failures:
            error.add_note(f"inside the emulator: {failure!r}")
        raise
    finally:
        if isinstance(pace, Sleeping):
            pace.stopped.set()
        server.stop()
        thread.join()
        server.cut()
        server.server_close()
    if server.failures:
        raise server.failures[0]

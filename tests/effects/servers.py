"""Small servers on this machine that write down what clients ask of them."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple


class Asked(NamedTuple):
    """One request as it came."""

    method: str
    address: str
    action: str
    """What is asked for where the method does not tell: a name in a header or in the body."""
    body: str


ANSWERS: dict[str, Any] = {
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {
        "kind": "APIGroupList",
        "groups": [
            {
                "name": "apps",
                "versions": [{"groupVersion": "apps/v1", "version": "v1"}],
                "preferredVersion": {"groupVersion": "apps/v1", "version": "v1"},
            }
        ],
    },
    "/api/v1": {
        "kind": "APIResourceList",
        "groupVersion": "v1",
        "resources": [
            {"name": name, "kind": kind, "namespaced": True, "singularName": "", "verbs": ["get", "list", "watch"]}
            for name, kind in (("pods", "Pod"), ("services", "Service"), ("nodes", "Node"))
        ],
    },
    "/apis/apps/v1": {
        "kind": "APIResourceList",
        "groupVersion": "apps/v1",
        "resources": [
            {"name": "deployments", "kind": "Deployment", "namespaced": True, "singularName": "", "verbs": ["get"]}
        ],
    },
    "/version": {"major": "1", "minor": "32", "gitVersion": "v1.32.0", "Version": "28", "ApiVersion": "1.41"},
    "/_ping": "OK",
}
"""What clients want to know before they go on; to all else the answer is an empty object."""


def _named(headers: Any, body: str) -> str:
    """The name of an action as AWS has it, or whether something is changed by way of GraphQL."""
    if "X-Amz-Target" in headers:
        return str(headers["X-Amz-Target"]).rpartition(".")[2]
    if body.startswith("Action="):
        return body.removeprefix("Action=").partition("&")[0]
    try:
        query = json.loads(body).get("query", "")
    except (ValueError, AttributeError):
        return ""
    return "mutation" if re.search(r"\bmutation\b", str(query)) else "query"


class Recorder(ThreadingHTTPServer):
    """A web server, and a proxy that is every host there is: within TLS it shows its own certificate."""

    daemon_threads = True

    def __init__(self, certificate: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[Asked] = []
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        if certificate.exists():
            self.tls.load_cert_chain(certificate, certificate.with_name("key.pem"))

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients go away when they have what they want."""


class _Handler(BaseHTTPRequestHandler):
    server: Recorder
    protocol_version = "HTTP/1.1"

    def do_CONNECT(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.close_connection = False  # whatever version the client speaks
        inside = self.server.tls.wrap_socket(self.connection, server_side=True, do_handshake_on_connect=False)
        self.connection = inside
        inside.do_handshake()
        self.rfile = self.connection.makefile("rb")
        self.wfile = self.connection.makefile("wb", buffering=0)  # type: ignore[assignment]

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode(errors="replace")
        self.server.asked.append(Asked(self.command, self.path, _named(self.headers, body), body))
        path = "/" + self.path.split("://")[-1].partition("/")[2].partition("?")[0] if "://" in self.path else self.path
        answer = json.dumps(ANSWERS.get(path.partition("?")[0].rstrip("/"), {})).encode()
        self.send_response(200)
        for name, value in {"Content-Type": "application/json", "Api-Version": "1.41"}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer)

    def finish(self) -> None:
        with suppress(OSError):
            super().finish()
        self.connection.close()

    do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_GET

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the one it stands for
        pass


@contextmanager
def recorder(certificate: Path) -> Iterator[Recorder]:
    with Recorder(certificate) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def names() -> Iterator[list[int]]:
    """A name server at the one port where clients ask: what kinds of question came. OSError where it may not be had."""
    asked = list[int]()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as heard:
        heard.bind(("127.0.0.1", 53))
        thread = threading.Thread(target=_answers, args=(heard, asked))
        thread.start()
        try:
            yield asked
        finally:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
                last.sendto(b"", ("127.0.0.1", 53))
            thread.join()


def _answers(heard: socket.socket, asked: list[int]) -> None:
    while True:
        question, sender = heard.recvfrom(4096)
        if len(question) < 12:
            return
        asked.append(question[2] >> 3 & 15)
        heard.sendto(question[:2] + b"\x81\x80" + question[4:6] + b"\0\0\0\0\0\0" + question[12:], sender)


class Database(NamedTuple):
    port: int
    log: Path


@contextmanager
def postgres() -> Iterator[Database]:
    """A database server of its own, that writes down what changes something. LookupError where none is installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), reverse=True)
    if not found:
        raise LookupError("no PostgreSQL server is installed")
    user = "postgres" if os.getuid() == 0 else None  # it does not run as root
    with tempfile.TemporaryDirectory() as name:
        folder, programs = Path(name), found[0].parent
        if user:
            shutil.chown(folder, user)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]

        def run(*words: str) -> None:
            started = [str(programs / words[0]), *words[1:]]
            subprocess.run(started, user=user, cwd=folder, check=True, stdout=subprocess.DEVNULL, timeout=60)

        data, log = str(folder / "data"), str(folder / "log")
        run("initdb", "-D", data, "-A", "trust", "-U", "dev", "--no-sync")
        settings = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off"
        run("pg_ctl", "-D", data, "-o", f"{settings} -c log_statement=mod", "-l", log, "-w", "start")
        try:
            yield Database(port, Path(log))
        finally:
            run("pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")

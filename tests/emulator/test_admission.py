"""What reaches the emulator over the wire is data, from programs on this machine: no path, no web page, no riddle."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from agentaccel.errors import ConfigError
from agentaccel_emulator import Behaviour, Emulator, HttpRequest, RunningServer, serve
from agentaccel_emulator.faults import faults_of
from agentaccel_emulator.script import script_of
from tests.mutants import Mutant, running, survives

HELLO = {"model": "claude-sonnet-5", "max_tokens": 99, "messages": [{"role": "user", "content": "Hello"}]}
JSON = "content-type: application/json"


@pytest.fixture
def server() -> Iterator[RunningServer]:
    with serve(behaviour=Behaviour(hosts=frozenset({"desk.example"}))) as made:
        yield made


def exchange(server: RunningServer, head: list[str], body: bytes = b"") -> tuple[int, bytes]:
    """The status and the rest of what the server says to these very bytes; 0 where it hangs up without a word."""
    with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), timeout=10) as connection:
        connection.sendall("\r\n".join([*head, "", ""]).encode("latin-1") + body)
        with suppress(OSError):  # the server may have answered and hung up already
            connection.shutdown(socket.SHUT_WR)
        said = b""
        while piece := connection.recv(65_536):
            said += piece
    return (int(said.split(b" ")[1]) if said else 0), said


def asked(server: RunningServer, *headers: str, order: Any = HELLO, path: str = "/v1/messages") -> int:
    body = json.dumps(order).encode()
    host = [] if any(one.lower().startswith("host:") for one in headers) else ["host: 127.0.0.1"]
    kind = [] if any(one.lower().startswith("content-type:") for one in headers) else [JSON]
    head = [f"POST {path} HTTP/1.1", *host, *kind, *headers, "x-api-key: k", "anthropic-version: 2023-06-01",
            f"content-length: {len(body)}"]  # fmt: skip
    return exchange(server, head, body)[0]


@pytest.mark.parametrize("what", ["script", "faults"])
@pytest.mark.parametrize("value", ["a path", "/etc/hostname", 5, True, {"path": "/etc/hostname"}])
def test_over_the_wire_only_content_is_taken(server: RunningServer, tmp_path: Path, what: str, value: Any) -> None:
    """Of a file that is a fine script: as a path it is refused, as content it is taken."""
    file = tmp_path / "script.json"
    file.write_text('["Read from a file."]')
    order = {"op": what, what: str(file) if value == "a path" else value}
    assert asked(server, path="/_ctl", order=order) == 400
    assert asked(server, path="/_ctl", order={"op": what, what: []}) == 200


def test_in_python_a_path_is_a_script_as_before(tmp_path: Path) -> None:
    """What a program writes down, and the command line hands on, is the user's own."""
    file = tmp_path / "script.json"
    file.write_text('["Read from a file."]')
    for value in (file, str(file)):
        assert script_of(value).replies[0].content[0]["text"] == "Read from a file."


@pytest.mark.timeout(20)
@pytest.mark.parametrize("made", [script_of, faults_of])
def test_a_pipe_as_a_file_is_refused_at_once(tmp_path: Path, made: Any) -> None:
    """To read one waits for somebody who writes to it."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="no plain file"):
        made(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="no plain file"):
        made("/dev/zero")


@pytest.mark.parametrize(
    "order",
    [
        {"op": "script", "script": [{"content": [5]}]},
        {"op": "script", "script": [{"content": 5}]},
        {"op": "script", "script": ["ok", {"content": "x", "output_tokens": "many"}]},
        {"op": "script", "script": ["ok", {"content": "x", "tokens_per_second": 0}]},
        {"op": "script", "script": {"replies": [], "default": [5]}},
        {"op": "faults", "faults": [{"kind": "429", "match": 5}]},
        {"op": "faults", "faults": [{"kind": "429", "headers": {"a": 5}}]},
        {"op": "faults", "faults": ["429"]},
        {"op": "advance", "seconds": 1e300},
        {"op": "advance", "seconds": -1},
        [],
        "reset",
    ],
)
def test_an_order_that_cannot_be_is_refused_and_breaks_nothing(server: RunningServer, order: Any) -> None:
    """Leaving the server would raise what broke inside it."""
    assert asked(server, path="/_ctl", order=order) == 400
    assert asked(server) == 200


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ("host: 127.0.0.1", 200),
        ("host: 127.0.0.1:4711", 200),
        ("host: LOCALHOST:1", 200),
        ("host: [::1]:80", 200),
        ("host: api.localhost", 200),
        ("host: desk.example:8000", 200),
        ("host: evil.example", 403),
        ("host: 127.0.0.1.evil.example", 403),
        ("host: localhost.evil.example", 403),
        ("host: 192.168.0.7", 403),
        ("host: 127.0.0.1@evil.example", 403),
        ("host:", 403),
        ("host: 127.0.0.1\r\nhost: evil.example", 403),
        ("origin: http://localhost:3000", 200),
        ("origin: https://evil.example", 403),
        ("origin: null", 403),
        ("origin: http://127.0.0.1.evil.example", 403),
        ("sec-fetch-site: cross-site", 403),
        ("sec-fetch-site: same-site", 403),
        ("sec-fetch-site: none", 200),
        ("content-type: application/json; charset=utf-8", 200),
        ("content-type: application/vnd.x+json", 200),
        ("content-type: text/plain", 415),
        ("content-type: application/x-www-form-urlencoded", 415),
        ("content-type: multipart/form-data; boundary=x", 415),
        ("content-type:", 415),
        ("content-type: text/plain\r\ncontent-type: application/json", 415),
    ],
)
def test_a_web_page_cannot_reach_it(server: RunningServer, header: str, status: int) -> None:
    """What a page may send without being asked for leave (Fetch): a form's three content types, to a name that leads
    here, with `Origin`, and with `Sec-Fetch-Site` where the browser has it."""
    assert asked(server, header) == status
    if "host" in header or "type" in header:
        assert asked(server, header, path="/_ctl", order={"op": "reset"}) == status


def framed(*more: str, body: bytes) -> tuple[list[str], bytes]:
    return ["POST /v1/messages HTTP/1.1", "host: localhost", JSON, "x-api-key: k", "anthropic-version: 2023-06-01",
            *more], body  # fmt: skip


RAW = json.dumps(HELLO).encode()
HALF = len(RAW) // 2
CHUNKED = b"%x\r\n%b\r\n%x;note=1\r\n%b\r\n0\r\ntrailer: x\r\n\r\n" % (HALF, RAW[:HALF], len(RAW) - HALF, RAW[HALF:])


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        (["transfer-encoding: chunked"], CHUNKED, 200),
        (["Transfer-Encoding: Chunked"], CHUNKED, 200),
        ([f"content-length: {len(RAW)}", "expect: 100-continue"], RAW, 100),
        (["content-length: -5"], RAW, 400),
        (["content-length: +5"], RAW, 400),
        (["content-length: 1_0"], RAW, 400),
        (["content-length: 0x10"], RAW, 400),
        (["content-length: many"], RAW, 400),
        (["content-length: 1, 1"], RAW, 400),
        (["content-length: \xb2"], RAW, 400),
        ([f"content-length: {'9' * 4000}"], RAW, 413),
        (["content-length: 99999999999"], RAW, 413),
        ([f"content-length: {len(RAW)}", f"content-length: {len(RAW)}"], RAW, 400),
        ([f"content-length: {len(RAW)}", "transfer-encoding: chunked"], CHUNKED, 400),
        (["transfer-encoding: gzip, chunked"], CHUNKED, 400),
        (["transfer-encoding: identity"], RAW, 400),
        (["transfer-encoding: chunked", "transfer-encoding: chunked"], CHUNKED, 400),
        (["transfer-encoding: chunked"], b"zz\r\n", 400),
        (["transfer-encoding: chunked"], b"-5\r\n", 400),
        (["transfer-encoding: chunked"], b"ffffffff\r\n", 413),
        (["transfer-encoding: chunked"], b"fffffffff\r\n", 400),
        (["transfer-encoding: chunked"], b"2\r\n{}}\r\n0\r\n\r\n", 400),
        (["transfer-encoding: chunked"], b"0\r\n" + b"a: b\r\n" * 2_000 + b"\r\n", 400),
        ([f"content-length: {len(RAW) + 5}"], RAW, 0),
        (["transfer-encoding: chunked"], b"%x\r\n" % (len(RAW) + 5) + RAW, 0),
        ([], b"", 400),
    ],
)
def test_an_oddly_framed_body_is_answered_and_hangs_nobody(
    server: RunningServer, headers: list[str], body: bytes, status: int
) -> None:
    """RFC 9112: one length, in digits, or chunks and no other coding; a body that is cut off gets no answer (0)."""
    assert exchange(server, *framed(*headers, body=body))[0] == status
    assert asked(server) == 200


@pytest.mark.slow
async def test_both_sdks_speak_to_it(server: RunningServer) -> None:
    """Also where a body is sent in chunks, as httpx does for a generator."""
    async with (
        anthropic.AsyncAnthropic(base_url=server.url, api_key="k") as claude,
        openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="k") as gpt,
        httpx2.AsyncClient(base_url=server.url) as plain,
    ):
        said = await claude.messages.create(**HELLO)  # type: ignore[arg-type]
        assert said.content[0].text == "OK."  # type: ignore[union-attr]
        assert (await gpt.responses.create(model="gpt-5.1", input="Hello")).output_text == "OK."

        async def pieces() -> Any:
            yield RAW[:HALF]
            yield RAW[HALF:]

        kept = {"content-type": "application/json", "x-api-key": "k", "anthropic-version": "2023-06-01"}
        assert (await plain.post("/v1/messages", content=pieces(), headers=kept)).status_code == 200


def test_without_a_socket_a_path_is_no_script_either() -> None:
    """Whatever carries the request: what stands in one is data."""
    order = json.dumps({"op": "script", "script": "/etc/hostname"}).encode()
    assert Emulator().handle(HttpRequest(method="POST", path="/_ctl", body=order)).status == 400


GUARDS = (
    Mutant(
        guard="paths from the wire",
        at="agentaccel_emulator.core:Emulator._obey",
        old='"script": list() | dict() | None as script}:',
        new='"script": script}:',
    ),
    Mutant(
        guard="names that lead here from elsewhere",
        at="agentaccel_emulator.admission:admit",
        old="    if len(named) != 1 or not _is_here(named[0], hosts):\n",
        new="    if False:\n",
    ),
    Mutant(
        guard="forms of web pages",
        at="agentaccel_emulator.admission:admit_body",
        old="    if body and not (len(kinds) == 1 and _JSON.fullmatch(kinds[0])):\n",
        new="    if False:\n",
    ),
    Mutant(
        guard="web pages from elsewhere",
        at="agentaccel_emulator.admission:admit",
        old='    for origin in headers.get_all("origin", []):\n',
        new="    for origin in ():\n",
    ),
    Mutant(
        guard="pipes that nobody writes to",
        at="agentaccel_emulator.script:read_json",
        old="            is_plain = stat.S_ISREG(os.fstat(file.fileno()).st_mode)\n",
        new="            is_plain = True\n",
    ),
)


@pytest.mark.soak
@pytest.mark.parametrize("mutant", GUARDS, ids=lambda mutant: mutant.guard)
def test_these_tests_fail_without_the_guard(mutant: Mutant, tmp_path: Path) -> None:
    """Chosen by us: a test that passes without what it tests is none."""
    assert survives(mutant, tmp_path, [*running("tests/emulator/test_admission.py"), "-m", "not soak"]) is None

"""The HTTP tool: what is proven to read may be asked early, and the model sees the same early and on time."""

from __future__ import annotations

import asyncio
import gzip
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from agentaccel import StorePolicy, ToolCall
from agentaccel.effects.launch import Allowance, permission
from agentaccel.effects.spec import NotProven, running_early, spec_of
from agentaccel.errors import ConfigError
from agentaccel.executors import Http, http
from agentaccel.executors.http import _installed
from agentaccel.policy import ToolPolicy
from tests.predict.scripted import Agent, Script, likely, took

HOME, ELSEWHERE = "https://shop.example.org", "https://cdn.example.net"
LIBRARY = _installed()


class Web:
    """Hosts that answer from a table, and remember what they were asked."""

    def __init__(self, pages: dict[str, Any]) -> None:
        self.pages, self.asked = pages, list[Any]()

    def answer(self, request: Any) -> Any:
        self.asked.append(request)
        found = self.pages[str(request.url)]
        return LIBRARY.Response(**{"status_code": 200, **({"text": found} if isinstance(found, str) else found)})

    def tool(self, **more: Any) -> Http:
        return Http(transport=LIBRARY.MockTransport(self.answer), **more)


def led(to: str, status: int = 302) -> dict[str, Any]:
    return {"status_code": status, "headers": {"location": to}}


WEB: dict[str, Any] = {
    f"{HOME}/items": "Lamps and desks.",
    f"{HOME}/old": led("/items"),
    f"{HOME}/away": led(f"{ELSEWHERE}/items"),
    f"{HOME}/trap": led("/account/delete"),
    f"{HOME}/account/delete": "Gone.",
    f"{HOME}/round": led("/round"),
    f"{HOME}/picture": {"content": b"\x89PNG\x00\x01", "headers": {"content-type": "image/png"}},
    f"{HOME}/long": "x" * 100,
    f"{HOME}/busy": {"status_code": 503, "text": "Later."},
    f"{HOME}/many": {"status_code": 429, "text": "Slower."},
    f"{HOME}/none": {"status_code": 404, "text": "No."},
    f"{ELSEWHERE}/items": "Elsewhere.",
}


async def early(tool: Http, *given: Any, **named: Any) -> str:
    with running_early():
        return await tool.request(*given, **named)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/items", "200 text/plain; charset=utf-8\n\nLamps and desks."),
        ("/old", "200 text/plain; charset=utf-8\n\nLamps and desks."),
        ("/picture", "200 image/png\n\n[6 bytes that are no text]"),
        ("/none", "404 text/plain; charset=utf-8\n\nNo."),
        ("/long", f"200 text/plain; charset=utf-8\n\n{'x' * 50}\n[more than these 50 bytes]"),
        ("/round", "302\nlocation: /round\n\n"),
    ],
)
async def test_the_model_sees_the_same_early_and_on_time(path: str, text: str) -> None:
    tool = Web(WEB).tool(max_result_bytes=50)
    assert await tool.request(HOME + path) == await early(tool, HOME + path) == text


async def test_of_a_head_the_headers_are_shown() -> None:
    shown = await Web(WEB).tool().request(f"{HOME}/items", method="head")
    assert shown.splitlines()[0] == "200 text/plain; charset=utf-8"
    assert "content-length: 16" in shown.splitlines()


@pytest.mark.parametrize(
    "given",
    [
        {"method": "POST"},
        {"method": "OPTIONS"},
        {"body": "x"},
        {"url": f"{HOME}/account/delete"},
        {"url": "http://169.254.169.254/latest"},
        {"url": "http://localhost/items"},
        {"headers": {"x-http-method-override": "DELETE"}},
        {"verify": False},
    ],
)
async def test_what_is_not_proven_to_read_is_never_made_early(given: dict[str, Any]) -> None:
    web = Web(WEB)
    arguments = {"url": f"{HOME}/items", **given}
    spec = spec_of(web.tool().request)
    assert spec is not None
    assert permission(ToolCall(name="request", arguments=arguments), spec).launch == "never"
    if "verify" not in given:
        with pytest.raises(NotProven):
            await early(web.tool(), **arguments)
    assert not web.asked


async def test_a_read_waits_until_the_model_asks_unless_its_host_is_allowed_and_its_arguments_are_known() -> None:
    spec = spec_of(Web(WEB).tool().request)
    assert spec is not None
    call = ToolCall(name="request", arguments={"url": f"{HOME}/items"})
    assert permission(call, spec).launch == "asked"
    allowed = Allowance(remote_guesses=frozenset({"shop.example.org"}), familiar=lambda call: True)
    assert permission(call, spec, allowed).launch == "predicted"


@pytest.mark.parametrize("path", ["/away", "/trap"])
async def test_an_early_request_is_not_led_to_another_host_or_to_a_deed(path: str) -> None:
    web = Web(WEB)
    with pytest.raises(NotProven):
        await early(web.tool(), HOME + path)
    assert len(web.asked) == 1
    assert "\n\n" in await web.tool().request(HOME + path)
    assert len(web.asked) == 3, "on time it goes where it is led"


@pytest.mark.parametrize("path", ["/busy", "/many"])
async def test_what_may_be_another_answer_a_moment_later_is_not_kept_from_an_early_request(path: str) -> None:
    tool = Web(WEB).tool()
    with pytest.raises(ConnectionError):
        await early(tool, HOME + path)
    assert (await tool.request(HOME + path)).startswith(("503", "429"))


async def test_nothing_is_sent_that_the_model_did_not_write_and_no_secret_to_another_host() -> None:
    web = Web(WEB)
    await web.tool().request(f"{HOME}/away", headers={"Authorization": "Bearer 1", "Accept": "text/plain"})
    first, second = ({name for name in one.headers if name != "host"} for one in web.asked)
    assert first == {"user-agent", "accept-encoding", "authorization", "accept"}
    assert second == {"user-agent", "accept-encoding", "accept"}


async def test_no_answer_changes_what_is_sent_next() -> None:
    web = Web({f"{HOME}/items": {"text": "Hi", "headers": {"set-cookie": "session=1"}}})
    tool = web.tool()
    assert await tool.request(f"{HOME}/items") == await tool.request(f"{HOME}/items")
    assert web.asked[0].headers == web.asked[1].headers


async def test_what_is_posted_is_not_led_anywhere() -> None:
    web = Web({f"{HOME}/orders": led("/orders/7", 303)})
    assert await web.tool().request(f"{HOME}/orders", "POST", body='{"n": 1}') == "303\nlocation: /orders/7\n\n"
    assert [one.content for one in web.asked] == [b'{"n": 1}']


async def test_a_request_that_takes_too_long_ends() -> None:
    async def never(request: Any) -> Any:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(TimeoutError):
        await Http(transport=LIBRARY.MockTransport(never), timeout=0.001).request(f"{HOME}/items")


@pytest.mark.parametrize(
    "make",
    [lambda: Http(timeout=0), lambda: Http(max_result_bytes=0), lambda: Http(transport=object())],  # type: ignore[arg-type]
)
def test_what_cannot_be_meant_is_refused(make: Callable[[], Http]) -> None:
    with pytest.raises(ConfigError):
        make()


async def test_it_has_a_transport_of_its_own_and_closes_it() -> None:
    async with Http() as web:
        assert web.transport is not None


def test_a_read_of_an_allowed_host_is_served_before_the_model_has_written_it() -> None:
    """The whole way: guessed, made once, served."""
    url, web = f"{HOME}/items", Web(WEB)
    guess = ToolCall(name="request", arguments={"url": url})
    policy = ToolPolicy(eager=False, remote_guesses=("shop.example.org",))
    agent = Agent(policy, Script({1: [likely(guess)]}), store=StorePolicy(enabled=False))
    agent.messages = [{"role": "user", "content": f"What is at {url} ?"}]
    took(agent.accel, "request", 2.0)
    request = agent.accel.tools({"request": web.tool().request})["request"]

    async def main() -> Any:
        await agent.model(guess)
        return await request(url=url)

    assert "Lamps" in agent.run(main)
    assert (len(web.asked), agent.ledger.predicted.served) == (1, 1)


class Pieces(LIBRARY.AsyncByteStream):  # type: ignore[misc, name-defined]
    """A body as a server sends it, piece by piece."""

    def __init__(self, body: bytes, size: int = 65_536) -> None:
        self._body, self._size, self.sent = body, size, 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for start in range(0, len(self._body), self._size):
            self.sent += 1
            yield self._body[start : start + self._size]


def sending(body: Pieces, headers: dict[str, str], **more: Any) -> Http:
    answer = lambda request: LIBRARY.Response(200, headers=headers, stream=body)  # noqa: E731
    return Http(transport=LIBRARY.MockTransport(answer), **more)


BARE = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
CODED = {
    "gzip": gzip.compress(b"Lamps and desks."),
    "x-gzip": gzip.compress(b"Lamps and desks."),
    "deflate": zlib.compress(b"Lamps and desks."),
    "Deflate": BARE.compress(b"Lamps and desks.") + BARE.flush(),
    "identity": b"Lamps and desks.",
}


@pytest.mark.parametrize("size", [1, 65_536])
@pytest.mark.parametrize("coding", CODED)
async def test_an_answer_is_inflated(coding: str, size: int) -> None:
    """Deflate as RFC 9110 has it, and bare, as some servers send it; in pieces of any length."""
    tool = sending(Pieces(CODED[coding], size), {"content-encoding": coding})
    assert await tool.request(f"{HOME}/items") == "200\n\nLamps and desks."


@pytest.mark.parametrize("coding", CODED)
async def test_empty_pieces_say_nothing_of_the_format(coding: str) -> None:
    """By hand: the same text, wherever pieces without a byte stand; none, where nothing else comes."""

    class Gaps(Pieces):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            for piece in (b"", b"", self._body[:1], b"", self._body[1:], b""):
                yield piece

    tool = sending(Gaps(CODED[coding]), {"content-encoding": coding})
    assert await tool.request(f"{HOME}/items") == "200\n\nLamps and desks."
    assert await sending(Gaps(b""), {"content-encoding": coding}).request(f"{HOME}/items") == "200\n\n"


async def test_no_more_than_the_cap_is_inflated() -> None:
    """20 million zeros are 20 KB of gzip: of a cap of 1,000 bytes, 1,001 are inflated, and what takes part in that."""
    tool = sending(Pieces(gzip.compress(bytes(20_000_000))), {"content-encoding": "gzip"}, max_result_bytes=1_000)
    tracemalloc.start()
    try:
        said = await tool.request(f"{HOME}/items")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert said == "200\n\n[1000 bytes that are no text]\n[more than these 1000 bytes]"
    assert peak < 2_000_000


async def test_without_the_cap_the_whole_answer_is_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin."""
    monkeypatch.setitem(http._INFLATED, "gzip", lambda: lambda piece, room: gzip.decompress(piece))
    tool = sending(Pieces(gzip.compress(bytes(20_000_000))), {"content-encoding": "gzip"}, max_result_bytes=1_000)
    tracemalloc.start()
    try:
        await tool.request(f"{HOME}/items")
        assert tracemalloc.get_traced_memory()[1] > 20_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("headers", "body", "seen"),
    [
        ({"content-encoding": "br"}, b"\x0b\x02\x80hi\x03", "[not read: it is encoded as 'br']"),
        ({"content-encoding": "gzip, gzip"}, b"", "[not read: it is encoded as 'gzip, gzip']"),
        ({"content-encoding": "x" * 5_000}, b"", f"[not read: it is encoded as '{'x' * 40}']"),
        ({"content-encoding": "gzip"}, b"no gzip at all", "[not read: it is not encoded as gzip, which it says]"),
        ({"content-type": "text/plain; charset=latin-1"}, b"caf\xe9", "café"),
        ({"content-type": "text/plain; charset=shift_jis"}, b"\x83\x89\x83\x93\x83v", "\u30e9\u30f3\u30d7"),
        *(
            ({"content-type": f"text/plain; charset={name}"}, b"6869", "[4 bytes that are no text]")
            for name in ("hex", "zlib", "bz2", "rot13", "base64", "unicode_escape", "raw_unicode_escape", "utf-7",
                         "punycode", "idna", "undefined", "uu", "quopri", "no-such", "a" * 5_000)
        ),
    ],
)  # fmt: skip
async def test_only_encodings_of_text_are_decoded(headers: dict[str, str], body: bytes, seen: str) -> None:
    """What a server names is data: none of Python's codecs that turn bytes into bytes, or run a little language."""
    said = await sending(Pieces(body), headers).request(f"{HOME}/items")
    assert said.partition("\n\n")[2] == seen

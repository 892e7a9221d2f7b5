"""Results of batches: each counts as one request at the price of a batch, whoever reads them and however often.

What the lines look like is the providers', as the types of their SDKs and their guides of batches have it. That their
price is half of the usual one is said on both price pages.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from agentaccel import Accel, Policy, StorePolicy, TurnRecord
from agentaccel.clients import pending as watching
from agentaccel.engine import pending as guarded
from agentaccel.replay.read import runs_of_store
from agentaccel.replay.source import Rules
from agentaccel.report import Group, report
from agentaccel.store.learned import _waiting as waiting_in
from agentaccel.store.store import open_reader
from agentaccel.testing import ManualClock
from agentaccel.turn import Finished, Started
from tests.children import in_a_child
from tests.clients.wire import ASK, MESSAGE, Peer, an_accel, message, records

Json = dict[str, Any]

CLAUDE, FILE = "msgbatch_01", "file-out1"
RESULTS = f"/v1/messages/batches/{CLAUDE}/results"
CONTENT = f"/v1/files/{FILE}/content"
BATCH_OF: Json = {
    "id": CLAUDE, "type": "message_batch", "processing_status": "ended", "created_at": "2026-11-01T00:00:00Z",
    "expires_at": "2026-11-02T00:00:00Z", "results_url": f"https://api.anthropic.com{RESULTS}",
    "request_counts": {"processing": 0, "succeeded": 2, "errored": 1, "canceled": 0, "expired": 1},
}  # fmt: skip


def claude(name: str, input_tokens: int, read: int = 0, **more: Any) -> Json:
    """One that succeeded; `input_tokens` as Anthropic counts them, without what was read."""
    usage = {
        "input_tokens": input_tokens, "cache_read_input_tokens": read, "cache_creation_input_tokens": 0,
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
        "output_tokens": 10, "service_tier": "batch",
    }  # fmt: skip
    message = {**MESSAGE, "id": f"msg_{name}", "model": "claude-sonnet-4-6", "usage": usage, **more}
    return {"custom_id": name, "result": {"type": "succeeded", "message": message}}


def chat(name: str, prompt: int, cached: int = 0) -> Json:
    body = {
        "id": f"chatcmpl-{name}", "object": "chat.completion", "created": 5, "model": "gpt-5.1",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "A secret."}}],
        "usage": {
            "prompt_tokens": prompt, "completion_tokens": 10, "total_tokens": prompt + 10,
            "prompt_tokens_details": {"cached_tokens": cached},
        },
        "service_tier": "default",
    }  # fmt: skip
    return openai_line(name, body)


def openai_line(name: str, body: Json, status: int = 200) -> Json:
    answer = {"status_code": status, "request_id": f"r_{name}", "body": body}
    return {"id": f"batch_req_{name}", "custom_id": name, "response": answer, "error": None}


CHAT = chat("a", 100_000, 40_000)
RESPONSE = openai_line(
    "b",
    {
        "id": "resp_b", "object": "response", "created_at": 6, "model": "gpt-5.1", "status": "completed", "error": None,
        "output": [{"type": "function_call", "id": "fc", "call_id": "c", "name": "search", "arguments": "{}"}],
        "usage": {"input_tokens": 1000, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 5},
    },
)  # fmt: skip
EMBEDDED = openai_line("e", {"object": "list", "data": [], "model": "m", "usage": {"prompt_tokens": 9}})
ERRED: list[Json] = [
    {"custom_id": "x", "result": {"type": "errored", "error": {"type": "error", "error": {"type": "api_error"}}}},
    {"custom_id": "y", "result": {"type": "expired"}},
    {"custom_id": "z", "result": {"type": "canceled"}},
]
REFUSED: list[Json] = [
    openai_line("x", {"error": {"code": "bad", "message": "No."}}, 400),
    {"id": "batch_req_y", "custom_id": "y", "response": None, "error": {"code": "batch_expired", "message": "Late."}},
]


def lines(*of: Json) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in of)


class Far:
    """Both providers, with these bytes as the results of their batches, in pieces of this size."""

    def __init__(
        self,
        results: bytes | Callable[[], Iterable[bytes]],
        *,
        size: int = 50,
        zipped: bool = False,
        status: int = 200,
        at: str = CONTENT,
    ) -> None:
        self._results, self._size, self._zipped, self._status, self._at = results, size, zipped, status, at

    def pieces(self) -> Iterable[bytes]:
        if callable(self._results):
            return self._results()
        sent = gzip.compress(self._results, mtime=0) if self._zipped else self._results
        return [sent[at : at + self._size] for at in range(0, len(sent), self._size)]

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        if request.url.path not in (RESULTS, self._at):
            return httpx2.Response(200, json=BATCH_OF)
        pieces = self.pieces()

        class Body(httpx2.SyncByteStream, httpx2.AsyncByteStream):
            def __iter__(self) -> Iterator[bytes]:
                yield from pieces

            async def __aiter__(self) -> AsyncIterator[bytes]:
                for piece in pieces:
                    yield piece

        headers = {"content-type": "application/binary", **({"content-encoding": "gzip"} if self._zipped else {})}
        return httpx2.Response(self._status, headers=headers, stream=Body())

    async def asynchronous(self, request: httpx2.Request) -> httpx2.Response:
        return self(request)

    def anthropic(self) -> Any:
        http = httpx2.Client(transport=httpx2.MockTransport(self))
        return anthropic.Anthropic(api_key="k", http_client=http, max_retries=0)

    def openai(self) -> Any:
        return openai.OpenAI(
            api_key="k", http_client=httpx2.Client(transport=httpx2.MockTransport(self)), max_retries=0
        )

    def anthropic_async(self) -> Any:
        http = httpx2.AsyncClient(transport=httpx2.MockTransport(self.asynchronous))
        return anthropic.AsyncAnthropic(api_key="k", http_client=http, max_retries=0)

    def openai_async(self) -> Any:
        http = httpx2.AsyncClient(transport=httpx2.MockTransport(self.asynchronous))
        return openai.AsyncOpenAI(api_key="k", http_client=http, max_retries=0)


def used(record: TurnRecord) -> tuple[int | None, int | None, int | None]:
    return record.usage.input, record.usage.read, record.usage.output


def told(folder: Path) -> list[tuple[int | None, int | None, int | None]]:
    return sorted(used(one) for one in records(folder))


def total(folder: Path) -> Group:
    return report(records(folder)).total


# --- how they can be read ---------------------------------------------------------------------------------------------


def of_claude(client: Any) -> bytes:
    return b"".join(
        json.dumps({"custom_id": one.custom_id, "result": json.loads(one.result.to_json())}).encode() + b"\n"
        for one in client.messages.batches.results(CLAUDE)
    )


def of_claude_beta(client: Any) -> bytes:
    assert [one.custom_id for one in client.beta.messages.batches.results(CLAUDE)] == ["a", "b"]
    return b""


def of_claude_raw(client: Any) -> bytes:
    return b"".join(client.messages.batches.with_raw_response.results(CLAUDE).http_response.iter_bytes())


def of_claude_streaming(client: Any) -> bytes:
    with client.messages.batches.with_streaming_response.results(CLAUDE) as response:
        return b"".join(response.iter_bytes())


def of_openai(client: Any) -> bytes:
    return client.files.content(FILE).content  # type: ignore[no-any-return]


def of_openai_text(client: Any) -> bytes:
    return client.files.retrieve_content(FILE).encode()  # type: ignore[no-any-return]


def of_openai_raw(client: Any) -> bytes:
    return client.files.with_raw_response.content(FILE).content  # type: ignore[no-any-return]


def of_openai_streaming(client: Any) -> bytes:
    with client.files.with_streaming_response.content(FILE) as response:
        return b"".join(response.iter_bytes())


async def of_claude_async(client: Any) -> bytes:
    assert [one.custom_id async for one in await client.messages.batches.results(CLAUDE)] == ["a", "b"]
    return b""


async def of_claude_streaming_async(client: Any) -> bytes:
    async with client.messages.batches.with_streaming_response.results(CLAUDE) as response:
        return b"".join([piece async for piece in response.iter_bytes()])


async def of_openai_async(client: Any) -> bytes:
    return (await client.files.content(FILE)).content  # type: ignore[no-any-return]


async def of_openai_streaming_async(client: Any) -> bytes:
    async with client.files.with_streaming_response.content(FILE) as response:
        return b"".join([piece async for piece in response.iter_bytes()])


BOTH = lines(claude("a", 100_000), claude("b", 1_000, 9_000))
SPENT = [(10_000, 9_000, 10), (100_000, 0, 10)]
"""By hand: Anthropic's input leaves out what was read, ours has it."""


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("read", [of_claude, of_claude_beta, of_claude_raw, of_claude_streaming])
def test_each_result_of_an_anthropic_batch_is_a_request(
    tmp_path: Path, read: Callable[[Any], bytes], zipped: bool
) -> None:
    far = Far(BOTH, zipped=zipped)
    got = read(an_accel(tmp_path).wrap(far.anthropic()))
    assert got in (b"", read(far.anthropic()))
    assert told(tmp_path) == SPENT
    assert {(one.session, one.model, one.mode, one.stop, one.calls) for one in records(tmp_path)} == {
        (CLAUDE, "claude-sonnet-4-6", "batch", "tool_use", ("f",))
    }


@pytest.mark.parametrize("read", [of_claude_async, of_claude_streaming_async])
def test_each_result_is_a_request_on_an_event_loop(tmp_path: Path, read: Any) -> None:
    far = Far(BOTH)
    got = asyncio.run(read(an_accel(tmp_path).wrap(far.anthropic_async())))
    assert got in (b"", BOTH)
    assert told(tmp_path) == SPENT


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("read", [of_openai, of_openai_raw, of_openai_streaming, of_openai_text])
@pytest.mark.filterwarnings("ignore:The `.content..` method should be used:DeprecationWarning")
def test_each_result_of_an_openai_batch_is_a_request(
    tmp_path: Path, read: Callable[[Any], bytes], zipped: bool
) -> None:
    """Both wires; embeddings and refusals are no requests of a model that a cache could serve."""
    sent = lines(CHAT, EMBEDDED, *REFUSED, RESPONSE)
    got = read(an_accel(tmp_path).wrap(Far(sent, zipped=zipped).openai()))
    assert got == sent
    assert told(tmp_path) == [(1000, 0, 5), (100_000, 40_000, 10)]
    assert [(one.session, one.started, one.stop, one.calls) for one in records(tmp_path)] == [
        (FILE, 5.0, "stop", ()),
        (FILE, 6.0, "completed", ("search",)),
    ]


@pytest.mark.parametrize("read", [of_openai_async, of_openai_streaming_async])
def test_each_result_of_an_openai_batch_is_a_request_on_an_event_loop(tmp_path: Path, read: Any) -> None:
    sent = lines(CHAT, RESPONSE)
    assert asyncio.run(read(an_accel(tmp_path).wrap(Far(sent).openai_async()))) == sent
    assert told(tmp_path) == [(1000, 0, 5), (100_000, 40_000, 10)]


@pytest.mark.parametrize("mode", ["on", "observe"])
def test_a_batch_costs_half(tmp_path: Path, mode: str) -> None:
    """By hand, of 100,000 tokens: claude-sonnet-4-6 at 3 USD a million, 0.30, by batch 0.15. gpt-5.1 at 1.25 and 0.125
    read: 60,000 * 1.25 + 40,000 * 0.125 = 0.08 a request, by batch 0.04, though the reply calls its tier the default.
    """
    accel = an_accel(tmp_path, mode=mode)
    of_claude(accel.wrap(Far(lines(claude("a", 100_000))).anthropic()))
    assert total(tmp_path).costs.paid == pytest.approx(0.15)
    assert total(tmp_path).costs.as_written == pytest.approx(0.15)
    of_openai(accel.wrap(Far(lines(CHAT)).openai()))
    assert total(tmp_path).costs.paid == pytest.approx(0.15 + 0.04)
    assert {one.terms["service_tier"] for one in records(tmp_path)} == {"batch"}


def test_a_report_takes_results_for_requests_that_go_on_from_nothing(tmp_path: Path) -> None:
    """By hand: 9,000 of 110,000 tokens were read. All of both prompts was needed, though one is larger than the other;
    none of it counts against the limit of requests that somebody waits for, nor is a first byte missed; and no
    saving is claimed. A replay leaves both out and says so."""
    of_claude(an_accel(tmp_path).wrap(Far(BOTH).anthropic()))
    group = total(tmp_path)
    assert (group.sessions, group.requests, group.unreported, group.unstreamed) == (1, 2, 0, 0)
    assert group.tokens.hit_rate == pytest.approx(9_000 / 110_000)
    assert (group.tokens.needed, group.causes, group.limits.counted) == (110_000, (), None)
    assert [(row.mode, row.requests) for row in group.modes] == [("batch", 2)]
    rules = Rules()
    with open_reader(tmp_path / "trace.db") as store:
        assert list(runs_of_store(store, rules)) == []
    assert [(what, count) for (what, _), count in rules.passed.items()] == [("requests of batches", 2)]


@pytest.mark.parametrize("where", ["aggregate", "bill", "fold"])
def test_without_the_mode_results_look_like_one_conversation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """The twin: only what the larger prompt added was needed; somebody waited; their limit was used up."""
    of_claude(an_accel(tmp_path).wrap(Far(BOTH).anthropic()))
    monkeypatch.setattr(f"agentaccel.report.{where}.BATCH", "another")
    group = total(tmp_path)
    seen = (group.tokens.needed, group.limits.counted is None, group.unstreamed)
    expected = {"aggregate": (100_000, True, 0), "bill": (110_000, False, 0), "fold": (110_000, True, 2)}
    assert seen == expected[where]


def test_results_do_not_crowd_out_sessions_that_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the two latest requests, which are looked at for sessions that wait, a batch of two takes no place."""
    monkeypatch.setattr("agentaccel.store.learned.MOST_WAITING", 2)
    clock = ManualClock()
    accel = Accel(Policy(strict=True, store=StorePolicy(path=tmp_path / "trace.db")), clock=clock)
    with accel.session("s", agent="chat"):
        accel.wrap(Peer(message()).client()).messages.create(**ASK)
    clock.advance(60)
    of_claude(accel.wrap(Far(BOTH).anthropic()))
    assert [one.mode for one in records(tmp_path)] == ["on", "batch", "batch"]
    with open_reader(tmp_path / "trace.db") as store, store.database.using() as connection:
        assert len(waiting_in(connection, store.workload_of("s") or "")) == 1


def test_results_count_for_the_agent_and_tenant_that_read_them(tmp_path: Path) -> None:
    accel = an_accel(tmp_path)
    with accel.session("nightly", agent="grader", tenant="acme"):
        of_claude(accel.wrap(Far(BOTH).anthropic()))
    assert {(one.session, one.agent, one.tenant) for one in records(tmp_path)} == {(CLAUDE, "grader", "acme")}


def test_what_was_not_answered_is_no_request(tmp_path: Path) -> None:
    """Nothing was billed for what failed, expired or was cancelled."""
    accel = an_accel(tmp_path)
    of_claude(accel.wrap(Far(lines(*ERRED)).anthropic()))
    of_openai(accel.wrap(Far(lines(*REFUSED)).openai()))
    assert records(tmp_path) == []


# --- once -------------------------------------------------------------------------------------------------------------


def test_results_that_are_read_again_count_once(tmp_path: Path) -> None:
    """By the same client, another one, and another process with the same store; one that was new meanwhile counts."""
    of_claude(an_accel(tmp_path).wrap(Far(lines(claude("a", 100_000))).anthropic()))

    def again() -> None:
        with an_accel(tmp_path) as accel:
            for client in (accel.wrap(Far(BOTH).anthropic()), accel.wrap(Far(BOTH).anthropic())):
                of_claude_streaming(client)

    _, status = os.waitpid(in_a_child(again), 0)
    assert (status, told(tmp_path)) == (0, SPENT)


def test_one_name_in_two_batches_is_two_results(tmp_path: Path) -> None:
    """`custom_id` is the user's own, and his next batch calls its requests the same."""
    accel = an_accel(tmp_path)
    of_openai(accel.wrap(Far(lines(chat("a", 100))).openai()))
    other = chat("a", 100)
    other["response"]["body"]["id"] = "chatcmpl-other"
    of_openai(accel.wrap(Far(lines(other)).openai()))
    assert told(tmp_path) == [(100, 0, 10), (100, 0, 10)]


def test_without_the_row_of_its_own_a_result_counts_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin of both."""
    monkeypatch.setattr(guarded, "_row", lambda hash_: None)
    client = an_accel(tmp_path).wrap(Far(BOTH).anthropic())
    of_claude_streaming(client)
    of_claude_streaming(client)
    assert told(tmp_path) == sorted([*SPENT, *SPENT])


def test_requests_behind_results_are_numbered_as_ever(tmp_path: Path) -> None:
    """A store that begins with a batch: rows of requests go on from 1, so that none is taken for a result."""
    accel = an_accel(tmp_path)
    of_claude(accel.wrap(Far(BOTH).anthropic()))
    for _ in range(2):
        turn = accel.turn({"model": "claude-sonnet-4-6", "max_tokens": 5, "messages": []})
        turn.handle(Started(0.0))
        turn.handle(Finished(1.0))
    with open_reader(tmp_path / "trace.db") as store, store.database.using() as connection:
        rows = [row for (row,) in connection.execute("SELECT id FROM turns ORDER BY id")]
    assert rows[2:] == [1, 2]
    assert max(rows[:2]) < 0


# --- what goes wrong --------------------------------------------------------------------------------------------------


def test_results_that_are_cut_off_count_as_far_as_they_came(tmp_path: Path) -> None:
    """In the middle of the second line; the reader sees what it would see without us."""
    far = Far(BOTH[:-100])
    client = an_accel(tmp_path).wrap(far.anthropic())
    assert of_claude_streaming(client) == BOTH[:-100]
    assert told(tmp_path) == [(100_000, 0, 10)]


def test_results_whose_reader_breaks_off_count_as_far_as_they_were_read(tmp_path: Path) -> None:
    client = an_accel(tmp_path).wrap(Far(BOTH).anthropic())
    results = client.messages.batches.results(CLAUDE)
    assert next(iter(results)).custom_id == "a"
    results.close()
    assert told(tmp_path) == [(100_000, 0, 10)]


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n", b"\n\n"])
def test_the_last_result_counts_however_its_line_ends(tmp_path: Path, end: bytes) -> None:
    sent = BOTH.rstrip() + end
    assert of_claude_streaming(an_accel(tmp_path).wrap(Far(sent).anthropic())) == sent
    assert told(tmp_path) == SPENT


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 9,
        b'{"messages": []}\n' + lines(CHAT),
        b"[" * 5000,
        b"null\n{}\n",
    ],
    ids=["empty", "a picture", "a file of one's own", "brackets", "no objects"],
)
def test_a_file_that_holds_no_results_is_left_alone(tmp_path: Path, content: bytes) -> None:
    assert of_openai(an_accel(tmp_path).wrap(Far(content).openai())) == content
    assert records(tmp_path) == []


@pytest.mark.parametrize("line", [b"{", b'{"custom_id": "q", "result": [1]}', b'{"custom_id": {}}', b"\xff\xfe"])
def test_a_line_that_is_no_result_is_left_out_among_others(tmp_path: Path, line: bytes) -> None:
    sent = lines(CHAT) + line + b"\n" + lines(RESPONSE)
    assert of_openai(an_accel(tmp_path).wrap(Far(sent).openai())) == sent
    assert told(tmp_path) == [(1000, 0, 5), (100_000, 40_000, 10)]


def test_a_reply_that_says_nothing_of_its_use_is_not_taken_for_none(tmp_path: Path) -> None:
    silent = claude("a", 1, usage=None, id=None, model=None)
    of_claude_streaming(an_accel(tmp_path).wrap(Far(lines(silent)).anthropic()))
    assert told(tmp_path) == [(None, None, None)]


def test_results_that_cannot_be_had_are_none(tmp_path: Path) -> None:
    with pytest.raises(openai.InternalServerError):
        of_openai(an_accel(tmp_path).wrap(Far(lines(CHAT), status=500).openai()))
    assert records(tmp_path) == []


@pytest.mark.slow
def test_no_more_than_one_line_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line of 20 MB, of which 1 MB may be held, is left out; what stands before and behind it counts. It takes less
    than 4 MB at any time: the line that is held, and as much again where it grows."""
    monkeypatch.setattr(watching, "_LONGEST", 2**20)
    piece = b"x" * 2**16

    def pieces() -> Iterator[bytes]:
        yield lines(CHAT) + b'{"custom_id": "long", "response": "'
        yield from (piece for _ in range(320))
        yield b'"}\n' + lines(RESPONSE)

    client = an_accel(tmp_path).wrap(Far(pieces).openai())
    with client.files.with_streaming_response.content(FILE) as response:
        tracemalloc.start()
        try:
            length = sum(len(one) for one in response.iter_bytes())
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert length > 20 * 2**20
    assert peak < 4 * 2**20
    assert told(tmp_path) == [(1000, 0, 5), (100_000, 40_000, 10)]


def _broken(*given: Any) -> None:
    raise RuntimeError("ours")


@pytest.mark.parametrize("where", ["record_result", "attach"])
def test_our_failure_is_one_line_and_the_reader_has_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, where: str
) -> None:
    monkeypatch.setattr(watching, where, _broken)
    sent = lines(CHAT, RESPONSE)
    assert of_openai(an_accel(tmp_path, strict=False).wrap(Far(sent).openai())) == sent
    assert [one.levelname for one in caplog.records] == ["ERROR"]
    with pytest.raises(RuntimeError, match="ours"):
        of_openai(an_accel(tmp_path).wrap(Far(sent).openai()))


def test_nothing_of_what_was_said_is_kept(tmp_path: Path) -> None:
    """Neither the reply nor what the user calls the request."""
    private = chat("patient-4711@example.com", 100)
    private["response"]["body"]["id"] = "chatcmpl-1"
    of_openai(an_accel(tmp_path).wrap(Far(lines(private)).openai()))
    assert told(tmp_path) == [(100, 0, 10)]
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"secret" not in kept
    assert b"4711" not in kept


def test_what_the_place_says_counts_as_for_any_request(tmp_path: Path) -> None:
    """A host of one region, and a name of the user's own for a model."""
    client = Far(lines(CHAT)).openai().with_options(base_url="https://eu.api.openai.com/v1")
    of_openai(an_accel(tmp_path, aliases={"gpt-5.1": "gpt-5"}).wrap(client))
    (record,) = records(tmp_path)
    assert (record.provider, record.platform, record.known_as) == ("openai", "api", "gpt-5")
    assert record.terms == {"region": "eu", "service_tier": "batch"}


def test_azure_hands_out_results_at_a_path_of_its_own(tmp_path: Path) -> None:
    far = Far(lines(CHAT), at="/openai/files/file-out1/content")
    http = httpx2.Client(transport=httpx2.MockTransport(far))
    client = openai.AzureOpenAI(
        api_key="k", azure_endpoint="https://x.openai.azure.com", api_version="2026-01-01", http_client=http
    )
    of_openai(an_accel(tmp_path).wrap(client))
    (record,) = records(tmp_path)
    assert (record.provider, record.platform, used(record)) == ("openai", "azure", (100_000, 40_000, 10))


def test_an_sdk_without_middleware_is_read_at_its_transport(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As before `anthropic` 0.115."""
    monkeypatch.delattr(anthropic, "Middleware")
    client = an_accel(tmp_path).wrap(Far(BOTH).anthropic())
    assert of_claude_streaming(client) == BOTH
    assert told(tmp_path) == SPENT
    assert {one.provider for one in records(tmp_path)} == {"anthropic"}


def test_without_the_look_at_them_nothing_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin of all of the above."""
    monkeypatch.setattr(watching, "_PLACES", ())
    accel = an_accel(tmp_path)
    of_claude(accel.wrap(Far(BOTH).anthropic()))
    of_openai(accel.wrap(Far(lines(CHAT)).openai()))
    assert records(tmp_path) == []

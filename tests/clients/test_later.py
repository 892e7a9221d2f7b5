"""Replies that are made after their exchange: whichever later exchange tells what they have used counts, once.

What OpenAI answers to a background response, to polls, to a stream that is taken up again and to a cancellation is the
provider's, as its SDK's types and its guide of background mode have it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from agentaccel import Accel, TurnRecord, Usage
from agentaccel.clients import pending as guarded
from agentaccel.engine.pending import PendingReplies
from tests.clients.wire import Body, an_accel, records

ASKED: Any = {"model": "gpt-6.1-sol", "input": "Write a long report.", "background": True}
USED = {
    "input_tokens": 5000,
    "input_tokens_details": {"cached_tokens": 4000, "cache_write_tokens": 0},
    "output_tokens": 10,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 5010,
}
"""By hand: of the 5,000 tokens of the prompt 4,000 were read, and ten were written as the reply."""
SPENT = (5000, 4000, 10)
UNKNOWN = (None, None, None)
CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "search", "arguments": '{"q": "a"}'}
MODES = pytest.mark.parametrize("mode", ["on", "observe"])
KINDS = pytest.mark.parametrize("is_async", [False, True])


def response(status: str, id_: str = "resp_1", **more: Any) -> dict[str, Any]:
    """A response as the provider shows it in this state."""
    plain = {"object": "response", "created_at": 1, "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    said = {"id": id_, "model": "gpt-6.1-sol", "status": status, "output": [], "background": True, "usage": None}
    return {**plain, **said, **more}


DONE = response("completed", usage=USED, output=[{**CALL, "status": "completed"}])
BEGUN = response("in_progress")


def events(*of: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"type": kind, "sequence_number": at, **fields} for at, (kind, fields) in enumerate(of)]


STARTED = events(("response.created", {"response": BEGUN}), ("response.in_progress", {"response": BEGUN}))
ENDED = events(
    ("response.output_item.done", {"output_index": 0, "item": {**CALL, "status": "completed"}}),
    ("response.completed", {"response": DONE}),
)

Answer = dict[str, Any] | list[dict[str, Any]] | int
"""A body of JSON, the events of a stream, or the status of a refusal."""


def body_of(answer: Answer) -> bytes:
    if isinstance(answer, int):
        return b'{"error": {"type": "server_error", "message": "Later."}}'
    if isinstance(answer, dict):
        return json.dumps(answer).encode()
    return b"".join(b"data: %b\n\n" % json.dumps(one).encode() for one in answer)


class Far:
    """A server that gives these answers in order, and the last one again and again."""

    def __init__(self, *answers: Answer) -> None:
        self.answers, self.asked = list(answers), list[tuple[str, str]]()

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append((request.method, request.url.raw_path.decode()))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        kind = "text/event-stream" if isinstance(answer, list) else "application/json"
        status = answer if isinstance(answer, int) else 200
        content = body_of(answer)
        pieces = [content[at : at + 50] for at in range(0, len(content), 50)]
        return httpx2.Response(status, headers={"content-type": kind}, stream=Body(pieces))

    async def asynchronous(self, request: httpx2.Request) -> httpx2.Response:
        return self(request)

    def client(self, is_async: bool = False, url: str = "https://api.openai.com/v1") -> Any:
        known: Any = {"api_key": "k", "base_url": url, "max_retries": 0}
        if is_async:
            http: Any = httpx2.AsyncClient(transport=httpx2.MockTransport(self.asynchronous))
            return openai.AsyncOpenAI(http_client=http, **known)
        return openai.OpenAI(http_client=httpx2.Client(transport=httpx2.MockTransport(self)), **known)


def drive(is_async: bool, *calls: Callable[[], Any]) -> list[Any]:
    """What the calls give, one after another, on one event loop where they have to be awaited."""

    async def one_by_one() -> list[Any]:
        return [await call() for call in calls]

    return asyncio.run(one_by_one()) if is_async else [call() for call in calls]


def spent(record: TurnRecord) -> tuple[int | None, int | None, int | None]:
    usage: Usage = record.usage
    return usage.input, usage.read, usage.output


def told(folder: Path) -> list[tuple[str, tuple[int | None, int | None, int | None]]]:
    """How each request ended, and what it has used."""
    return [(record.outcome, spent(record)) for record in records(folder)]


@KINDS
@MODES
def test_a_background_response_is_counted_once_by_the_poll_that_finds_it_completed(
    tmp_path: Path, mode: str, is_async: bool
) -> None:
    """Two polls that find it under way count nothing, and neither does one that comes when all is known."""
    far = Far(response("queued"), BEGUN, BEGUN, DONE)
    accel = an_accel(tmp_path, mode=mode)
    client = accel.wrap(far.client(is_async))
    poll = lambda: client.responses.retrieve("resp_1")  # noqa: E731

    async def within_async() -> Any:
        async with accel.session("report", agent="writer"):
            return await client.responses.create(**ASKED)

    def within() -> Any:
        with accel.session("report", agent="writer"):
            return client.responses.create(**ASKED)

    got = drive(is_async, within_async if is_async else within, poll, poll)
    assert [one.status for one in got] == ["queued", "in_progress", "in_progress"]
    assert records(tmp_path) == []  # as of a stream that is being read
    got = drive(is_async, poll, poll)
    assert [one.usage.input_tokens for one in got] == [5000, 5000]
    (record,) = records(tmp_path)
    assert (record.session, record.agent, record.model, record.outcome, record.mode) == (
        "report", "writer", "gpt-6.1-sol", "ok", mode,
    )  # fmt: skip
    assert (spent(record), record.stop, record.calls) == (SPENT, "completed", ("search",))
    accel.close()
    assert len(records(tmp_path)) == 1


@KINDS
def test_a_broken_stream_is_counted_by_the_stream_that_takes_it_up_again(tmp_path: Path, is_async: bool) -> None:
    """The reader breaks off behind the first events; the call that both streams tell of is told once."""
    item = events(("response.output_item.done", {"output_index": 0, "item": {**CALL, "status": "completed"}}))
    far = Far([*STARTED, *item], ENDED)
    client = an_accel(tmp_path).wrap(far.client(is_async))

    async def broken_async() -> Any:
        stream = await client.responses.create(**ASKED, stream=True)
        for _ in range(3):
            await anext(stream)
        await stream.close()

    def broken() -> Any:
        with client.responses.create(**ASKED, stream=True) as stream:
            return [next(stream) for _ in range(3)]

    async def resumed_async() -> Any:
        return [one async for one in await client.responses.retrieve("resp_1", stream=True, starting_after=1)]

    def resumed() -> Any:
        return list(client.responses.retrieve("resp_1", stream=True, starting_after=1))

    first, again = (broken_async, resumed_async) if is_async else (broken, resumed)
    _, got = drive(is_async, first, again)
    assert [one.type for one in got] == ["response.output_item.done", "response.completed"]
    assert far.asked[-1] == ("GET", "/v1/responses/resp_1?starting_after=1&stream=true")
    assert told(tmp_path) == [("ok", SPENT)]
    assert records(tmp_path)[0].calls == ("search",)


@pytest.mark.parametrize(
    ("told_last", "outcome", "error", "used"),
    [
        (response("cancelled", usage=USED), "cancelled", None, SPENT),
        (response("failed", error={"code": "server_error", "message": "m"}), "failed", "server_error", UNKNOWN),
        (response("incomplete", usage=USED, incomplete_details={"reason": "max_output_tokens"}), "ok", None, SPENT),
    ],
)
def test_what_ends_otherwise_is_recorded_as_what_it_is(
    tmp_path: Path, told_last: Any, outcome: str, error: str | None, used: Any
) -> None:
    """Cancelled by the client's own call, or found so; failed; cut."""
    far = Far(response("queued"), told_last)
    client = an_accel(tmp_path).wrap(far.client())
    client.responses.create(**ASKED)
    assert client.responses.cancel("resp_1").status == told_last["status"]
    assert told(tmp_path) == [(outcome, used)]
    assert records(tmp_path)[0].error == error


@KINDS
@pytest.mark.parametrize(
    ("before", "after", "outcome"),
    [
        # Whoever cancels is answered at once; what was used until then may be told to who asks again.
        ([response("queued"), response("cancelled")], response("cancelled", usage=USED), "cancelled"),
        ([response("queued"), response("completed")], DONE, "ok"),
        ([response("queued"), response("incomplete")], response("incomplete", usage=USED), "ok"),
        ([response("completed"), response("completed")], DONE, "ok"),
        (
            [response("queued"), [*STARTED, *events(("response.completed", {"response": response("completed")}))]],
            ENDED,
            "ok",
        ),
    ],
)
def test_a_response_that_has_ended_without_usage_is_waited_for_until_it_tells_it(
    tmp_path: Path, before: list[Any], after: Any, outcome: str, is_async: bool
) -> None:
    """Chosen by us; it is counted once, by whichever exchange tells it, and without usage where none does."""
    far = Far(*before, after)
    accel = an_accel(tmp_path / "told")
    client = accel.wrap(far.client(is_async))
    ask, poll = (
        (lambda: client.responses.create(**ASKED)),
        (lambda: client.responses.with_raw_response.retrieve("resp_1")),
    )
    drive(is_async, ask, poll)
    assert told(tmp_path / "told") == []
    drive(is_async, poll, poll)
    accel.close()
    assert told(tmp_path / "told") == [(outcome, SPENT)]
    with an_accel(tmp_path / "never") as accel:
        client = accel.wrap(Far(*before).client(is_async))
        drive(is_async, ask, poll)
    assert told(tmp_path / "never") == [(outcome, UNKNOWN)]


def test_without_asking_for_usage_the_first_end_is_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin."""
    monkeypatch.setattr(guarded, "_untold", lambda tap: False)
    client = an_accel(tmp_path).wrap(Far(response("queued"), response("cancelled"), DONE).client())
    client.responses.create(**ASKED)
    client.responses.cancel("resp_1")
    client.responses.retrieve("resp_1")
    assert told(tmp_path) == [("cancelled", UNKNOWN)]


def test_the_bytes_of_a_poll_are_those_that_came(tmp_path: Path) -> None:
    far = Far(response("queued"), DONE, ENDED)
    client = an_accel(tmp_path).wrap(far.client())
    client.responses.create(**ASKED)
    raw = client.responses.with_raw_response.retrieve("resp_1")
    assert raw.http_response.content == body_of(DONE)
    with client.responses.with_streaming_response.retrieve("resp_1", stream=True) as stream:
        assert b"".join(stream.iter_bytes()) == body_of(ENDED)
    assert told(tmp_path) == [("ok", SPENT)]


def test_clients_of_one_accel_share_what_they_wait_for_and_servers_do_not(tmp_path: Path) -> None:
    """Two servers give the same id: what one of them tells is no news of the other's. A client that was derived, or
    made anew for the same server, tells it."""
    one, two = Far(response("queued"), DONE), Far(response("queued"), BEGUN, response("failed"))
    accel = an_accel(tmp_path)
    here, there = accel.wrap(one.client()), accel.wrap(two.client(url="https://example.com/v1"))
    here.responses.create(**ASKED)
    there.responses.create(**ASKED)
    there.responses.retrieve("resp_1")
    assert told(tmp_path) == []
    accel.wrap(one.client()).with_options(timeout=3).responses.retrieve("resp_1")
    assert told(tmp_path) == [("ok", SPENT)]
    there.responses.cancel("resp_1")
    assert told(tmp_path) == [("ok", SPENT), ("failed", UNKNOWN)]


def test_polls_that_are_refused_or_about_something_else_count_nothing(tmp_path: Path) -> None:
    listed = {"object": "list", "data": [], "has_more": False}
    far = Far(response("queued"), 500, response("completed", "resp_2", usage=USED), listed, DONE)
    client = an_accel(tmp_path).wrap(far.client())
    client.responses.create(**ASKED)
    with pytest.raises(openai.InternalServerError):
        client.responses.retrieve("resp_1")
    client.responses.retrieve("resp_2")
    client.responses.input_items.list("resp_1")
    assert told(tmp_path) == []
    client.responses.retrieve("resp_1")
    assert told(tmp_path) == [("ok", SPENT)]


def test_a_response_that_is_never_asked_for_again_is_recorded_when_all_is_over(tmp_path: Path) -> None:
    """As before: what it has used is n/a, and never 0. A stream that was broken off is told as such."""
    far = Far(response("queued", "resp_0"), STARTED)
    with an_accel(tmp_path) as accel:
        client = accel.wrap(far.client())
        client.responses.create(**ASKED)
        with client.responses.create(**{**ASKED, "input": "Another."}, stream=True) as stream:
            next(stream)
        assert records(tmp_path) == []
    assert told(tmp_path) == [("ok", UNKNOWN), ("abandoned", UNKNOWN)]


def test_of_more_than_are_waited_for_the_oldest_are_recorded_without_usage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With room for two, the first of three is given up, and its end is no news any more."""
    monkeypatch.setattr("agentaccel.engine.pending._MOST", 2)
    far = Far(*(response("queued", f"resp_{n}") for n in (1, 2, 3)), DONE)
    client = an_accel(tmp_path).wrap(far.client())
    for _ in range(3):
        client.responses.create(**ASKED)
    assert told(tmp_path) == [("ok", UNKNOWN)]
    client.responses.retrieve("resp_1")
    assert told(tmp_path) == [("ok", UNKNOWN)]


def test_a_stream_that_was_not_asked_for_in_the_background_ends_where_its_reader_breaks_off(tmp_path: Path) -> None:
    """Its record does not wait: nothing goes on at the provider."""
    far = Far(STARTED)
    client = an_accel(tmp_path).wrap(far.client())
    with client.responses.create(model="gpt-6.1-sol", input="Hi", stream=True) as stream:
        next(stream)
    assert told(tmp_path) == [("abandoned", UNKNOWN)]


def test_without_the_guard_a_reply_counts_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: two readers that poll at once both find the end, and only who takes the reply may tell it."""
    taken: list[bool] = []

    class Careless(PendingReplies):
        def take(self, server: Any, reply: Any) -> bool:
            taken.append(super().take(server, reply))
            return True

    def twice(accel: Accel) -> int:
        far = Far(response("queued"), DONE)
        client = accel.wrap(far.client())
        client.responses.create(**ASKED)
        ends: list[Any] = []
        with monkeypatch.context() as patch:
            patch.setattr("agentaccel.turn.Turn.handle", lambda turn, event: ends.append(type(event).__name__) or [])
            with client.responses.with_streaming_response.retrieve("resp_1") as one:
                with client.responses.with_streaming_response.retrieve("resp_1") as two:
                    two.read()
                one.read()
        return ends.count("Finished")

    assert twice(an_accel(tmp_path / "a")) == 1
    monkeypatch.setattr("agentaccel.engine.pending.PendingReplies", Careless)
    assert twice(an_accel(tmp_path / "b")) == 2
    assert taken == [True, False]


def test_without_the_look_at_later_exchanges_nothing_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin of all of the above."""
    monkeypatch.setattr(guarded.PendingReplies, "named", lambda *of: None)
    far = Far(response("queued"), DONE)
    with an_accel(tmp_path) as accel:
        client = accel.wrap(far.client())
        client.responses.create(**ASKED)
        client.responses.retrieve("resp_1")
    assert told(tmp_path) == [("ok", UNKNOWN)]

"""Clients that are closed, copied and called in unusual ways: what we send of our own, and what we leave behind."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from agentaccel import Accel, CachePolicy, ConfigError, Policy, StorePolicy
from agentaccel.clients.client_copy import account_behind
from agentaccel.engine import pending as closing
from agentaccel.engine.engine import Replies
from agentaccel.store.store import open_reader
from agentaccel.testing.virtual import run
from agentaccel_emulator import serve
from tests.clients.test_keep_alive import STATIC, TEA, Desk, desk
from tests.clients.test_prewarm import CONSENT, RULES, Room
from tests.clients.wire import ASK, MESSAGE, PIECES, Peer, an_accel, message, records
from tests.driver import Json, assistant, prose, user
from tests.predict.test_closing import call, guessing, tally_of

ASKED: Json = {"model": "claude-sonnet-5", "max_tokens": 200, **STATIC}


@pytest.mark.slow
def test_what_keeps_an_entry_alive_is_read_whole_whatever_the_caller_does_with_his_reply(tmp_path: Path) -> None:
    """Else each would take a connection of the caller's for good, and nobody would know what it cost."""
    with desk(tmp_path) as clerk, httpx2.Client(limits=httpx2.Limits(max_connections=2), timeout=2.0) as http:
        client = clerk.accel.wrap(
            anthropic.Anthropic(base_url=clerk.server.url, api_key="k", max_retries=0, http_client=http)
        )
        for day in range(6):
            messages = [user(prose(50))]
            with clerk.accel.session(f"day {day}", agent="clerk"):
                for pause in (0.0, 5.0, TEA, 5.0):
                    clerk.clock.advance(pause)
                    with client.messages.with_streaming_response.create(messages=messages, **ASKED) as reply:
                        reply.read()
                    messages += [assistant(prose(40, len(messages))), user(prose(40, len(messages)))]
        assert clerk.kept
        assert {(one.outcome, one.status) for one in clerk.kept} == {("ok", 200)}
        assert all(one.usage.read for one in clerk.kept)


def test_what_keeps_an_entry_alive_has_no_key_of_the_users_request(tmp_path: Path) -> None:
    """It is another request: a server that honours the key would answer it with the old reply."""
    ours: list[httpx2.Headers] = []

    def note(request: httpx2.Request) -> None:
        if b'"max_tokens":0' in request.read().replace(b" ", b""):
            ours.append(request.headers)

    with desk(tmp_path) as clerk, httpx2.Client(event_hooks={"request": [note]}) as http:
        client = clerk.accel.wrap(
            anthropic.Anthropic(base_url=clerk.server.url, api_key="k", max_retries=0, http_client=http)
        )
        for day in range(4):
            with clerk.accel.session(f"day {day}", agent="clerk"):
                for pause in (0.0, 5.0, TEA, 5.0):
                    clerk.clock.advance(pause)
                    headers = {"Idempotency-Key": f"user-{day}-{pause}"}
                    client.messages.create(messages=[user(prose(50))], extra_headers=headers, **ASKED)
    assert ours
    assert not any("idempotency-key" in headers for headers in ours)


def gpt(clerk: Desk) -> Any:
    bare = openai.OpenAI(base_url=f"{clerk.server.url}/v1", api_key="k", max_retries=0)
    return clerk.accel.wrap(bare, platform="api")


@pytest.mark.slow
@pytest.mark.parametrize("closed", [True, False])
def test_nothing_is_sent_through_a_client_that_was_closed(tmp_path: Path, closed: bool) -> None:
    """It would open connections that nobody closes; with the twin that is open, something is."""
    history = [{"role": "developer", "content": prose(9_000)}, {"role": "user", "content": prose(50)}]
    with desk(tmp_path, ttl="30m") as clerk:
        for day in range(4):
            with gpt(clerk) as client, clerk.accel.session(f"day {day}", agent="clerk"):
                for pause in (0.0, 5.0, 6 * TEA, 5.0):
                    clerk.clock.advance(pause)
                    client.responses.create(model="gpt-6.1-sol", input=history)
        before = len(clerk.server.log)
        with gpt(clerk) as client, clerk.accel.session("friday", agent="clerk"):
            client.responses.create(model="gpt-6.1-sol", input=history)
            clerk.clock.advance(5.0)
            client.responses.create(model="gpt-6.1-sol", input=history)
            if closed:
                client.close()
            for _ in range(400):
                clerk.clock.advance(10.0)
            assert (len(clerk.server.log) == before + 2) == closed


@pytest.mark.parametrize("kind", [openai.OpenAI, anthropic.Anthropic])
def test_a_wrapped_client_is_open_as_long_as_the_one_given(tmp_path: Path, kind: Any) -> None:
    """They share a pool, which would open connections that nobody closes; the SDK's own copies refuse as well."""
    answers = httpx2.MockTransport(lambda request: httpx2.Response(200, json={"data": [], "has_more": False}))
    bare = kind(api_key="k", max_retries=0, http_client=httpx2.Client(transport=answers))
    wrapped = an_accel(tmp_path).wrap(bare)
    assert wrapped.models.list().data == []
    bare.close()
    seen = []
    for client in (bare.with_options(), wrapped):
        with pytest.raises(Exception) as refused:  # noqa: PT011 - the SDK's own, whichever it is
            client.models.list()
        seen.append((refused.type, str(refused.value)))
    assert seen[0] == seen[1]


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/other"])
@pytest.mark.parametrize("status", [200, 404, 529])
def test_a_raw_response_is_retried_and_raised_as_without_us(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, status: int
) -> None:
    """The way to call what the SDK has no method for; behind any other middleware the SDK does neither."""
    monkeypatch.setattr("anthropic._base_client.time.sleep", lambda seconds: None)
    seen = []
    for wrapped in (False, True):
        attempts: list[str] = []

        def answer(request: httpx2.Request, attempts: list[str] = attempts) -> httpx2.Response:
            attempts.append(request.url.path)
            return httpx2.Response(status, json=MESSAGE if status == 200 else {"error": {"type": "e", "message": "m"}})

        http = httpx2.Client(transport=httpx2.MockTransport(answer))
        client = anthropic.Anthropic(api_key="k", max_retries=2, http_client=http)
        if wrapped:
            client = an_accel(tmp_path).wrap(client)
        try:
            came: object = client.post(path, body=dict(ASK), cast_to=httpx2.Response).status_code
        except anthropic.APIStatusError as error:
            came = type(error)
        seen.append((came, attempts))
    assert seen[0] == seen[1]
    if path == "/v1/messages":
        assert {one.outcome for one in records(tmp_path)} == {"ok" if status == 200 else "failed"}
        assert len(records(tmp_path)) == len(seen[1][1])


def test_a_raw_response_is_streamed_as_without_us(tmp_path: Path) -> None:
    """Nothing is read of it before its reader does."""
    read: list[bytes] = []

    class Pieces(httpx2.SyncByteStream):
        def __iter__(self) -> Any:
            for piece in PIECES:
                read.append(piece)
                yield piece

    headers = {"content-type": "text/event-stream"}
    answers = httpx2.MockTransport(lambda request: httpx2.Response(200, headers=headers, stream=Pieces()))
    client = an_accel(tmp_path).wrap(
        anthropic.Anthropic(api_key="k", max_retries=0, http_client=httpx2.Client(transport=answers))
    )
    body = {**ASK, "stream": True}
    response = client.post("/v1/messages", body=body, cast_to=httpx2.Response, stream=True, stream_cls=anthropic.Stream)
    assert read == []
    assert b"".join(response.iter_raw()) == b"".join(PIECES)  # type: ignore[attr-defined]
    assert [one.outcome for one in records(tmp_path)] == ["ok"]


def test_an_answer_that_a_middleware_has_made_up_is_handed_on_as_it_is(tmp_path: Path) -> None:
    """Whatever it is: it is the caller's affair."""
    made = [SimpleNamespace(status_code=7), httpx2.Response(404)]
    for answer in made:
        wrapped = an_accel(tmp_path).wrap(anthropic.Anthropic(api_key="k", max_retries=0))
        client = wrapped.with_middleware(lambda request, call_next, answer=answer: answer)
        assert client.post("/v1/messages", body=dict(ASK), cast_to=httpx2.Response) is answer


AWS: Json = {"aws_region": "us-east-1", "aws_secret_key": "s"}
CUSTOMERS: list[tuple[Any, Json, Json]] = [
    (anthropic.AnthropicVertex, {"project_id": "a", "region": "r", "access_token": "t"}, {"project_id": "b"}),
    (anthropic.AnthropicBedrock, {**AWS, "aws_access_key": "a"}, {"aws_access_key": "b"}),
    (anthropic.AnthropicAWS, {**AWS, "aws_access_key": "a", "workspace_id": "w"}, {"workspace_id": "v"}),
]


@pytest.mark.parametrize(("kind", "given", "other"), CUSTOMERS)
def test_customers_of_a_platform_are_told_apart(kind: Any, given: Json, other: Json) -> None:
    """By what their clients sign with, which no header says yet; a copy of a client is the same customer."""
    one = kind(**given)
    assert account_behind(one, {}, b"k") == account_behind(one.with_options(timeout=3), {}, b"k")
    assert account_behind(one, {}, b"k") != account_behind(kind(**{**given, **other}), {}, b"k")


def test_once_it_is_closed_nothing_of_its_own_is_begun(tmp_path: Path) -> None:
    """Nobody would take it back, and no record would show what it cost."""
    for closed in (False, True):
        room = Room(tmp_path / str(closed))

        async def main(room: Room, closed: bool = closed) -> None:
            async with room.accel.session("s", agent="clerk") as session:
                if closed:
                    room.accel.close()
                room.announce(session)
                await asyncio.sleep(30)

        room.run(main)
        assert room.ahead == (0 if closed else 1)


def test_a_stream_that_is_held_and_not_read_is_told_once_it_is_closed(tmp_path: Path) -> None:
    """Its reader has left it; what it had reported by then was billed."""
    policy = Policy(strict=True, store=StorePolicy(path=tmp_path / "trace.db"))
    with (
        serve() as server,
        Accel(policy, clock=server.clock, environ={}) as accel,
        accel.wrap(anthropic.Anthropic(base_url=server.url, api_key="k")) as client,
    ):
        held: Any = client.messages.create(**ASKED, messages=[{"role": "user", "content": "Hi."}], stream=True)
        next(iter(held))
        accel.close()
        assert [event.type for event in held], "and whoever comes back to it reads on"
    with open_reader(tmp_path / "trace.db") as store:
        (turn,) = store.turns()
    assert (turn.outcome, turn.usage.input) == ("abandoned", server.counters.total.input)


def test_once_it_is_closed_no_tool_is_run_early(tmp_path: Path) -> None:
    for closed in (False, True):
        agent = guessing(tmp_path / f"{closed}.db")
        agent.reads()

        async def main(agent: Any = agent, closed: bool = closed) -> None:
            if closed:
                agent.accel.close()
            await agent.model(call("look", key="a"))

        run(main, agent.clock)
        assert (tally_of(agent).launched == 0) == closed


def test_what_a_users_class_was_given_after_it_was_made_is_kept(tmp_path: Path) -> None:
    """Its methods may read it with every request."""

    class Ours(anthropic.Anthropic):
        tenant = "public"

        @property
        def desk(self) -> Any:
            if not hasattr(self, "_desk"):
                self._desk = SimpleNamespace(client=self)
            return self._desk

    client = Ours(api_key="k")
    client.tenant = "acme"
    assert client.messages is not None
    assert client.desk.client is client
    wrapped = an_accel(tmp_path).wrap(client)
    assert wrapped.tenant == "acme"
    assert wrapped.messages is not client.messages
    assert wrapped.desk.client is wrapped, "what belongs to the client that was given stays its own"


def test_what_a_middleware_asks_a_model_on_the_way_is_not_taken_for_what_was_announced(tmp_path: Path) -> None:
    """Nor sent: nobody has asked for that yet."""
    peer, asked = Peer(message()), []
    policy = Policy(strict=True, store=StorePolicy(path=tmp_path / "t.db"), cache=CachePolicy(**CONSENT))
    with Accel(policy) as accel:
        guard = accel.wrap(peer.client())

        def guarded(request: Any, call_next: Any) -> Any:
            asked.append(request)
            guard.messages.create(max_tokens=50, messages=[user("Is this all right?")], **RULES)  # type: ignore[call-overload]
            return call_next(request)

        client = accel.wrap(peer.client(middleware=[guarded]))
        with accel.session("s", agent="clerk") as session:
            session.prewarm(client.messages.create, **RULES)  # leaving waits for it
    assert len(asked) == 1
    assert peer.sent == []


def elsewhere(request: Any, call_next: Any) -> Any:
    """A middleware that takes the request to another context."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(call_next, request).result()


@pytest.mark.parametrize("how", ["another thread", "a body that is not looked at"])
def test_what_was_only_announced_is_never_sent(tmp_path: Path, how: str) -> None:
    """Where nothing can be written ahead, nothing is, and the call that was announced is not made either."""
    peer, asked = Peer(message()), []
    policy = Policy(strict=True, store=StorePolicy(path=tmp_path / "t.db"), cache=CachePolicy(**CONSENT))
    with Accel(policy) as accel, accel.session("s", agent="clerk") as session:
        if how == "another thread":
            session.prewarm(accel.wrap(peer.client(middleware=[elsewhere])).messages.create, **RULES)
        else:
            answers = httpx2.MockTransport(lambda request: asked.append(request) or httpx2.Response(500))
            bare = openai.OpenAI(
                api_key="k",
                max_retries=0,
                default_headers={"content-encoding": "identity"},
                http_client=httpx2.Client(transport=answers),
            )
            session.prewarm(accel.wrap(bare).responses.create, model="gpt-6.1-sol", input=prose(30_200))
    assert asked == []
    assert peer.sent == []


@pytest.mark.parametrize("vendor", ["anthropic", "openai"])
def test_what_is_written_ahead_has_the_headers_of_the_call_and_none_of_ours(tmp_path: Path, vendor: str) -> None:
    """Those of the user's own among them; a provider may refuse what it does not know."""
    room, seen = Room(tmp_path), list[Any]()
    line: Any = room.bare._client._transport
    answers = line.handle_async_request

    async def noted(request: httpx2.Request) -> httpx2.Response:
        seen.append(request.headers)
        response: httpx2.Response = await answers(request)
        return response

    async def main(room: Room) -> None:
        line.handle_async_request = noted
        seam: Any = room.accel.wrap(
            openai.AsyncOpenAI(base_url="http://api.openai.com/v1", api_key="k", http_client=room.bare._client)
        )
        own = {"extra_headers": {"x-team": "desk"}}
        async with room.accel.session("s", agent="clerk") as session:
            if vendor == "anthropic":
                room.announce(session, **own)
            else:
                words = [{"role": "developer", "content": prose(30_200)}]
                session.prewarm(seam.responses.create, model="gpt-6.1-sol", input=words, **own)
            await asyncio.sleep(30)

    room.run(main)
    assert room.ahead == len(seen) == 1
    assert seen[0]["x-team"] == "desk"
    assert not [name for name in seen[0] if "agentaccel" in name]


@pytest.mark.parametrize("named", [{"provider": ["x"]}, {"platform": ["x"]}, {"provider": "x"}, {"platform": "x"}])
def test_a_provider_that_nobody_can_be_is_refused_in_words(named: Any) -> None:
    with pytest.raises(ConfigError, match=r"is .*x.*; known are"):
        Accel(Policy(store=StorePolicy(enabled=False))).plan(ASK, **named)


def test_what_a_parent_reads_is_not_over_for_its_child(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the child that closes its copy tells of it, and the parent once more."""
    ended: list[str] = []

    class Held:
        def end(self, how: str) -> None:
            ended.append(how)

    replies, held = Replies(), Held()
    replies.add(held)
    monkeypatch.setattr(closing, "forks", lambda: 7)
    replies.end()
    assert ended == []
    replies.add(held)
    replies.end()
    assert ended == ["closed"]

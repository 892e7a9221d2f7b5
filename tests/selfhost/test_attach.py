"""Attaching: what is asked, of whom, and what comes of servers that answer badly. Real HTTP, over the loopback."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentaccel import Accel
from agentaccel.errors import ConfigError
from agentaccel.selfhost import asking
from agentaccel.selfhost.asking import answered
from agentaccel.selfhost.attach import Backend
from agentaccel.selfhost.hints import Hints
from agentaccel.selfhost.probe import Page
from tests.clients.wire import an_accel
from tests.selfhost.captured import metrics
from tests.selfhost.serving import Answer, Loopback, engine, serving


@pytest.fixture
def accel(tmp_path: Path) -> Iterator[Accel]:
    with an_accel(tmp_path) as made:
        yield made


def attached(accel: Accel, server: Loopback, **more: Any) -> Backend:
    """Once it has answered."""
    backend = accel.backend(f"{server.url}/v1", **more)
    backend.wait_ready(0.2)
    return backend


@pytest.mark.parametrize(
    ("name", "dialect"),
    [
        ("vllm-0.32.0-cpu", "vllm"),
        ("sglang-0.5.23", "sglang"),
        ("llamacpp-b11549", "llamacpp"),
        ("dynamo-1.6.1", "dynamo"),
        ("smg-1.13.0", "smg"),
    ],
)
def test_an_attached_server_is_asked_what_it_is(accel: Accel, name: str, dialect: str) -> None:
    """By GET alone, and each path once."""
    server = engine(name)
    with serving(server):
        backend = accel.backend(f"{server.url}/v1")
        assert backend.wait_ready()
    assert backend.server.dialect == dialect
    assert backend.server.models == ("tiny",)
    assert {one.method for one in server.asked} == {"GET"}
    assert len(server.asked) == len({one.path for one in server.asked})


def test_what_was_found_is_one_log_line(accel: Accel, caplog: pytest.LogCaptureFixture) -> None:
    """And what is printed of a backend says the same."""
    server = engine("vllm-0.32.0-cpu")
    with serving(server), caplog.at_level(logging.INFO, "agentaccel"):
        backend = attached(accel, server)
    name = server.url.removeprefix("http://")
    [line] = [said for one in caplog.records if name in (said := one.getMessage())]
    assert line == f"agentaccel: {name} is vLLM 0.32.0; tiny; 4096 tokens a request"
    assert repr(backend) == f"<Backend {name}: vLLM 0.32.0; tiny; 4096 tokens a request.>"


async def test_on_an_event_loop_nothing_waits_in_the_way(accel: Accel) -> None:
    """A detector looks for calls that block; the form without `await` says what to write."""
    server = engine("vllm-0.32.0-cpu")
    with serving(server):
        backend = accel.backend(f"{server.url}/v1")
        assert backend.server.evidence == ("it has not answered yet",)
        assert await backend.ready()
        async with backend.observe() as seen:
            pass
    assert backend.server.version == "0.32.0"
    assert seen.figures.prompt is None
    with pytest.raises(ConfigError, match=r"await backend\.ready"):
        backend.wait_ready()
    with pytest.raises(ConfigError, match="async with"), backend.observe():
        pass


def test_headers_are_sent_as_given_and_not_to_other_hosts(accel: Accel) -> None:
    """A redirect on the same host is followed; one to another host is not, which would be shown what is not for it."""
    elsewhere = engine("vllm-0.32.0-cpu")
    server = engine("vllm-0.32.0-cpu")
    server.says["/v1/models"] = Answer(status=307, headers={"location": "/v1/models/"})
    server.says["/v1/models/"] = engine("vllm-0.32.0-cpu").says["/v1/models"]
    with serving(server, elsewhere):
        server.says["/version"] = Answer(status=302, headers={"location": f"{elsewhere.url}/version"})
        backend = attached(accel, server, headers={"Authorization": "Bearer k"})
    assert backend.server.models == ("tiny",)
    assert backend.server.version is None
    assert {one.headers.get("authorization") for one in server.asked} == {"Bearer k"}
    assert not elsewhere.asked


def test_headers_are_not_shown_to_another_host_that_has_the_counters(accel: Accel) -> None:
    """`localhost` is another name than the one that they are for, and nothing is looked up."""
    server, counters = engine("vllm-0.32.0-cpu"), Loopback({"/metrics": vllm(1, 1)})
    with serving(server, counters):
        elsewhere = counters.url.replace("127.0.0.1", "localhost")
        backend = attached(accel, server, headers={"authorization": "Bearer k"}, metrics=f"{elsewhere}/metrics")
        with backend.observe() as seen:
            pass
    assert seen.figures.prompt == 0
    assert len(counters.asked) == 2
    assert not any("authorization" in one.headers for one in counters.asked)


def test_a_named_dialect_is_believed_at_once_and_only_its_paths_are_asked(accel: Accel) -> None:
    """Behind a router the others would answer for the router."""
    server = engine("smg-1.13.0")
    with serving(server):
        backend = accel.backend(f"{server.url}/v1", dialect="vllm")
        assert backend.server.dialect == "vllm"
        assert backend.wait_ready()
    assert {one.path for one in server.asked} == {"/v1/models", "/version", "/metrics"}
    assert backend.server.evidence[-1] == "the user names vLLM"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"url": "127.0.0.1:8000"}, "http URL"),
        ({"url": "ftp://a/v1"}, "http URL"),
        ({"url": "http://"}, "http URL"),
        ({"url": "http://a:port/v1"}, "http URL"),
        ({"url": "http://a/v1?key=1"}, "http URL"),
        ({"url": b"http://a/v1"}, "http URL"),
        ({"url": None}, "http URL"),
        ({"url": []}, "is empty"),
        ({"url": "http://me:secret@a/v1"}, "give them as headers"),
        ({"url": "http://a/v1", "metrics": "a:9000"}, "metrics is 'a:9000'"),
        ({"url": ["http://a/v1", "http://b/v1"], "metrics": "http://a:9/metrics"}, "1 URLs for 2 servers"),
        ({"url": "http://a/v1", "headers": ["x"]}, "headers is of list"),
        ({"url": "http://a/v1", "verify": "no"}, "verify is 'no'"),
        ({"url": "http://a/v1", "timeout": 0}, "timeout is 0"),
        ({"url": "http://a/v1", "dialect": "vlm"}, "dialect is 'vlm'; known are 'vllm'"),
    ],
)
def test_what_cannot_be_meant_is_refused_where_it_is_written(accel: Accel, given: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        accel.backend(given.pop("url"), **given)
    assert "secret" not in str(caught.value)


def test_where_agentaccel_is_off_nothing_is_asked(tmp_path: Path) -> None:
    """Off is off."""
    server = engine("vllm-0.32.0-cpu")
    with serving(server), an_accel(tmp_path, environ={"AGENTACCEL_DISABLE": "1"}) as accel:
        backend = accel.backend(f"{server.url}/v1", dialect="vllm")
        assert not backend.wait_ready()
        with backend.observe() as seen:
            pass
        assert seen.figures.prompt is None
    assert not server.asked


def test_hints_are_rendered_for_the_server_and_named_as_sessions_are(accel: Accel) -> None:
    """The same name that `accel.session` gives the conversation: a router sees one."""
    server = engine("vllm-0.32.0-cpu")
    with serving(server):
        backend = attached(accel, server)
        sent = backend.hints(Hints(session="ticket-1", tenant="acme", priority=3))
        other = backend.hints(Hints(session="ticket-1"))
    assert sent.fields["priority"] == -3
    assert len(sent.fields["cache_salt"]) == 32
    assert sent.headers["X-Session-ID"] != other.headers["X-Session-ID"]  # two tenants' sessions of one name are two


# --- servers that answer badly ----------------------------------------------------------------------------------------

HTML = Answer(b"<!doctype html><title>Welcome</title>", headers={"content-type": "text/html"})
BAD: dict[str, tuple[Any, str]] = {
    "another product's page for everything": (HTML, "nothing that was answered tells"),
    "an error for everything": (Answer({"error": "boom"}, 500), "nothing that was answered tells"),
    "no JSON": (Answer(b"{'version': 1"), "nothing that was answered tells"),
    "a list": (Answer(["version", "build_info"]), "nothing that was answered tells"),
    "a body without end": (Answer(b"x" * 100_000, repeats=11), "longer than 1,000,000 bytes"),
    "a redirect elsewhere": (Answer(status=302, headers={"location": "http://elsewhere.example/"}), "another host"),
    "a redirect to itself": (lambda asked: Answer(status=302, headers={"location": asked.path}), "leads on and on"),
    "everything of everybody": (
        Answer({"version": "1", "build_info": "b1", "model_path": "/m", "workers": []}),
        "these signs contradict one another",
    ),
}


@pytest.mark.parametrize("how", BAD)
def test_a_server_that_answers_badly_is_unknown_and_it_is_said_why(accel: Accel, how: str) -> None:
    """Never an exception."""
    says, why = BAD[how]
    server = Loopback({}, otherwise=says)
    with serving(server):
        backend = attached(accel, server)
        with backend.observe() as seen:
            pass
    assert backend.server.dialect == "unknown"
    assert any(why in one for one in backend.server.evidence)
    assert seen.figures.missing == (f"{server.url.removeprefix('http://')}",)
    assert backend.hints(Hints(session="s", tenant="t", priority=1))[:2] == ({}, {})


def test_the_bound_on_what_is_read_is_what_ends_a_long_answer(accel: Accel, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: with a wider one it is read to its end, and is no JSON."""
    monkeypatch.setattr(asking, "_MOST_BYTES", 10_000_000)
    with serving(server := Loopback({}, otherwise=BAD["a body without end"][0])):
        backend = attached(accel, server)
    assert backend.server.evidence == ("nothing that was answered tells who answers",)


@pytest.mark.slow
def test_a_server_that_never_answers_is_given_up(accel: Accel, caplog: pytest.LogCaptureFixture) -> None:
    """Within its time; nothing answers at a port that is closed, either. One line says which."""
    server = Loopback({}, otherwise=Answer(hangs=True))
    with serving(server), caplog.at_level(logging.WARNING, "agentaccel"):
        backend = accel.backend([f"{server.url}/v1", "http://127.0.0.1:9/v1"], timeout=0.1)
        assert not backend.wait_ready(0.3)
        with backend.observe() as seen:
            pass
    hung, closed = backend.servers
    assert "GET /v1/models: no answer within 0.1 s" in hung.evidence
    assert "GET /v1/models: nothing answers there" in closed.evidence
    assert len(seen.figures.missing) == 2
    assert "no answer from" in caplog.text


@pytest.mark.slow
def test_a_server_that_comes_up_later_is_waited_for(accel: Accel) -> None:
    """Refused at first, then there: asked again until then."""
    server = engine("vllm-0.32.0-cpu")
    with serving(server):
        port = int(server.url.rpartition(":")[2])  # free a moment later
    backend = accel.backend(f"http://127.0.0.1:{port}/v1")
    assert not backend.wait_ready(0.0)
    assert backend.server.dialect == "unknown"
    server = engine("vllm-0.32.0-cpu")
    server.port = port
    with serving(server):
        assert backend.wait_ready()
    assert backend.server.dialect == "vllm"


def test_a_server_that_came_up_between_two_questions_has_not_answered() -> None:
    """Some paths were refused a connection: what the others say is not all that it says."""
    page = Page(200, {}, b"{}")
    assert answered({"/v1/models": page, "/version": page})
    assert answered({"/v1/models": page, "/version": "no answer within 2 s"})
    assert not answered({"/v1/models": "nothing answers there", "/version": page})
    assert not answered({"/v1/models": "no answer within 2 s"})


def test_an_accel_that_is_closed_asks_nothing_any_more(tmp_path: Path) -> None:
    server = engine("vllm-0.32.0-cpu")
    with serving(server):
        with an_accel(tmp_path) as accel:
            backend = attached(accel, server)
        before = len(server.asked)
        with backend.observe() as seen:
            pass
        assert not backend.wait_ready()
    assert len(server.asked) == before
    assert seen.figures.prompt is None


# --- observing --------------------------------------------------------------------------------------------------------


def prom(text: str) -> Answer:
    return Answer(text.encode(), headers={"content-type": "text/plain"})


def vllm(prompt: int, cached: int) -> Answer:
    return prom(
        "# TYPE vllm:prefix_cache_queries_total counter\n"
        f"vllm:prefix_cache_queries_total {prompt}\n"
        "# TYPE vllm:prefix_cache_hits_total counter\n"
        f"vllm:prefix_cache_hits_total {cached}\n"
    )


def test_a_window_is_the_difference_between_two_looks(accel: Accel) -> None:
    """By hand: 300 - 100 prompt tokens, of which 160 - 10 from the cache."""
    server = engine("vllm-0.32.0-cpu")
    server.says["/metrics"] = vllm(100, 10)
    with serving(server), attached(accel, server).observe() as seen:
        server.says["/metrics"] = vllm(300, 160)
    assert (seen.figures.prompt, seen.figures.cached, seen.figures.hit_rate) == (200, 150, 0.75)
    assert "prompt tokens        200, from the cache 150 (75.0%)" in str(seen)


async def test_replicas_are_added_up_and_one_started_anew_counts_from_there(accel: Accel) -> None:
    """By hand: 200 of the first; the second fell from 500 to 40, so 40; metrics of both on ports of their own."""
    one, two, counters = engine("vllm-0.32.0-cpu"), engine("vllm-0.32.0-cpu"), Loopback({})
    counters.says = {"/one": vllm(100, 0), "/two": vllm(500, 400)}
    with serving(one, two, counters):
        urls = [f"{one.url}/v1", f"{two.url}/v1"]
        backend = accel.backend(urls, metrics=[f"{counters.url}/one", f"{counters.url}/two"])
        assert await backend.ready()
        async with backend.observe() as seen:
            counters.says = {"/one": vllm(300, 100), "/two": vllm(40, 20)}
    assert (seen.figures.prompt, seen.figures.cached) == (240, 120)
    assert seen.figures.restarted == (two.url.removeprefix("http://"),)


def test_a_replica_that_goes_makes_totals_unknown_and_is_named(accel: Accel) -> None:
    server, gone = engine("vllm-0.32.0-cpu"), engine("vllm-0.32.0-cpu")
    server.says["/metrics"] = gone.says["/metrics"] = vllm(1, 1)
    with serving(server, gone):
        backend = accel.backend([f"{server.url}/v1", f"{gone.url}/v1"])
        assert backend.wait_ready()
        with backend.observe() as seen:
            gone.says["/metrics"] = Answer(b"no", 503)
    assert seen.figures.prompt is None
    assert seen.figures.missing == (gone.url.removeprefix("http://"),)


async def test_windows_that_follow_one_another_lose_nothing_though_a_replica_was_gone(accel: Accel) -> None:
    """By hand: 300 - 100 of the first and 50 - 40 of the second, which was not there at two looks, and counts on. Then
    it is gone again, and comes back with 7: it was started anew."""
    one, two = engine("vllm-0.32.0-cpu"), engine("vllm-0.32.0-cpu")
    one.says["/metrics"], two.says["/metrics"] = vllm(100, 1), vllm(40, 1)
    no = Answer(b"no", 503)
    with serving(one, two):
        backend = accel.backend([f"{one.url}/v1", f"{two.url}/v1"])
        assert await backend.ready()
        async with backend.observe() as seen:
            two.says["/metrics"] = no
        assert seen.figures.prompt is None
        one.says["/metrics"] = vllm(200, 1)
        async with backend.observe(since=seen) as seen:
            one.says["/metrics"], two.says["/metrics"] = vllm(300, 1), vllm(50, 1)
        assert (seen.figures.prompt, seen.figures.restarted) == (210, ())
        two.says["/metrics"] = no
        async with backend.observe(since=seen) as seen:
            one.says["/metrics"] = vllm(400, 1)
        async with backend.observe(since=seen) as seen:
            two.says["/metrics"] = vllm(7, 1)
    assert seen.figures.prompt == 100 + 7
    assert seen.figures.restarted == (two.url.removeprefix("http://"),)


def test_counters_of_a_real_engine_are_read_through_it_all(accel: Accel) -> None:
    """Captured: after both passes of llama.cpp with ngram-mod; from a fresh start, so all is within the window."""
    server = engine("llamacpp-b11549")
    server.says["/metrics"] = prom("# TYPE llamacpp:prompt_tokens_total counter\nllamacpp:prompt_tokens_total 0\n")
    with serving(server), attached(accel, server).observe() as seen:
        server.says["/metrics"] = prom(metrics("llamacpp-0c1e570-ngram-mod"))
    assert (seen.figures.prompt, seen.figures.output, seen.figures.drafted) == (2660, 512, 1463)


@pytest.mark.parametrize("context", [True, False, ssl.create_default_context()])
def test_how_certificates_are_checked_is_handed_on(accel: Accel, context: Any) -> None:
    """To httpx, as it is."""
    server = engine("vllm-0.32.0-cpu")
    with serving(server):
        assert attached(accel, server, verify=context).server.dialect == "vllm"


async def test_a_look_whose_reader_is_cancelled_leaves_nothing_behind(accel: Accel) -> None:
    server = Loopback({}, otherwise=Answer(hangs=True))
    with serving(server):
        backend = accel.backend(f"{server.url}/v1", timeout=0.1)
        task = asyncio.ensure_future(backend.ready(5.0))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        accel._background.close()

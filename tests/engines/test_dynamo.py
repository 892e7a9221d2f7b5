"""Dynamo's frontend before two mock workers: strict about fields, and true to sessions. The model is simulated."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from agentaccel import Accel
from agentaccel.selfhost.hints import Hints, refused, rendered, without
from agentaccel.selfhost.launch import EngineProcess
from agentaccel.selfhost.probe import Server
from tests.engines.conftest import placed
from tests.engines.exchange import sdk
from tests.engines.starting import MODEL, start_dynamo

pytestmark = pytest.mark.engines

EVERYTHING = Hints(
    session="s", parent="p", tenant="t", priority=3, expected_output=8, ttft_target=0.5, tpot_target=0.1,
    next_turn_likely=True, final=False,
)  # fmt: skip
WORKER = {"nvext": {"extra_fields": ["worker_id"]}}
"""Asks which worker answered."""


@pytest.fixture(scope="module")
def dynamo(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    engine = start_dynamo(placed("dynamo") / "bin" / "python", models, tmp_path_factory.mktemp("dynamo"))
    while httpx2.get(f"{engine.url}/v1/models").json()["data"] == []:  # its workers have not found it yet
        assert engine.running
    yield engine
    engine.stop()


def said(client: openai.OpenAI, text: str, **more: Any) -> Any:
    messages = [{"role": "user", "content": text}]
    return client.chat.completions.create(model=MODEL, messages=messages, max_tokens=2, **more)  # type: ignore[call-overload]


def test_its_dialect_is_found(dynamo: EngineProcess, accel: Accel) -> None:
    backend = accel.backend(f"{dynamo.url}/v1")
    assert backend.wait_ready()
    assert (backend.server.dialect, backend.server.models, backend.server.metrics) == ("dynamo", (MODEL,), True)


def test_every_hint_is_taken(dynamo: EngineProcess, accel: Accel) -> None:
    """A field that it does not know would be a 400."""
    backend = accel.backend(f"{dynamo.url}/v1")
    assert backend.wait_ready()
    sent = backend.hints(EVERYTHING)
    assert not sent.unsent
    assert sent.fields["nvext"]["agent_hints"]["priority"] == 3
    with sdk(dynamo) as client:
        assert said(client, "Go.", extra_body=sent.fields, extra_headers=sent.headers).choices


@pytest.mark.parametrize(
    ("fields", "name"),
    [({"priority": 3}, "priority"), ({"nvext": {"urgency": 3}}, "nvext.urgency")],
    ids=["at the top", "inside of an object"],
)
def test_a_refusal_names_the_field_and_without_it_the_request_is_taken(
    dynamo: EngineProcess, fields: dict[str, Any], name: str
) -> None:
    """Both of its texts, as it sends them today. The same field of the user's own is the user's."""
    with sdk(dynamo) as client:
        with pytest.raises(openai.BadRequestError) as error:
            said(client, "Go.", extra_body=fields)
        body = error.value.response.content
        assert refused(body, {name}, {}) == {name}
        assert refused(body, {name}, fields) == frozenset()
        assert said(client, "Go.", extra_body=without(fields, {name})).choices


def test_a_refusal_that_is_the_users_reaches_the_user(dynamo: EngineProcess, accel: Accel) -> None:
    with sdk(dynamo) as bare, pytest.raises(openai.BadRequestError, match="bogus"):
        said(accel.wrap(bare), "Go.", extra_body={"bogus": 1})


def test_the_fields_of_another_engine_are_refused(dynamo: EngineProcess) -> None:
    """Or that every hint is taken would prove nothing."""
    with sdk(dynamo) as client, pytest.raises(openai.BadRequestError, match="priority"):
        said(client, "Go.", extra_body=rendered(Hints(priority=3), Server(dialect="vllm"), b"key").fields)


def test_a_session_stays_on_one_worker(dynamo: EngineProcess, accel: Accel) -> None:
    """Six sessions of three requests that have nothing in common, so no cached prefix draws them; together they use
    both workers."""
    backend = accel.backend(f"{dynamo.url}/v1")
    assert backend.wait_ready()
    workers: dict[str, set[int]] = {}
    with sdk(dynamo) as bare:
        client = accel.wrap(bare)
        for turn in range(3):
            for name in "abcdef":
                with accel.session(name):
                    reply = said(client, f"{name}{turn} " * 40, extra_body=WORKER)
                workers.setdefault(name, set()).add(reply.model_extra["nvext"]["worker_id"]["decode_worker_id"])
    assert [len(one) for one in workers.values()] == [1] * 6
    assert len(set.union(*workers.values())) == 2


def test_cached_tokens_are_read_alike_from_usage_and_counters(dynamo: EngineProcess, accel: Accel) -> None:
    """Blocks of 16 tokens."""
    backend = accel.backend(f"{dynamo.url}/v1")
    assert backend.wait_ready()
    with sdk(dynamo) as bare, backend.observe() as seen, accel.session("cached"):
        client = accel.wrap(bare)
        replies = [said(client, "one two three " * 20) for _ in range(3)]
    usages = [one.usage for one in replies]
    cached = [one.prompt_tokens_details.cached_tokens for one in usages]
    assert cached[0] == 0
    assert cached[1] == cached[2] > 0
    assert cached[1] % 16 == 0
    assert (seen.figures.cached, seen.figures.prompt) == (sum(cached), sum(one.prompt_tokens for one in usages))

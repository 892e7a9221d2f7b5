"""smg before two llama-servers: it is found, and a session stays on one of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx2
import openai
import pytest

from agentaccel import Accel
from agentaccel.selfhost.hints import Hints
from agentaccel.selfhost.launch import EngineProcess
from tests.engines.conftest import placed
from tests.engines.exchange import sdk
from tests.engines.starting import MODEL, Start, start_smg

pytestmark = pytest.mark.engines


class Gateway(NamedTuple):
    """A gateway, and who is behind it."""

    engine: EngineProcess
    workers: tuple[EngineProcess, EngineProcess]


@pytest.fixture(scope="module")
def gateway(start_llama: Start) -> Iterator[Gateway]:
    python = placed("smg") / "bin" / "python"
    workers = start_llama(), start_llama()
    engine = start_smg(python, workers)
    while httpx2.get(f"{engine.url}/v1/models").json().get("data", []) == []:  # it has not found its workers yet
        assert engine.running
    yield Gateway(engine, workers)
    engine.stop()


def said(client: openai.OpenAI, text: str, **more: Any) -> Any:
    messages = [{"role": "user", "content": text}]
    return client.chat.completions.create(model=MODEL, messages=messages, max_tokens=2, temperature=0, **more)  # type: ignore[call-overload]


def computed(worker: EngineProcess) -> float:
    """Tokens that a worker has computed or read, by its own counters."""
    lines = httpx2.get(f"{worker.url}/metrics").text.splitlines()
    counters = ("llamacpp:prompt_tokens_total ", "llamacpp:prompt_tokens_cached_total ")
    return sum(float(line.split()[-1]) for line in lines if line.startswith(counters))


def test_its_dialect_is_found_and_who_is_behind_it_is_not(gateway: Gateway, accel: Accel) -> None:
    """Its paths are its own. The user can name who is behind it."""
    backend = accel.backend(f"{gateway.engine.url}/v1")
    assert backend.wait_ready()
    assert (backend.server.dialect, backend.server.slots) == ("smg", None)
    named = accel.backend(f"{gateway.engine.url}/v1", dialect="llamacpp")
    assert named.wait_ready()
    assert named.server.dialect == "llamacpp"


def test_every_hint_that_it_has_a_field_for_is_taken(gateway: Gateway, accel: Accel) -> None:
    backend = accel.backend(f"{gateway.engine.url}/v1")
    assert backend.wait_ready()
    sent = backend.hints(Hints(session="s", tenant="t", priority=3, expected_output=8))
    assert (list(sent.headers), sent.fields) == (["x-smg-routing-key"], {})
    with sdk(gateway.engine) as client:
        assert said(client, "Go.", extra_body=sent.fields, extra_headers=sent.headers).choices


def test_a_session_stays_on_one_worker(gateway: Gateway, accel: Accel) -> None:
    """Eight sessions of three turns each; by the workers' own counters, one of them has all turns of a session, and
    both have sessions."""
    backend = accel.backend(f"{gateway.engine.url}/v1")
    assert backend.wait_ready()
    used = []
    with sdk(gateway.engine) as bare:
        client = accel.wrap(bare)
        for name in "abcdefgh":
            before = [computed(one) for one in gateway.workers]
            with accel.session(name):
                replies = [said(client, f"{name} " * 10 * (turn + 1)) for turn in range(3)]
            grew = [computed(one) - old for one, old in zip(gateway.workers, before, strict=True)]
            assert sorted(grew) == [0.0, sum(one.usage.prompt_tokens for one in replies)]
            used.append(grew.index(0.0))
    assert set(used) == {0, 1}


def test_a_refusal_reaches_the_user_as_it_came(gateway: Gateway, accel: Accel) -> None:
    """A request that llama-server cannot serve: its 400, with its text."""
    with sdk(gateway.engine) as bare, pytest.raises(openai.BadRequestError):
        said(accel.wrap(bare), "Go.", extra_body={"response_format": {"type": "nothing"}})

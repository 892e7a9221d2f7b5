"""What a server is told of the request that is likely to come next: with consent, and where it has a field for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import openai
import pytest

from agentaccel import CachePolicy
from tests.clients.wire import an_accel
from tests.driver import prose, tool
from tests.selfhost.serving import engine, serving

TOOL: dict[str, Any] = {
    "type": "function",
    "function": {"name": "look", "parameters": tool("look", 50)["input_schema"]},
}
ASK: dict[str, Any] = {"model": "tiny", "messages": [{"role": "user", "content": prose(200)}], "tools": [TOOL]}
DYNAMO = "dynamo-1.6.1"


def sent(path: Path, name: str, *, prewarm: bool = True, tenant: str | None = None, **more: Any) -> dict[str, Any]:
    """What a request has beside what was written."""
    server = engine(name)
    policy = CachePolicy(prewarm=prewarm)
    with (
        serving(server),
        an_accel(path, cache=policy) as accel,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="k", max_retries=0) as bare,
    ):
        assert accel.backend(f"{server.url}/v1").wait_ready()
        with accel.session("s", tenant=tenant):
            accel.wrap(bare).chat.completions.create(**{**ASK, **more})
    body: dict[str, Any] = server.calls[0].body
    return {field: value for field, value in body.items() if field not in ASK}


def test_dynamo_is_asked_to_compute_ahead_where_the_user_consents(tmp_path: Path) -> None:
    """An agent with tools goes on, mostly, and soon: by the stated priors both are above 0.7."""
    ahead = {"agent_hints": {"speculative_prefill": True}}
    assert sent(tmp_path / "with", DYNAMO) == {"nvext": ahead}
    assert sent(tmp_path / "without", DYNAMO, prewarm=False) == {}


def test_who_is_not_expected_to_go_on_is_not_prepared_for(tmp_path: Path) -> None:
    """Without tools a single question is mostly all that there is."""
    assert sent(tmp_path, DYNAMO, tools=openai.NOT_GIVEN) == {}


@pytest.mark.parametrize("name", ["vllm-0.32.0-cpu", "sglang-0.5.23", "llamacpp-b11549", "smg-1.13.0"])
def test_others_have_no_field_for_it(tmp_path: Path, name: str) -> None:
    assert sent(tmp_path, name) == {}


def test_what_the_sender_says_stays_and_keeps_no_salt_away(tmp_path: Path) -> None:
    """Hints of the sender's own are theirs alone; a tenant is kept apart all the same."""
    mine = {"agent_hints": {"osl": 5}}
    body = sent(tmp_path, DYNAMO, tenant="acme", extra_body={"nvext": mine})
    assert body["nvext"]["agent_hints"] == {"osl": 5}
    assert len(body["nvext"]["cache_salt"]) == 32

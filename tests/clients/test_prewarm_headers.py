"""What is computed ahead goes to the place that the announced request will go to: with the headers that lead there."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from agentaccel import CachePolicy
from tests.clients.wire import an_accel
from tests.driver import prose
from tests.selfhost.serving import CHAT, Answer, Asked, chat, engine, serving
from tests.selfhost.test_messages import PATH, message

ASK: dict[str, Any] = {"model": "tiny", "max_tokens": 9, "messages": [{"role": "user", "content": prose(9000)}]}
ROUTES = {"x-session-id", "x-smg-routing-key", "x-dynamo-session-id"}
SDKS = pytest.mark.parametrize("sdk", [openai, anthropic])


def routed(path: Path, sdk: Any, **more: Any) -> list[dict[str, str]]:
    """The headers that route a request written ahead, and those of the announced one."""
    came = threading.Event()

    def tells(asked: Asked) -> Answer:
        came.set()
        return chat(asked) if asked.path == CHAT else message(asked)

    server = engine("vllm-0.32.0-cpu", **{CHAT: tells, PATH: tells})
    kind = sdk.OpenAI if sdk is openai else sdk.Anthropic
    with (
        serving(server),
        an_accel(path, cache=CachePolicy(prewarm=True)) as accel,
        kind(base_url=server.url + "/v1" * (sdk is openai), api_key="k", max_retries=0) as bare,
    ):
        assert accel.backend(f"{server.url}/v1", dialect="sglang").wait_ready()
        wrapped = accel.wrap(bare)
        create = wrapped.chat.completions.create if sdk is openai else wrapped.messages.create
        with accel.session("a") as session:
            session.prewarm(create, **ASK, **more)
            assert came.wait(20)
            create(**ASK, **more)
    return [{name: value for name, value in call.headers.items() if name in ROUTES} for call in server.calls]


@SDKS
def test_both_have_the_same_key(tmp_path: Path, sdk: Any) -> None:
    ahead, asked = routed(tmp_path, sdk)
    assert ahead == asked
    assert ahead.keys() == {"x-smg-routing-key"}


@SDKS
def test_a_session_that_the_sender_names_is_not_named_again(tmp_path: Path, sdk: Any) -> None:
    named = {"X-SMG-Routing-Key": "mine"}
    assert routed(tmp_path, sdk, extra_headers=named) == [{"x-smg-routing-key": "mine"}] * 2

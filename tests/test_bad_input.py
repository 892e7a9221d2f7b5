"""Bad input, one test each that says what the user sees: the provider's own answer, untouched, and an honest record.

What concerns replies, streams, clients and sessions stands in `clients/`; logs in `trace/importers/`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import pytest

from agentaccel import Accel, Policy, StorePolicy, TurnRecord
from agentaccel.store.store import open_reader
from agentaccel_emulator import RunningServer, serve
from tests.driver import MODEL, Json, assistant, body, prose, tool, user

MARK: Json = {"cache_control": {"type": "ephemeral"}}
HOUR: Json = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}


class Desk:
    """A wrapped client, a bare one, and what was recorded."""

    def __init__(self, server: RunningServer, folder: Path) -> None:
        self.server, self.store = server, folder / "trace.db"
        self.accel = Accel(Policy(strict=True, store=StorePolicy(path=self.store)), clock=server.clock)
        self.bare = anthropic.Anthropic(base_url=server.url, api_key="k", max_retries=0)
        self.client = self.accel.wrap(self.bare)

    def both(self, request: Json) -> tuple[Any, Any]:
        """What the bare and the wrapped client give: a reply, or the error."""
        return self._ask(self.bare, request), self._ask(self.client, request)

    @staticmethod
    def _ask(client: anthropic.Anthropic, request: Json) -> Any:
        try:
            return client.messages.create(**request)
        except anthropic.APIStatusError as error:
            return error.status_code, error.body["error"]["message"] if isinstance(error.body, dict) else error.body

    @property
    def record(self) -> TurnRecord:
        with open_reader(self.store) as reader:
            return list(reader.turns())[-1]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with serve() as server:
        made = Desk(server, tmp_path)
        yield made
        made.bare.close()
        made.accel.close()


def text(content: str, **more: Any) -> Json:
    return {"type": "text", "text": content, **more}


REFUSED = {
    "five user markers, and one on empty text": body(user([text(f"{i}" if i else "", **MARK) for i in range(6)])),
    "1h after 5m": body(user([text("a", **MARK), text("b", **HOUR)])),
    "a marker on empty text": body(user("a"), system=[text("", **MARK)]),
    "a marker on thinking": body(
        user("a"), assistant([{"type": "thinking", "thinking": "x", "signature": "y", **MARK}]), user("b")
    ),
    "a tool schema that is not JSON schema": body(user("a"), tools=[{"name": "t", "input_schema": "no"}]),
    "duplicate tool names": body(user(prose(3000)), tools=[tool("same", 500), tool("same", 500)]),
    "zero messages": body(),
    "an unknown lifetime": body(user([text("a", cache_control={"type": "ephemeral", "ttl": "2w"})])),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_request_that_is_illegal_as_written_gets_the_providers_own_answer(what: str, desk: Desk) -> None:
    """It is sent as it is, the provider's words reach the caller, and the failure is recorded."""
    bare, wrapped = desk.both(REFUSED[what])
    assert bare[0] == 400
    assert wrapped == bare
    assert (desk.record.outcome, desk.record.status) == ("failed", 400)
    assert desk.record.error == "invalid_request_error"


def test_an_unknown_model_is_the_providers_to_refuse(desk: Desk) -> None:
    """No markers, one log line, and the provider's 404."""
    bare, wrapped = desk.both({**body(user(prose(3000))), "model": "gpt-99"})
    assert bare[0] == 404
    assert wrapped == bare
    assert desk.record.reasons == ("no cache facts are known for model 'gpt-99'",)


def test_unknown_fields_go_out_as_they_are(desk: Desk) -> None:
    """And are taken to be part of the prompt's identity: nothing unknown is assumed harmless."""
    bare, wrapped = desk.both({**body(user(prose(3000))), "extra_body": {"brand_new": {"x": 1}}})
    assert wrapped == bare
    assert "brand_new" in str(wrapped)


@pytest.mark.slow
def test_an_enormous_single_block_is_planned_like_any_other(desk: Desk) -> None:
    """Five megabytes of text in one block."""
    reply = desk.client.messages.create(**body(user(prose(800_000))))
    assert reply.usage.cache_creation_input_tokens
    assert [marker.path for marker in desk.record.markers] == [("messages", 0, "content")]


def test_a_lone_surrogate_is_planned_and_recorded(desk: Desk) -> None:
    """It cannot be sent by the SDK; a plan for it can be made."""
    plan = desk.accel.plan(body(user(f"{prose(2000)} \ud800")))
    assert not plan.empty


def test_text_that_is_only_blanks_never_carries_a_marker(desk: Desk) -> None:
    """The provider refuses markers on empty text; blank text is left alone as well."""
    plan = desk.accel.plan(body(user([text(prose(2000)), text("   ")]), model=MODEL))
    assert [marker.path[-1] for marker in plan.markers] == [0]

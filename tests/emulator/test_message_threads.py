"""Message threads of the emulated Messages API: what the provider holds, and how the SDK's own loop fares with it.

Mandated: which fields go with a thread and by which codes it is refused (anthropic 2.12, `lib/threads`). The texts and
the bill are ours.
"""

from __future__ import annotations

import anthropic
import httpx2
import orjson
import pytest
from emulator_talk import emulator, request, text

from agentaccel.testing import ManualClock
from agentaccel.testing.virtual import EmulatedTransport, run
from agentaccel_emulator import Emulator
from agentaccel_emulator.exchange import HttpRequest

HEADERS = {"x-api-key": "k", "anthropic-version": "2026-10-21", "anthropic-beta": "message-threads-2026-08-12"}
CREATE = {"type": "create"}
TOOLS = [{"name": "f", "input_schema": {"type": "object"}}]


def post(provider, *content, at=0.0, headers=HEADERS, **fields):
    """The status and the body of the answer to one request."""
    body = orjson.dumps(request(*content, **fields))
    reply = provider.handle(HttpRequest(method="POST", path="/v1/messages", headers=headers, body=body), at)
    return reply.status, orjson.loads(reply.chunks[0].data)


def on(id_):
    return {"type": "continue", "previous_message_id": id_}


def code(body):
    return body["error"]["details"]["error_code"]


def test_a_thread_goes_on_with_all_that_was_said_and_reads_it():
    provider = emulator(script=["One.", "Two."])
    _, first = post(provider, text(3000, "a"), thread=CREATE, system="Be brief.", tools=TOOLS)
    _, second = post(provider, text(40, "b"), thread=on(first["id"]), at=10.0)
    whole = provider.log[1].request
    assert [message["role"] for message in whole["messages"]] == ["user", "assistant", "user"]
    assert (whole["system"], whole["tools"]) == ("Be brief.", TOOLS)
    assert second["content"][0]["text"] == "Two."
    assert second["usage"]["cache_read_input_tokens"] == first["usage"]["cache_creation_input_tokens"] > 1000


def test_a_thread_is_refused_by_the_codes_that_the_sdk_recovers_from():
    provider = emulator()
    assert code(post(provider, text(40, "a"), thread=on("msg_unknown"))[1]) == "thread_not_found"
    _, first = post(provider, text(40, "a"), thread=CREATE)
    other = {**HEADERS, "x-api-key": "another"}
    assert code(post(provider, text(40, "b"), thread=on(first["id"]), headers=other)[1]) == "thread_not_found"
    again = post(provider, text(40, "b"), thread=on(first["id"]), tools=TOOLS)[1]
    assert code(again) == "thread_fingerprint_mismatch"
    assert post(provider, text(40, "b"), thread=on(first["id"]))[0] == 200
    assert code(post(provider, text(40, "c"), thread=on(first["id"]))[1]) == "thread_already_continued"


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("cache_control", {"type": "ephemeral"}),
        ("thinking", {"type": "adaptive"}),
        ("context_management", {"edits": []}),
    ],
)
def test_what_threads_do_not_support_is_named(field, given):
    status, body = post(emulator(), text(40, "a"), thread=CREATE, **{field: given})
    assert (status, code(body), body["error"]["details"]["unsupported"]) == (
        400,
        "thread_unsupported_request",
        [field],
    )


def test_a_thread_needs_its_beta_and_takes_no_markers():
    marked = {**text(40, "a"), "cache_control": {"type": "ephemeral"}}
    assert code(post(emulator(), marked, thread=CREATE)[1]) == "thread_unsupported_request"
    plain = {name: value for name, value in HEADERS.items() if name != "anthropic-beta"}
    assert post(emulator(), text(40, "a"), thread=CREATE, headers=plain)[0] == 400
    for odd in ({"type": "other"}, on(7), {"type": "continue"}, "x"):
        assert post(emulator(), text(40, "a"), thread=odd)[0] == 400


def test_the_sdk_starts_a_lost_thread_again():
    clock = ManualClock()
    provider = Emulator(script=["One.", "Two."], clock=clock)

    async def main():
        http = httpx2.AsyncClient(transport=EmulatedTransport(provider, clock))
        client = anthropic.AsyncAnthropic(base_url="http://emulated", api_key="k", max_retries=0, http_client=http)
        thread = client.beta.messages.thread(model="claude-sonnet-5", max_tokens=99, messages=[])
        await thread.send({"role": "user", "content": "Hi."})
        provider.reset()
        return (await thread.send({"role": "user", "content": "And?"})).content[0].text

    assert run(main, clock) == "Two."
    assert [entry.status for entry in provider.log] == [404, 200]

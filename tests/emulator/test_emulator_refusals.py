"""What the emulated Messages API refuses, check by check, with the exact texts where they are known."""

from __future__ import annotations

import pytest
from emulator_talk import MODEL, ask, assistant, blocks, calls, emulator, marked, request, results, text, user

from agentaccel_emulator.anthropic_limits import CHECKS
from agentaccel_emulator.exchange import HttpRequest

TOOL = {"name": "f", "input_schema": {"type": "object"}}
THOUGHT = {"type": "thinking", "thinking": "t", "signature": "s"}
NONE_ALLOWED = "Extra inputs are not permitted"
ORDER = (
    "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. "
    "Note that blocks are processed in the following order: `tools`, `system`, `messages`."
)
HELLO = text(40, "hello")


def without(name):
    """A request that lacks one field."""
    return {key: value for key, value in request(HELLO).items() if key != name}


def mark(**control):
    """A request whose one block has this cache_control."""
    return request({**HELLO, "cache_control": control})


def spoken(*messages, **fields):
    """A request of these messages."""
    return request(messages=list(messages), **fields)


REFUSED = [
    ("body_is_json", b"{", "The request body is not valid JSON: unexpected end of data: line 1 column 2 (char 1)"),
    (
        "body_is_json",
        b'{"a":' * 300 + b"1" + b"}" * 300,
        "The request body is not valid JSON: nested deeper than this emulator reads: line 1 column 1 (char 0)",
    ),
    ("body_is_object", b"[]", "Input should be a valid dictionary"),
    ("required_fields", without("model"), "model: Field required"),
    ("required_fields", without("max_tokens"), "max_tokens: Field required"),
    ("required_fields", without("messages"), "messages: Field required"),
    ("known_fields", request(HELLO, colour="red"), f"colour: {NONE_ALLOWED}"),
    ("field_types", request(HELLO, max_tokens="9"), "max_tokens: Input should be a valid integer"),
    ("field_types", request(HELLO, max_tokens=True), "max_tokens: Input should be a valid integer"),
    ("field_types", request(HELLO, tools={}), "tools: Input should be a valid list"),
    ("field_types", request(HELLO, system=3), "system: Input should be a valid list"),
    ("model_is_known", request(HELLO, model="claude-sonet-4-5"), "model: claude-sonet-4-5"),
    ("max_tokens_range", request(HELLO, max_tokens=-1), "max_tokens: Input should be greater than or equal to 0"),
    ("some_messages", spoken(), "messages: at least one message is required"),
    ("message_shapes", spoken("hi"), "messages.0: Input should be a valid dictionary"),
    ("message_shapes", spoken({"content": "x"}), "messages.0.role: Field required"),
    (
        "message_shapes",
        spoken({"role": "tool", "content": "x"}),
        "messages.0.role: Input should be 'user' or 'assistant'",
    ),
    ("message_shapes", spoken({"role": "user"}), "messages.0.content: Field required"),
    ("message_shapes", request({"text": "x"}), "messages.0.content.0.type: Field required"),
    ("message_shapes", request({"type": "text"}), "messages.0.content.0.text.text: Field required"),
    (
        "message_shapes",
        spoken(user(HELLO), assistant({"type": "thinking", "thinking": "t"})),
        "messages.1.content.0.thinking.signature: Field required",
    ),
    (
        "message_shapes",
        spoken(user(HELLO), assistant({"type": "tool_use", "id": "t", "name": "f", "input": "x"})),
        "messages.1.content.0.tool_use.input: Input should be a valid dictionary",
    ),
    ("system_shapes", request(HELLO, system=[{"type": "image"}]), "system.0.type: Input should be 'text'"),
    ("tool_shapes", request(HELLO, tools=[{"input_schema": {}}]), "tools.0.custom.name: Field required"),
    (
        "tool_shapes",
        request(HELLO, tools=[{"type": "hammer_20260101", "name": "f"}]),
        "tools.0: Input tag 'hammer_20260101' found using 'type' does not match any of the expected tags",
    ),
    ("tool_shapes", request(HELLO, tools=[{"name": "f"}]), "tools.0.custom.input_schema: Field required"),
    (
        "tool_shapes",
        request(HELLO, tools=[{"name": "f", "input_schema": "x"}]),
        "tools.0.custom.input_schema: Input should be a valid dictionary",
    ),
    (
        "tool_shapes",
        request(HELLO, tools=[{"name": "f", "input_schema": {}}]),
        "tools.0.custom.input_schema.type: Field required",
    ),
    (
        "tool_shapes",
        request(HELLO, tools=[{"name": "f", "input_schema": {"type": "array"}}]),
        "tools.0.custom.input_schema.type: Input should be 'object'",
    ),
    (
        "marker_shapes",
        spoken(user(HELLO), assistant(marked(THOUGHT), HELLO)),
        f"messages.1.content.0.thinking.cache_control: {NONE_ALLOWED}",
    ),
    (
        "marker_shapes",
        mark(type="persistent"),
        "messages.0.content.0.text.cache_control: Input tag 'persistent' found using 'type' does not match any of "
        "the expected tags: 'ephemeral'",
    ),
    (
        "marker_shapes",
        mark(ttl="5m"),
        "messages.0.content.0.text.cache_control: Unable to extract tag using discriminator 'type'",
    ),
    (
        "marker_shapes",
        mark(type="ephemeral", ttl="2h"),
        "messages.0.content.0.text.cache_control.ephemeral.ttl: Input should be '5m' or '1h'",
    ),
    (
        "marker_shapes",
        request(HELLO, system=[{**HELLO, "cache_control": {"type": "ephemeral", "scope": "global"}}]),
        f"system.0.cache_control.ephemeral.scope: {NONE_ALLOWED}",
    ),
    (
        "marker_shapes",
        request(HELLO, tools=[{**TOOL, "cache_control": {"type": "ephemeral", "ttl": "1d"}}]),
        "tools.0.custom.cache_control.ephemeral.ttl: Input should be '5m' or '1h'",
    ),
    (
        "marker_shapes",
        request(HELLO, cache_control={"type": "ephemeral", "ttl": "1d"}),
        "cache_control.ephemeral.ttl: Input should be '5m' or '1h'",
    ),
    (
        "diagnostics",
        request(HELLO, diagnostics={"previous_message_id": 3}),
        "diagnostics.previous_message_id: Input should be a valid string",
    ),
    ("tool_names", request(HELLO, tools=[TOOL, TOOL]), "tools: Tool names must be unique."),
    (
        "tool_choice",
        request(HELLO, tool_choice={"type": "any"}),
        "tool_choice: tool_choice may only be specified while providing tools.",
    ),
    (
        "tool_choice",
        request(HELLO, tools=[TOOL], tool_choice={"type": "tool", "name": "g"}),
        "Tool 'g' not found in provided tools",
    ),
    (
        "tool_choice",
        request(HELLO, tools=[TOOL], tool_choice={"type": "must"}),
        "tool_choice: Input tag 'must' found using 'type' does not match any of the expected tags: 'any', 'auto', "
        "'none', 'tool'",
    ),
    (
        "deferred_tools",
        request(HELLO, tools=[TOOL, marked({**TOOL, "name": "X", "defer_loading": True})]),
        "Tool 'X' cannot have both defer_loading=true and cache_control set. "
        "Tools with defer_loading cannot use prompt caching.",
    ),
    (
        "deferred_tools",
        request(HELLO, tools=[{**TOOL, "defer_loading": True}]),
        "At least one tool must have defer_loading=false. All tools cannot be deferred.",
    ),
    (
        "marker_count",
        request(*blocks(5, 1, 2, 3, 4, 5)),
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    ),
    (
        "marker_count",
        spoken(
            user(HELLO),
            assistant(*calls(1)),
            user(marked({**results(1)[0], "content": blocks(4, 1, 2, 3, 4, size=50)})),
        ),
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    ),
    (
        "marked_text",
        request(HELLO, marked({"type": "text", "text": ""})),
        "messages.0.content.1.text: cache_control cannot be set for empty text blocks",
    ),
    (
        "marker_order",
        request(*blocks(4, 1), text(40, "e", "1h")),
        f"messages.0.content.4.cache_control.ttl: {ORDER}",
    ),
    (
        "marker_order",
        request(HELLO, tools=[marked(TOOL)], system=[text(40, "s", "1h")]),
        f"system.0.cache_control.ttl: {ORDER}",
    ),
    (
        "marker_order",
        request(*blocks(4, 1), cache_control={"type": "ephemeral", "ttl": "1h"}),
        f"cache_control.ttl: {ORDER}",
    ),
    (
        "top_level_marker",
        request(*blocks(2, 2), cache_control={"type": "ephemeral", "ttl": "1h"}),
        "cache_control: automatic caching with ttl='1h' conflicts with the explicit ttl='5m' on the last cacheable "
        "block.",
    ),
    (
        "top_level_marker",
        request(*blocks(5, 1, 2, 3, 4), cache_control={"type": "ephemeral"}),
        "cache_control: automatic caching needs one of 4 cache_control slots, but 4 are already used.",
    ),
    ("first_role", spoken(assistant(HELLO)), 'messages: first message must use the "user" role'),
    (
        "system_role",
        spoken(user(HELLO), {"role": "system", "content": "x"}),
        "role 'system' is not supported on this model",
    ),
    (
        "system_role",
        spoken(user(HELLO), assistant(HELLO), {"role": "system", "content": "x"}, model="claude-opus-5"),
        "messages.2: a system message must follow a user message",
    ),
    (
        "system_role",
        spoken(user(HELLO), {"role": "system", "content": "x"}, user(HELLO), model="claude-opus-5"),
        "messages.1: a system message must be last or be followed by an assistant message",
    ),
    ("text_content", request({"type": "text", "text": ""}), "messages: text content blocks must be non-empty"),
    (
        "text_content",
        request({"type": "text", "text": " \n"}),
        "messages: text content blocks must contain non-whitespace text",
    ),
    (
        "text_content",
        request(HELLO, system=[{"type": "text", "text": ""}]),
        "system: text content blocks must be non-empty",
    ),
    (
        "text_content",
        spoken(user()),
        "messages.0: all messages must have non-empty content except for the optional final assistant message",
    ),
    (
        "text_content",
        spoken(user(HELLO), {"role": "assistant", "content": "so "}),
        "messages: final assistant content cannot end with trailing whitespace",
    ),
    (
        "tool_results",
        spoken(user(HELLO), assistant(*calls(2)), user(*results(1))),
        "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: t1. Each `tool_use` "
        "block must have a corresponding `tool_result` block in the next message.",
    ),
    (
        "tool_results",
        request(*results(1)),
        "messages.0.content.0: unexpected `tool_use_id` found in `tool_result` blocks: t0. Each `tool_result` block "
        "must have a corresponding `tool_use` block in the previous message.",
    ),
    (
        "call_ids",
        spoken(user(HELLO), assistant(*calls(1), *calls(1)), user(*results(1))),
        "messages: `tool_use` ids must be unique",
    ),
    (
        "call_ids",
        spoken(user(HELLO), assistant(*calls(1)), user(*results(1), *results(1))),
        "messages: each tool_use must have a single result. Found multiple `tool_result` blocks with id: t0",
    ),
    (
        "thinking",
        request(HELLO, thinking={"type": "enabled", "budget_tokens": 1000}),
        "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
    ),
    (
        "thinking",
        request(HELLO, thinking={"type": "enabled", "budget_tokens": 2000}),
        "`max_tokens` must be greater than `thinking.budget_tokens`.",
    ),
    (
        "thinking",
        request(
            HELLO,
            tools=[TOOL],
            tool_choice={"type": "any"},
            max_tokens=9000,
            thinking={"type": "enabled", "budget_tokens": 2000},
        ),
        "Thinking may not be enabled when tool_choice forces tool use.",
    ),
    ("pre_warm", request(HELLO, max_tokens=0, stream=True), "max_tokens: 0 is not supported with stream"),
    (
        "pre_warm",
        request(HELLO, max_tokens=0, thinking={"type": "enabled", "budget_tokens": 2000}),
        "max_tokens: 0 is not supported with thinking.type 'enabled'",
    ),
    (
        "pre_warm",
        request(HELLO, max_tokens=0, output_config={"format": {"type": "json_schema", "schema": {}}}),
        "max_tokens: 0 is not supported with output_config.format",
    ),
    (
        "pre_warm",
        request(HELLO, max_tokens=0, tools=[TOOL], tool_choice={"type": "any"}),
        "max_tokens: 0 is not supported with tool_choice 'any' or 'tool'",
    ),
    ("message_thread", request(HELLO, thread={"type": "create"}), "thread: Extra inputs are not permitted"),
    ("sampling", request(HELLO, temperature=2), "temperature: range: 0..1"),
    (
        "api_2026_10_21",
        request(HELLO, temperature=0.5),
        "temperature: sampling parameters are not supported in API version 2026-10-21",
    ),
    (
        "api_2026_10_21",
        spoken(user(HELLO), assistant({"type": "document", "source": {}})),
        "messages.1.content.0: document blocks are not permitted in assistant messages",
    ),
    (
        "api_2026_10_21",
        request({**HELLO, "citations": [{"type": "char_location"}]}),
        "messages.0.content.0.text.citations: citations are not permitted on user text blocks",
    ),
]


@pytest.mark.parametrize(("check", "body", "message"), REFUSED, ids=[f"{i}-{c}" for i, (c, _, _) in enumerate(REFUSED)])
def test_a_request_is_refused_by_the_check_that_concerns_it_with_its_text(check, body, message):
    """Mandated where the text is published or recorded; the module says which texts are invented."""
    provider = emulator()
    answer = ask(provider, body)
    assert (provider.log[0].check, answer.error) == (check, message)
    assert answer.status == (404 if check == "model_is_known" else 400)
    assert answer.json["request_id"] == answer.reply.headers["request-id"]
    assert answer.json["type"] == "error"
    kind = "not_found_error" if check == "model_is_known" else "invalid_request_error"
    assert answer.json["error"]["type"] == kind


def test_every_check_objects_in_some_test():
    """Ours: a check that no test can make object may be unable to."""
    tried = {check for check, _, _ in REFUSED} | {"authentication", "api_version"}
    assert tried == {check.name for check in CHECKS}


def test_no_key_and_a_wrong_key_are_refused():
    """Mandated; the text for a wrong key is recorded."""
    nameless = emulator().handle(HttpRequest(method="POST", path="/v1/messages", headers={}), 0)
    assert nameless.status == 401
    answer = ask(emulator(api_keys=frozenset({"good"})), request(HELLO), key="bad")
    assert (answer.status, answer.json["error"]["type"]) == (401, "authentication_error")
    assert answer.error == "invalid x-api-key"


def test_a_bearer_token_is_a_key():
    """Mandated: the SDK sends the key so since 2.0."""
    provider = emulator(api_keys=frozenset({"good"}))
    headers = {"Authorization": "Bearer good", "Anthropic-Version": "2023-06-01"}
    reply = provider.handle(HttpRequest(method="POST", path="/v1/messages?beta=true", headers=headers, body=b"{}"), 0)
    assert (reply.status, provider.log[0].check) == (400, "required_fields")


@pytest.mark.parametrize(
    ("version", "status"), [("2023-06-01", 200), ("2026-10-21", 200), ("2020-01-01", 400), ("", 400)]
)
def test_two_versions_of_the_api_are_spoken(version, status):
    """Mandated."""
    assert ask(emulator(), request(HELLO), version=version).status == status


def test_the_older_version_still_takes_sampling_parameters():
    """Mandated: the refusal came with 2026-10-21."""
    assert ask(emulator(), request(HELLO, temperature=0.5), version="2023-06-01").status == 200


@pytest.mark.parametrize(
    "body",
    [
        request(*blocks(4, 1, 2, 3, 4)),
        request(*blocks(4, 1, 2, 3), cache_control={"type": "ephemeral"}),
        request(text(40, "a", "1h"), text(40, "b", "5m")),
        request(text(40, "a", "1h"), cache_control={"type": "ephemeral", "ttl": "1h"}),
        request({**HELLO, "cache_control": None}),
        request(HELLO, tools=[TOOL, {"type": "bash_20250124", "name": "bash"}], tool_choice={"type": "any"}),
        spoken(user(HELLO), assistant(*calls(2)), user(results(1)[0]), user(results(1, 1)[0], HELLO)),
        spoken(user(HELLO), {"role": "assistant", "content": "So"}),
        spoken(user(HELLO), {"role": "system", "content": "x"}, assistant(HELLO), user(HELLO), model="claude-opus-5"),
        request(HELLO, system=""),
    ],
)
def test_what_is_legal_passes(body):
    """Mandated: the emulator must not be stricter than the documentation."""
    answer = ask(emulator(), body)
    assert answer.status == 200, answer.json


@pytest.mark.parametrize(("model", "status"), [("claude-opus-4-6", 400), ("claude-opus-5", 200)])
def test_legacy_bedrock_refuses_a_top_level_marker(model, status):
    """Mandated: automatic caching is available everywhere but there."""
    body = request(HELLO, model=model, cache_control={"type": "ephemeral"})
    assert ask(emulator(platform="bedrock"), body).status == status


def test_other_platforms_have_no_diagnostics():
    """Mandated: Claude API only."""
    answer = ask(emulator(platform="vertex"), request(HELLO, diagnostics={"previous_message_id": None}))
    assert answer.error == f"diagnostics: {NONE_ALLOWED}"


def test_a_refused_request_leaves_no_trace_in_the_cache_or_the_totals():
    """Chosen: a refusal is free."""
    provider = emulator()
    ask(provider, request(*blocks(10, 10), colour="red"))
    assert not provider.cache.entries
    assert provider.counters.total.requests == 0
    assert provider.counters.errors == {400: 1}


def test_a_check_can_be_left_out():
    """Ours: tests of the physics may send conversations that the real API would refuse."""
    assert ask(emulator(skipped_checks=frozenset({"tool_results"})), request(*results(1))).status == 200


def test_only_the_model_that_is_served_exists():
    """Ours: `model` narrows the emulator to one name."""
    provider = emulator(model="claude-haiku-5-5")
    assert ask(provider, request(HELLO, model="claude-haiku-5-5")).status == 200
    assert ask(provider, request(HELLO, model=MODEL)).status == 404

"""What OpenAI's APIs refuse, in their form: {"error": {"message", "type", "param", "code"}}."""

from __future__ import annotations

import json

import pytest
from openai_talk import MODEL, OLD, ask, chat, emulator, marked, message, part, responses

from agentaccel_emulator import Behaviour, Emulator, HttpRequest, RateLimits
from agentaccel_emulator.openai_shapes import CHECKS

Q = message("user", "q")
MARK = {"prompt_cache_breakpoint": {"mode": "explicit"}}


def schema(**of):
    return {"text": {"format": {"type": "json_schema", "name": "s", "schema": of}}}


ITSELF = {name: {"$ref": "#"} for name in "abcdefgh"}
"""Each value of eight is eight again: at the depth that is written, more than there is memory."""
FUNCTION = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
ASKING = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
}


def input_(**part_):
    """A Responses request with one user message of one part."""
    return responses(message("user", {"type": "input_text", "text": "q", **part_}))


CASES = [
    ("required_fields", {"model": MODEL}, "model", "Missing required parameter: 'messages'.", "/v1/chat/completions"),
    ("required_fields", {"input": "q"}, "", "Missing required parameter: 'model'.", ""),
    ("known_fields", chat(Q, cache_control={}), "cache_control", "Unknown parameter: 'cache_control'.", ""),
    ("field_types", chat(Q, stream="yes"), "stream", "Invalid type for 'stream': expected a boolean", ""),
    ("field_types", chat(Q, n=True), "n", "Invalid type for 'n': expected an integer, but got a boolean", ""),
    ("item_shapes", chat(), "messages", "Invalid 'messages': empty array.", ""),
    ("item_shapes", chat("q"), "messages[0]", "Invalid type for 'messages[0]'", ""),
    ("item_shapes", chat({"content": "q"}), "messages[0].role", "Missing required parameter: 'messages[0].role'.", ""),
    ("item_shapes", chat({"role": "robot", "content": "q"}), "messages[0].role", "Invalid value: 'robot'.", ""),
    ("item_shapes", chat({"role": "user"}), "messages[0].content", "Missing required parameter", ""),
    ("part_shapes", chat(message("user", {"text": "q"})), "messages[0].content[0].type", "Missing required", ""),
    ("part_shapes", chat(message("user", {"type": "poem"})), "messages[0].content[0].type", "Invalid value", ""),
    ("call_shapes", chat(Q, {**ASKING, "tool_calls": [{}]}), "messages[1].tool_calls[0].id", "Missing required", ""),
    ("call_shapes", chat({"role": "tool", "content": "r"}), "messages[0].tool_call_id", "Missing required", ""),
    (
        "call_shapes",
        responses({"type": "function_call", "call_id": "c1", "name": "f"}),
        "input[0].arguments",
        "Missing required parameter",
        "",
    ),
    (
        "call_shapes",
        responses({"type": "function_call_output", "call_id": "c1", "output": 1}),
        "input[0].output",
        "Invalid type for 'input[0].output': expected a string or an array, but got an integer instead.",
        "",
    ),
    ("tool_shapes", chat(Q, tools=[{"type": "function"}]), "tools[0].function", "Missing required parameter", ""),
    ("tool_shapes", responses(Q, tools=[{"type": "function"}]), "tools[0].name", "Missing required parameter", ""),
    ("foreign_markers", input_(cache_control={}), "input[0].content[0].cache_control", "Unknown parameter", ""),
    ("limits", chat(Q, n=10**18), "n", "Invalid 'n': integer above maximum value. Expected a value <= 128,", ""),
    ("limits", chat(Q, top_logprobs=21), "top_logprobs", "Invalid 'top_logprobs': integer above maximum value.", ""),
    (
        "output_format",
        responses(Q, **schema(type="array", items={}, minItems=10**10)),
        "text.format",
        "Invalid sch",
        "",
    ),
    ("output_format", responses(Q, **schema(type="object", properties=ITSELF)), "text.format", "Invalid schema", ""),
    ("stream_options", chat(Q, stream_options={}), "stream_options", "The 'stream_options' parameter is only", ""),
    ("limits", chat(Q, n=0), "n", "Invalid 'n': integer below minimum value.", ""),
    ("output_format", chat(Q, response_format={"type": "x"}), "response_format.type", "Invalid value: 'x'.", ""),
    (
        "output_format",
        responses(Q, text={"format": {"type": "json_schema"}}),
        "text.format.name",
        "Missing required parameter: 'text.format.name'.",
        "",
    ),
    ("chat_results", chat(Q, ASKING), "messages", "An assistant message with 'tool_calls' must be followed", ""),
    ("chat_results", chat(Q, ASKING, Q), "messages[2].role", "An assistant message with 'tool_calls' must", ""),
    (
        "chat_results",
        chat(Q, {"role": "tool", "tool_call_id": "c9", "content": "r"}),
        "messages[1].role",
        "Invalid parameter: messages with role 'tool' must be a response",
        "",
    ),
    ("one_history", {"model": MODEL}, "", 'One of "input" or "previous_response_id"', "/v1/responses"),
    (
        "one_history",
        responses(Q, previous_response_id="a", conversation="b"),
        "previous_response_id",
        "Mutually exclusive parameters",
        "",
    ),
    ("history", responses(Q, previous_response_id="resp_0"), "previous_response_id", "Previous response with id", ""),
    (
        "history",
        responses(Q, {"type": "function_call_output", "call_id": "c9", "output": "r"}),
        "input",
        "No tool call found for function call output with call_id c9.",
        "",
    ),
    (
        "history",
        responses(Q, {"type": "function_call", "call_id": "c9", "name": "f", "arguments": "{}"}),
        "input",
        "No tool output found for function call c9.",
        "",
    ),
]


@pytest.mark.parametrize(("check", "body", "param", "text", "path"), CASES)
def test_a_malformed_request_is_refused_with_the_place_of_its_fault(check, body, param, text, path):
    """The form of the texts is recorded; those of combinations are partly invented, and the code says which."""
    provider = emulator()
    answer = ask(provider, body, path=path)
    assert (answer.status, provider.log[-1].check) == (400, check)
    assert answer.error["message"].startswith(text)
    if param and check != "required_fields":
        assert answer.error["param"] == param
    assert set(answer.error) == {"message", "type", "param", "code"}
    assert provider.log[-1].usage is None


ON_CACHE = [
    ("cache_options", chat(Q, model=OLD, prompt_cache_options={}), "Unsupported parameter: 'prompt_cache_options'"),
    ("cache_options", chat(Q, prompt_cache_options={"mode": "auto"}), "Invalid value: 'auto'."),
    (
        "cache_options",
        chat(Q, prompt_cache_options={"ttl": "12h"}),
        "Invalid value: '12h'. Supported values are: '30m'",
    ),
    ("cache_options", chat(Q, prompt_cache_options={"prewarm": True}), "Unknown parameter: 'prompt_cache_options.pre"),
    ("cache_options", responses(Q, prompt_cache_options={"ttl": "5m"}), "Invalid value: '5m'. Supported values are: "),
    ("cache_options", responses(Q, prompt_cache_options={"prewarm": 1}), "Invalid type for 'prompt_cache_options.pre"),
    ("breakpoints", chat(message("user", marked(part(9))), model=OLD), "Unsupported parameter: 'messages[0].content"),
    ("breakpoints", chat(message("user", marked(part(9), "12h"))), "Invalid value: '12h'. Supported values are: '30m'"),
    ("breakpoints", chat(message("assistant", marked(part(9))), Q), "Unknown parameter: 'messages[0].content[0].prom"),
    ("breakpoints", chat({**Q, **MARK}), "Unknown parameter: 'messages[0].prompt_cache_breakpoint'."),
    ("breakpoints", chat(Q, tools=[{**FUNCTION, **MARK}]), "Unknown parameter: 'tools[0].prompt_cache_breakpoint'."),
    ("breakpoints", input_(prompt_cache_breakpoint={}), "Missing required parameter: 'input[0].content[0].prompt_ca"),
    ("breakpoints", input_(prompt_cache_breakpoint={"mode": "implicit"}), "Invalid value: 'implicit'."),
    ("breakpoints", input_(prompt_cache_breakpoint={"mode": "explicit", "x": 1}), "Unknown parameter: 'input[0].con"),
    ("breakpoints", input_(type="output_text", **MARK), "Unknown parameter: 'input[0].content[0].prompt_cache_break"),
    ("cache_key", chat(Q, prompt_cache_key="k" * 65), "Invalid 'prompt_cache_key': string too long."),
    ("retention", chat(Q, model="gpt-5.5", prompt_cache_retention="in_memory"), "Invalid value: 'in_memory'."),
    ("retention", chat(Q, prompt_cache_retention="in_memory"), "Invalid value: 'in_memory'."),
    ("retention", chat(Q, model=OLD, prompt_cache_retention="1h"), "Invalid value: '1h'."),
    ("allowed_tools", chat(Q, tool_choice={"type": "allowed_tools"}), "Missing or invalid 'tool_choice.mode'."),
    (
        "allowed_tools",
        responses(Q, tool_choice={"type": "allowed_tools", "mode": "auto", "tools": [{"type": "x", "name": "f"}]}),
        "Tool choice 'allowed_tools' names a tool that is not in 'tools'.",
    ),
]


@pytest.mark.parametrize(("check", "body", "text"), ON_CACHE)
def test_a_cache_field_that_does_not_belong_there_is_refused(check, body, text):
    """Mandated as 400; texts for older models are invented, the others have the form of recorded refusals."""
    provider = emulator()
    answer = ask(provider, body)
    assert (answer.status, provider.log[-1].check) == (400, check)
    assert answer.error["message"].startswith(text)


@pytest.mark.parametrize(
    "body",
    [
        chat(message("developer", marked(part(9)))),
        chat(message("user", marked({"type": "image_url", "image_url": {"url": "u"}}))),
        chat(message("user", *(marked(part(9)) for _ in range(9)))),
        chat(message("user", marked(part(9), "30m")), prompt_cache_options={"mode": "explicit", "ttl": "30m"}),
        chat(Q, prompt_cache_key="k" * 64, prompt_cache_retention="24h"),
        input_(prompt_cache_breakpoint={"mode": "explicit", "ttl": "12h"}),
        responses(Q, prompt_cache_options={"ttl": "12h", "prewarm": False, "comparison_response_id": None}),
        responses(Q, model=OLD, prompt_cache_retention="in_memory"),
    ],
)
def test_a_cache_field_that_belongs_there_is_taken(body):
    """Nine breakpoints are no error: the latest count."""
    assert ask(emulator(), body).status == 200


def test_a_breakpoint_may_stand_on_the_output_of_a_call():
    """Documented: inside the arrays of function_call_output.output."""
    call = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c1", "output": [marked(part(2000, "r", "responses"))]}
    provider = emulator()
    answer = ask(provider, responses(Q, call, output, prompt_cache_options={"mode": "explicit"}))
    assert answer.usage[1] > 2000


def test_an_unknown_model_is_said_so_in_the_form_of_each_api():
    """Recorded: 404 from Chat Completions, 400 from Responses."""
    provider = emulator()
    answers = [ask(provider, chat(Q, model="gpt-0")), ask(provider, responses(Q, model="gpt-0"))]
    assert [answer.status for answer in answers] == [404, 400]
    assert {answer.error["code"] for answer in answers} == {"model_not_found"}


def test_keys_are_wanted_and_judged():
    """Recorded: 401 with invalid_api_key."""
    provider = Emulator(behaviour=Behaviour(api_keys=frozenset({"good"})))
    body = json.dumps(chat(Q)).encode()
    replies = [
        provider.handle(HttpRequest(method="POST", path="/v1/chat/completions", headers=headers, body=body), 0.0)
        for headers in ({}, {"authorization": "Bearer bad"}, {"authorization": "Bearer good"}, {"api-key": "good"})
    ]
    assert [reply.status for reply in replies] == [401, 401, 200, 200]
    assert json.loads(replies[1].body)["error"]["code"] == "invalid_api_key"


def test_what_is_no_json_is_refused():
    """The first thing that is looked at behind the key."""
    request = HttpRequest(method="POST", path="/v1/responses", headers={"authorization": "Bearer k"}, body=b"{")
    reply = emulator().handle(request, 0.0)
    assert (reply.status, json.loads(reply.body)["error"]["type"]) == (400, "invalid_request_error")


def test_limits_are_told_and_kept():
    """Headers always; 429 with retry-after where they are enforced; tokens that were read count as well."""
    provider = emulator(limits=RateLimits(requests=60, input_tokens=3000, enforced=True))
    body = chat(message("user", part(2000)))
    first = ask(provider, body)
    assert first.reply.headers["x-ratelimit-limit-tokens"] == "3000"
    assert first.reply.headers["x-ratelimit-remaining-tokens"] == "1000"
    second, third = ask(provider, body, 1), ask(provider, body, 1.01)
    assert (second.status, second.read, third.status) == (200, 2000, 429)
    assert third.error["code"] == "rate_limit_exceeded"
    assert int(third.reply.headers["retry-after"]) >= 1


def test_every_reply_has_an_id_of_its_own():
    """x-request-id, on refusals as well."""
    provider = emulator()
    ids = [ask(provider, body).reply.headers["x-request-id"] for body in (chat(Q), chat(), chat(Q))]
    assert len(set(ids)) == 3


def test_a_check_can_be_left_out():
    """The knob is the same as for the Messages API."""
    lenient = emulator(skipped_checks=frozenset({"known_fields"}))
    assert ask(lenient, chat(Q, novelty=1)).status == 200


def test_every_check_has_a_name_of_its_own_and_a_case_here():
    """So that none is forgotten."""
    names = {check.name for checks in CHECKS.values() for check in checks}
    tested = {case[0] for case in (*CASES, *ON_CACHE)} | {"authentication", "body_is_json", "model_is_known"}
    assert names - tested == {"refused_fields"}
    for checks in CHECKS.values():
        assert len({check.name for check in checks}) == len(checks)


def test_a_body_that_is_nested_too_deeply_is_refused_and_breaks_nothing():
    """It could be read, and not be written again; the next request is answered."""
    provider, deep = emulator(), {}
    for _ in range(300):
        deep = {"a": deep}
    tool = {"type": "function", "function": {"name": "f", "parameters": deep}}
    answer = ask(provider, chat(Q, tools=[tool]))
    assert (answer.status, provider.log[-1].check) == (400, "body_is_json")
    assert ask(provider, chat(Q)).status == 200

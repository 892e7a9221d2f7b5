"""How replies look and when their bytes leave: JSON, streams, scripts, faults, diagnostics, limits, control."""

from __future__ import annotations

import json

import pytest
from emulator_talk import MODEL, ask, assistant, blocks, emulator, request, text, user

from agentaccel.clock import ManualClock
from agentaccel.errors import ConfigError, UnknownModel
from agentaccel_emulator import (
    Emulator,
    Fault,
    HttpRequest,
    RateLimits,
    Script,
    ScriptedReply,
    Timing,
    Tokenizer,
    Totals,
    call,
    say,
)
from agentaccel_emulator.anthropic_levels import canonical

HELLO = text(40, "hello")
EVERYTHING = [
    {
        "content": [
            {"type": "thinking", "thinking": "Let me think about this.", "signature": "sig"},
            {"type": "text", "text": "I shall search for it."},
            {"type": "tool_use", "id": "t1", "name": "search", "input": {"q": "caché", "n": [1, 2]}},
        ],
        "output_tokens": 60,
    }
]


def joined(events, index, field):
    """The pieces of one delta field of one block, put together."""
    deltas = (e["delta"] for e in events if e["type"] == "content_block_delta" and e["index"] == index)
    return "".join(delta[field] for delta in deltas if field in delta)


def test_a_json_reply_has_every_field_of_a_message():
    """Mandated by the SDK's types."""
    answer = ask(emulator(script=["Hi."]), request(*blocks(10, 10), HELLO))
    assert answer.json == {
        "id": "msg_emulated000000000001",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": [{"type": "text", "text": "Hi."}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "diagnostics": None,
        "usage": {
            "input_tokens": 40,
            "cache_creation_input_tokens": 2000,
            "cache_read_input_tokens": 0,
            "cache_creation": {"ephemeral_5m_input_tokens": 2000, "ephemeral_1h_input_tokens": 0},
            "output_tokens": 28,
            "output_tokens_details": {"thinking_tokens": 0},
            "server_tool_use": None,
            "service_tier": "standard",
            "speed": "standard",
            "inference_geo": "global",
        },
    }


def test_a_stream_has_the_recorded_order_of_events():
    """Mandated: as real streams were recorded, with the ping after the first block has begun."""
    answer = ask(emulator(script=["Hi."]), request(HELLO, stream=True))
    assert [event["type"] for event in answer.events] == [
        "message_start",
        "content_block_start",
        "ping",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert answer.reply.headers["content-type"].startswith("text/event-stream")


def test_a_stream_puts_together_what_a_json_reply_says():
    """Mandated: thinking, text and tool input arrive in pieces, the input as JSON text."""
    whole = ask(emulator(script=EVERYTHING), request(HELLO)).json
    events = ask(emulator(script=EVERYTHING), request(HELLO, stream=True)).events
    assert joined(events, 0, "thinking") == whole["content"][0]["thinking"]
    assert joined(events, 0, "signature") == "sig"
    assert joined(events, 1, "text") == whole["content"][1]["text"]
    assert json.loads(joined(events, 2, "partial_json")) == whole["content"][2]["input"]
    starts = [event["content_block"] for event in events if event["type"] == "content_block_start"]
    assert starts[2] == {"type": "tool_use", "id": "t1", "name": "search", "input": {}}
    assert events[-2]["delta"]["stop_reason"] == whole["stop_reason"] == "tool_use"


def test_a_streams_usage_is_split_as_documented():
    """Mandated: message_start has the lifetimes, message_delta has cumulative totals without them."""
    events = ask(emulator(script=EVERYTHING), request(*blocks(10, 10), stream=True)).events
    start, end = events[0]["message"]["usage"], events[-2]["usage"]
    assert start["cache_creation"] == {"ephemeral_5m_input_tokens": 2000, "ephemeral_1h_input_tokens": 0}
    assert start["output_tokens"] == 1
    assert end == {
        "input_tokens": 0,
        "cache_creation_input_tokens": 2000,
        "cache_read_input_tokens": 0,
        "output_tokens": 60,
        "output_tokens_details": {"thinking_tokens": 60},
        "server_tool_use": None,
    }


def test_a_json_reply_takes_as_long_as_a_stream():
    """Chosen: the first byte costs what was not read from the cache, the rest what is generated."""
    timing = Timing(base=0.5, prefill=1000, decode=10)
    script = [{"content": "x" * 64, "output_tokens": 20}]
    plain = ask(emulator(script=script, timing=timing), request(*blocks(10, 10))).reply
    stream = ask(emulator(script=script, timing=timing), request(*blocks(10, 10), stream=True)).reply
    assert (stream.first_byte, stream.seconds) == (2.5, 4.5)
    assert (plain.first_byte, plain.seconds) == (4.5, 4.5)
    assert [chunk.at for chunk in stream.chunks] == sorted(chunk.at for chunk in stream.chunks)


def test_a_prefix_that_is_read_costs_no_time():
    """Chosen: prefill is charged for uncached and written tokens alone."""
    provider = emulator(timing=Timing(base=0.5, prefill=1000, decode=1e9))
    first = ask(provider, request(*blocks(10, 10), stream=True), 0).reply.first_byte
    again = ask(provider, request(*blocks(11, 10), stream=True), 10).reply.first_byte
    assert (first, again) == (2.5, 0.7)


def test_counting_tokens_agrees_with_the_bill_and_touches_nothing():
    """Mandated: count_tokens takes the same body, ignores caching and is free."""
    provider = emulator(tokenizer=None)
    body = request(*blocks(10, 10), HELLO, cache_control={"type": "ephemeral"}, tools=[])
    bare = {name: value for name, value in body.items() if name != "max_tokens"}
    counted = ask(provider, bare, path="/v1/messages/count_tokens").json
    assert counted == {"input_tokens": sum(ask(provider, body, 10).usage)}
    assert ask(provider, bare, 20, path="/v1/messages/count_tokens").json == counted
    assert provider.counters.total.requests == 1


def test_models_count_differently_and_always_the_same():
    """Ours: nothing may rely on one figure of bytes per token."""
    totals = [
        [
            sum(ask(emulator(tokenizer=None), request(*blocks(10), model=model)).usage)
            for model in (MODEL, "claude-opus-5")
        ]
        for _ in range(2)
    ]
    assert totals[0] == totals[1]
    assert totals[0][0] != totals[0][1]


def test_tokens_add_up_block_by_block():
    """Ours: every block is rounded up on its own, so prefixes and totals agree to the token."""
    tokenizer = Tokenizer(bytes_per_token=3.7, hidden=11)
    content = [text(41 + i, str(i)) for i in range(9)]
    total = sum(ask(emulator(tokenizer=tokenizer), request(*content)).usage)
    assert total == 11 + sum(-(-len(canonical(block)) // 3.7) for block in content)


def test_replies_follow_the_turn_of_each_conversation():
    """Chosen: parallel sessions take no replies from each other, and a retry gets the same one."""
    provider = emulator(script=["one", "two"])
    first, second = request(HELLO), request(messages=[user(HELLO), assistant(HELLO), user(HELLO)])
    said = [ask(provider, body).json["content"][0]["text"] for body in (first, second, first, second)]
    assert said == ["one", "two", "one", "two"]


def test_replies_can_follow_the_order_of_arrival():
    """Ours."""
    provider = emulator(script={"replies": ["one", "two"], "order": "arrivals", "default": "none left"})
    assert [ask(provider, request(HELLO)).json["content"][0]["text"] for _ in range(3)] == ["one", "two", "none left"]


def test_a_conversation_can_have_replies_of_its_own():
    """Ours: told apart by the first user message."""
    script = {"replies": ["general"], "conversations": [{"match": "Paris", "replies": ["special"]}]}
    provider = emulator(script=script)
    assert ask(provider, request(text(60, "To Paris"))).json["content"][0]["text"] == "special"
    assert ask(provider, request(text(60, "To Rome"))).json["content"][0]["text"] == "general"


def test_a_function_can_answer():
    """Ours: it sees the request and the turn; None falls back on the default."""

    def answer(turn):
        return f"turn {turn.index} of {turn.request['model']}" if turn.index else None

    provider = emulator(script=answer)
    assert ask(provider, request(HELLO)).json["content"][0]["text"] == "OK."
    later = request(messages=[user(HELLO), assistant(HELLO), user(HELLO)])
    assert ask(provider, later).json["content"][0]["text"] == f"turn 1 of {MODEL}"


def test_a_tool_call_without_an_id_gets_the_same_one_in_every_run():
    """Ours: with and without acceleration the transcripts are equal."""
    bodies = [ask(emulator(script=[call("f", {"a": 1}, text="So:")]), request(HELLO)).json for _ in range(2)]
    assert bodies[0]["content"] == bodies[1]["content"]
    assert bodies[0]["content"][1] == {"type": "tool_use", "id": "toolu_emulated_1_1", "name": "f", "input": {"a": 1}}
    assert bodies[0]["stop_reason"] == "tool_use"


def test_a_reply_that_is_too_long_is_cut_off():
    """Mandated in outline: the stop reason is max_tokens; what is kept is chosen."""
    cut = ask(emulator(script=["word " * 100]), request(HELLO, max_tokens=50)).json
    assert cut["stop_reason"] == "max_tokens"
    assert cut["usage"]["output_tokens"] == 50
    assert 0 < len(cut["content"][0]["text"]) < 60


def test_a_script_file_is_json_or_json_lines(tmp_path):
    """Ours: the documented format."""
    lines = tmp_path / "script.jsonl"
    lines.write_text('"one"\n{"content": "two", "first_token": 3.0}\n', encoding="utf-8")
    whole = tmp_path / "script.json"
    whole.write_text('{"replies": [[{"type": "text", "text": "one"}]], "default": "no more"}', encoding="utf-8")
    second = request(messages=[user(HELLO), assistant(HELLO), user(HELLO)], stream=True)
    assert ask(emulator(script=str(lines)), second).reply.first_byte == 3.0
    assert ask(emulator(script=whole), request(HELLO)).json["content"] == [{"type": "text", "text": "one"}]
    assert ask(emulator(script=whole), {**second, "stream": False}).json["content"][0]["text"] == "no more"


@pytest.mark.parametrize(
    "script", [3, [3], {"answers": []}, {"order": "random"}, [{"content": "x", "tokens": 1}], "/no/such/file"]
)
def test_what_is_no_script_is_said_so_at_construction(script):
    """Ours: errors are raised where the mistake was made."""
    with pytest.raises(ConfigError):
        Emulator(script=script)


def test_a_script_of_typed_replies_needs_no_dictionaries():
    """Ours."""
    script = Script(replies=(say("one"), ScriptedReply(content=say("two").content, stop_reason="refusal")))
    later = request(messages=[user(HELLO), assistant(HELLO), user(HELLO)])
    assert ask(emulator(script=script), later).json["stop_reason"] == "refusal"


@pytest.mark.parametrize(
    ("kind", "error"), [("429", "rate_limit_error"), ("500", "api_error"), ("529", "overloaded_error")]
)
def test_a_fault_with_a_status_answers_once_with_its_headers(kind, error):
    """Ours: `at` counts calls from 1, and what follows goes through."""
    fault = {"kind": int(kind), "at": 2, "headers": {"retry-after-ms": "20", "x-should-retry": "true"}}
    provider = emulator(faults=[fault])
    statuses = [ask(provider, request(*blocks(10, 10)), now).status for now in (0, 10, 20)]
    assert statuses == [200, int(kind), 200]
    struck = provider.log[1]
    assert (struck.fault, struck.usage) == (kind, None)
    again = emulator(faults=[{**fault, "at": 1}])
    answer = ask(again, request(HELLO))
    assert answer.json["error"]["type"] == error
    assert answer.reply.headers["retry-after-ms"] == "20"
    assert not again.cache.entries


def test_faults_strike_by_text_by_chance_and_a_bounded_number_of_times():
    """Ours: equal in every run."""
    matched = emulator(faults=[Fault(kind="529", match="Paris", times=1)])
    assert [ask(matched, request(text(60, n))).status for n in ("Rome", "Paris", "Paris")] == [200, 529, 200]

    def struck(seed):
        provider = emulator(faults=[Fault(kind="500", probability=0.3, seed=seed)])
        return [ask(provider, request(HELLO)).status for _ in range(100)]

    assert struck(1) == struck(1)
    assert 10 < struck(1).count(500) < 50
    assert struck(1) != struck(2)


def test_a_slow_first_token_moves_every_byte_and_the_visibility_of_the_entry():
    """Ours: the documentation ties visibility to the first byte."""
    provider = emulator(faults=[Fault(kind="slow_first_token", seconds=8, at=1)])
    assert ask(provider, request(*blocks(10, 10), stream=True), 0).reply.first_byte == 9.0
    assert ask(provider, request(*blocks(10, 10)), 8.9).read == 0
    assert ask(provider, request(*blocks(10, 10)), 9.0).read == 2000


def test_a_cut_stream_ends_after_its_events_and_was_still_billed():
    """Ours: the provider has generated what the client did not see."""
    provider = emulator(faults=[Fault(kind="disconnect_mid_stream", after_events=4)], script=EVERYTHING)
    answer = ask(provider, request(*blocks(10, 10), stream=True))
    assert (len(answer.events), answer.reply.ending) == (4, "disconnect")
    assert provider.counters.total.write_5m == 2000


def test_a_stream_can_end_in_an_error_event():
    """Mandated: an overload in mid-stream is an error event inside a 200 reply."""
    provider = emulator(faults=[Fault(kind="overloaded_mid_stream", after_events=3)])
    events = ask(provider, request(HELLO, stream=True)).events
    assert events[-1] == {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    assert len(events) == 4


def test_a_stream_can_have_a_broken_event():
    """Ours."""
    provider = emulator(faults=[Fault(kind="malformed_sse", after_events=3)])
    with pytest.raises(json.JSONDecodeError):
        ask(provider, request(HELLO, stream=True)).events  # noqa: B018  # decoding is what fails


@pytest.mark.parametrize("stream", [False, True])
def test_usage_can_be_missing(stream):
    """Ours: some gateways leave it out."""
    body = ask(emulator(faults=[Fault(kind="missing_usage")]), request(HELLO, stream=stream)).reply.body
    assert b'"usage"' not in body


def test_a_timeout_sends_nothing():
    """Ours: the connection stays open and silent."""
    provider = emulator(faults=[Fault(kind="timeout")])
    reply = ask(provider, request(HELLO)).reply
    assert (reply.ending, reply.chunks, provider.log[0].status) == ("hang", (), 0)


@pytest.mark.parametrize("fault", [{"kind": "fire"}, {"kind": "429", "when": 3}, {"kind": "429", "probability": 2}])
def test_what_is_no_fault_is_said_so_at_construction(fault):
    """Ours."""
    with pytest.raises(ConfigError):
        Emulator(faults=[fault])


def asked(previous, **changes):
    """A request that asks for a diagnosis."""
    base = request(*blocks(5, 5), system="s", tools=[{"name": "f", "input_schema": {"type": "object"}}])
    return {**base, "diagnostics": {"previous_message_id": previous}, **changes}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"messages": [user(*blocks(5, 5)), assistant(HELLO), user(HELLO)]}, None),
        ({"messages": [user(*blocks(5, 2))]}, None),
        ({"model": "claude-opus-5"}, "model_changed"),
        ({"speed": "fast"}, "model_changed"),
        ({"tools": []}, "tools_changed"),
        ({"system": "t"}, "system_changed"),
        ({"system": "t", "model": "claude-opus-5"}, "model_changed"),
        ({"messages": [user(HELLO)]}, "messages_changed"),
        ({"thinking": {"type": "adaptive"}}, "unavailable"),
    ],
    ids=str,
)
def test_diagnostics_name_the_first_divergence(changes, reason):
    """Mandated: model, then tools and system, then messages; other parameters are unavailable."""
    provider = emulator()
    first = ask(provider, asked(None), 0).json
    assert first["diagnostics"] is None
    found = ask(provider, asked(first["id"], **changes), 10).json["diagnostics"]
    assert (found and found["cache_miss_reason"]["type"]) == reason
    if reason and reason.endswith("_changed"):
        assert 0 < found["cache_miss_reason"]["cache_missed_input_tokens"] <= sum(ask(emulator(), asked(None)).usage)


def test_diagnostics_know_only_messages_that_opted_in_of_the_same_workspace():
    """Mandated for the former; the latter follows from isolation."""
    provider = emulator()
    silent = ask(provider, request(HELLO), 0).json["id"]
    other = ask(provider, asked(None), 0, key="other").json["id"]
    for previous in (silent, other, "msg_unknown"):
        found = ask(provider, asked(previous), 10).json["diagnostics"]
        assert found == {"cache_miss_reason": {"type": "previous_message_not_found"}}


def test_diagnostics_stand_in_the_first_event_of_a_stream():
    """Mandated."""
    provider = emulator()
    events = ask(provider, asked("msg_unknown", stream=True)).events
    assert events[0]["message"]["diagnostics"] == {"cache_miss_reason": {"type": "previous_message_not_found"}}


@pytest.mark.parametrize(("model", "counted"), [(MODEL, 2200), ("claude-3-5-haiku", 4400)])
def test_tokens_that_are_read_do_not_count_to_the_rate_limit(model, counted):
    """Mandated, with the documented exception of Haiku 3.5."""
    provider = emulator(limits=RateLimits(input_tokens=6000))
    ask(provider, request(*blocks(11, 11), model=model), 0)
    reply = ask(provider, request(*blocks(11, 11), model=model), 1.0).reply
    assert reply.headers["anthropic-ratelimit-input-tokens-limit"] == "6000"
    flowed_in = 100
    assert int(reply.headers["anthropic-ratelimit-input-tokens-remaining"]) == 6000 - counted + flowed_in


def test_limits_refuse_when_they_are_enforced():
    """Mandated in outline: 429 with retry-after; the bucket refills continuously."""
    provider = emulator(limits=RateLimits(requests=2, enforced=True))
    replies = [ask(provider, request(HELLO), 0) for _ in range(3)]
    assert [reply.status for reply in replies] == [200, 200, 429]
    assert replies[2].reply.headers["retry-after"] == "31"
    assert ask(provider, request(HELLO), 31).status == 200


def test_the_counters_are_the_sum_of_all_usage():
    """Ours: a report is checked against these to the token."""
    provider = emulator(script=EVERYTHING)
    bodies = [request(*blocks(10, 10)), request(*blocks(12, 12)), request(HELLO, model="claude-opus-5", stream=True)]
    for now, body in enumerate(bodies):
        ask(provider, body, now * 10.0)
    ask(provider, b"{")
    assert provider.counters.total == Totals(requests=3, input=4440, read=2000, write_5m=2400, uncached=40, output=180)
    assert provider.counters.models[MODEL].input == 4400
    assert provider.counters.models["claude-opus-5"].uncached == 40
    logged = [entry.usage for entry in provider.log if entry.usage]
    assert sum(usage.input for usage in logged) == provider.counters.total.input


def control(provider, order):
    """Give an order on the control path."""
    reply = provider.handle(HttpRequest(method="POST", path="/_ctl", body=json.dumps(order).encode()))
    return reply.status, json.loads(reply.body)


def shown(provider, what):
    """Read a control path."""
    return json.loads(provider.handle(HttpRequest(method="GET", path=f"/_ctl/{what}")).body)


def test_the_control_path_moves_the_clock_resets_and_changes_script_and_faults():
    """Ours: for users in other languages."""
    provider = emulator(clock=ManualClock(now=100.0), script=["one"])
    ask(provider, request(*blocks(10, 10)), 100)
    assert control(provider, {"op": "advance", "seconds": 5}) == (200, {"now": 105.0})
    assert shown(provider, "counters")["total"]["write_5m"] == 2000
    assert shown(provider, "log")[0]["model"] == MODEL
    assert control(provider, {"op": "script", "script": ["two"]})[0] == 200
    assert ask(provider, request(HELLO)).json["content"][0]["text"] == "two"
    assert control(provider, {"op": "faults", "faults": [{"kind": "500"}]})[0] == 200
    assert ask(provider, request(HELLO)).status == 500
    assert control(provider, {"op": "reset"})[0] == 200
    assert shown(provider, "log") == []
    assert not provider.cache.entries


@pytest.mark.parametrize(
    "order",
    [{}, [], {"op": "advance"}, {"op": "advance", "seconds": -1}, {"op": "script", "script": 3}, {"op": "explode"}],
)
def test_a_wrong_order_is_refused(order):
    """Ours."""
    assert control(emulator(), order)[0] == 400


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/v1/messages", 405), ("POST", "/v1/chat", 404)])
def test_other_paths_and_methods_do_not_exist(method, path, status):
    """Chosen."""
    assert emulator().handle(HttpRequest(method=method, path=path)).status == status


def test_an_unknown_model_or_platform_is_said_so_at_construction():
    """Ours."""
    with pytest.raises(UnknownModel):
        Emulator(model="nobody-1")
    with pytest.raises(ConfigError):
        Emulator(platform="moon")


def test_a_whole_tool_loop_reads_what_the_turn_before_wrote():
    """Mandated in sum: the read of each turn is the whole prompt that the turn before had written."""
    provider = emulator(script=[call("f"), call("f"), "done"])
    messages, before = [user(text(1500, "go"))], 0
    for turn in range(3):
        body = request(messages=messages, cache_control={"type": "ephemeral"})
        answer = ask(provider, body, turn * 10.0)
        assert answer.read == before
        before = sum(answer.usage)
        content = answer.json["content"]
        messages = [*messages, {"role": "assistant", "content": content}]
        if answer.json["stop_reason"] == "tool_use":
            messages.append(user({"type": "tool_result", "tool_use_id": content[0]["id"], "content": "r"}))
    assert before > 1500

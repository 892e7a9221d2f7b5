"""A gateway in the manner of OpenRouter: markers on content for Claude, breakpoints of OpenAI's own, and its errors."""

from __future__ import annotations

import json

import openai
import pytest
from emulator_talk import BRISK, EXACT
from openai_talk import ask, chat, emulator, message

from agentaccel.errors import UnknownModel
from agentaccel_emulator import Behaviour, Emulator, Fault, call, serve

EXACTLY = Behaviour(tokenizer=EXACT, timing=BRISK)
CLAUDE = "anthropic/claude-sonnet-4.5"
PATH = "/api/v1/chat/completions"
TOOL = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}


def text(size, mark=True, name=""):
    """A text part, marked or not."""
    part = {"type": "text", "text": name + "x" * size}
    return {**part, "cache_control": {"type": "ephemeral"}} if mark else part


def sdk(server, **options):
    """The openai SDK, pointed at the gateway."""
    return openai.OpenAI(base_url=f"{server.url}/api/v1", api_key="key", **{"max_retries": 0, **options})


def test_markers_on_content_reach_the_cache_of_claude():
    """Reported as OpenAI reports: input inclusive, reads and writes in the details."""
    with serve(script=["Hello there."], behaviour=EXACTLY) as server, sdk(server) as client:
        usages = [
            client.chat.completions.create(
                model=CLAUDE, messages=[message("system", text(3000)), message("user", f"q{number}")]
            ).usage
            for number in range(2)
        ]
        details = [usage.prompt_tokens_details for usage in usages]
        assert details[0].cached_tokens == 0
        assert details[0].cache_write_tokens == details[1].cached_tokens > 3000
        assert usages[0].prompt_tokens == server.log[0].usage.input
        assert server.log[0].path == PATH
        assert server.log[0].model == CLAUDE


def test_without_markers_claude_keeps_nothing():
    """The upstream's physics."""
    provider = emulator()
    body = chat(message("user", "x" * 3000), model=CLAUDE)
    assert [ask(provider, body, at, path=PATH).read for at in (0, 10)] == [0, 0]


def test_a_tool_loop_through_the_gateway_streams_and_reads():
    """Calls come back in OpenAI's form, and their results may carry a marker."""
    script = [call("f", {"n": 1}, text="Let me see."), "Done."]
    with serve(script=script, behaviour=EXACTLY) as server, sdk(server) as client:
        messages = [message("system", text(3000)), message("user", "q")]
        options = {"model": CLAUDE, "tools": [TOOL], "stream_options": {"include_usage": True}}
        with client.chat.completions.stream(messages=messages, **options) as stream:
            first = stream.get_final_completion()
        asked = first.choices[0].message
        assert json.loads(asked.tool_calls[0].function.arguments) == {"n": 1}
        assert first.usage.prompt_tokens_details.cache_write_tokens > 3000
        messages += [
            asked.model_dump(exclude_none=True, include={"role", "content", "tool_calls"}),
            {"role": "tool", "tool_call_id": asked.tool_calls[0].id, "content": [text(50)]},
        ]
        for one in messages[2]["tool_calls"]:
            one.pop("index", None)
            one["function"].pop("parsed_arguments", None)
        done = client.chat.completions.create(messages=messages, model=CLAUDE, tools=[TOOL])
        assert done.choices[0].message.content == "Done."
        assert done.choices[0].finish_reason == "stop"
        assert done.usage.prompt_tokens_details.cached_tokens > 3000
        assert done.usage.prompt_tokens_details.cache_write_tokens > 50


def test_results_of_parallel_calls_become_one_turn():
    """Tool messages in a row are one user message upstream."""
    calls = [{"id": f"c{n}", "type": "function", "function": {"name": "f", "arguments": "{}"}} for n in range(2)]
    answers = [{"role": "tool", "tool_call_id": f"c{n}", "content": "r"} for n in range(2)]
    body = chat(message("user", "q"), {"role": "assistant", "content": "", "tool_calls": calls}, *answers, tools=[TOOL])
    provider = emulator()
    assert ask(provider, body | {"model": CLAUDE}, path=PATH).status == 200
    assert [one["role"] for one in provider.log[0].request["messages"]] == ["user", "assistant", "user"]


def test_five_markers_are_one_too_many_and_the_upstreams_refusal_is_passed_on():
    """The trap of adapters that copy a marker to each part."""
    provider = emulator()
    answer = ask(provider, chat(message("user", *(text(9) for _ in range(5))), model=CLAUDE), path=PATH)
    assert (answer.status, answer.error["code"], answer.error["message"]) == (400, 400, "Provider returned error")
    assert "A maximum of 4 blocks with cache_control may be provided. Found 5." in answer.error["metadata"]["raw"]
    assert provider.log[0].check == "marker_count"


def test_openais_models_keep_their_own_breakpoints():
    """Markers of another vendor are dropped on the way."""
    provider = emulator()
    body = chat(message("user", text(2000)), model="openai/gpt-6-sol", session_id="s")
    assert [ask(provider, body, at, path=PATH).usage for at in (0, 10)] == [(0, 2000, 0), (2000, 0, 0)]


def test_of_other_vendors_nothing_is_cached():
    """Nothing is known of them here."""
    provider = emulator()
    body = chat(message("user", text(2000)), model="google/gemini-3-pro")
    assert [ask(provider, body, at, path=PATH).read for at in (0, 10)] == [0, 0]


@pytest.mark.parametrize("model", [CLAUDE, "openai/gpt-6-sol"])
def test_an_unknown_model_of_a_known_vendor_is_refused(model):
    """By the upstream."""
    assert ask(emulator(), chat(message("user", "q"), model=model + "-x"), path=PATH).status in (400, 404)


def test_the_platform_puts_the_gateway_where_openai_would_be():
    """For clients that cannot be given another path."""
    provider = Emulator(platform="openrouter", behaviour=EXACTLY)
    assert ask(provider, chat(message("user", text(2000)), model=CLAUDE)).usage[1] > 2000


@pytest.mark.parametrize(
    ("platform", "model"),
    [("openrouter", "google/gemini-3-pro"), ("vllm", "my-llama"), ("api", "gpt-6-sol"), ("azure", "gpt-4o")],
)
def test_one_model_can_be_served_alone(platform, model):
    """A server of its own, and a gateway, take any name; vendors know theirs."""
    provider = Emulator(platform=platform, model=model, behaviour=EXACTLY)
    asked = [ask(provider, chat(message("user", "q"), model=name)).status for name in (model, "gpt-6-luna")]
    assert asked == [200, 404]
    with pytest.raises(UnknownModel):
        Emulator(platform="api", model="my-llama")
    claude = Emulator(model="claude-sonnet-5")
    assert ask(claude, chat(message("user", "q"), model="claude-sonnet-5")).status == 404


@pytest.mark.parametrize(("kind", "status"), [("429", 429), ("500", 500), ("529", 503)])
def test_status_faults_have_the_gateways_form(kind, status):
    """Message and a code that is a number."""
    provider = Emulator(faults=[Fault(kind=kind)], behaviour=EXACTLY)
    answer = ask(provider, chat(message("user", "q"), model=CLAUDE), path=PATH)
    assert (answer.status, answer.error["code"]) == (status, status)


@pytest.mark.parametrize("kind", ["disconnect_mid_stream", "overloaded_mid_stream", "malformed_sse"])
def test_streams_of_the_gateway_can_be_spoilt(kind):
    """As everywhere."""
    with serve(faults=[Fault(kind=kind)], behaviour=EXACTLY) as server, sdk(server) as client:
        create = client.chat.completions.create
        with (
            pytest.raises(Exception) as raised,  # noqa: PT011  # which one depends on the kind
            create(model=CLAUDE, messages=[message("user", "q")], stream=True) as stream,
        ):
            list(stream)
        assert isinstance(raised.value, (openai.APIError, json.JSONDecodeError))
        assert server.counters.total.requests == 1


def test_a_reply_of_the_gateway_may_lack_usage_and_be_late():
    """missing_usage and slow_first_token."""
    faults = [Fault(kind="missing_usage", at=1), Fault(kind="slow_first_token", seconds=9, at=2)]
    provider = Emulator(faults=faults, behaviour=EXACTLY)
    body = chat(message("user", "q"), model=CLAUDE)
    assert "usage" not in ask(provider, body, path=PATH).json
    assert ask(provider, body, 10, path=PATH).reply.first_byte == 10

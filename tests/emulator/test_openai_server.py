"""The real openai SDK in front of the emulator: both APIs, sync and async, whole and streamed, and Azure's client."""

from __future__ import annotations

import json

import anthropic
import openai
import pydantic
import pytest
from emulator_talk import BRISK, EXACT
from openai_talk import MODEL, marked, message, part

from agentaccel_emulator import Behaviour, Fault, call, serve

pytestmark = pytest.mark.many(2)

EXACTLY = Behaviour(tokenizer=EXACT, timing=BRISK)
CHAT_TOOL = {"type": "function", "function": {"name": "search", "parameters": {"type": "object", "properties": {}}}}
TOOL = {"type": "function", "name": "search", "parameters": {"type": "object", "properties": {}}, "strict": False}
QUESTION = message("user", part(2000, "Find out about caches. "))
TWO_CALLS = [
    {"type": "text", "text": "Let me look at two things."},
    {"type": "tool_use", "id": "one", "name": "search", "input": {"q": "a first thing"}},
    {"type": "tool_use", "id": "two", "name": "search", "input": {"q": "a second thing"}},
]


def sdk(server, **options):
    """A sync client of `server` that does not retry unless told to."""
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="key", **{"max_retries": 0, **options})


def async_sdk(server):
    """An async client of `server` that does not retry."""
    return openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="key", max_retries=0)


class Answer(pydantic.BaseModel):
    """What a structured reply holds."""

    title: str
    pages: int
    tags: list[str]


def test_the_sdk_sees_the_second_request_read_what_the_first_wrote():
    """Requests in a row take virtual time, so an entry is readable by the next one."""
    with serve(behaviour=EXACTLY) as server, sdk(server) as client:
        usages = [client.chat.completions.create(model=MODEL, messages=[QUESTION]).usage for _ in range(2)]
        assert [usage.prompt_tokens_details.cache_write_tokens for usage in usages] == [2000, 0]
        assert [usage.prompt_tokens_details.cached_tokens for usage in usages] == [0, 2000]
        server.clock.advance(1801)
        late = client.chat.completions.create(model=MODEL, messages=[QUESTION]).usage
        assert late.prompt_tokens_details.cached_tokens == 0


def test_a_tool_loop_over_chat_completions_reads_what_the_turn_before_wrote():
    """The script is the one that a Messages client would be answered from."""
    script = [TWO_CALLS, call("search", {"q": "more"}), "Done."]
    with serve(script=script, behaviour=EXACTLY) as server, sdk(server) as client:
        messages, reads = [QUESTION], []
        while True:
            reply = client.chat.completions.create(model=MODEL, messages=messages, tools=[CHAT_TOOL])
            reads.append(reply.usage.prompt_tokens_details.cached_tokens)
            answer = reply.choices[0].message
            if reply.choices[0].finish_reason != "tool_calls":
                break
            messages.append(answer.model_dump(exclude_none=True, include={"role", "content", "tool_calls"}))
            for one in answer.tool_calls:
                assert json.loads(one.function.arguments)["q"]
                messages.append({"role": "tool", "tool_call_id": one.id, "content": "a result"})
        assert answer.content == "Done."
        assert reads == [0, server.log[0].usage.input, server.log[1].usage.input]


def test_the_helper_of_chat_streams_ends_with_the_scripted_message():
    """Text and two calls in pieces; usage in a chunk of its own because it was asked for."""
    with serve(script=[TWO_CALLS], behaviour=EXACTLY) as server, sdk(server) as client:
        options = {"model": MODEL, "messages": [QUESTION], "tools": [CHAT_TOOL]}
        with client.chat.completions.stream(**options, stream_options={"include_usage": True}) as stream:
            kinds = {event.type for event in stream}
            final = stream.get_final_completion()
        assert {"content.delta", "tool_calls.function.arguments.delta", "tool_calls.function.arguments.done"} <= kinds
        said = final.choices[0].message
        assert said.content == "Let me look at two things."
        assert [(one.id, json.loads(one.function.arguments)["q"]) for one in said.tool_calls] == [
            ("one", "a first thing"),
            ("two", "a second thing"),
        ]
        assert final.choices[0].finish_reason == "tool_calls"
        assert final.usage.prompt_tokens == server.counters.total.input


def test_a_chat_stream_has_usage_only_where_it_is_asked_for():
    """Documented: the last chunk has no choices; without stream_options there is none."""
    with serve(script=["Hello there, how are you today?"], behaviour=EXACTLY) as server, sdk(server) as client:
        ask = {"model": MODEL, "messages": [QUESTION], "stream": True}
        with (
            client.chat.completions.create(**ask) as plain,
            client.chat.completions.create(**ask, stream_options={"include_usage": True}) as asked,
        ):
            without, with_usage = list(plain), list(asked)
        assert all(chunk.usage is None and chunk.choices for chunk in without)
        assert [chunk.usage is not None for chunk in with_usage] == [False] * (len(with_usage) - 1) + [True]
        assert with_usage[-1].choices == []
        text = "".join(chunk.choices[0].delta.content or "" for chunk in without)
        assert text == "Hello there, how are you today?"


def test_several_choices_are_written_and_billed_as_output():
    """n: the prompt is billed once, every choice is output; a script may write each one."""
    with serve(script=lambda turn: f"choice {turn.choice}", behaviour=EXACTLY) as server, sdk(server) as client:
        reply = client.chat.completions.create(model=MODEL, messages=[QUESTION], n=3)
        assert [choice.message.content for choice in reply.choices] == ["choice 0", "choice 1", "choice 2"]
        assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (2000, 3 * 33)
        with client.chat.completions.create(model=MODEL, messages=[QUESTION], n=2, stream=True) as stream:
            seen = [(one.index, one.delta.content) for chunk in stream for one in chunk.choices if one.delta.content]
        assert seen == [(0, "choice 0"), (1, "choice 1")]


@pytest.mark.slow
def test_structured_output_parses_even_where_the_script_has_no_json():
    """A model that is bound to a schema writes an instance of it; JSON of the script is left as it is."""
    scripted = '{"title": "T", "pages": 3, "tags": ["a"]}'
    with serve(script=["No JSON.", scripted], behaviour=EXACTLY) as server, sdk(server) as client:
        server.emulator.use_script({"replies": ["No JSON.", scripted], "order": "arrivals"})
        parsed = [
            client.chat.completions.parse(model=MODEL, messages=[QUESTION], response_format=Answer) for _ in range(2)
        ]
        assert [one.choices[0].message.parsed for one in parsed] == [
            Answer(title="", pages=0, tags=[]),
            Answer(title="T", pages=3, tags=["a"]),
        ]
        response = client.responses.parse(model=MODEL, input="q", text_format=Answer)
        assert response.output_parsed == Answer(title="", pages=0, tags=[])


@pytest.mark.slow
def test_a_reply_that_is_too_long_ends_with_length():
    """In each API's words."""
    with serve(script=["x" * 500], behaviour=EXACTLY) as server, sdk(server) as client:
        chat = client.chat.completions.create(model=MODEL, messages=[QUESTION], max_completion_tokens=100)
        assert chat.choices[0].finish_reason == "length"
        assert 0 < len(chat.choices[0].message.content) < 100
        response = client.responses.create(model=MODEL, input="q", max_output_tokens=100)
        assert (response.status, response.incomplete_details.reason) == ("incomplete", "max_output_tokens")
        assert response.output[0].status == "incomplete"
        with client.responses.create(model=MODEL, input="q", max_output_tokens=100, stream=True) as stream:
            events = list(stream)
        assert events[-1].type == "response.incomplete"
        assert events[-1].response.usage.output_tokens == 100


@pytest.mark.parametrize(("scripted", "sent"), [("\ud83d cut", "\ufffd cut"), ("\ud83d\ude9a", "\U0001f69a")])
def test_half_a_surrogate_pair_in_a_script_is_replaced_as_no_server_could_send_it(scripted, sent):
    with serve(script=[call("search", {"q": [scripted]}, text=scripted)], behaviour=EXACTLY) as server:
        with sdk(server) as client:
            chat = client.chat.completions.create(model=MODEL, messages=[QUESTION], tools=[CHAT_TOOL])
            said = chat.choices[0].message
            assert said.content == sent
            assert json.loads(said.tool_calls[0].function.arguments) == {"q": [sent]}
            response = client.responses.create(model=MODEL, input="q", tools=[TOOL])
            assert json.loads(response.output[-1].arguments) == {"q": [sent]}
        with anthropic.Anthropic(base_url=server.url, api_key="key", max_retries=0) as other:
            asked = [{"role": "user", "content": "q"}]
            reply = other.messages.create(model="claude-sonnet-5", max_tokens=1000, messages=asked)
            assert reply.content[-1].input == {"q": [sent]}


def test_the_events_of_a_response_come_in_the_documented_order():
    """Numbered, with reasoning, text and a call."""
    content = [
        {"type": "thinking", "thinking": "Hm."},
        {"type": "text", "text": "Let me see."},
        {"type": "tool_use", "name": "search", "input": {}},
    ]
    with serve(script=[content], behaviour=EXACTLY) as server, sdk(server) as client:
        with client.responses.create(model=MODEL, input="q", tools=[TOOL], stream=True) as stream:
            events = list(stream)
        assert [event.type.removeprefix("response.") for event in events] == [
            "created",
            "in_progress",
            "output_item.added",
            "reasoning_summary_part.added",
            "reasoning_summary_text.delta",
            "reasoning_summary_text.done",
            "reasoning_summary_part.done",
            "output_item.done",
            "output_item.added",
            "content_part.added",
            "output_text.delta",
            "output_text.done",
            "content_part.done",
            "output_item.done",
            "output_item.added",
            "function_call_arguments.delta",
            "function_call_arguments.done",
            "output_item.done",
            "completed",
        ]
        assert [event.sequence_number for event in events] == list(range(len(events)))
        final = events[-1].response
        assert [item.type for item in final.output] == ["reasoning", "message", "function_call"]
        assert final.usage.output_tokens_details.reasoning_tokens > 0


@pytest.mark.slow
def test_the_helper_of_response_streams_ends_with_the_scripted_items():
    """Its accumulator checks identities and order."""
    with serve(script=[TWO_CALLS], behaviour=EXACTLY) as server, sdk(server) as client:
        with client.responses.stream(model=MODEL, input="q", tools=[TOOL]) as stream:
            text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
            final = stream.get_final_response()
        assert text == final.output_text == "Let me look at two things."
        assert [item.call_id for item in final.output if item.type == "function_call"] == ["one", "two"]


def test_a_response_goes_on_from_another_one_and_bills_the_whole_context():
    """Server-held history: instructions are not carried over, everything else is, and is read."""
    with serve(script=[TWO_CALLS, "Done."], behaviour=EXACTLY) as server, sdk(server) as client:
        ask = {"model": MODEL, "tools": [TOOL]}
        first = client.responses.create(input=[{"role": "user", "content": "x" * 2000}], **ask)
        outputs = [{"type": "function_call_output", "call_id": name, "output": "a result"} for name in ("one", "two")]
        second = client.responses.create(previous_response_id=first.id, input=outputs, **ask)
        assert second.output_text == "Done."
        assert second.usage.input_tokens_details.cached_tokens == first.usage.input_tokens
        assert second.usage.input_tokens > first.usage.input_tokens + 16
        instructed = client.responses.create(previous_response_id=first.id, input=outputs, instructions="Hm.", **ask)
        assert instructed.usage.input_tokens == second.usage.input_tokens + 3
        assert instructed.usage.input_tokens_details.cached_tokens == 0


def test_history_that_the_client_sends_is_the_history_that_the_server_holds():
    """The output of a response, sent back as it came, gives the same prefix."""
    with serve(script=[TWO_CALLS, "Done."], behaviour=EXACTLY) as server, sdk(server) as client:
        ask = {"model": MODEL, "tools": [TOOL]}
        start = [{"role": "user", "content": "x" * 2000}]
        first = client.responses.create(input=start, **ask)
        outputs = [{"type": "function_call_output", "call_id": name, "output": "r"} for name in ("one", "two")]
        held = client.responses.create(previous_response_id=first.id, input=outputs, **ask)
        items = [item.model_dump(exclude_none=True) for item in first.output]
        sent = client.responses.create(input=[*start, *items, *outputs], **ask)
        assert sent.usage.input_tokens == held.usage.input_tokens
        assert sent.usage.input_tokens_details.cached_tokens == held.usage.input_tokens


def test_responses_and_conversations_are_held_looked_up_and_deleted():
    """What was sent with store: false is not."""
    with serve(script=["Hello."], behaviour=EXACTLY) as server, sdk(server) as client:
        kept = client.responses.create(model=MODEL, input="q")
        assert client.responses.retrieve(kept.id).output_text == "Hello."
        client.responses.delete(kept.id)
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(kept.id)
        lost = client.responses.create(model=MODEL, input="q", store=False)
        with pytest.raises(openai.BadRequestError, match="Previous response with id"):
            client.responses.create(model=MODEL, input="q", previous_response_id=lost.id)
        talk = client.conversations.create(items=[{"type": "message", "role": "user", "content": "x" * 2000}])
        ask = {"model": MODEL, "conversation": talk.id}
        usages = [client.responses.create(input=f"q{number}", **ask).usage for number in range(2)]
        assert usages[1].input_tokens_details.cached_tokens == usages[0].input_tokens == 2002
        assert client.conversations.retrieve(talk.id).id == talk.id
        client.conversations.delete(talk.id)
        with pytest.raises(openai.NotFoundError):
            client.responses.create(input="q", **ask)


def test_input_tokens_are_counted_at_no_charge():
    """responses.input_tokens.count."""
    with serve(behaviour=EXACTLY) as server, sdk(server) as client:
        assert client.responses.input_tokens.count(model=MODEL, input="x" * 123).input_tokens == 123
        assert server.counters.total.requests == 0


def test_a_response_tells_its_cache_options_and_why_it_missed():
    """comparison_response_id, 2.5."""
    with serve(behaviour=EXACTLY) as server, sdk(server) as client:
        item = [{"role": "user", "content": [marked(part(2000, "x", "responses"))]}]
        first = client.responses.create(model=MODEL, input=item, prompt_cache_key="k")

        def ask(**changes):
            options = {"comparison_response_id": changes.pop("compared", first.id)}
            body = {"model": MODEL, "input": item, "prompt_cache_key": "k", **changes}
            return client.responses.create(**body, prompt_cache_options=options).prompt_cache_diagnostics

        assert first.prompt_cache_options.mode == "implicit"
        assert first.prompt_cache_key == "k"
        assert ask().type == "cache_hit"
        other = [{"role": "user", "content": "y" * 1500}]
        reasons = {
            "model_changed": {"model": "gpt-6-luna"},
            "prompt_cache_key_changed": {"prompt_cache_key": "other"},
            "tools_changed": {"tools": [TOOL]},
            "text_format_changed": {"text": {"format": {"type": "json_object"}}},
            "reasoning_effort_changed": {"reasoning": {"effort": "high"}},
            "verbosity_changed": {"text": {"verbosity": "low"}},
            "service_tier_changed": {"service_tier": "flex"},
            "input_changed": {"input": other},
        }
        assert {reason: ask(**changes).reason for reason, changes in reasons.items()} == {one: one for one in reasons}
        assert ask(input=[{"role": "user", "content": "z"}], compared="resp_0").type == "comparison_response_not_found"


async def test_the_async_sdk_speaks_both_apis():
    """Whole and streamed, over one connection pool."""
    with serve(script=["Hello there, how are you?"], behaviour=EXACTLY) as server:
        async with async_sdk(server) as client:
            chat = await client.chat.completions.create(model=MODEL, messages=[QUESTION])
            async with client.chat.completions.stream(model=MODEL, messages=[QUESTION]) as stream:
                final = await stream.get_final_completion()
            response = await client.responses.create(model=MODEL, input="q")
            async with client.responses.stream(model=MODEL, input="q") as events:
                streamed = await events.get_final_response()
        texts = [chat.choices[0].message.content, final.choices[0].message.content]
        assert {*texts, response.output_text, streamed.output_text} == {"Hello there, how are you?"}


def test_azure_names_the_deployment_in_the_path():
    """An alias says which model a deployment is; a deployment that nobody knows is not found."""
    behaviour = Behaviour(tokenizer=EXACT, timing=BRISK, aliases={"mine": MODEL})
    with serve(behaviour=behaviour) as server:
        options = {"azure_endpoint": server.url, "api_key": "key", "max_retries": 0}
        with openai.AzureOpenAI(**options, api_version="2026-10-01") as client:
            replies = [client.chat.completions.create(model="mine", messages=[QUESTION]) for _ in range(2)]
            assert replies[1].usage.prompt_tokens_details.cached_tokens == 2000
            assert client.responses.create(model="mine", input="q").output_text == "OK."
            with pytest.raises(openai.NotFoundError) as refusal:
                client.chat.completions.create(model="theirs", messages=[QUESTION])
        assert refusal.value.code == "DeploymentNotFound"
        with openai.OpenAI(base_url=f"{server.url}/openai/v1", api_key="key", max_retries=0) as client:
            assert client.responses.create(model="mine", input="q").usage.input_tokens == 1
        assert server.log[0].path == "/openai/deployments/mine/chat/completions"


CONNECTION = (openai.APIConnectionError, openai.APITimeoutError)
BOTH = [
    ("chat", lambda client, **more: client.chat.completions.create(model=MODEL, messages=[QUESTION], **more)),
    ("responses", lambda client, **more: client.responses.create(model=MODEL, input="q", **more)),
]


@pytest.mark.parametrize(("_name", "create"), BOTH, ids=["chat", "responses"])
@pytest.mark.parametrize(
    ("kind", "error", "status"),
    [
        ("429", openai.RateLimitError, 429),
        ("500", openai.InternalServerError, 500),
        ("503", openai.InternalServerError, 503),
        ("529", openai.InternalServerError, 503),
    ],
)
def test_a_status_fault_is_the_sdks_error(_name, create, kind, error, status):
    """And its retry is answered."""
    faults = [Fault(kind=kind, at=1), Fault(kind=kind, at=2, headers={"retry-after-ms": "1"})]
    with serve(faults=faults, behaviour=EXACTLY) as server, sdk(server) as client:
        with pytest.raises(error) as raised:
            create(client)
        assert raised.value.status_code == status
        create(client.with_options(max_retries=1))
        assert [entry.status for entry in server.log] == [status, status, 200]


@pytest.mark.parametrize(("_name", "create"), BOTH, ids=["chat", "responses"])
def test_a_call_that_is_not_answered_times_out(_name, create):
    """The connection stays open until the client gives up."""
    with serve(faults=[Fault(kind="timeout")], behaviour=EXACTLY) as server, sdk(server, timeout=0.2) as client:
        with pytest.raises(openai.APITimeoutError):
            create(client)
        assert server.log[0].status == 0


@pytest.mark.parametrize(("_name", "create"), BOTH, ids=["chat", "responses"])
def test_a_stream_that_is_cut_is_an_error_and_is_billed(_name, create):
    """What was generated is written."""
    fault = Fault(kind="disconnect_mid_stream", after_events=2, at=1)
    with serve(faults=[fault], behaviour=EXACTLY) as server, sdk(server) as client:
        with pytest.raises((*CONNECTION, openai.APIError)), create(client, stream=True) as stream:
            list(stream)
        assert server.counters.total.requests == 1


@pytest.mark.parametrize(("_name", "create"), BOTH, ids=["chat", "responses"])
def test_a_broken_event_is_what_the_sdk_cannot_parse(_name, create):
    """A line of JSON that ends in the middle."""
    fault = Fault(kind="malformed_sse", after_events=1)
    with (
        serve(faults=[fault], behaviour=EXACTLY) as server,
        sdk(server) as client,
        pytest.raises(json.JSONDecodeError),
        create(client, stream=True) as stream,
    ):
        list(stream)


def test_an_error_inside_a_stream_is_told_in_each_apis_way():
    """Chat raises it; Responses has an event of type error."""
    fault = Fault(kind="overloaded_mid_stream", after_events=1)
    with serve(faults=[fault], behaviour=EXACTLY) as server, sdk(server) as client:
        ask = {"model": MODEL, "stream": True}
        with (
            pytest.raises(openai.APIError, match="overloaded"),
            client.chat.completions.create(messages=[QUESTION], **ask) as stream,
        ):
            list(stream)
        with client.responses.create(input="q", **ask) as stream:
            events = list(stream)
        assert events[-1].type == "error"


@pytest.mark.parametrize(("_name", "create"), BOTH, ids=["chat", "responses"])
def test_a_reply_may_lack_its_usage(_name, create):
    """Not zero: nothing."""
    with serve(faults=[Fault(kind="missing_usage")], behaviour=EXACTLY) as server, sdk(server) as client:
        assert create(client).usage is None
        assert server.log[0].usage is not None


def test_a_late_first_token_is_late_in_virtual_time():
    """Nobody waits."""
    fault = Fault(kind="slow_first_token", seconds=30)
    with serve(faults=[fault], behaviour=EXACTLY) as server, sdk(server) as client:
        before = server.clock.now
        client.chat.completions.create(model=MODEL, messages=[QUESTION])
        assert server.clock.now == before + 31

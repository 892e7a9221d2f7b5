"""OpenAI's cache before gpt-5.6, other vendors' and servers': steps, routes, retention (providers.md 2.3, 4)."""

from __future__ import annotations

import pytest
from openai_talk import OLD, ask, chat, emulator, marked, message, part, responses

from agentaccel.facts import table
from agentaccel_emulator import Tokenizer


def old(*messages, **fields):
    """A request to an older model."""
    return chat(*messages, model=OLD, **fields)


def ending(shared, total, name):
    """A user message of `total` tokens of which the first `shared` are the same for every name."""
    return message("user", {"type": "text", "text": "s" * shared + (name * total)[: total - shared]})


@pytest.mark.parametrize(
    ("shared", "read"), [(1023, 0), (1024, 1024), (1151, 1024), (1152, 1152), (1999, 1920), (2000, 1920)]
)
def test_reads_are_counted_in_steps_of_128_from_1024_on(shared, read):
    """Documented: cached_tokens grow in steps of 128, from 1,024 tokens on."""
    provider = emulator()
    ask(provider, old(ending(shared, 2000, "a")))
    assert ask(provider, old(ending(shared, 2000, "b")), 10).usage == (read, 0, 2000 - read)


def test_a_message_that_grows_is_read_up_to_where_it_grew():
    """No breakpoints: what is shared is read, wherever messages end."""
    provider = emulator()
    ask(provider, old(message("user", part(2048, "a"))))
    assert ask(provider, old(message("user", part(2048, "a"), part(500, "b"))), 10).read == 2048


def test_the_same_rules_with_another_question_are_read():
    """What breakpoints miss, an automatic cache finds."""
    provider = emulator()
    rules = message("developer", part(2048, "rules"))
    ask(provider, old(rules, message("user", "one")))
    assert ask(provider, old(rules, message("user", "two")), 10).read == 2048


def test_gpt_5_5_keeps_prefixes_in_steps_of_2048():
    """Documented; the count is a multiple of 128 all the same."""
    provider = emulator()
    body = chat(message("user", part(5000, "a")), model="gpt-5.5")
    assert [ask(provider, body, at).read for at in (0, 10)] == [0, 4096]


def test_hidden_system_tokens_make_the_count_fall_short():
    """Documented: matched boundary less hidden tokens, rounded down to 128."""
    provider = emulator(tokenizer=Tokenizer(bytes_per_token=1.0, hidden=50))
    body = old(message("user", part(2000, "a")))
    ask(provider, body)
    usage = ask(provider, body, 10).json["usage"]
    assert usage["prompt_tokens"] == 2000
    # 2,050 tokens with the hidden ones: a boundary at 2,048, of which 1,998 are visible.
    assert usage["prompt_tokens_details"]["cached_tokens"] == 1998 // 128 * 128


def test_writing_costs_nothing():
    """Documented: no write fee; the Responses API reports the field all the same, as its type demands."""
    provider = emulator()
    assert ask(provider, old(message("user", part(2000)))).usage == (0, 0, 2000)
    details = ask(provider, responses(message("user", part(2000, wire="r")), model=OLD)).json["usage"]
    assert details["input_tokens_details"] == {
        "cached_tokens": 0,
        "cache_write_tokens": 0,
        "cache_write_tokens_details": None,
    }
    assert provider.log[-1].usage.written == 0


def test_another_key_goes_to_another_machine():
    """Documented: the key is mixed into the hash that chooses the machine."""
    provider = emulator()
    body = old(message("user", part(2048)))
    reads = [ask(provider, body | {"prompt_cache_key": key}, at * 10.0).read for at, key in enumerate("aabb")]
    assert reads == [0, 2048, 0, 2048]


def test_a_prefix_that_is_sent_too_often_overflows_to_a_cold_machine():
    """Documented: about fifteen requests a minute per prefix and key; the minute after is as before."""
    provider = emulator()
    body = old(message("user", part(2048)), prompt_cache_key="k")
    reads = [ask(provider, body, at * 2.0).read for at in range(17)]
    assert reads == [0] + [2048] * 14 + [0, 2048]
    assert ask(provider, body, 120).read == 2048


def test_keys_spread_a_hot_prefix():
    """Documented: shard the key."""
    provider = emulator()
    body = old(message("user", part(2048)))
    reads = [ask(provider, body | {"prompt_cache_key": f"k{at % 2}"}, at * 2.0).read for at in range(24)]
    assert reads == [0, 0] + [2048] * 22


@pytest.mark.parametrize(
    ("retention", "seconds", "read"),
    [("in_memory", 600, 2048), ("in_memory", 601, 0), ("24h", 86_400, 2048), ("24h", 86_401, 0), (None, 86_400, 2048)],
)
def test_prefixes_live_as_long_as_they_are_retained(retention, seconds, read):
    """Documented: in memory ten idle minutes at most, or a day, which is the default."""
    provider = emulator()
    body = old(message("user", part(2048))) | ({"prompt_cache_retention": retention} if retention else {})
    ask(provider, body)
    assert ask(provider, body, seconds).read == read


def test_in_memory_prefixes_end_after_an_hour_however_often_they_are_used():
    """Documented: an hour at most."""
    provider = emulator(zero_retention=True)
    body = old(message("user", part(2048)))
    reads = [ask(provider, body, minutes * 60.0).read for minutes in range(0, 75, 5)]
    assert reads == [0] + [2048] * 12 + [0, 2048]


def test_a_prefix_is_readable_from_the_first_byte_of_its_writer():
    """As everywhere."""
    provider = emulator()
    body = old(message("user", part(2048)))
    assert [ask(provider, body, at).read for at in (0.0, 0.9, 1.0)] == [0, 0, 2048]


def test_tools_come_first_and_another_tool_breaks_everything():
    """Documented: routing and prefix begin with the tools."""
    provider = emulator()
    tools = [{"type": "function", "function": {"name": name}} for name in "fg"]
    body = old(message("user", part(2048)))
    ask(provider, body | {"tools": tools[:1]})
    assert ask(provider, body | {"tools": tools[:1]}, 10).read == 2048
    assert ask(provider, body | {"tools": tools}, 20).read == 0


@pytest.mark.parametrize(("platform", "read"), [("vllm", 1984), ("sglang", 1999), ("llamacpp", 1999)])
def test_a_server_of_ones_own_computes_the_last_token_anew(platform, read):
    """vLLM reuses whole blocks of sixteen, the others every token; none reads the last one."""
    provider = emulator(platform=platform)
    body = chat(message("user", part(2000)), model="my-llama")
    assert [ask(provider, body, at).read for at in (0, 10)] == [0, read]


def test_a_server_of_ones_own_reads_short_prefixes_and_for_as_long_as_it_likes():
    """No minimum beyond a block, no lifetime to speak of, and no key."""
    provider = emulator(platform="vllm")
    body = chat(message("user", part(40)), model="my-llama")
    assert [ask(provider, body | {"user": str(at)}, at).read for at in (0, 80_000)] == [0, 32]


def test_a_salt_isolates():
    """vLLM and SGLang: cache_salt."""
    provider = emulator(platform="vllm")
    body = chat(message("user", part(2000)), model="my-llama")
    assert [ask(provider, body | {"cache_salt": salt}, at * 10).read for at, salt in enumerate("aab")] == [0, 1984, 0]


def test_a_breakpoint_is_nothing_to_a_server_that_does_not_know_it():
    """An unknown field that is ignored is no part of the prompt."""
    provider = emulator(platform="vllm")
    bodies = [chat(message("user", one), model="m") for one in (part(2000), marked(part(2000)))]
    assert [ask(provider, body, at).read for at, body in ((0, bodies[0]), (10, bodies[1]))] == [0, 1984]


def test_some_vendors_have_to_be_asked_and_some_servers_can_be_told_not_to():
    """Mistral caches nothing without a key; llama.cpp's server takes cache_prompt: false."""
    mistral, llama = emulator(platform="mistral"), emulator(platform="llamacpp")
    body = chat(message("user", part(2000)), model="m")
    keyed = body | {"prompt_cache_key": "k"}
    assert [ask(mistral, one, at).read for at, one in ((0, body), (9, body), (18, keyed), (27, keyed))] == [
        0,
        0,
        0,
        2000,
    ]
    ask(llama, body)
    assert ask(llama, body | {"cache_prompt": False}, 9).read == 0


def test_a_server_of_which_nothing_is_known_caches_nothing():
    """The platform is called server."""
    provider = emulator(platform="server")
    body = chat(message("user", part(2000)), model="m")
    assert [ask(provider, body, at).json["usage"] for at in (0, 10)] == [
        {"prompt_tokens": 2000, "completion_tokens": 28, "total_tokens": 2028}
    ] * 2


@pytest.mark.parametrize(
    ("platform", "seen"),
    [
        ("vllm", {"prompt_tokens_details": {"cached_tokens": 1984}}),
        ("deepseek", {"prompt_cache_hit_tokens": 1984, "prompt_cache_miss_tokens": 16}),
        ("moonshot", {"cached_tokens": 2000}),
        ("sglang", {"prompt_tokens_details": {"cached_tokens": 1999}}),
    ],
)
def test_each_platform_reports_reads_in_its_own_way(platform, seen):
    """Recorded and read in sources: the details, DeepSeek's two counters, a field of usage itself."""
    provider = emulator(platform=platform)
    body = chat(message("user", part(2000)), model="m")
    ask(provider, body)
    usage = ask(provider, body, 10).json["usage"]
    assert usage | seen == usage


def streamed(platform, **options):
    """Where the chunks of a stream have usage: the number of choices, then Groq's field and the usual one."""
    body = chat(message("user", part(2000)), stream=True, **{"model": "anthropic/claude-sonnet-5", **options})
    events = ask(emulator(platform=platform), body).events
    return [
        (len(event["choices"]), "usage" in (event.get("x_groq") or {}), bool(event.get("usage")))
        for event in events
        if event.get("usage") or event.get("x_groq")
    ]


ASKED = {"stream_options": {"include_usage": True}}


@pytest.mark.parametrize(
    ("platform", "unasked", "asked"),
    [
        ("api", [], [(0, False, True)]),
        ("vllm", [], [(0, False, True)]),
        ("openrouter", [(1, False, True)], [(1, False, True)]),
        ("mistral", [(1, False, True)], [(1, False, True)]),
        ("together", [(0, False, True)], [(0, False, True)]),
        ("groq", [(1, True, False)], [(1, True, True), (0, False, True)]),
    ],
)
def test_streams_have_their_usage_where_each_platform_puts_it(platform, unasked, asked):
    """Recorded: some report it without being asked, with the finish reason, in the end, or in a field of their own."""
    fields = {"model": OLD} if platform == "api" else {}
    assert streamed(platform, **fields) == unasked
    assert streamed(platform, **ASKED, **fields) == asked


def test_a_gateway_streams_usage_in_its_own_way_whoever_stands_behind_it():
    """Recorded: with the finish reason, unasked, for Claude and for others."""
    for model in ("anthropic/claude-sonnet-5", "openai/gpt-6-sol", "google/gemini-3-pro"):
        assert streamed("openrouter", model=model) == [(1, False, True)], model


def test_the_facts_ask_nobody_for_usage_whose_streams_have_it_unasked():
    """One table says whom to ask, the other what was recorded of those who need not be: none of them is asked."""
    data = table("compatible")
    unasked = {name for name, habit in data["streams"].items() if habit not in ("asked", "W1")}
    assert unasked <= {name for name, row in data["platforms"].items() if row.get("usage_in_streams") is False}


def test_sglang_is_silent_where_nothing_was_read():
    """prompt_tokens_details is null then, which is not zero."""
    provider = emulator(platform="sglang")
    assert ask(provider, chat(message("user", "q"), model="m")).json["usage"]["prompt_tokens_details"] is None


def test_llama_cpp_tells_in_its_timings():
    """cache_n and prompt_n beside usage."""
    provider = emulator(platform="llamacpp")
    body = chat(message("user", part(2000)), model="m")
    ask(provider, body)
    timings = ask(provider, body, 10).json["timings"]
    assert (timings["cache_n"], timings["prompt_n"]) == (1999, 1)


@pytest.mark.parametrize("asked", [False, True])
def test_llama_cpp_tells_them_in_the_last_chunk_of_a_stream(asked):
    """Beside the usage where that is asked for (recorded with llama.cpp 0c1e570), else where it says how it ended."""
    options = {"stream_options": {"include_usage": True}} if asked else {}
    events = ask(emulator(platform="llamacpp"), chat(message("user", "q"), model="m", stream=True, **options)).events
    told = [event for event in events if "timings" in event]
    assert [bool(event.get("usage")) for event in told] == [asked]
    assert told == events[-1:]


@pytest.mark.parametrize(
    ("reports", "whole", "streamed"),
    [("cache", True, True), ("tokens", False, False), ("no_streams", False, None), ("nothing", None, None)],
)
def test_a_server_reports_as_much_as_it_is_told_to(reports, whole, streamed):
    """The cache works all the same: the log knows."""
    provider = emulator(platform="vllm", reports=reports)
    body = chat(message("user", part(2000)), model="m")
    ask(provider, body)
    usage = ask(provider, body, 10).json.get("usage")
    assert whole is (None if usage is None else "prompt_tokens_details" in usage)
    events = ask(provider, body | {"stream": True, "stream_options": {"include_usage": True}}, 20).events
    usage = next((event["usage"] for event in events if event.get("usage")), None)
    assert streamed is (None if usage is None else "prompt_tokens_details" in usage)
    assert provider.log[-1].usage.read == 1984


def test_a_strict_server_refuses_fields_that_it_does_not_know():
    """Most ignore them; some answer 400."""
    strict = emulator(platform="vllm", refused_fields=frozenset({"stream_options", "prompt_cache_key"}))
    body = chat(message("user", "q"), model="m", prompt_cache_key="k")
    assert ask(strict, body).status == 400
    assert ask(emulator(platform="vllm"), body | {"nonsense": 1}).status == 200

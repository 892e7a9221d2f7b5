"""OpenAI's cache from gpt-5.6 on: what is written, what is found again, and what breaks it (providers.md 2.1, 2.2)."""

from __future__ import annotations

import pytest
from openai_talk import MODEL, ask, chat, emulator, marked, message, part, responses

from agentaccel.facts import cache_facts, table
from agentaccel_emulator.openai_reading import seed_of

STATIC = message("developer", part(2000, "rules "))
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


def call(number=1):
    """An assistant message that calls a tool."""
    function = {"name": "f", "arguments": "{}"}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": f"c{number}", "type": "function", "function": function}],
    }


def result(number=1, size=100):
    """The result of `call`."""
    return {"role": "tool", "tool_call_id": f"c{number}", "content": "r" * size}


def test_the_guides_example_writes_twelve_thousand_and_then_three():
    """Documented: request 1 has 12,000 tokens and writes them; request 2 has 15,000, reads 12,000, writes 3,000."""
    provider = emulator()
    first = [message("user", part(12_000, "a"))]
    assert ask(provider, chat(*first)).usage == (0, 12_000, 0)
    assert ask(provider, chat(*first, message("user", part(3000, "b"))), 10).usage == (12_000, 3000, 0)


def test_a_conversation_that_is_appended_to_reads_all_that_the_turn_before_wrote():
    """Documented: the implicit breakpoint stands at the end of the latest eligible message."""
    provider = emulator()
    messages, written = [STATIC, message("user", part(100, "q"))], 0
    for turn in range(4):
        read, wrote, uncached = ask(provider, chat(*messages, tools=[TOOL]), turn * 10.0).usage
        assert (read, uncached) == (written, 0)
        written += wrote
        messages += [call(turn), result(turn)]


def test_the_same_rules_with_another_question_miss_in_implicit_mode():
    """Trap 1: only the end of the user message was written."""
    provider = emulator()
    ask(provider, chat(STATIC, message("user", part(100, "one"))))
    assert ask(provider, chat(STATIC, message("user", part(100, "two"))), 10).usage == (0, 2100, 0)


def test_a_breakpoint_behind_the_rules_is_read_by_another_question():
    """Trap 1, mended: the static part is written on its own."""
    provider = emulator()
    rules = message("developer", marked(part(2000, "rules ")))
    ask(provider, chat(rules, message("user", part(100, "one"))))
    assert ask(provider, chat(rules, message("user", part(100, "two"))), 10).usage == (2000, 100, 0)


def test_a_message_that_grows_is_not_found_again():
    """Trap 2: append a message instead."""
    provider = emulator()
    ask(provider, chat(message("user", part(2000, "a"))))
    assert ask(provider, chat(message("user", part(2000, "a"), part(100, "b"))), 10).read == 0
    assert ask(provider, chat(message("user", part(2000, "a")), message("user", part(100, "b"))), 20).read == 2000


@pytest.mark.parametrize(("shared", "read"), [(False, 0), (True, 2000)])
def test_explicit_mode_does_not_find_what_implicit_mode_wrote(shared, read):
    """Trap 3, read literally; the knob is for the reading by which two breakpoints at one place share an entry."""
    provider = emulator(explicit_sees_implicit=shared)
    ask(provider, chat(message("user", part(2000, "a"))))
    switched = chat(message("user", marked(part(2000, "a"))), prompt_cache_options={"mode": "explicit"})
    assert ask(provider, switched, 10).read == read


@pytest.mark.parametrize(("shared", "read"), [(False, 0), (True, 2000)])
def test_implicit_mode_may_not_find_where_no_breakpoint_stands_what_one_wrote(shared, read):
    """Nobody says that it does."""
    provider = emulator(implicit_sees_explicit=shared)
    plain, explicit = chat(message("user", part(2000, "a"))), {"prompt_cache_options": {"mode": "explicit"}}
    ask(provider, chat(message("user", marked(part(2000, "a")))) | explicit)
    assert ask(provider, plain, 10).read == read
    assert ask(provider, plain, 20).read == 2000, "what it has written itself it finds"


def test_implicit_mode_finds_what_explicit_mode_wrote():
    """Explicit breakpoints are looked up in both modes."""
    provider = emulator()
    body = chat(message("user", marked(part(2000, "a"))))
    ask(provider, body | {"prompt_cache_options": {"mode": "explicit"}})
    assert ask(provider, body, 10).usage == (2000, 0, 0)


def test_a_volatile_tail_is_paid_for_and_never_read():
    """Trap 4: a state dump that is replaced each turn is written at a premium, unless explicit mode spares it."""
    provider = emulator()
    stable = message("user", marked(part(2000, "stable")))
    for turn, options in enumerate(({}, {}, {"prompt_cache_options": {"mode": "explicit"}})):
        usage = ask(provider, chat(stable, message("user", part(500, f"state {turn}")), **options), turn * 10.0).usage
        assert usage == [(0, 2500, 0), (2000, 500, 0), (2000, 0, 500)][turn]


def test_explicit_mode_without_a_breakpoint_neither_reads_nor_writes():
    """Trap 5: one-shot calls save the premium."""
    provider = emulator()
    body = chat(message("user", part(2000, "a")))
    ask(provider, body)
    assert ask(provider, body | {"prompt_cache_options": {"mode": "explicit"}}, 10).usage == (0, 0, 2000)


@pytest.mark.parametrize(("size", "written"), [(1023, 0), (1024, 1024)])
def test_a_prefix_is_written_from_the_minimum_on(size, written):
    """Documented: 1,024 tokens up to the boundary; below it nothing happens."""
    assert ask(emulator(), chat(message("user", part(size)))).usage[1] == written


def test_hidden_tokens_neither_count_nor_make_up_the_minimum():
    """Documented: visible input tokens."""
    from agentaccel_emulator import Tokenizer

    provider = emulator(tokenizer=Tokenizer(bytes_per_token=1.0, hidden=100))
    assert ask(provider, chat(message("user", part(1000)))).usage == (0, 0, 1000)


@pytest.mark.parametrize(("mode", "found"), [("implicit", 3), ("explicit", 4)])
def test_the_latest_breakpoints_are_written_three_beside_the_implicit_one(mode, found):
    """Documented: at most four are written, and more are no error."""
    provider = emulator()
    parts = [marked(part(1200, f"{number} ")) for number in range(6)]
    options = {"prompt_cache_options": {"mode": mode}}
    ask(provider, chat(message("developer", *parts), message("user", "q"), **options))
    lengths = [length for length in range(1, 7) if _reads(provider, parts[:length]) == 1200 * length]
    assert lengths == list(range(7 - found, 7))


def _reads(provider, parts):
    explicit = {"prompt_cache_options": {"mode": "explicit"}}
    marks = [*({**one, "prompt_cache_breakpoint": None} for one in parts[:-1]), parts[-1]]
    bare = [{key: value for key, value in one.items() if value is not None} for one in marks]
    body = chat(message("developer", *bare, part(9, "other")), **explicit)
    # A reader that writes nothing: what it looks up is the last breakpoint alone.
    return ask(provider, body, 10).read


@pytest.mark.parametrize(("gap", "read"), [(20, 1500), (21, 0)])
def test_twenty_earlier_message_endings_are_looked_up(gap, read):
    """Documented for implicit mode; the latest eligible message counts on its own."""
    provider = emulator()
    ask(provider, chat(message("user", part(1500, "a"))))
    later = [message("user", part(10, f"{number} ")) for number in range(gap)]
    assert ask(provider, chat(message("user", part(1500, "a")), *later), 10).read == read


def test_explicit_breakpoints_are_looked_up_at_the_front_and_at_the_end():
    """Documented: the first two and the latest fifty; what lies between is not looked at."""
    rules = table("openai")["generations"]["breakpoints"]
    assert (rules["lookup_first"], rules["lookup_latest"]) == (2, 50)
    explicit = {"prompt_cache_options": {"mode": "explicit"}}
    parts = [part(1100, f"{number} ") for number in range(60)]
    provider = emulator()
    for written in (2, 3):
        ask(provider, chat(message("user", *parts[: written - 1], marked(parts[written - 1])), **explicit), 0)
    marks = [marked(one) for one in parts]
    assert ask(provider, chat(message("user", *marks), **explicit), 10).read == 2200


def test_a_later_developer_message_is_no_boundary():
    """Documented for implicit mode."""
    provider = emulator()
    front = [message("user", part(1500, "a")), message("assistant", "b")]
    ask(provider, chat(*front, message("developer", part(100, "c"))))
    log = provider.log[-1]
    assert log.markers == ((0, "30m"),)


def test_the_first_developer_messages_are_a_boundary():
    """Documented: the end of the initial developer block is written as the latest eligible message, and looked up."""
    provider = emulator()
    assert ask(provider, chat(STATIC)).usage == (0, 2000, 0)
    more = [message("user", part(10, f"{number} ")) for number in range(30)]
    assert ask(provider, chat(STATIC, *more), 10).read == 2000


def test_a_group_of_tool_results_ends_at_its_last():
    """Documented: the last tool output in a consecutive group."""
    provider = emulator()
    calls = call(1)
    calls["tool_calls"] += call(2)["tool_calls"]
    messages = [message("user", part(1500)), calls, result(1), result(2)]
    ask(provider, chat(*messages, tools=[TOOL]))
    leaves = provider.log[-1].leaves
    assert provider.log[-1].markers == ((leaves - 1, "30m"),)


@pytest.mark.parametrize(("seconds", "read"), [(1800, 2000), (1801, 0)])
def test_an_entry_lives_half_an_hour_from_the_start_of_its_writer(seconds, read):
    """Documented: at least thirty minutes; the emulator ends it on the second."""
    provider = emulator()
    body = chat(message("user", part(2000)))
    ask(provider, body)
    assert ask(provider, body, seconds).read == read


def test_a_read_re_arms_an_entry_at_no_charge():
    """Documented: thirty minutes after the last write or reuse."""
    provider = emulator()
    body = chat(message("user", part(2000)))
    assert [ask(provider, body, at).usage for at in (0, 1700, 3400)] == [(0, 2000, 0), (2000, 0, 0), (2000, 0, 0)]


def test_twelve_hours_are_billed_apart_on_the_responses_api():
    """Documented: cache_write_tokens_details by lifetime; a token is billed for the longest that it has to live for."""
    provider = emulator()
    item = message("user", marked(part(2000, "a", "responses"), "12h"))
    body = responses(item, message("user", part(100, "b", "responses")))
    details = ask(provider, body).json["usage"]["input_tokens_details"]
    assert details["cache_write_tokens"] == 2100
    assert details["cache_write_tokens_details"] == {"ttl_12h_tokens": 2000, "ttl_30m_tokens": 100}
    assert ask(provider, body, 12 * 3600).usage == (2000, 100, 0)
    assert provider.counters.total.write_12h == 2000


def test_an_entry_is_readable_from_the_first_byte_of_its_writer():
    """Two requests in flight at once both pay."""
    provider = emulator()
    body = chat(message("user", part(2000)))
    assert [ask(provider, body, at).read for at in (0.0, 0.9, 1.0)] == [0, 0, 2000]


def test_two_keys_share_nothing():
    """Documented since 5.6: prompt_cache_key partitions."""
    provider = emulator()
    body = chat(message("user", part(2000)))
    reads = [ask(provider, body | {"prompt_cache_key": key}, at * 10).read for at, key in enumerate("aabba")]
    assert reads == [0, 2000, 0, 2000, 2000]


def test_two_organizations_share_nothing():
    """Documented: no sharing across organizations."""
    provider = emulator()
    body = chat(message("user", part(2000)))
    assert [ask(provider, body, at * 10, key=key).read for at, key in enumerate("aab")] == [0, 2000, 0]


BASE = {"tools": [TOOL], "service_tier": "auto", "verbosity": "medium", "reasoning_effort": "low"}


@pytest.mark.parametrize(
    "changes",
    [
        {"model": "gpt-6-luna"},
        {"tools": [TOOL, {"type": "function", "function": {"name": "g"}}]},
        {"parallel_tool_calls": False},
        {"response_format": {"type": "json_object"}},
        {"reasoning_effort": "high"},
        {"verbosity": "low"},
        {"service_tier": "flex"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_what_is_rendered_ahead_of_the_prompt_breaks_it_all(changes):
    """Documented, 2.2."""
    provider = emulator()
    body = chat(message("user", part(2000)), **BASE)
    ask(provider, body)
    assert ask(provider, body | changes, 10).read == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"tool_choice": "none"},
        {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}},
        {"max_completion_tokens": 5},
        {"temperature": 0.5},
        {"metadata": {"a": "b"}},
        {"user": "me"},
        {"service_tier": "default"},
        {"parallel_tool_calls": True},
        {"stream": True, "stream_options": {"include_usage": True}},
    ],
    ids=str,
)
def test_what_is_not_rendered_breaks_nothing(changes):
    """Documented for tool_choice; the others follow from what a prompt is."""
    provider = emulator()
    body = chat(message("user", part(2000)), **BASE)
    ask(provider, body)
    ask(provider, body | changes, 10)
    assert provider.log[-1].usage.read > 2000


def test_the_detail_of_an_image_breaks_the_prompt_from_there_on():
    """Documented: images and their detail."""
    provider = emulator()

    def body(detail):
        image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA", "detail": detail}}
        return chat(message("user", part(2000)), message("user", image))

    ask(provider, body("low"))
    assert ask(provider, body("high"), 10).read == 0
    assert ask(provider, body("low"), 20).read == 2000 + cache_facts(MODEL, provider="openai", wire="chat").image_tokens


def test_instructions_are_part_of_the_prompt_and_a_deferred_tool_is_not():
    """Documented: instructions break it; tools that are loaded later stand outside the prefix."""
    provider = emulator()
    tool = {"type": "function", "name": "f", "parameters": {}, "defer_loading": True}
    body = responses(message("user", part(2000, "q", "responses")), instructions="Be brief.")
    ask(provider, body)
    assert ask(provider, body | {"tools": [tool]}, 10).read == 2009
    assert ask(provider, body | {"instructions": "Be long."}, 20).read == 0


def test_prewarming_writes_and_says_nothing():
    """Documented for the Responses API: no output, billed as a write."""
    provider = emulator(script=["Never said.", "Said."])
    body = responses(message("user", part(2000, "q", "responses")))
    warm = ask(provider, body | {"prompt_cache_options": {"prewarm": True}})
    assert warm.usage == (0, 2000, 0)
    assert (warm.json["output"], warm.json["usage"]["output_tokens"], warm.json["status"]) == ([], 0, "completed")
    assert ask(provider, body, 10).read == 2000


def test_both_apis_keep_their_own_entries():
    """A choice: nothing is documented of a prompt that is sent to one API and read by the other."""
    provider = emulator()
    ask(provider, chat(message("user", part(2000))))
    assert ask(provider, responses(message("user", part(2000, wire="responses"))), 10).read == 0


def test_eviction_takes_entries_before_their_time():
    """The knob of the Anthropic side holds here as well."""
    provider = emulator(eviction=1.0, seed=3)
    body = chat(message("user", part(2000)))
    ask(provider, body)
    assert ask(provider, body, 1799).read == 0


@pytest.mark.parametrize("provider", ["openai", "compatible"])
def test_the_facts_and_the_emulator_agree_on_what_breaks_a_prompt(provider):
    """Two tables, written apart: neither may hold a field for harmless that the other renders."""
    read_apart = {"model", "tools", "prompt_cache_key", "cache_salt", "session_id"}
    for name, levels in table(provider)["parameters"].items():
        if name in read_apart:
            continue
        outer, _, inner = name.partition(".")
        value = {inner: "some value"} if inner else "some value"
        rendered = seed_of({"model": MODEL, outer: value}) != seed_of({"model": MODEL})
        assert rendered is bool(levels), name

"""The cache physics of the Messages API, each as documented in providers.md 1.3 unless a docstring says otherwise."""

from __future__ import annotations

import pytest
from emulator_talk import (
    MODEL,
    ask,
    assistant,
    blocks,
    calls,
    emulator,
    marked,
    request,
    results,
    text,
    user,
)

from agentaccel_emulator import Timing, Tokenizer


def test_the_documented_example_hits_at_ten_and_misses_at_thirty_five():
    """Mandated: T1 marks 10 of 10, T2 marks 15 of 15 and reads 10, T3 marks 35 of 35 and finds nothing."""
    provider = emulator()
    assert ask(provider, request(*blocks(10, 10)), 0).usage == (0, 2000, 0, 0)
    assert ask(provider, request(*blocks(15, 15)), 10).usage == (2000, 1000, 0, 0)
    assert ask(provider, request(*blocks(35, 35)), 20).usage == (0, 7000, 0, 0)


def test_a_second_marker_at_fifteen_makes_the_documented_example_hit():
    """Mandated: nothing within 20 positions of 35, so the search resumes at the marker on 15."""
    provider = emulator()
    ask(provider, request(*blocks(15, 15)), 0)
    assert ask(provider, request(*blocks(35, 15, 35)), 10).usage == (3000, 4000, 0, 0)


@pytest.mark.parametrize(("appended", "read"), [(18, 2000), (19, 2000), (20, 0)])
def test_nineteen_appended_positions_hit_and_twenty_miss(appended, read):
    """Mandated: the marker's own position is the first of twenty."""
    provider = emulator()
    ask(provider, request(*blocks(10, 10)), 0)
    assert ask(provider, request(*blocks(10 + appended, 10 + appended)), 10).read == read


def test_the_search_resumes_with_a_fresh_window_at_each_earlier_marker():
    """Mandated: a marker that holds no entry itself still opens a window of twenty."""
    provider = emulator()
    ask(provider, request(*blocks(10, 10)), 0)
    assert ask(provider, request(*blocks(60, 25, 42, 60)), 10).read == 2000
    assert ask(provider, request(*blocks(61, 31, 61)), 400).read == 0


@pytest.mark.parametrize(("positions", "read"), [("runs", True), ("blocks", False)])
def test_thirty_parallel_calls_are_two_positions_where_runs_count_as_one(positions, read):
    """Mandated for the Claude API by the newer wording; the older wording counts every block."""
    provider = emulator(positions=positions)
    ask(provider, request(messages=[user(text(2000, "go", "5m"))]), 0)
    messages = [user(text(2000, "go")), assistant(*calls(30)), user(*results(29), marked(results(1, 29)[0]))]
    assert ask(provider, request(messages=messages), 10).read == (2000 if read else 0)


def test_every_block_inside_a_run_is_compared():
    """Chosen: the reading by runs finds all that the reading by blocks finds, so planning by blocks is safe."""
    provider = emulator()
    opening = [user(text(2000, "go")), assistant(*calls(3))]
    first = [marked(results(1)[0]), *results(2, 1)]
    written = ask(provider, request(messages=[*opening, user(*first)]), 0).usage[1]
    again = [*results(2), marked(results(1, 2)[0])]
    assert ask(provider, request(messages=[*opening, user(*again)]), 10).read == written


@pytest.mark.parametrize("platform", ["bedrock", "vertex"])
def test_other_platforms_count_every_block(platform):
    """Mandated as far as known: the wording on runs is of the Claude API."""
    provider = emulator(platform=platform)
    ask(provider, request(messages=[user(text(2000, "go", "5m"))]), 0)
    messages = [user(text(2000, "go")), assistant(*calls(12)), user(*results(11), marked(results(1, 11)[0]))]
    assert ask(provider, request(messages=messages), 10).read == 0


@pytest.mark.parametrize(
    ("model", "minimum"),
    [("claude-opus-5-5", 512), (MODEL, 1024), ("claude-opus-4-7", 2048), ("claude-haiku-4-5", 4096)],
)
def test_a_prefix_below_the_models_minimum_is_silently_not_cached(model, minimum):
    """Mandated: both counters are 0 and no error is given; at the minimum itself the prefix is written."""
    for tokens, written in ((minimum - 1, 0), (minimum, minimum)):
        provider = emulator()
        assert ask(provider, request(text(tokens, "a", "5m"), model=model)).usage == (0, written, 0, tokens - written)


def test_the_minimum_is_tested_on_the_cumulative_prefix():
    """Mandated: a short marked block at the end of a long prompt is written."""
    body = request(text(100, "tail", "5m"), system=[text(1000, "system")])
    assert ask(emulator(), body).usage == (0, 1100, 0, 0)


@pytest.mark.parametrize(("later", "read"), [(290, 2000), (300, 2000), (301, 0)])
def test_a_five_minute_entry_lives_five_minutes_from_the_start_of_its_request(later, read):
    """Mandated: "minimum lifetime"; the emulator expires exactly, real life may be kinder."""
    provider = emulator()
    ask(provider, request(*blocks(10, 10)), 0)
    assert ask(provider, request(*blocks(10, 10)), later).read == read


@pytest.mark.parametrize(("later", "read"), [(3599, 2000), (3601, 0)])
def test_an_hour_entry_lives_an_hour(later, read):
    """Mandated."""
    provider = emulator()
    ask(provider, request(text(2000, "a", "1h")), 0)
    assert ask(provider, request(text(2000, "a", "1h")), later).read == read


def test_a_long_generation_eats_the_lifetime():
    """Mandated: a stream of four minutes leaves about one minute."""
    provider = emulator(timing=Timing(base=1.0, decode=0.1), script=[{"content": "x" * 20, "output_tokens": 24}])
    assert ask(provider, request(*blocks(10, 10)), 0).reply.seconds > 240
    assert ask(provider, request(*blocks(10, 10)), 301).read == 0


def test_reading_refreshes_the_entry_and_every_shorter_one_on_its_path():
    """Mandated: reading the longer prefix keeps the shorter one warm."""
    provider = emulator()
    ask(provider, request(*blocks(12, 6, 12)), 0)
    assert ask(provider, request(*blocks(12, 12)), 290).read == 2400
    assert ask(provider, request(*blocks(6, 6)), 580).read == 1200
    assert ask(provider, request(*blocks(12, 12)), 591).read == 1200


def test_an_entry_that_no_reader_needed_dies_on_its_own_time():
    """Mandated: only what lies on the path that was read is re-armed."""
    provider = emulator()
    ask(provider, request(*blocks(12, 6, 12)), 0)
    ask(provider, request(*blocks(6, 6)), 290)
    assert ask(provider, request(*blocks(12, 12)), 310).read == 1200


def test_reading_an_hour_entry_with_a_short_marker_keeps_its_hour():
    """Chosen: the entry keeps the lifetime it was written with, and nothing is written again."""
    provider = emulator()
    ask(provider, request(text(2000, "a", "1h")), 0)
    assert ask(provider, request(text(2000, "a", "5m")), 3000).usage == (2000, 0, 0, 0)
    assert ask(provider, request(text(2000, "a", "5m")), 6000).read == 2000


def test_an_hour_marker_over_a_live_short_entry_does_not_lengthen_it():
    """Chosen where the documentation is silent (providers.md 1.3): refreshed with the old lifetime, no write."""
    provider = emulator()
    ask(provider, request(text(2000, "a", "5m")), 0)
    assert ask(provider, request(text(2000, "a", "1h")), 10).usage == (2000, 0, 0, 0)
    assert ask(provider, request(text(2000, "a", "1h")), 400).read == 0


def test_mixed_lifetimes_are_billed_in_three_parts():
    """Mandated: A is read, up to B is written for an hour, up to C for five minutes, the rest is uncached."""
    provider = emulator()
    ask(provider, request(system=[text(1100, "s", "1h")], messages=[user(text(50, "hi"))]), 0)
    body = request(text(300, "doc", "1h"), text(400, "tail", "5m"), text(70, "?"), system=[text(1100, "s", "1h")])
    assert ask(provider, body, 10).usage == (1100, 400, 300, 70)


def test_markers_before_the_hit_write_nothing():
    """Mandated: writes are counted from the hit on."""
    provider = emulator()
    ask(provider, request(*blocks(10, 10)), 0)
    assert ask(provider, request(*blocks(12, 6, 10, 12)), 10).usage == (2000, 400, 0, 0)


def test_an_entry_can_be_read_only_once_its_response_has_begun():
    """Mandated: N identical requests in parallel all pay the write; after the first byte the next one reads."""
    provider = emulator()
    for _ in range(3):
        assert ask(provider, request(*blocks(10, 10)), 0).usage == (0, 2000, 0, 0)
    assert ask(provider, request(*blocks(10, 10)), 0.99).read == 0
    assert ask(provider, request(*blocks(10, 10)), 1.0).read == 2000


def test_a_second_writer_does_not_hide_what_the_first_has_shown():
    """Chosen: of two writers the first to begin answering makes the entry readable."""
    provider = emulator()
    ask(provider, request(*blocks(10, 10)), 0)
    ask(provider, request(*blocks(10, 10)), 0.9)
    assert ask(provider, request(*blocks(10, 10)), 1.1).read == 2000


def test_nothing_is_cached_without_a_marker():
    """Mandated."""
    provider = emulator()
    for now in (0, 10):
        assert ask(provider, request(*blocks(10)), now).usage == (0, 0, 0, 2000)


def test_markers_may_move_without_changing_the_prefix():
    """Mandated: cache_control is no part of the hash."""
    provider = emulator()
    ask(provider, request(*blocks(10, 2, 5, 10)), 0)
    assert ask(provider, request(*blocks(10, 1, 10)), 10).read == 2000


def test_a_field_called_cache_control_inside_a_call_is_content():
    """Chosen: only the markers of blocks are left out of the hash, not what a tool is called with."""
    provider = emulator()

    def body(value):
        call = {"type": "tool_use", "id": "t0", "name": "f", "input": {"cache_control": value, "pad": "x" * 2000}}
        return request(messages=[user(text(40, "go")), assistant(call), user(marked(results(1)[0]))])

    ask(provider, body(1), 0)
    assert ask(provider, body(2), 10).read == 0
    assert ask(provider, body(1), 10).read > 2000


def test_a_string_is_one_text_block():
    """Mandated: the two forms are one prompt."""
    provider = emulator()
    long = text(2000, "a")["text"]
    ask(provider, request(messages=[{"role": "user", "content": long}], cache_control={"type": "ephemeral"}), 0)
    assert ask(provider, request(text(2000, "a", "5m")), 10).read == 2000


def test_a_result_given_as_a_string_is_one_text_block():
    """Chosen by analogy with messages."""
    provider = emulator()

    def body(content):
        result = {"type": "tool_result", "tool_use_id": "t0", "content": content}
        return request(messages=[user(text(2000, "go")), assistant(*calls(1)), user(marked(result))])

    ask(provider, body("done"), 0)
    assert ask(provider, body([{"type": "text", "text": "done"}]), 10).usage[1:] == (0, 0, 0)


def test_key_order_in_a_calls_input_matters():
    """Mandated: the documentation names languages that randomise it."""
    provider = emulator()

    def body(arguments):
        call = {"type": "tool_use", "id": "t0", "name": "f", "input": arguments}
        return request(messages=[user(text(2000, "go")), assistant(call), user(marked(results(1)[0]))])

    ask(provider, body({"a": 1, "b": 2}), 0)
    assert ask(provider, body({"b": 2, "a": 1}), 10).read == 0


def test_a_marker_inside_a_tool_result_ends_its_prefix_there():
    """Mandated that it counts; where exactly its prefix ends is inferred from the block it stands on."""
    provider = emulator()

    def body(*content):
        result = {"type": "tool_result", "tool_use_id": "t0", "content": list(content)}
        return request(messages=[user(text(2000, "go")), assistant(*calls(1)), user(result)])

    written = ask(provider, body(text(100, "a", "5m"), text(100, "b")), 0).usage
    assert written[1] > 2100
    assert written[3] == 100
    assert ask(provider, body(text(100, "a", "5m"), text(100, "c")), 10).read == written[1]


def test_thinking_is_cached_inside_a_longer_prefix():
    """Mandated: a thinking block cannot be marked but counts when the prefix around it is read."""
    provider = emulator()
    thought = {"type": "thinking", "thinking": "x" * 500, "signature": "s"}
    messages = [user(text(2000, "go")), assistant(thought, *calls(1)), user(marked(results(1)[0]))]
    written = ask(provider, request(messages=messages), 0).usage[1]
    assert written > 2500
    assert ask(provider, request(messages=messages), 10).read == written


@pytest.mark.parametrize(("model", "kept"), [("claude-sonnet-5", True), ("claude-sonnet-4-5", False)])
def test_some_models_lose_earlier_thinking_when_the_user_speaks(model, kept):
    """Mandated: later models keep it; earlier ones strip it, which breaks the prefix from there."""
    provider = emulator()
    thought = {"type": "thinking", "thinking": "x" * 500, "signature": "s"}
    opening = [user(text(2000, "go", "5m")), assistant(thought, *calls(1)), user(marked(results(1)[0]))]
    written = ask(provider, request(messages=opening, model=model), 0).usage[1]
    later = [*opening, assistant(text(50, "done")), user(text(60, "and?", "5m"))]
    assert ask(provider, request(messages=later, model=model), 10).read == (written if kept else 2000)


def test_tool_results_alone_strip_no_thinking():
    """Mandated: the turn goes on while only tool results follow."""
    provider = emulator()
    thought = {"type": "thinking", "thinking": "x" * 500, "signature": "s"}
    opening = [user(text(2000, "go")), assistant(thought, *calls(1)), user(marked(results(1)[0]))]
    written = ask(provider, request(messages=opening, model="claude-sonnet-4-5"), 0).usage[1]
    later = [*opening, assistant(*calls(1, 1)), user(marked(results(1, 1)[0]))]
    assert ask(provider, request(messages=later, model="claude-sonnet-4-5"), 10).read == written


def test_pre_warming_writes_without_generating():
    """Mandated: max_tokens 0 gives no content, stop reason max_tokens, full usage, and the next request reads."""
    provider = emulator(script=["never said"])
    warm = ask(provider, request(text(40, "ok"), system=[text(2000, "s", "5m")], max_tokens=0), 0)
    assert warm.json["content"] == []
    assert warm.json["stop_reason"] == "max_tokens"
    assert warm.json["usage"]["output_tokens"] == 0
    assert warm.usage == (0, 2000, 0, 40)
    assert ask(provider, request(text(90, "real"), system=[text(2000, "s", "5m")]), 10).usage == (2000, 0, 0, 90)


def test_automatic_caching_marks_the_last_block():
    """Mandated: a conversation that only grows reads what the turn before wrote."""
    provider = emulator()
    auto = {"type": "ephemeral"}
    ask(provider, request(*blocks(10), cache_control=auto), 0)
    assert ask(provider, request(*blocks(12), cache_control=auto), 10).usage == (2000, 400, 0, 0)


def test_automatic_caching_walks_back_past_what_cannot_be_marked():
    """Mandated: an ineligible last block is skipped silently."""
    provider = emulator()
    thought = {"type": "thinking", "thinking": "x" * 500, "signature": "s"}
    messages = [user(text(2000, "go")), assistant(thought)]
    usage = ask(provider, request(messages=messages, cache_control={"type": "ephemeral"}), 0).usage
    assert usage[1] == 2000
    assert usage[3] > 500


def test_automatic_caching_over_an_equal_explicit_marker_changes_nothing():
    """Mandated: same lifetime, no-op."""
    body = request(*blocks(10, 10), cache_control={"type": "ephemeral", "ttl": "5m"})
    assert ask(emulator(), body).usage == (0, 2000, 0, 0)


def test_keys_share_nothing_unless_they_share_a_workspace():
    """Mandated: isolation by organization and workspace on the Claude API."""
    provider = emulator(workspaces={"a": "w", "b": "w"})
    ask(provider, request(*blocks(10, 10)), 0, key="a")
    assert ask(provider, request(*blocks(10, 10)), 10, key="b").read == 2000
    assert ask(provider, request(*blocks(10, 10)), 10, key="c").read == 0
    assert ask(provider, request(*blocks(10, 10)), 10, key="c", anthropic_workspace_id="w").read == 2000


def test_an_organization_shares_one_cache_on_bedrock():
    """Mandated: isolation by organization only."""
    provider = emulator(platform="bedrock")
    ask(provider, request(*blocks(10, 10)), 0, key="a")
    assert ask(provider, request(*blocks(10, 10)), 10, key="b").read == 2000


def test_dated_names_and_aliases_share_the_models_cache():
    """Chosen: one model has one cache, whatever it is called."""
    provider = emulator(aliases={"mine": MODEL})
    ask(provider, request(*blocks(10, 10)), 0)
    assert ask(provider, request(*blocks(10, 10), model=f"{MODEL}-20260101"), 10).read == 2000
    assert ask(provider, request(*blocks(10, 10), model="mine"), 10).read == 2000


def test_hidden_tokens_are_read_and_written_with_the_prefix():
    """Chosen: what the provider adds stands at the front of the prompt."""
    provider = emulator(tokenizer=Tokenizer(bytes_per_token=1.0, hidden=30))
    assert ask(provider, request(*blocks(10, 10)), 0).usage == (0, 2030, 0, 0)
    assert ask(provider, request(*blocks(11, 10)), 10).usage == (2030, 0, 0, 200)


def test_entries_can_be_made_to_die_early_and_equally_in_every_run():
    """Chosen: eviction before the lifetime is an option with a seed."""

    def reads(seed):
        provider = emulator(eviction=0.5, seed=seed)
        return [ask(provider, request(*blocks(10, 10), system=str(i)), t).read for i in range(40) for t in (0, 200)]

    assert reads(1) == reads(1)
    assert 0 < sum(read > 0 for read in reads(1)) < 40
    certain = emulator(eviction=1.0)
    ask(certain, request(*blocks(10, 10)), 0)
    assert ask(certain, request(*blocks(10, 10)), 299.99).read == 0

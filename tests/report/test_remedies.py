"""Each remedy by itself: what it takes for its fault, what it leaves alone, and what it makes of the prompts."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from agentaccel.records import key_of
from agentaccel.replay.synthetic import Piece
from agentaccel.report.advise.history import linked, without_summaries
from agentaccel.report.advise.nouns import Mended, RecordedSession
from agentaccel.report.advise.remedies import (
    beyond_lookback,
    cache_off,
    one_model,
    other_lifetime,
    too_short,
    tool_order,
)
from agentaccel.report.advise.seconds import seconds, time_at_work
from agentaccel.report.advise.volatile import volatile_early
from agentaccel.types import Drift, Usage
from tests.report.talks import AUTOMATIC, NONE, NOON, STATIC, Placement, billed, growing, piece, renamed, talk


def prompts(mended: Mended) -> list[list[bytes]]:
    """The digests of every prompt of the first session."""
    return [[s.digest for s in one.step.prefix.prompt.segments] for one in mended.talks[0].requests]


# --- volatile text ----------------------------------------------------------------------------------------------------


def clocked(turns: int, *, of: int = 40) -> list[list[Piece]]:
    """Sessions with a system prompt of two blocks, the first of which is another one in each of `of` requests."""
    return [
        [piece(f"S clock {min(n, of)}", 300 + 20 * n), *prompt]
        for n, prompt in enumerate(growing(turns, piece("S", 2_000)))
    ]


def test_a_block_that_keeps_changing_is_moved_behind_the_last_marker() -> None:
    (mended,) = volatile_early([talk(clocked(5), STATIC)])
    assert mended.where == "system[0]"
    for one in mended.talks[0].requests:
        segments = one.step.prefix.prompt.segments
        assert [segment.level for segment in segments[:2]] == ["system", "messages"]
        assert segments[-1].level == "messages"
        assert one.step.marks[-1].at == len(segments) - 2
    one, other = prompts(mended)[0], prompts(mended)[1]
    assert one[:-1] == other[: len(one) - 1]


def test_a_block_that_changes_once_was_edited() -> None:
    assert list(volatile_early([talk(clocked(6, of=1), STATIC)])) == []


def test_text_at_the_end_is_not_early() -> None:
    """Retrieved text that the next request no longer holds stands where it should."""
    ended = [[*prompt, piece(f"U found {n}")] for n, prompt in enumerate(growing(6, piece("S", 2_000)))]
    assert list(volatile_early([talk(ended, STATIC)])) == []


def test_a_stamp_in_the_instructions_leaves_them_where_they_are() -> None:
    """Where the drift says clock and the size stays, all but the stamp is as it was."""
    stamped = [[piece(f"S {n}", 3_000), *prompt] for n, prompt in enumerate(growing(5))]
    plain = talk(stamped, STATIC)
    drift = Drift(level="system", where="system[0].text", likely="clock")
    told = replace(
        plain,
        requests=tuple(replace(one, turn=replace(one.turn, drift=drift)) for one in plain.requests),
    )
    (mended,) = volatile_early([told])
    firsts = {prompt[0] for prompt in prompts(mended)}
    assert len(firsts) == 1
    assert all(one.step.tokens[0] == 3_000 for one in mended.talks[0].requests)
    (moved,) = volatile_early([plain])
    assert all(one.step.prefix.prompt.segments[0].level == "messages" for one in moved.talks[0].requests)


def test_a_clock_of_minutes_changes_once_a_session() -> None:
    """Which an edit does as well: there the recorded reason tells."""
    said = [
        talk([[piece(f"S {id_} {n // 3}", 3_000), *p] for n, p in enumerate(growing(5))], STATIC, id=id_)
        for id_ in "ab"
    ]
    assert list(volatile_early(said)) == []
    drift = Drift(level="system", where="system[0].text", likely="clock")
    told = [
        replace(one, requests=tuple(replace(r, turn=replace(r.turn, drift=drift)) for r in one.requests))
        for one in said
    ]
    assert [one.where for one in volatile_early(told)] == ["system[0]"]


def test_of_a_block_that_partly_changes_the_rest_stays() -> None:
    """The drift says how much; where nearly all of it changed, all of it is moved."""
    plain = talk([[piece(f"S {n}", 3_000), *prompt] for n, prompt in enumerate(growing(5))], STATIC)
    size = plain.requests[0].step.prefix.prompt.segments[0].size
    for changed, tokens in ((size // 3, 2_000), (size - 100, 0)):
        drift = Drift(level="system", where="system[0].text", likely="edited text", bytes=changed)
        told = tuple(replace(one, turn=replace(one.turn, drift=drift)) for one in plain.requests)
        (mended,) = volatile_early([replace(plain, requests=told)])
        for one, was in zip(mended.talks[0].requests, plain.requests, strict=True):
            first = one.step.prefix.prompt.segments[0]
            assert (one.step.tokens[0] if first.level == "system" else 0) == pytest.approx(tokens, abs=50)
            assert one.step.total == was.step.total


@pytest.mark.parametrize("changed", [20, 400])
def test_what_stays_of_a_block_is_told_for_each_session(changed: int) -> None:
    """A clock, or a little more, in the first message, where one user says much and another little."""
    longs = {"a": 500, "b": 3_000, "c": 900}
    said = [
        talk([[piece(f"U {id_} {n}", long), *prompt] for n, prompt in enumerate(growing(5))], STATIC, id=id_)
        for id_, long in longs.items()
    ]
    drift = Drift(level="messages", where="messages[0].content[0].text", likely="clock", bytes=changed)
    told = [
        replace(one, requests=tuple(replace(r, turn=replace(r.turn, drift=drift)) for r in one.requests))
        for one in said
    ]
    (mended,) = volatile_early(told)
    for one, before in zip(mended.talks, said, strict=True):
        rate = before.requests[0].step.total / before.requests[0].step.prefix.size
        stays = longs[one.id] - (changed * rate if changed > 128 else 0)
        for request in one.requests:
            assert request.step.tokens[0] == pytest.approx(stays, abs=10)


# --- tools ------------------------------------------------------------------------------------------------------------


def with_tools(*orders: str) -> list[list[Piece]]:
    return [
        [*(piece(f"T{name}", 800) for name in order), *prompt]
        for order, prompt in zip(orders, growing(len(orders)), strict=True)
    ]


def test_tools_are_put_in_the_order_first_seen() -> None:
    (mended,) = tool_order([renamed(talk(with_tools("abc", "cab", "bca"), STATIC))])
    assert len({tuple(prompt[:3]) for prompt in prompts(mended)}) == 1
    assert all(one.step.marks[0].at == 2 for one in mended.talks[0].requests)


def test_tools_in_one_order_need_no_mending() -> None:
    assert list(tool_order([renamed(talk(with_tools("abc", "abc", "ab"), STATIC))])) == []


# --- short prompts ----------------------------------------------------------------------------------------------------


def test_a_short_prompt_is_padded_at_the_end_of_the_system_prompt() -> None:
    static = [piece("T", 200), piece("S", 300)]
    offered = list(too_short([talk(growing(3, *static, tokens=50), STATIC)]))
    longest = offered[-1].talks[0].requests[0].step
    assert 1_024 <= longest.tokens[2] <= 1.03 * 1_024
    assert [mark.at for mark in longest.marks] == [0, 2, 3]


@pytest.mark.parametrize(("tokens", "marks"), [(1_024, STATIC), (300, NONE)])
def test_long_or_unmarked_prompts_are_not_padded(tokens: int, marks: Placement) -> None:
    assert list(too_short([talk(growing(3, piece("T", tokens), tokens=50), marks)])) == []


# --- summaries --------------------------------------------------------------------------------------------------------


def summarised(*, asked: bool = True, first: bool = False) -> list[list[Piece]]:
    """Four requests, perhaps one for a summary, and two more behind the summary, with the last turn kept."""
    *before, last = growing(4, piece("S", 1_000))
    asking = [*last, piece("U summarise", 20)]
    head = [piece("S", 1_000), *([piece("U first")] if first else []), piece("U summary", 600)]
    after = [*head, *last[-2:]]
    more = [*after, piece("A 9"), piece("U 9")]
    return [*before, last, *([asking] if asked else []), after, more]


def with_reply(made: RecordedSession, number: int, output: int) -> RecordedSession:
    requests = list(made.requests)
    requests[number] = replace(requests[number], output=output)
    return replace(made, requests=tuple(requests))


def test_a_summary_that_was_asked_for_gives_way_to_the_history() -> None:
    (mended,) = without_summaries([with_reply(talk(summarised()), 4, 590)])
    told = prompts(mended)
    assert len(told) == 6
    assert told[3] == told[4] == told[5][: len(told[4])]
    assert mended.talks[0].requests[4].step.started == NOON + 40


def test_a_summary_that_nobody_asked_for_drops_no_request() -> None:
    (mended,) = without_summaries([talk(summarised(asked=False))])
    assert len(prompts(mended)) == 6


def test_going_back_is_no_summary() -> None:
    """The beginning is left and somebody writes something else."""
    long = growing(5, piece("S", 1_000))
    rewound = [*long, [*long[1], piece("A else"), piece("U else")]]
    assert list(without_summaries([talk(rewound)])) == []


def test_cleared_results_are_no_summary() -> None:
    long = growing(5, piece("S", 1_000))
    cleared = [piece("U cleared", 5) if i in (2, 4) else one for i, one in enumerate(long[-1])]
    assert list(without_summaries([talk([*long, [*cleared, piece("A"), piece("U")]])])) == []


def test_a_history_that_no_model_takes_keeps_its_summaries() -> None:
    *before, last = growing(4, piece("S", 1_000), tokens=40_000)
    after = [piece("S", 1_000), piece("U summary", 600), *last[-2:]]
    assert list(without_summaries([talk([*before, last, after])])) == []


def test_a_session_that_begins_with_a_summary_goes_on_from_the_one_it_sums_up() -> None:
    """Without a name, a shortened history looks like a new session."""
    whole = with_reply(talk(summarised()), 4, 590)
    one = replace(whole, id="one", requests=whole.requests[:5])
    other = replace(whole, id="other", requests=whole.requests[5:])
    (together,) = without_summaries([one, other])
    (named,) = without_summaries([whole])
    assert prompts(together) == prompts(named)


def test_a_copy_of_a_session_is_no_continuation() -> None:
    """A sub-agent that is handed the history goes its own way."""
    long = growing(4, piece("S", 1_000))
    copy = [[*long[-1], piece("A copy"), piece("U copy")]]
    given = [talk(long, id="one"), talk(copy, id="other", begin=NOON + 100)]
    assert [one.id for one in linked(given)] == ["one", "other"]


# --- models -----------------------------------------------------------------------------------------------------------

OTHER = "claude-sonnet-4-5"
MAIN = "claude-sonnet-5"


def test_a_request_in_between_stays_with_the_main_model() -> None:
    made = talk(growing(5, piece("S", 2_000)), models=[MAIN, MAIN, OTHER, MAIN, MAIN])
    (mended,) = one_model([made])
    assert {one.step.prefix.prompt.model for one in mended.talks[0].requests} == {MAIN}
    assert {one.priced_as for one in mended.talks[0].requests} == {MAIN}


def test_a_title_by_another_model_is_no_switch() -> None:
    """It has a prompt of its own, and nothing to lose."""
    one, *rest = growing(4, piece("S", 2_000))
    made = talk([one, [piece("S title"), piece("U title")], *rest], models=[MAIN, OTHER, MAIN, MAIN, MAIN])
    assert list(one_model([made])) == []


# --- markers ----------------------------------------------------------------------------------------------------------


def wide(turns: int, blocks: int) -> list[list[Piece]]:
    """Turns of so many blocks each, text by text."""
    said = [[piece(f"A{n}"), *(piece(f"U{n} {i}", 50) for i in range(blocks))] for n in range(turns)]
    return [[piece("S", 2_000), piece("U first"), *itertools.chain(*said[:n])] for n in range(turns)]


def test_long_turns_get_a_marker_where_the_last_request_ended() -> None:
    (mended,) = beyond_lookback([talk(wide(3, 25))])
    one, other, *_ = mended.talks[0].requests
    assert other.step.marks[0].at == len(one.step.tokens) - 1
    assert len(other.step.marks) == 2


@pytest.mark.parametrize("blocks", [3, 18])
def test_turns_that_a_marker_looks_back_over_get_none(blocks: int) -> None:
    assert list(beyond_lookback([talk(wide(3, blocks))])) == []


def test_every_marker_gets_the_other_lifetime() -> None:
    (mended,) = other_lifetime([talk(growing(3, piece("S", 2_000)), STATIC)])
    assert {mark.ttl for one in mended.talks[0].requests for mark in one.step.marks} == {"1h"}


def test_a_log_that_does_not_count_cache_tokens_is_not_called_off() -> None:
    """n/a is not zero."""
    made = replace(talk(growing(4, piece("S", 2_000)), NONE), inferred=True)
    blind = billed(made, [Usage(input=one.step.total) for one in made.requests])
    assert list(cache_off([blind])) == []
    assert len(list(cache_off([made]))) == 1


# --- times ------------------------------------------------------------------------------------------------------------


def test_calls_in_a_row_could_have_run_together() -> None:
    made = talk(growing(2), AUTOMATIC, gap=20.0, tools=[(2, 5), (5, 6), (6, 10)])
    (said, *_) = seconds([made], time_at_work(made), 0.0)
    assert (said.kind, said.saving) == ("calls one after another", 4.0)
    assert time_at_work(made) == 12.0


def test_calls_that_overlap_already_save_what_is_left() -> None:
    made = talk(growing(2), AUTOMATIC, gap=20.0, tools=[(2, 5), (3, 6)])
    (said, *_) = seconds([made], time_at_work(made), 0.0)
    assert (said.kind, said.saving) == ("calls one after another", 1.0)


def test_slow_tools_can_hide_behind_the_reply_only() -> None:
    made = talk(growing(2), AUTOMATIC, gap=40.0, tools=[(2, 32)])
    (said,) = seconds([made], time_at_work(made), 0.0)
    assert (said.kind, said.saving, said.sure) == ("slow tools", 2.0, "at most")


def test_what_ran_while_the_model_answered_is_hidden_already() -> None:
    """A reply of two seconds; the call began one second before its end, and cannot begin more than a second earlier."""
    made = talk(growing(2), AUTOMATIC, gap=40.0, tools=[(1, 8)])
    (said,) = seconds([made], time_at_work(made), 0.0)
    assert (said.kind, said.saving) == ("slow tools", 1.0)
    assert list(seconds([talk(growing(2), gap=40.0, tools=[(0, 2)])], 4.0, 0.0)) == []


def test_quick_tools_are_nothing_to_speak_of() -> None:
    made = talk(growing(2), AUTOMATIC, gap=40.0, tools=[(2, 3)])
    assert list(seconds([made], time_at_work(made), 0.0)) == []


def test_under_one_name_a_history_that_begins_anew_goes_on_from_the_one_before() -> None:
    """A summary that keeps nothing leaves nothing to tell it by but the session's name, its tools and instructions.

    What begins before the other has ended works beside it, and what has instructions of its own is another agent's.
    """
    first, again = growing(4, piece("S", 1_000)), [[piece("S", 1_000), piece("U summary", 600)]]
    other = [[piece("S other", 1_000), piece("U task")]]

    def ids(*later: RecordedSession) -> list[str]:
        return [one.id for one in linked([talk(first, id="s"), *later])]

    end = talk(first, id="s").requests[-1].step.started
    assert ids(talk(again, id=key_of("s", "1"), begin=end + 9)) == ["s"]
    assert ids(talk(again, id=key_of("s", "1"), begin=end - 1)) == ["s", key_of("s", "1")]
    assert ids(talk(other, id=key_of("s", "1"), begin=end + 9)) == ["s", key_of("s", "1")]
    assert ids(talk(again, id="t", begin=end + 9)) == ["s", "t"]

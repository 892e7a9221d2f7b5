"""Recorded replies: usage, tool calls and stop reason as the recordings' notes and the vendors' own SDKs have them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import pytest

from agentaccel.types import Usage
from agentaccel.wire import dialect
from tests.wire.accumulators import SDK_ERRORS, accumulated, answered
from tests.wire.recorded import Json, Tally, data_of, exchanges, reported, streamed, streams, tally, wire
from tests.wire.replies import cut

pytestmark = pytest.mark.traces

Call = tuple[str | None, str, Any]


class Told(NamedTuple):
    """What a tap made of a reply."""

    calls: list[Call]
    stop: str | None
    usage: Usage
    complete: bool
    error: str | None
    message_id: str | None


def told(one: Json, chunks: Iterable[bytes], *, whole: bool = False) -> Told:
    tap = dialect(wire(one)).reply_tap(not whole)
    calls = [call for chunk in chunks for call in tap.feed(chunk)]
    calls += tap.finish()
    shown = [(call.id, call.name, dict(call.arguments)) for call in calls]
    return Told(shown, tap.stop, tap.usage, tap.complete, tap.error, tap.message_id)


def read(one: Json) -> Told:
    return told(one, [data_of(one)], whole=not streamed(one))


def counted(usage: Usage) -> Tally:
    return Tally(usage.input, usage.read, usage.written, usage.output)


def test_usage_is_what_the_recordings_notes_say() -> None:
    """Mandated by the recordings: every figure exact or not reported, of bodies and streams, errors included."""
    reporting = 0
    for one in exchanges():
        wanted = tally(reported(one), wire(one))
        assert counted(read(one).usage) == wanted, one["id"]
        reporting += wanted != Tally()
    assert reporting == 620 - 52 - 14


def test_errors_are_read_without_raising() -> None:
    """Chosen by us: an error is never a reply that ended well, and says nothing of usage, streamed or not."""
    errors = [one for one in exchanges() if one["status"] >= 400]
    assert len(errors) == 52
    for one in errors:
        for whole in (True, False):
            found = told(one, [data_of(one)], whole=whole)
            assert (found.complete, found.usage, found.calls, found.stop) == (False, Usage(), [], None), one["id"]


BROKEN_OFF = {
    "1a419a8e20cb97ac": "an error's body under status 200: the prompt was filtered",
    "599cd4588db458c0": "an error event inside of the stream",
}
"""Replies of status 200 that do not end as their protocol ends one, and why."""


def test_every_other_reply_has_ended_well() -> None:
    """Chosen by us: a reply is complete where its protocol says so, with a reason to stop wherever it gives one."""
    replies = [one for one in exchanges() if one["status"] == 200]
    unfinished = {one["id"] for one in replies if not read(one).complete}
    assert unfinished == set(BROKEN_OFF)
    assert len(replies) == 568


Expect = Callable[[Told], bool]

DIFFERENT: dict[str, tuple[str, Expect]] = {
    "b6ee46c1b3ae4608": (
        "a Messages stream that ends with an event [DONE], on which the SDK raises",
        lambda it: it.complete and it.stop is not None and it.usage.output is not None,
    ),
    "4025317f5f14b279": (
        "ends with response.incomplete, for which the SDK's helper has no result",
        lambda it: it.complete and it.stop == "incomplete" and it.usage.output is not None,
    ),
    "6e5b99e622ab3ddb": (
        "as the one before",
        lambda it: it.complete and it.stop == "incomplete" and it.usage.output is not None,
    ),
    "7e2715b1f71ccdea": (
        "as the one before",
        lambda it: it.complete and it.stop == "incomplete" and it.usage.output is not None,
    ),
    "bc39dfb1faced0f2": (
        "audio deltas, on which the SDK's helper raises",
        lambda it: it.complete and it.usage.output is not None,
    ),
    "5dac006aaa07df5e": (
        "id and name are repeated in every delta, which the SDK joins to 00 and a name twice over",
        lambda it: [(id_, len(name) % 2) for id_, name, _ in it.calls] == [("0", 1)],
    ),
    "65f3491211582ab9": (
        "a message beside the delta, of which the SDK loses the stop reason",
        lambda it: it.stop == "stop",
    ),
    "599cd4588db458c0": (
        "an error event inside of the stream, on which the SDK raises as it should",
        lambda it: not it.complete and it.calls == [] and it.error is not None,
    ),
    "9cecb6e83e6d2a23": (
        "its last event has an empty output, so the SDK's result has none of the calls that were streamed",
        lambda it: [arguments for _, _, arguments in it.calls] == [{}] and it.complete,
    ),
    "a9f37f51fc419976": (
        "usage stands in x_groq alone, which the SDK does not know",
        lambda it: it.usage.input is not None and it.usage.output is not None,
    ),
}
"""Streams of which the SDK's own accumulator makes something else, by id: why, and what is right. The first seven are
those of the recordings' notes."""


def as_sdk(one: Json, found: Told) -> bool:
    try:
        made = accumulated(wire(one), data_of(one))
    except SDK_ERRORS:
        return False
    usage = tally(made.usage, wire(one))
    return (found.calls, found.stop, counted(found.usage)) == (made.calls, made.stop, usage)


def test_a_tap_reads_of_a_stream_what_the_sdk_reads() -> None:
    """Mandated by the vendors' own accumulators, but for the streams that are listed with their reasons."""
    found = {one["id"]: (one, read(one)) for one in streams()}
    assert len(found) == 181
    assert {id_ for id_, (one, it) in found.items() if not as_sdk(one, it)} == set(DIFFERENT)
    for id_, (_, expect) in DIFFERENT.items():
        assert expect(found[id_][1]), id_


def test_a_stream_reads_the_same_under_any_cut() -> None:
    """Mandated by the standard: what comes in, not in which pieces; cuts fall inside of characters as well."""
    inside = 0
    for one in streams():
        data, wanted = data_of(one), read(one)
        for seed in range(4):
            rng = random.Random(f"{one['id']} {seed}")
            places = [rng.randrange(len(data)) for _ in range((2, 9, 90, 700)[seed])]
            inside += sum(0x80 <= data[place] < 0xC0 for place in places)
            assert told(one, cut(data, places)) == wanted, (one["id"], seed)
        if len(data) < 6000:
            assert told(one, (data[i : i + 1] for i in range(len(data)))) == wanted, one["id"]
    assert inside >= 30


def test_a_body_reads_as_the_sdk_reads_it() -> None:
    """Mandated by the vendors' own types: calls, stop reason and usage of every reply that was not streamed."""
    bodies = [one for one in exchanges() if one["status"] == 200 and not streamed(one)]
    assert len(bodies) == 387
    for one in bodies:
        made, found = answered(wire(one), data_of(one)), read(one)
        assert (found.calls, found.stop) == (made.calls, made.stop), one["id"]
        assert counted(found.usage) == tally(made.usage, wire(one)), one["id"]


def test_the_exceptions_are_few() -> None:
    """The list is kept honest: of the 620, no more than these are read in another way than the SDKs read them."""
    assert len({*DIFFERENT, *BROKEN_OFF}) == 11
    assert len(exchanges()) - len({*DIFFERENT, *BROKEN_OFF}) >= 600

"""Recorded streams put together are what the vendors' own SDKs make of them."""

from __future__ import annotations

from typing import Any

import pytest

from agentaccel.facts import joinable
from agentaccel.wire import dialect
from agentaccel.wire.joining import Whole
from tests.wire.accumulators import SDK_ERRORS, accumulated, answered
from tests.wire.recorded import Json, data_of, streams, wire

pytestmark = pytest.mark.traces

SPOKEN = {"bc39dfb1faced0f2": "audio, which a call must not be streamed for"}
"""Streams of the two vendors that do not add up, and why."""


def of_the_vendor(one: Json) -> bool:
    """True if it came from a place whose streams are put together."""
    return one["provider"] in ("anthropic", "openai") and joinable(one["provider"], "api", wire(one))


def joined(one: Json) -> Any:
    joiner = dialect(wire(one)).joiner()
    joiner.feed(data_of(one))
    return joiner.end()


def test_a_stream_adds_up_to_what_the_sdk_makes_of_it() -> None:
    """Mandated by the vendors' own accumulators: calls, stop reason and usage, wherever they can read the stream."""
    compared, odd = 0, set[str]()
    for one in filter(of_the_vendor, streams()):
        found = joined(one)
        if not isinstance(found, Whole):
            odd.add(one["id"])
            continue
        try:
            wanted = accumulated(wire(one), data_of(one))
        except SDK_ERRORS:
            continue  # it has no helper for a response that is incomplete
        assert answered(wire(one), found.body) == wanted, one["id"]
        compared += 1
    assert odd == set(SPOKEN)
    assert compared == 90


def test_streams_of_others_add_up_or_it_is_said_that_they_do_not() -> None:
    """Chosen by us: whatever comes, a joiner does not raise, and what it gives the SDK can read."""
    for one in streams():
        found = joined(one)
        if isinstance(found, Whole) and found.status == 200:
            answered(wire(one), found.body)

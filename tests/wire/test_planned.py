"""What a plan makes of a request: nothing of one that is illegal or planned already."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentaccel import Accel, CachePolicy, Policy, StorePolicy
from agentaccel.facts import cache_facts
from agentaccel.testing import ManualClock
from agentaccel.turn import Send, Started
from agentaccel.wire.anthropic import decode
from agentaccel.wire.anthropic.edit import strip
from agentaccel_emulator import Emulator
from tests.driver import body, prose, tool, user
from tests.fuzz.conversations import conversation
from tests.fuzz.legality import post
from tests.wire.bodies import Json, requests

MARK = {"type": "ephemeral"}
FACTS = cache_facts("claude-sonnet-5")
quick = settings(max_examples=20, suppress_health_check=list(HealthCheck))


def an_accel(ttl: str = "auto") -> Accel:
    policy = Policy(strict=True, cache=CachePolicy(ttl=ttl), store=StorePolicy(enabled=False))
    return Accel(policy, clock=ManualClock())


def sent_by(accel: Accel, request: Json) -> Any:
    [send] = accel.turn(request).handle(Started(0.0))
    assert isinstance(send, Send)
    return send.request


def text(words: int = 900, mark: Json | None = None) -> Json:
    block: Json = {"type": "text", "text": prose(words)}
    return {**block, "cache_control": mark} if mark is not None else block


@quick
@given(st.integers(0, 10**6), st.sampled_from(["auto", "1h"]))
def test_a_planned_request_is_planned_no_further(seed: int, ttl: str) -> None:
    """Chosen by us: a retry, or a second layer that plans, adds nothing to what the first one sent."""
    accel = an_accel(ttl)
    for _, request in conversation(random.Random(seed)):
        sent = sent_by(accel, request)
        if sent is not request:
            assert accel.plan(sent).markers == ()
            assert sent_by(accel, sent) is sent


def test_the_request_that_was_not_planned_does_get_markers() -> None:
    """The twin of the test before: there is something that could have been added twice."""
    request = body(user(prose(40)), system=prose(1500), tools=[tool("f", 900)])
    assert len(an_accel().plan(request).markers) >= 2


@quick
@given(requests())
def test_whatever_the_request_planning_neither_raises_nor_changes_it(request: Json) -> None:
    """Chosen by us: the sender's object stays as it is, and one that is illegal as written goes out as written."""
    before = copy.deepcopy(request)
    sent = sent_by(an_accel(), request)
    assert request == before
    prompt = decode(request, cache_facts(request["model"]))
    if prompt.illegal or prompt.held:
        assert sent is request
    assert len(decode(sent, FACTS).markers) <= max(4, len(decode(request, FACTS).markers))


ILLEGAL: dict[str, Json] = {
    "five markers, one of them of an unknown lifetime": body(
        user([text(400, MARK) for _ in range(4)] + [text(400, {**MARK, "ttl": "2d"})])
    ),
    "one hour after five minutes": body(
        user([text(900, {**MARK, "ttl": "1h"})]), system=[text(900, {**MARK, "ttl": "5m"})]
    ),
    "unknown lifetime": body(user([text(900, {**MARK, "ttl": "2d"})])),
    "marker that is no object": body({"role": "user", "content": [{**text(), "cache_control": "ephemeral"}]}),
    "top-level marker that is no object": body(user([text()]), cache_control="ephemeral"),
    "marker on thinking": body(
        user("Think."),
        {
            "role": "assistant",
            "content": [{"type": "thinking", "thinking": prose(900), "signature": "s", "cache_control": MARK}],
        },
        user("And?"),
    ),
    "marker on empty text": body(user([text(), {"type": "text", "text": "", "cache_control": MARK}])),
    "marker on a deferred tool": body(
        user(prose(900)), tools=[tool("f"), {**tool("g"), "defer_loading": True, "cache_control": MARK}]
    ),
    "lifetimes that conflict": body(user([text(900, {**MARK, "ttl": "1h"})]), cache_control={**MARK, "ttl": "5m"}),
}


@pytest.mark.parametrize("why", sorted(ILLEGAL))
def test_a_request_that_is_illegal_as_written_goes_out_as_written(why: str) -> None:
    """Mandated by the provider, which answers 400; chosen by us to let it speak to the caller itself."""
    request = ILLEGAL[why]
    accel = an_accel()
    assert sent_by(accel, request) is request
    assert "left as it is" in accel.plan(request).reasons[0]
    status, answer = post(Emulator(), request, 0.0)
    assert (status, answer["error"]["type"]) == (400, "invalid_request_error")


SURPLUS: dict[str, Json] = {
    "five markers": body(user([text(400, MARK) for _ in range(5)])),
    "six, on results of tools as well": body(
        user([text(400, MARK) for _ in range(3)]),
        {"role": "assistant", "content": [{"type": "tool_use", "id": "f", "name": "f", "input": {}}]},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "f", "content": [text(400, MARK)]},
                text(400, MARK),
                text(400, MARK),
            ],
        },
    ),
    "four markers and the top-level one": body(
        user([text(400, MARK) for _ in range(4)] + [text()]), cache_control=MARK
    ),
}


@pytest.mark.parametrize("why", sorted(SURPLUS))
def test_of_more_markers_than_the_provider_takes_the_first_are_left_out(why: str) -> None:
    """Frameworks place them. The twin: as written, the provider rejects the request."""
    request, accel = SURPLUS[why], an_accel()
    plan = accel.plan(request)
    sent = plan.apply(request)
    before, after = (decode(one, FACTS).markers for one in (request, sent))
    assert [marker.path for marker in after] == [marker.path for marker in before][-4:]
    assert not plan.markers
    assert f"the request has {len(before)} markers, and the provider takes 4" in plan.reasons[0]
    assert post(Emulator(), request, 0.0)[0] == 400
    assert post(Emulator(), sent, 0.0)[0] == 200
    assert strip(sent, plan) == request


def test_markers_that_are_legal_stay_and_so_do_those_of_what_is_not_certain() -> None:
    four = body(user([text(400, MARK) for _ in range(4)]))
    accel = an_accel()
    assert sent_by(accel, four) is four
    held = {**SURPLUS["five markers"], "thread": {"type": "continue", "previous_message_id": "m"}}
    assert sent_by(accel, held) is held
    watching = Accel(Policy(mode="observe", strict=True, store=StorePolicy(enabled=False)), clock=ManualClock())
    assert sent_by(watching, SURPLUS["five markers"]) is SURPLUS["five markers"]


@pytest.mark.parametrize("why", sorted(ILLEGAL))
def test_the_same_request_without_its_markers_is_legal_and_planned(why: str) -> None:
    """The twin: it is the sender's markers that keep ours away, nothing else about these requests."""
    request = json.loads(
        json.dumps(ILLEGAL[why]), object_hook=lambda d: {k: v for k, v in d.items() if k != "cache_control"}
    )
    if why == "marker on empty text":
        request["messages"][0]["content"].pop()
    accel = an_accel()
    sent = sent_by(accel, request)
    assert sent is not request
    assert post(Emulator(), sent, 0.0)[0] == 200


@pytest.mark.parametrize("ttl", ["auto", "1h"])
def test_the_lifetime_is_the_policys(ttl: str) -> None:
    """Chosen by us: one lifetime for every marker of ours; the provider's default is not spelled out."""
    request = body(user(prose(1500)), system=prose(1500), tools=[tool("f", 900)])
    sent = sent_by(an_accel(ttl), request)
    labels = {marker.ttl for marker in decode(sent, FACTS).markers}
    assert labels == {"5m" if ttl == "auto" else "1h"}
    assert ('"ttl"' in json.dumps(sent)) is (ttl == "1h")
    assert post(Emulator(), sent, 0.0)[0] == 200


def test_the_users_markers_stay_where_they_are() -> None:
    """Chosen by us: the user's are kept, ours fill what room there is, and lifetimes stay in order."""
    request = body(
        user([text(900, MARK), text(900)]), system=[text(900, {**MARK, "ttl": "1h"})], tools=[tool("f", 900)]
    )
    sent = sent_by(an_accel("1h"), request)
    assert sent["system"] == request["system"]
    assert sent["messages"][0]["content"][0] == request["messages"][0]["content"][0]
    assert len(decode(sent, FACTS).markers) <= 4
    assert post(Emulator(), sent, 0.0)[0] == 200


@pytest.mark.parametrize(
    "request_",
    [
        body(user(prose(1500)), thread={"type": "continue", "thread_id": "t"}),
        body(),
        {"model": "claude-sonnet-5", "messages": [], "system": prose(2000)},
    ],
)
def test_a_request_whose_history_is_not_in_it_is_left_alone(request_: Json) -> None:
    """Chosen by us: what we cannot see we do not plan."""
    accel = an_accel()
    assert sent_by(accel, request_) is request_
    assert accel.plan(request_).markers == ()

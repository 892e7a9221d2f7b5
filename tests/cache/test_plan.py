"""Where markers go, and where they do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentaccel import CachePolicy, Policy
from tests.driver import MODEL, Driver, assistant, body, loop, prose, tool, user

SYSTEM = prose(1200)
TOOLS = [tool("search", 500), tool("book", 400)]


@pytest.fixture
def driver(tmp_path: Path) -> Driver:
    return Driver(tmp_path)


def test_a_first_request_is_marked_at_tools_system_and_tail(driver: Driver) -> None:
    """Chosen: the static parts are shared with other sessions, the tail with the next turn."""
    driver.ask(body(user("Hi."), system=SYSTEM, tools=TOOLS))
    assert driver.marks == ["messages[0].content[0]", "system[0]", "tools[1]"]


def test_a_later_request_keeps_a_marker_where_the_last_one_wrote(driver: Driver) -> None:
    """Mandated by the lookback limit: the previous tail is marked again, derived from the conversation itself."""
    loop(driver, 3, system=SYSTEM, tools=TOOLS)
    assert driver.marks == ["messages[2].content[0]", "messages[4].content[0]", "system[0]", "tools[1]"]


def test_a_plain_loop_reads_everything_that_was_sent_before(driver: Driver) -> None:
    """The ceiling of an append-only loop: each turn reads the whole prompt of the turn before."""
    usages = loop(driver, 6, system=SYSTEM, tools=TOOLS)
    assert [usage.read for usage in usages[1:]] == [usage.input for usage in usages[:-1]]


def test_many_blocks_in_one_turn_do_not_lose_the_prefix(driver: Driver) -> None:
    """Thirty interleaved pairs are more positions than the lookback covers; the previous tail is found all the same."""
    opening = user(prose(30))
    pairs = []
    for i in range(30):
        pairs.append({"type": "text", "text": f"Step {i}."})
        pairs.append({"type": "tool_use", "id": f"t{i}", "name": "search", "input": {}})
    results = [{"type": "tool_result", "tool_use_id": f"t{i}", "content": "ok"} for i in range(30)]
    first = driver.ask(body(opening, system=SYSTEM, tools=TOOLS))
    second = driver.ask(body(opening, assistant(pairs), user(results), system=SYSTEM, tools=TOOLS))
    assert second.read == first.input


def test_a_short_prompt_is_left_alone_and_the_reason_is_given(driver: Driver) -> None:
    """Mandated: below the minimum nothing is cached, so there is nothing to mark."""
    plan = driver.accel.plan(body(user("Hi.")))
    assert plan.empty
    assert "below the minimum of 1024" in plan.reasons[0]


def test_an_empty_plan_gives_back_the_very_request(driver: Driver) -> None:
    """Contract line 1: what is not changed is not copied either."""
    request = body(user("Hi."))
    assert driver.accel.plan(request).apply(request) is request


def test_the_users_own_markers_stay_and_ours_fill_the_room(driver: Driver) -> None:
    """Chosen: the user's markers are kept, ours are dropped first."""
    mark = {"cache_control": {"type": "ephemeral"}}
    system = [{"type": "text", "text": prose(300, i), **mark} for i in range(3)]
    driver.ask(body(user("Hi."), system=system, tools=TOOLS))
    assert len(driver.marks) == 4
    assert {"system[0]", "system[1]", "system[2]"} < set(driver.marks)


def test_four_markers_of_the_user_leave_no_room(driver: Driver) -> None:
    """Mandated: at most four markers."""
    mark = {"cache_control": {"type": "ephemeral"}}
    system = [{"type": "text", "text": prose(300, i), **mark} for i in range(4)]
    request = body(user("Hi."), system=system, tools=TOOLS)
    assert driver.accel.plan(request).empty


def test_ours_come_before_a_one_hour_marker_only_with_one_hour(driver: Driver) -> None:
    """Mandated: longer lifetimes first, so a marker of ours ahead of the user's has to last as long."""
    system = [{"type": "text", "text": SYSTEM, "cache_control": {"type": "ephemeral", "ttl": "1h"}}]
    plan = driver.accel.plan(body(user("Hi."), system=system, tools=TOOLS))
    assert {marker.path[0]: marker.ttl for marker in plan.markers} == {"tools": "1h", "messages": "5m"}


def test_the_policy_chooses_the_lifetime_where_it_is_free(tmp_path: Path) -> None:
    """Chosen: one word in the policy."""
    driver = Driver(tmp_path, policy=Policy(strict=True, cache=CachePolicy(ttl="1h")))
    plan = driver.accel.plan(body(user("Hi."), system=SYSTEM, tools=TOOLS))
    assert [(marker.path[0], marker.ttl) for marker in plan.markers] == [
        ("tools", "1h"),
        ("system", "1h"),
        ("messages", "1h"),
    ]


def test_a_lifetime_that_the_model_does_not_have_is_told(tmp_path: Path) -> None:
    """It may be another model's, so it is no mistake in the policy."""
    driver = Driver(tmp_path, policy=Policy(strict=True, cache=CachePolicy(ttl="30m")))
    plan = driver.accel.plan(body(user(prose(3000))))
    assert [marker.ttl for marker in plan.markers][-1] == "5m"
    assert any("30m is no lifetime of this model, which has 5m, 1h" in reason for reason in plan.reasons)
    assert not any(
        "lifetime of this model" in reason for reason in Driver(tmp_path / "auto").accel.plan(body()).reasons
    )


def test_a_clock_in_the_system_prompt_stops_the_marking_behind_it(driver: Driver) -> None:
    """Contract line 3: after one change the planner pays for no more writes that nobody will read."""
    messages = [user(prose(40))]
    usages = []
    for turn in range(6):
        usages.append(driver.ask(body(*messages, system=f"{SYSTEM} Turn {turn}.", tools=TOOLS)))
        messages += [assistant("ok"), user("more")]
    assert driver.marks == ["tools[1]"]
    assert [usage.written for usage in usages[1:]] == [0] * 5
    assert all(usage.read for usage in usages[1:])


def test_two_tool_orders_that_alternate_are_two_warm_prefixes(driver: Driver) -> None:
    """A change counts as volatile only if the earlier variant does not come back within its lifetime."""
    messages = [user(prose(40))]
    reads = []
    for turn in range(10):
        tools = TOOLS if turn % 2 == 0 else TOOLS[::-1]
        reads.append(driver.ask(body(*messages, system=SYSTEM, tools=tools)).read or 0)
        messages += [assistant("ok"), user("more")]
    assert all(read > 2000 for read in reads[4:])


def test_a_state_dump_at_the_end_that_is_replaced_each_turn_is_not_marked(driver: Driver) -> None:
    """Never on a segment that is expected to change: the marker stands before the volatile tail."""
    history = [user([{"type": "text", "text": prose(1500)}])]
    usages = []
    for turn in range(6):
        dump = user([{"type": "text", "text": f"State {turn}: {prose(200, turn)}"}])
        usages.append(driver.ask(body(*history, assistant("Go on."), dump)))
        history += [assistant("Go on."), user([{"type": "text", "text": f"Result {turn}. {prose(30, turn)}"}])]
    last = len(driver.sent["messages"]) - 1
    assert not any(mark.startswith(f"messages[{last}]") for mark in driver.marks)
    assert (usages[-1].read or 0) > 0


def test_a_prefilled_answer_is_not_marked(driver: Driver) -> None:
    """The next request will have the whole answer in its place."""
    driver.ask(body(user(prose(1500)), assistant([{"type": "text", "text": "{"}])))
    assert driver.marks == ["messages[0].content[0]"]


@pytest.mark.slow
def test_one_shot_calls_stop_being_written_once_the_workload_has_shown_it(tmp_path: Path) -> None:
    """The stated prior gives way to what the workload does."""
    driver = Driver(tmp_path)
    for session in range(40):
        driver.ask(body(user(prose(1500, session)), system=f"Classify. {prose(20, session)}"), gap=400.0)
    assert driver.marks == []


def test_planning_an_already_planned_request_adds_nothing(driver: Driver) -> None:
    """Two layers of wrapping plan once."""
    request = body(user(prose(50)), system=SYSTEM, tools=TOOLS)
    planned = driver.accel.plan(request).apply(request)
    assert driver.accel.plan(planned).markers == ()


def test_an_unknown_model_gets_no_markers_and_a_reason(driver: Driver) -> None:
    """Nothing is guessed for a name that no facts are known for."""
    plan = driver.accel.plan({**body(user(prose(2000))), "model": "my-deployment"})
    assert plan.empty
    assert "my-deployment" in plan.reasons[0]


def test_an_alias_gives_a_deployment_the_facts_of_its_model(tmp_path: Path) -> None:
    """The user maps names; we do not guess them."""
    driver = Driver(tmp_path, policy=Policy(strict=True, aliases={"my-deployment": MODEL}))
    assert not driver.accel.plan({**body(user(prose(2000))), "model": "my-deployment"}).empty


def test_every_marker_of_ours_carries_its_reason(driver: Driver) -> None:
    """A decision is a value that says why."""
    plan = driver.accel.plan(body(user("Hi."), system=SYSTEM, tools=TOOLS))
    assert all(marker.reason and marker.ours for marker in plan.markers)
    assert plan.expected is not None
    assert plan.expected_cost is not None
    assert plan.saving is not None
    assert plan.saving > 0


def test_a_message_thread_is_left_structurally_alone(driver: Driver) -> None:
    """The provider holds the history and supports no markers there."""
    plan = driver.accel.plan(body(user(prose(2000)), thread={"type": "continue", "previous_message_id": "msg_1"}))
    assert plan.empty
    assert "message thread" in plan.reasons[0]


def test_a_picture_counts_as_a_picture_and_not_as_its_base64() -> None:
    """A picture of 400 kB is about 1,500 tokens: without that, one picture would hide what is below a minimum."""
    from agentaccel.explain import explain

    source = {"type": "base64", "media_type": "image/png", "data": "A" * 400_000}
    explanation = explain(body(user([{"type": "image", "source": source}, {"type": "text", "text": "What is it?"}])))
    assert explanation.plan.expected is not None
    assert 1_000 < explanation.plan.expected.total < 2_500


def test_a_plan_can_be_made_for_a_prompt_of_two_hundred_thousand_tokens(driver: Driver) -> None:
    """Size is no special case."""
    messages = [user(prose(100))]
    for turn in range(400):
        messages += [assistant(prose(100, turn)), user(prose(100, turn + 7))]
    plan = driver.accel.plan(body(*messages, system=SYSTEM, tools=TOOLS))
    assert len(plan.markers) == 4

"""Lists in front of the conversation that are added to, and the first picture in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentaccel import Usage
from agentaccel.cache import observe
from agentaccel.types import Cause
from tests.driver import Driver, Json, assistant, body, prose, tool, user

PICTURE: Json = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 40}}


@pytest.fixture
def driver(tmp_path: Path) -> Driver:
    return Driver(tmp_path)


def _said(text: str) -> Json:
    return {"type": "text", "text": text}


def play(driver: Driver, name: str, lists: list[Json], turns: int = 8) -> list[Usage]:
    """A session whose request n has what `lists` says for it."""
    usages, messages = [], [user(f"{name}: {prose(400)}")]
    with driver.accel.session(name, agent="grower"):
        for turn in range(turns):
            usages.append(driver.ask(body(*messages, **lists[turn])))
            messages = [*messages, assistant(prose(60, turn)), user(f"{turn} {prose(300, turn)}")]
    driver.clock.advance(50_000)
    return usages


def tools_at(turn: int) -> Json:
    return {"tools": [tool(f"tool{n}", 500) for n in range(4 + turn)], "system": prose(1_500)}


def system_at(turn: int) -> Json:
    return {"tools": [tool("search", 2_000)], "system": [_said(f"Rule {n}: {prose(400, n)}") for n in range(4 + turn)]}


@pytest.mark.slow
@pytest.mark.parametrize("at", [tools_at, system_at])
def test_a_list_that_grows_with_every_request_keeps_what_stands_before_it(driver: Driver, at: Any) -> None:
    """What stands behind its end is written for nobody; the list itself is read each time."""
    lists = [at(turn) for turn in range(8)]
    for n in range(4):
        usages = play(driver, f"s{n}", lists)
    written, read = [one.written or 0 for one in usages], [one.read or 0 for one in usages]
    assert max(written[1:]) < 1_200  # what came in addition
    assert min(read[1:]) > 1_500


def test_a_list_that_grew_once_costs_one_write(driver: Driver) -> None:
    """The floor: the end of the conversation goes on being written, because lists mostly grow once."""
    usages = play(driver, "s", [tools_at(int(turn > 3)) for turn in range(8)])
    assert usages[4].written is not None
    assert usages[4].written > 1_000
    assert all((one.uncached or 0) < 50 and (one.read or 0) > (one.written or 0) for one in usages[5:])


def test_where_growth_has_no_name_nothing_is_learned_of_it(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: with a place of its own for each length of the list."""
    monkeypatch.setattr(observe, "end_of", lambda prefix, level: f"{level}[{prefix.starts[1]}]")
    for n in range(4):
        usages = play(driver, f"s{n}", [tools_at(turn) for turn in range(8)])
    assert max(one.written or 0 for one in usages[1:]) > 2_000


@pytest.mark.parametrize("found_by_a_tool", [False, True])
def test_the_first_picture_makes_all_messages_anew_and_nothing_after_it(driver: Driver, found_by_a_tool: bool) -> None:
    """Also inside the result of a tool. It is expected, it has a cause, and the next request reads on."""
    call = {"type": "tool_use", "id": "toolu_1", "name": "search", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [PICTURE]}
    fixed = {"tools": [tool("search", 800)], "system": prose(1_500)}
    messages = [user(prose(900)), assistant(prose(300)), user(prose(400))]
    driver.ask(body(*messages[:1], **fixed))
    driver.ask(body(*messages, **fixed))
    messages += [assistant([call]), user([result])] if found_by_a_tool else [assistant("Ok."), user([PICTURE])]
    request = body(*messages, **fixed)
    expected = driver.accel.plan(request).expected
    usage = driver.ask(request)
    assert expected is not None
    assert expected.read == pytest.approx(usage.read, rel=0.1)
    assert {one.cause for one in driver.records[-1].misses} == {Cause.PARAMETER}
    after = driver.ask(body(*messages, assistant("A lamp."), user("And now?"), **fixed))
    assert (after.read or 0) > 0.95 * (after.input or 0)


def test_a_users_marker_on_an_older_block_is_not_taken_to_have_been_there(driver: Driver) -> None:
    """As written, only this session could have written what it marks, and had not."""
    fixed = {"system": prose(1_500)}
    first = prose(900)
    driver.ask(body(user([_said(first)]), **fixed))
    marked = {**_said(first), "cache_control": {"type": "ephemeral"}}
    usage = driver.ask(body(user([marked]), assistant(prose(40)), user("And now?"), **fixed))
    as_written = driver.records[-1].as_written
    assert as_written is not None
    assert (usage.read or 0) > 1_000
    assert as_written.read == 0
    assert sum((as_written.write or {}).values()) > 1_000

"""What stands beside agentaccel: what it costs at the cache is a row of a data file, and records name it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from agentaccel.beside import cost_of, costly
from agentaccel.facts import table
from agentaccel.types import Cause, Drift, Miss
from tests.driver import Driver, body, user

SAID = [name for name, row in table("middleware").items() if isinstance(row, Mapping) and "says" in row]


@pytest.mark.parametrize("name", SAID)
def test_each_row_that_says_what_something_costs_names_causes_that_records_have(name: str) -> None:
    cost = cost_of(name)
    assert cost is not None
    assert cost.causes
    assert cost.causes <= set(Cause)
    assert cost.says[0].islower()
    assert cost.level in (None, "tools", "system", "messages")
    assert (cost.level is not None) <= (Cause.CHANGED in cost.causes)


class SummarizationMiddleware:
    """One of that name."""


class OfAUser(SummarizationMiddleware):
    """One that is made of it."""


def test_what_costs_something_is_known_by_the_name_that_the_data_file_has() -> None:
    """Names of a user's own classes are in no record."""
    beside = [OfAUser(), "TodoListMiddleware", "nobody knows it", "SummarizationMiddleware", "ModelRouterMiddleware"]
    assert costly(beside) == ("SummarizationMiddleware", "ModelRouterMiddleware")


def test_a_miss_is_of_the_kind_that_something_brings_about_where_cause_and_place_are() -> None:
    editing = cost_of("ContextEditingMiddleware")
    assert editing is not None
    changed, place = Miss(cause=Cause.CHANGED, tokens=1), Drift(level="messages", where="messages[2]", likely="edit")
    assert editing.may_explain(changed, place)
    assert editing.may_explain(changed, None)
    assert not editing.may_explain(changed, Drift(level="system", where="system[0].text", likely="clock"))
    assert not editing.may_explain(Miss(cause=Cause.EXPIRED, tokens=1), place)


def test_requests_name_what_stood_beside_them_and_others_do_not(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    with driver.accel.session("s"):
        with driver.accel.beside([OfAUser(), "TodoListMiddleware"]):
            driver.ask(body(user("a")))
            with driver.accel.bypass():
                driver.ask(body(user("b")))
        with driver.accel.beside(["TodoListMiddleware"]):
            driver.ask(body(user("c")))
    assert [(one.session, one.mode, one.beside) for one in driver.records] == [
        ("s", "on", ("SummarizationMiddleware",)),
        ("s", "bypass", ("SummarizationMiddleware",)),
        ("s", "on", ()),
    ]

"""Former names of fields: each works for one minor version, warns, and means what its present name means."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from agentaccel import Accel, CachePolicy, ConfigError, HistoryPolicy, Policy, StorePolicy, ToolPolicy, ToolSpec
from agentaccel.effects.launch import Allowance
from agentaccel.effects.spec import spec_of
from agentaccel.executors import Folder, Http, Shell, Sql

BEFORE: dict[type, str] = {
    Policy: "mode holdout cache history tools store aliases prices strict",
    CachePolicy: "ttl isolate_tenants retention diagnostics move_volatile freeze_tools pinned keep_alive "
    "keep_alive_budget prewarm hold_at_most second_costs",
    HistoryPolicy: "clear_results keep_results pinned_tools distil distil_from summarise summarise_from",
    ToolPolicy: "memo eager speculate prewarm effects egress memo_across fresh_for timeout concurrency slots "
    "per_minute output_cap depth",
    StorePolicy: "path enabled content max_bytes sensitive",
    ToolSpec: "effect concurrent in_thread sequential needs_approval stateful injected domain fresh_for witness "
    "prefetch_key prefetch prewarm kind judge own server listing earlier_listing",
    Allowance: "effects egress wrote familiar",
}
"""The fields of public settings as they were before their names were changed, written down here."""

HERE = Path(__file__).parent

FORMER: list[tuple[Callable[..., Any], str, str, Any]] = [
    (CachePolicy, "hold_at_most", "max_wait", 3.0),
    (CachePolicy, "second_costs", "cost_per_second", 0.5),
    (CachePolicy, "keep_alive_budget", "own_requests_budget", 0.25),
    (ToolPolicy, "memo", "cache_results", False),
    (ToolPolicy, "memo_across", "cache_results_across", 7.0),
    (ToolPolicy, "egress", "remote_guesses", ("search",)),
    (ToolPolicy, "fresh_for", "max_age", 9.0),
    (ToolPolicy, "slots", "max_concurrent", {"search": 2}),
    (ToolPolicy, "per_minute", "rate_limits", {"search": 60}),
    (ToolPolicy, "output_cap", "max_result_bytes", 5),
    (ToolSpec, "domain", "scope", "orders"),
    (ToolSpec, "fresh_for", "max_age", 60),
    (ToolSpec, "witness", "validator", str),
    (Allowance, "egress", "remote_guesses", frozenset({"search"})),
    (lambda **given: Folder(HERE, **given), "output_cap", "max_result_chars", 900),
    (lambda **given: Folder(HERE, **given), "fresh_for", "max_age", 3.0),
    (Http, "output_cap", "max_result_bytes", 900),
    (Http, "fresh_for", "max_age", 3.0),
    (Shell, "output_cap", "max_result_bytes", 900),
    (Shell, "fresh_for", "max_age", 3.0),
    (lambda **given: Sql(connect=int, dialect="sqlite", **given), "output_cap", "max_result_chars", 900),
    (lambda **given: Sql(connect=int, dialect="sqlite", **given), "witness", "validator", str),
]

EACH = pytest.mark.parametrize(("make", "name", "now", "value"), FORMER)


@EACH
def test_a_former_name_of_a_field_means_the_present_one_and_says_so(
    make: Callable[..., Any], name: str, now: str, value: Any
) -> None:
    """As a keyword, where it is read, and in `dataclasses.replace`; each at the user's own line."""
    present = make(**{now: value})
    former: list[Callable[[], object]] = [
        lambda: getattr(make(**{name: value}), now),
        lambda: getattr(present, name),
        lambda: getattr(replace(make(), **{name: value}), now),
    ]
    for one in former:
        with pytest.warns(DeprecationWarning, match=f"{name} is now {now}") as said:
            assert one() == value
        assert [warning.filename for warning in said] == [__file__]


@EACH
def test_both_names_of_a_field_at_once_are_refused(make: Callable[..., Any], name: str, now: str, value: Any) -> None:
    """Which of the two values is meant, nobody can tell."""
    with pytest.raises(ConfigError, match=f"{name} is now {now}: give {now} alone"):
        make(**{name: value, now: value})


@pytest.mark.parametrize("kind", BEFORE)
def test_no_field_that_there_was_is_forgotten(kind: type) -> None:
    """By the list of fields as they were: each is a field today, or a former name of one."""
    former = {name for make, name, _, _ in FORMER if make is kind}
    assert set(BEFORE[kind].split()) - {one.name for one in fields(kind)} == former


def test_a_decorator_takes_the_former_names_too() -> None:
    """They are fields of `ToolSpec`."""
    accel = Accel(Policy(store=StorePolicy(enabled=False)), environ={})
    declared: Any = {"domain": "orders", "fresh_for": 60, "witness": str}
    with pytest.warns(DeprecationWarning, match="ToolSpec") as said:
        tool = accel.tool(effect="read_local", **declared)(lambda number: number)
    assert [str(one.message) for one in said] == [
        "ToolSpec.domain is now scope",
        "ToolSpec.fresh_for is now max_age",
        "ToolSpec.witness is now validator",
    ]
    assert {one.filename for one in said} == {__file__}
    assert spec_of(tool) == ToolSpec(effect="read_local", scope="orders", max_age=60, validator=str)


def test_present_names_warn_of_nothing() -> None:
    """`replace` reads every field, and gives every one."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert replace(CachePolicy(max_wait=1.0), cost_per_second=0.5).max_wait == 1.0

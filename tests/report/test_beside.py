"""What a report says of the requests that something stood beside which is known to cost something at the cache."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from agentaccel.records import TurnRecord
from agentaccel.report import render_markdown, render_text, report, to_json
from agentaccel.store.codec import dump_turn, load_told, load_turn
from agentaccel.types import Cause, Drift, Miss, Usage

NOON = 1_770_000_000.0
MODEL = "claude-sonnet-4-5"
PRICES = {MODEL: {"input": 10.0, "output": 50.0, "read": 1.0, "write": {"5m": 12.5}}}
EDITING, ROUTING = "ContextEditingMiddleware", "ModelRouterMiddleware"


def turn(at: float, *misses: Miss, beside: tuple[str, ...] = (), level: str = "messages") -> TurnRecord:
    return TurnRecord(
        session="s",
        provider="anthropic",
        model=MODEL,
        started=NOON + at,
        usage=Usage(input=9_000, read=1_000, write={"5m": 8_000}, output=10),
        misses=misses,
        drift=Drift(level=level, where=f"{level}[0]", likely="edited history") if misses else None,  # type: ignore[arg-type]
        beside=beside,
    )


CHANGED, EXPIRED = Miss(cause=Cause.CHANGED, tokens=6_000), Miss(cause=Cause.EXPIRED, tokens=2_000)
TURNS = [
    turn(0, beside=(EDITING, ROUTING)),
    turn(1, CHANGED, beside=(EDITING, ROUTING)),
    turn(2, CHANGED, EXPIRED, beside=(EDITING,)),
    turn(3, CHANGED, beside=(EDITING,), level="system"),
    turn(4, CHANGED),
]


def test_what_was_missed_beside_each_is_of_the_kinds_that_it_brings_about() -> None:
    """Neither what expired, nor a change in front of the history, nor what was missed without it."""
    editing, routing = report(TURNS, prices=PRICES).total.beside
    assert (editing.name, editing.requests) == (EDITING, 4)
    [row] = editing.causes
    assert (row.cause, row.misses, row.tokens) == (Cause.CHANGED, 2, 12_000)
    assert row.usd == pytest.approx(12_000 * (12.5 - 1) / 1e6)
    assert (routing.name, routing.requests, routing.causes) == (ROUTING, 2, ())


def test_groups_add_up_to_the_total() -> None:
    found = report([replace(one, session=str(number)) for number, one in enumerate(TURNS)], prices=PRICES)
    of_groups = [row for group in found.groups for row in group.beside]
    for row in found.total.beside:
        own = [one for one in of_groups if one.name == row.name]
        assert row.requests == sum(one.requests for one in own)
        assert sum(one.tokens for one in row.causes) == sum(cause.tokens for one in own for cause in one.causes)


def test_the_report_names_each_what_was_missed_and_what_to_do() -> None:
    text = render_text(report(TURNS, prices=PRICES))
    assert max(map(len, text.splitlines())) <= 80
    told = " ".join(text.partition("Beside other middleware")[2].split())
    assert f"{EDITING} 4 prompt changed 2 12,000 0.1380" in told
    assert f"{ROUTING} 2 none 0 0 n/a" in told
    assert "some may have another cause" in told
    assert f"{EDITING}: each time that it clears results, all behind them is written to the cache anew" in told
    assert "## Beside other middleware" in render_markdown(report(TURNS))
    total = json.loads(json.dumps(to_json(report(TURNS))))["total"]
    assert [
        (one["name"], one["requests"], [cause["tokens"] for cause in one["causes"]]) for one in total["beside"]
    ] == [
        (EDITING, 4, [12_000]),
        (ROUTING, 2, []),
    ]


def test_first_requests_beside_summaries_are_not_all_laid_to_them() -> None:
    first = turn(0, Miss(cause=Cause.FIRST, tokens=8_000), beside=("SummarizationMiddleware",))
    assert "Conversations of your own have first requests, too." in " ".join(render_text(report([first])).split())
    assert "have first requests, too" not in render_text(report(TURNS))


@pytest.mark.parametrize("names", [(), ("one that another version knows",)])
def test_where_nothing_is_known_to_have_stood_beside_the_report_says_nothing(names: tuple[str, ...]) -> None:
    """The twin."""
    found = report([replace(one, beside=names) for one in TURNS])
    assert not found.total.beside
    assert "Beside other middleware" not in render_text(found)
    assert "beside" not in json.dumps(to_json(found))


def test_a_store_has_the_names_only_where_there_are_some_and_older_rows_have_none() -> None:
    assert "beside" not in dump_turn(TURNS[-1])
    assert load_turn(dump_turn(TURNS[-1])) == TURNS[-1]
    named = dump_turn(TURNS[0])
    assert load_turn(named) == TURNS[0]
    assert load_told(named.encode()).beside == (EDITING, ROUTING)
    with pytest.raises(TypeError):
        load_turn(named.replace(f'"{ROUTING}"', "7"))

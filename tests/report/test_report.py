"""The report's figures: they reconcile, they are n/a where nothing is known, and losses are losses."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentaccel.records import KEEP_ALIVE, PREWARM, Outcome, ToolRecord, TurnRecord
from agentaccel.report import By, render_text, report, to_json
from agentaccel.types import Cause, Miss, Usage

NOON = 1_770_000_000.0
MODEL = "claude-sonnet-4-5"
PRICES = {MODEL: {"input": 10.0, "output": 50.0, "read": 1.0, "write": {"5m": 12.5, "1h": 20.0}}}


def turn(
    at: float, plain: int = 0, read: int = 0, write: int = 0, *, session: str = "s", **fields: object
) -> TurnRecord:
    usage = Usage(input=plain + read + write, read=read, write={"5m": write} if write else {}, output=10)
    base = TurnRecord(session=session, provider="anthropic", model=MODEL, started=NOON + at, usage=usage, mode="log")
    return replace(base, **fields)  # type: ignore[arg-type]


def tool(start: float, end: float | None, *, session: str = "s", outcome: Outcome = "ok") -> ToolRecord:
    finished = None if end is None else NOON + end
    return ToolRecord(session=session, name="t", key="", started=NOON + start, finished=finished, outcome=outcome)


def test_the_hit_rate_is_read_over_all_input() -> None:
    """Uncached and written tokens count in full."""
    total = report([turn(0, 10, 0, 990), turn(1, 10, 990, 100)]).total
    assert total.tokens.hit_rate == pytest.approx(990 / 2100)
    assert (total.tokens.input, total.tokens.read, total.tokens.written, total.tokens.uncached) == (
        2100,
        990,
        1090,
        20,
    )


def test_the_four_costs_are_over_the_same_requests() -> None:
    """Paid, as written, without cache, and with a perfect cache that has no premium for writing."""
    records = [turn(0, 0, 0, 2000), turn(1, 0, 1000, 1200, reusable=2000)]
    costs = report(records, prices=PRICES).total.costs
    assert costs.paid == pytest.approx((3200 * 12.5 + 1000 * 1) / 1e6)
    assert costs.as_written == pytest.approx(costs.paid)
    assert costs.without == pytest.approx(4200 * 10 / 1e6)
    assert costs.perfect == pytest.approx((2200 * 10 + 2000 * 1) / 1e6)
    assert costs.saved is None


def test_what_is_shorter_than_the_minimum_not_even_a_perfect_cache_reads() -> None:
    """Nobody could have been promised it."""
    total = report([turn(0, 900), turn(1, 950, reusable=900)], prices=PRICES).total
    assert total.tokens.perfect_rate == 0
    assert total.costs.perfect == total.costs.paid == total.costs.without


def test_a_saving_is_stated_against_the_request_as_written_and_may_be_a_loss() -> None:
    """Never against a straw man, and never hidden."""
    plain = Usage(input=1000, read=0, write={})
    good = turn(0, 0, 1000, 0, mode="on", as_written=plain)
    bad = turn(0, 0, 0, 1000, mode="on", as_written=plain)
    assert report([good], prices=PRICES).total.costs.saved == pytest.approx(9000 / 1e6)
    assert report([bad], prices=PRICES).total.costs.saved == pytest.approx(-2500 / 1e6)
    costs = report([bad, turn(0, 7, mode="on")], prices=PRICES).total.costs
    assert (costs.modelled, costs.unmodelled) == (1, 1)
    assert costs.saved == pytest.approx(-2500 / 1e6)


@pytest.mark.parametrize("mode", ["observe", "holdout", "bypass", "log"])
def test_what_we_did_not_touch_cost_what_it_cost_as_written(mode: str) -> None:
    """Even where a record carries a modelled bill."""
    record = turn(0, 0, 1000, 0, mode=mode, as_written=Usage(input=1000, read=0, write={}))
    costs = report([record], prices=PRICES).total.costs
    assert costs.as_written == costs.paid
    assert costs.saved is None


def test_the_rewrite_factor_counts_growth_over_the_largest_earlier_prompt() -> None:
    """A prompt that is written again in full after a loss counts twice."""
    records = [turn(0, 0, 0, 1000), turn(1, 0, 1000, 100), turn(2, 0, 0, 1100), turn(3, 0, 500)]
    assert report(records).total.tokens.needed == 1100
    assert report(records).total.tokens.rewrite == pytest.approx(2200 / 1100)
    assert report([turn(0, 50)]).total.tokens.rewrite is None


def test_a_forked_session_did_not_have_to_write_what_its_origin_wrote() -> None:
    """Its first prompt goes on from one that was sent elsewhere."""
    assert report([turn(0, 0, 1000, 100, reusable=1000)]).total.tokens.needed == 100


def test_missing_telemetry_is_not_known_rather_than_zero() -> None:
    """No rate, no cost; the session is counted as unreported."""
    silent = turn(0, usage=Usage())
    half = turn(0, session="h", usage=Usage(input=70))
    found = report([silent, half, turn(0, 10, 90, session="ok")], prices=PRICES)
    total = found.total
    assert (total.requests, total.unreported, total.sessions, total.sessions_unreported) == (3, 2, 3, 2)
    assert total.tokens.hit_rate == pytest.approx(0.9)
    assert (total.tokens.input, total.tokens.known) == (170, 100)
    lone = to_json(report([silent]))["total"]
    assert isinstance(lone, dict)
    assert isinstance(lone["tokens"], dict)
    assert isinstance(lone["costs"], dict)
    tokens = lone["tokens"]
    assert (lone["hit_rate"], tokens["input"], tokens["read"], lone["costs"]["paid"]) == (None, None, None, None)


def test_a_model_without_a_price_is_in_no_cost_and_named() -> None:
    """The others still add up."""
    found = report([turn(0, 10, model="secret"), turn(1, 10)], prices=PRICES)
    assert (found.total.costs.priced, found.total.costs.unpriced) == (1, 1)
    assert found.total.costs.paid == pytest.approx(100 / 1e6)
    assert "secret" in found.notes[0]


def test_failed_and_abandoned_attempts_are_counted_apart_but_their_tokens_are_billed() -> None:
    """An attempt without usage is no request; a broken-off one was still paid."""
    failed = turn(0, usage=Usage(), outcome="failed")
    abandoned = turn(1, 0, 50, outcome="abandoned")
    total = report([failed, abandoned, turn(2, 0, 50)]).total
    assert total.attempts == {"failed": 1, "abandoned": 1}
    assert (total.requests, total.tokens.input) == (2, 100)


def test_causes_add_up_by_tokens_and_inferred_ones_stand_apart() -> None:
    """A miss costs what was paid beyond reading."""
    lost = Miss(cause=Cause.EXPIRED, tokens=400)
    guessed = Miss(cause=Cause.EXPIRED, tokens=100, inferred=True)
    rows = report([turn(0, 0, 0, 400, misses=(lost,)), turn(1, 100, misses=(guessed,))], prices=PRICES).total.causes
    assert [(row.cause, row.inferred, row.misses, row.tokens) for row in rows] == [
        (Cause.EXPIRED, False, 1, 400),
        (Cause.EXPIRED, True, 1, 100),
    ]
    assert rows[0].usd == pytest.approx(400 * 11.5 / 1e6)
    assert rows[1].usd == pytest.approx(100 * 9 / 1e6)


def test_first_bytes_are_split_by_whether_anything_was_read() -> None:
    """Nearest rank; requests that do not say are in neither."""
    records = [turn(n, 0, 10 * (n % 2), 5, first_byte=NOON + n + n / 10) for n in range(10)]
    total = report([*records, turn(10, usage=Usage(), first_byte=NOON + 99)]).total
    assert (total.warm.count, total.cold.count) == (5, 5)
    assert (total.warm.p50, total.warm.p90) == (pytest.approx(0.5), pytest.approx(0.9))


def test_overlapping_tools_count_once_and_pauses_for_people_do_not_count() -> None:
    """Active time is that in which a model or a tool was running."""
    records = [
        turn(0, 1, finished=NOON + 10),
        tool(10, 20),
        tool(12, 15),
        tool(15, 30),
        turn(1000, 1, finished=NOON + 1010),
        tool(1010, None),
    ]
    tools = report(records).total.tools
    assert (tools.calls, tools.unfinished) == (4, 1)
    assert (tools.seconds, tools.active) == (pytest.approx(20), pytest.approx(40))
    assert tools.share == pytest.approx(0.5)


def test_reads_do_not_count_against_the_limit_where_the_provider_says_so() -> None:
    """Mandated by the provider, with the exception of one older model."""
    minute = [turn(0, 10, 100, 20), turn(30, 0, 100, 20), turn(70, 5, 900)]
    limits = report(minute).total.limits
    assert (limits.counted, limits.everything) == (55, 1155)
    assert (limits.peak_counted, limits.peak_everything) == (50, 905)
    old = report([turn(0, 10, 100, 20, model="claude-3-5-haiku")]).total.limits
    assert old.counted == 130
    assert report([turn(0, 10, model="secret", provider="nobody")]).total.limits.counted is None


def test_a_tool_belongs_to_the_group_of_the_request_before_it() -> None:
    """That request asked for it."""
    records = [
        turn(0, 5, model="a"),
        tool(1, 2),
        turn(3, 9, model="b"),
        tool(4, 5, outcome="failed"),
        tool(5, 6),
    ]
    groups = {group.name: group.tools for group in report(records, by="model").groups}
    assert {name: (tools.calls, tools.failed) for name, tools in groups.items()} == {"a": (1, 0), "b": (2, 1)}


def test_days_come_in_their_order_and_what_has_no_time_is_not_dated() -> None:
    """Not in 1970."""
    records = [turn(86_400, 5), turn(0, 50), turn(-NOON, 5)]
    assert [group.name for group in report(records, by="day").groups] == ["2026-02-02", "2026-02-03", "n/a"]


def test_the_control_group_stands_beside_the_others() -> None:
    """One row per mode."""
    modes = report([turn(0, 0, 10, mode="on"), turn(0, 10, mode="holdout")], prices=PRICES).total.modes
    assert [(row.mode, row.requests, row.hit_rate) for row in modes] == [("holdout", 1, 0.0), ("on", 1, 1.0)]


def test_the_largest_misses_are_examples_and_first_requests_are_not() -> None:
    """With what is known about each."""
    records = [
        turn(n, 10, misses=(Miss(cause=Cause.EXPIRED, tokens=n, detail=f"d{n}"),), session=f"s{n}") for n in range(30)
    ]
    records.append(turn(0, 10, misses=(Miss(cause=Cause.FIRST, tokens=10_000),)))
    random.Random(1).shuffle(records)
    assert [example.tokens for example in report(records).examples] == list(range(29, 19, -1))


COUNTS = st.integers(0, 10**6)
TURNS = st.builds(
    lambda at, plain, read, write, session, model, silent: turn(
        at, plain, read, write, session=session, model=model, **({"usage": Usage()} if silent else {})
    ),
    st.integers(0, 10**6),
    COUNTS,
    COUNTS,
    COUNTS,
    st.sampled_from(["a", "b", "c"]),
    st.sampled_from([MODEL, "claude-haiku-5-5", "secret"]),
    st.booleans(),
)


@given(records=st.lists(TURNS, max_size=30), by=st.sampled_from(get_args(By)))
def test_totals_and_groups_reconcile_with_the_providers_usage_to_the_token(records: list[TurnRecord], by: By) -> None:
    """Whatever is grouped how: nothing is lost, nothing counts twice."""
    found = report(records, by=by)
    for key in ("input", "read", "uncached", "output", "written"):
        truth = sum(getattr(record.usage, key) or 0 for record in records)
        assert (getattr(found.total.tokens, key) or 0) == truth
        assert sum(getattr(group.tokens, key) or 0 for group in found.groups) == truth
    assert sum(group.requests for group in found.groups) == found.total.requests == len(records)
    assert found.total.tokens.input == sum(
        (found.total.tokens.read, found.total.tokens.written or 0, found.total.tokens.uncached)
    )
    costs = found.total.costs
    assert sum(group.costs.paid or 0 for group in found.groups) == pytest.approx(costs.paid or 0)
    assert json.loads(json.dumps(to_json(found)))["total"]["requests"] == len(records)


ODD = st.builds(
    lambda one, later, **fields: replace(one, finished=one.started + later, **fields),
    TURNS,
    st.integers(0, 10**5),
    mode=st.sampled_from(["on", "holdout", "log", KEEP_ALIVE, PREWARM]),
    outcome=st.sampled_from(["ok", "ok", "failed", "abandoned"]),
    waited=st.sampled_from([None, 0.5]),
    parent=st.sampled_from([None, "a"]),
    tenant=st.sampled_from(["x", "y"]),
    thread=st.sampled_from(["", "", "", "9f2c", "0a"]),
    first_byte=st.sampled_from([None, NOON + 2e6]),
    as_written=st.sampled_from([None, Usage(input=10, read=0, write={})]),
    misses=st.sampled_from([(), (Miss(cause=Cause.FIRST, tokens=9),), (Miss(cause=Cause.MODEL, tokens=5),)]),
)
TOOLS = st.builds(
    lambda at, length, session, **fields: replace(tool(at, at + length, session=session), **fields),
    st.integers(0, 10**6),
    st.integers(0, 10**5),
    st.sampled_from(["a", "b", ""]),
    speculative=st.booleans(),
    tenant=st.sampled_from(["x", "y"]),
    fate=st.sampled_from([None, "stale", "unused"]),
    served_from=st.sampled_from([None, "memo", "asked"]),
    hidden=st.sampled_from([None, 1.0]),
    wasted=st.sampled_from([None, 2.0]),
)


@given(records=st.lists(ODD | TOOLS, min_size=1, max_size=30), by=st.sampled_from(get_args(By)))
def test_the_total_is_the_same_whatever_it_is_grouped_by(records: list[TurnRecord | ToolRecord], by: By) -> None:
    """It is had from the groups, but for times; what nobody names an agent of is all one group."""
    records.sort(key=lambda record: record.started)
    whole = to_json(report(records, by="agent", prices=PRICES))["groups"][0]
    total = to_json(report(records, by=by, prices=PRICES))["total"]
    for one in (whole, total):
        del one["limits"]["peak_counted"], one["limits"]["peak_everything"]  # of groups, only models have them
    close({**total, "name": ""}, {**whole, "name": ""})


def close(one: Any, other: Any) -> None:
    """Equal but for the order in which fractions were added."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for name in one:
            close(one[name], other[name])
    elif isinstance(one, list):
        assert len(one) == len(other)
        for left, right in zip(one, other, strict=True):
            close(left, right)
    else:
        assert one == (pytest.approx(other) if isinstance(other, float) else other)


@given(records=st.lists(TURNS, max_size=30))
def test_a_perfect_cache_never_costs_more_than_what_was_paid(records: list[TurnRecord]) -> None:
    """It reads at least as much and pays no premium."""
    costs = report(records, prices=PRICES).total.costs
    if costs.paid is not None and costs.perfect is not None and costs.without is not None:
        assert costs.perfect <= costs.paid + 1e-9
        assert costs.perfect <= costs.without + 1e-9


def test_a_remembered_result_hides_no_run() -> None:
    """Its one run was waited for, or is counted already, by the call that it answered."""
    calls = [
        replace(tool(NOON, NOON + 1), served_from="asked", hidden=0.5),
        *[replace(tool(NOON + at, NOON + at), served_from="memo", hidden=1.0) for at in (2, 3)],
    ]
    early = report(calls).total.early
    assert (early.hidden, early.served, early.remembered) == (0.5, 1, 2)


def test_of_a_reply_that_was_broken_off_the_output_is_not_known() -> None:
    """What a stream has counted by then is its beginning: a lower bound, and the row says so."""
    whole, cut = (turn(0, 500, mode="on", as_written=None, outcome=outcome) for outcome in ("ok", "abandoned"))
    costs = report([whole, cut, cut], prices=PRICES).total.costs
    assert costs.output == report([whole], prices=PRICES).total.costs.output
    assert costs.unended == 2
    assert (costs.output_at_least, costs.output_partial) == (pytest.approx(3 * 10 * 50 / 1e6), 2)
    shown = render_text(report([whole, cut, cut], prices=PRICES))
    assert "  output            ≥0.0015  at least; 2 of 3 recorded incompletely" in shown
    nothing = report([cut], prices=PRICES).total.costs
    assert (nothing.output, nothing.unended) == (None, 1)

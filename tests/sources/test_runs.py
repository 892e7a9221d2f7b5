"""Agent runs in the normalised format: usage in its shapes, runs without any, times where there are some."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentaccel.records import ToolRecord, TurnRecord
from agentaccel.report import report
from agentaccel.sources.fields import metered_of, seconds
from agentaccel.sources.logs import ImportTally, read_logs
from agentaccel.types import Cause, Usage

NOON = 1_770_000_000.0


def write(path: Path, *runs: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(run) + "\n" for run in runs), encoding="utf-8")
    return path


def run(id_: str, *messages: dict[str, Any], model: str = "claude-opus-4-6") -> dict[str, Any]:
    return {"id": id_, "source": "x", "model": model, "domain": "office", "messages": [*messages], "meta": {}}


def records(*paths: Path) -> tuple[list[TurnRecord], list[ToolRecord]]:
    found = list(read_logs(paths))
    return [r for r in found if isinstance(r, TurnRecord)], [r for r in found if isinstance(r, ToolRecord)]


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        (
            {"input_tokens": 1, "cache_read_input_tokens": 2, "cache_creation_input_tokens": 4, "output_tokens": 8},
            Usage(input=7, read=2, write={"5m": 4}, output=8),
        ),
        (
            {
                "input_tokens": 1,
                "cache_read_input_tokens": 2,
                "cache_creation_input_tokens": 9,
                "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 5},
            },
            Usage(input=12, read=2, write={"1h": 5, "5m": 4}),
        ),
        ({"prompt_tokens": 5, "completion_tokens": 6}, Usage(input=5, output=6)),
        ({"input_tokens": 5, "output_tokens": 6}, Usage(input=5, output=6)),
        (
            {"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 3}},
            Usage(input=5, read=3),
        ),
        (
            {
                "input_tokens": 9,
                "input_tokens_details": {
                    "cached_tokens": 3,
                    "cache_write_tokens": 4,
                    "cache_write_tokens_details": {"ttl_30m_tokens": 4},
                },
            },
            Usage(input=9, read=3, write={"30m": 4}),
        ),
        (
            {
                "prompt_tokens": 5,
                "completion_tokens": 1,
                "prompt_tokens_details": {"cached_tokens": 9},
                "total_tokens": 15,
            },
            Usage(input=14, read=9, output=1),
        ),
        ({"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 9}}, Usage(input=5)),
        ({"input_tokens": 5, "cache_read_input_tokens": None}, Usage(input=5)),
        ({"input_tokens": "many", "output_tokens": -1}, Usage()),
    ],
)
def test_usage_is_read_in_every_known_shape(reported: dict[str, object], expected: Usage) -> None:
    """Input is inclusive of the cache in our noun; what was not reported is None."""
    assert metered_of(reported, "5m").usage == expected


def test_a_run_of_a_model_that_charges_for_writing_is_priced_only_where_writes_are_counted(tmp_path: Path) -> None:
    """From GPT-5.6 on writing costs 1.25 times the input, and the provider writes by itself; before, it is free:
    40 at 2.50 USD a million and 60 at a tenth, or at half, of it."""
    usage = {"prompt_tokens": 100, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 60}}
    costs = {}
    for model in ("gpt-6-sol", "gpt-4o"):
        run = {"id": model, "model": model, "messages": [{"role": "assistant", "content": "x", "usage": usage}]}
        (tmp_path / "runs.jsonl").write_text(json.dumps(run) + "\n")
        costs[model] = report(read_logs([tmp_path / "runs.jsonl"])).total.costs.paid
    assert costs == {"gpt-6-sol": None, "gpt-4o": pytest.approx((40 * 2.5 + 60 * 1.25) * 1e-6)}


@pytest.mark.parametrize("value", [None, "", "yesterday", -5, 1e18, True, "9999999-01-01", {}])
def test_what_is_not_a_time_is_no_time(value: object) -> None:
    """Neither an error nor the year 1970."""
    assert seconds(value) is None


def test_a_run_without_usage_and_times_is_known_to_exist_and_nothing_else(tmp_path: Path) -> None:
    """Requests are counted, tokens and times are not known."""
    call = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": "{}"}}
    log = write(
        tmp_path / "a.jsonl",
        run(
            "r1",
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "x", "is_error": True},
            model="nobody-knows-me",
        ),
    )
    (turn,), (tool,) = records(log)
    assert (turn.session, turn.agent, turn.provider, turn.started) == ("r1", "office", "unknown", 0.0)
    assert turn.usage == Usage()
    assert (tool.name, tool.outcome, tool.started, tool.finished) == ("search", "failed", 0.0, None)


def test_times_come_from_the_message_before(tmp_path: Path) -> None:
    """The start of a request is not recorded: it is the end of what came before."""
    call = {"id": "c1", "function": {"name": "search", "arguments": "{}"}}
    use = {"input_tokens": 10, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 9000}
    log = write(
        tmp_path / "a.jsonl",
        run(
            "r1",
            {"role": "user", "content": "hi", "ts": NOON},
            {"role": "assistant", "tool_calls": [call], "ts": NOON + 2, "ts_end": NOON + 3, "usage": use},
            {"role": "tool", "tool_call_id": "c1", "content": "x", "ts": NOON + 7},
            {"role": "assistant", "content": "ok", "ts": NOON + 9, "usage": use},
        ),
    )
    turns, (tool,) = records(log)
    assert [(t.started - NOON, (t.finished or 0) - NOON) for t in turns] == [(0, 3), (7, 9)]
    assert (tool.started - NOON, (tool.finished or 0) - NOON) == (3, 7)
    assert [[miss.cause for miss in turn.misses] for turn in turns] == [[Cause.FIRST], [Cause.UNKNOWN]]


def test_a_compaction_mark_names_the_cause_of_the_next_miss(tmp_path: Path) -> None:
    """The mark stands on a user message of its own."""

    def use(read: int, write_: int) -> dict[str, int]:
        return {"input_tokens": 0, "cache_read_input_tokens": read, "cache_creation_input_tokens": write_}

    log = write(
        tmp_path / "a.jsonl",
        run(
            "r1",
            {"role": "assistant", "content": "a", "usage": use(0, 90_000)},
            {"role": "user", "content": "[compact_boundary]", "compact_boundary": True},
            {"role": "assistant", "content": "b", "usage": use(0, 20_000)},
        ),
    )
    turns, _ = records(log)
    assert [miss.cause for miss in turns[1].misses] == [Cause.COMPACTED]


def test_a_run_in_two_files_counts_once(tmp_path: Path) -> None:
    """By its source and id."""
    one = run("r1", {"role": "assistant", "content": "a"})
    write(tmp_path / "a.jsonl", one, run("r2", {"role": "assistant", "content": "a"}))
    write(tmp_path / "b.jsonl", one)
    tally = ImportTally()
    assert len(list(read_logs([tmp_path], tally=tally))) == 2
    assert tally.duplicates == 1

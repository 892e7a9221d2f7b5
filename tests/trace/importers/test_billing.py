"""Logs say of a bill what live records do: all that was sampled, terms, lifetimes that other lines tell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentaccel.records import TurnRecord
from agentaccel.report.aggregate import report
from agentaccel.trace.importers import read_logs

SONNET = "claude-sonnet-4-6"
"""3 USD a million tokens of input; twice as much to write for an hour."""


def counters(fresh: int, output: int = 5, *, read: int = 0, written: int = 0, **more: Any) -> dict[str, Any]:
    cache = {"cache_read_input_tokens": read, "cache_creation_input_tokens": written}
    return {"input_tokens": fresh, "output_tokens": output, **cache, **more}


def split(label: str, tokens: int) -> dict[str, Any]:
    return counters(10, written=tokens, cache_creation={f"ephemeral_{label}_input_tokens": tokens})


def turns(folder: Path, *usages: dict[str, Any]) -> list[TurnRecord]:
    """A log of Claude Code whose replies have these usages."""
    lines = []
    for number, usage in enumerate(usages):
        at = f"2026-08-01T10:{number:02d}"
        asked = {"role": "user", "content": "hi"}
        said = {
            "id": f"msg_{number}", "role": "assistant", "model": SONNET, "stop_reason": "end_turn", "usage": usage,
            "content": [{"type": "text", "text": "x"}],
        }  # fmt: skip
        of = {"sessionId": "s"}
        lines += [
            {"type": "user", "uuid": f"p{number}", "timestamp": f"{at}:00.000Z", "message": asked, **of},
            {"type": "assistant", "uuid": f"u{number}", "requestId": f"r{number}", "timestamp": f"{at}:05.000Z",
             "message": said, **of},
        ]  # fmt: skip
    (folder / "s.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return [one for one in read_logs([folder / "s.jsonl"]) if isinstance(one, TurnRecord)]


def test_a_compaction_in_a_log_is_paid_and_no_part_of_the_prompt(tmp_path: Path) -> None:
    """Mandated by the provider: (180,000 + 23,000) x 3 USD are 0.609."""
    rounds = [counters(180_000, 3_500, type="compaction"), counters(23_000, 1_000, type="message")]
    found = turns(tmp_path, counters(23_000, 1_000, iterations=rounds))
    assert found[0].usage.input == 23_000
    assert report(found).total.costs.paid == pytest.approx(0.609)


@pytest.mark.parametrize(
    ("terms", "usd"), [({"inference_geo": "us"}, 0.33), ({"service_tier": "batch"}, 0.15), ({"speed": "odd"}, None)]
)
def test_a_term_in_a_log_is_applied_or_said(terms: dict[str, str], usd: float | None, tmp_path: Path) -> None:
    """As live: 100,000 x 3 USD, a tenth more or half of it; what nobody knows is not priced."""
    total = report(turns(tmp_path, counters(100_000, **terms))).total
    assert total.costs.paid == (None if usd is None else pytest.approx(usd))
    assert dict(total.unclear) == ({} if usd is not None else {"speed odd": 1})


@pytest.mark.parametrize(
    ("others", "written"),
    [
        ([split("1h", 500)], {"1h": 7_345}),
        ([split("5m", 500)], {"5m": 7_345}),
        ([split("1h", 500), split("5m", 500)], {"unsplit": 7_345}),
        ([], {"5m": 7_345}),
    ],
)
def test_other_lines_of_a_log_tell_for_how_long_was_written(
    others: list[dict[str, Any]], written: dict[str, int], tmp_path: Path
) -> None:
    """Chosen by us: before and behind; where they tell of several lifetimes, nobody knows; else the default's."""
    unsplit = counters(10, written=7_345)
    assert turns(tmp_path, unsplit, *others)[0].usage.write == written
    assert turns(tmp_path, *others, unsplit)[-1].usage.write == written


def test_a_run_tells_for_how_long_was_written_as_well(tmp_path: Path) -> None:
    """Chosen by us, as above."""
    said = [{"role": "assistant", "content": "x", "usage": usage} for usage in (counters(1, written=9), split("1h", 5))]
    run = {"id": "r", "model": SONNET, "messages": [{"role": "user", "content": "hi"}, *said]}
    (tmp_path / "runs.jsonl").write_text(json.dumps(run) + "\n")
    found = [one for one in read_logs([tmp_path / "runs.jsonl"]) if isinstance(one, TurnRecord)]
    assert [dict(one.usage.write or {}) for one in found] == [{"1h": 9}, {"1h": 5}]


def test_without_looking_at_other_lines_the_default_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin."""
    place = "agentaccel.trace.importers.session_records.lifetime_among"
    monkeypatch.setattr(place, lambda *told, default: default)
    assert turns(tmp_path, counters(10, written=7_345), split("1h", 500))[0].usage.write == {"5m": 7_345}

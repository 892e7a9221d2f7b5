"""The provider's own reason for a miss stands beside ours, and the report says where the two differ."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from agentaccel.cli import main
from agentaccel.report import figures as verdicts
from agentaccel.report import report
from agentaccel.sources.logs import read_logs
from tests.sources.session_lines import MODEL, Line, prompt, reply, usage, write


def told(at: float, id_: str, use: Line, reason: str | None, model: str = MODEL) -> list[Line]:
    one = reply(at + 1, id_, use, model=model)
    one["message"]["diagnostics"] = None if reason is None else {"cache_miss_reason": {"type": reason}}
    return [prompt(at), one]


def made(path: Path) -> Path:
    """One request that both call a switch of the model, one that we call shrunk and the provider a new system prompt,
    one that only the provider explains, one that we call expired, and one without a verdict."""
    lines = [
        *told(0, "1", usage(0, 0, 50_000), None),
        *told(10, "2", usage(0, 0, 50_000), "model_changed", "claude-sonnet-4-5"),
        *told(20, "3", usage(0, 0, 40_000), "system_changed", "claude-sonnet-4-5"),
        *told(30, "4", usage(0, 9_000, 40_000), "tools_changed", "claude-sonnet-4-5"),
        *told(9_000, "5", usage(0, 0, 50_000), "messages_changed", "claude-sonnet-4-5"),
        *told(9_010, "6", usage(0, 50_000, 10), "unavailable", "claude-sonnet-4-5"),
    ]
    return write(path / "a.jsonl", lines)


EXPECTED = {
    ("model_changed", "model switched", "same"),
    ("system_changed", "prompt changed", "same"),
    ("tools_changed", "unexplained", "provider only"),
    ("messages_changed", "expired", "differs"),
    ("unavailable", "nothing missed", "not compared"),
}


def test_the_two_are_compared_request_by_request(tmp_path: Path) -> None:
    """By hand, one of each kind; a request without a reason is in no row."""
    rows = report(read_logs([made(tmp_path)])).total.verdicts
    assert {(row.reason, row.ours, row.verdict) for row in rows} == EXPECTED
    assert [row.requests for row in rows] == [1] * 5


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_the_report_shows_both_and_says_where_they_differ(tmp_path: Path, form: str) -> None:
    """In every form; the JSON form has the rows."""
    log = str(made(tmp_path))
    shown = CliRunner().invoke(main, ["report", log, "--format", form]).output
    assert "messages" in shown
    assert "In 1 of 5 requests the two differ." in shown
    kept: Any = json.loads(CliRunner().invoke(main, ["report", log, "--format", "json"]).output)
    assert {(row["reason"], row["ours"], row["verdict"]) for row in kept["total"]["verdicts"]} == EXPECTED


def test_without_the_table_nothing_would_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin."""
    monkeypatch.setattr(verdicts, "_SAME", {})
    rows = report(read_logs([made(tmp_path)])).total.verdicts
    assert {row.verdict for row in rows} == {"not compared"}

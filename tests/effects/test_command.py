"""`agentaccel effects`, as a user types it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_commands import ROOT, run


def test_a_command_is_judged_with_evidence(tmp_path: Path) -> None:
    """In words, and as JSON."""
    done = run("effects", "ls -la", cwd=tmp_path)
    assert done.exit_code == 0
    assert "read_local: may be run on a prediction" in done.output
    verdict = json.loads(run("effects", "sort -o a b", "--json", cwd=tmp_path).output)
    assert verdict["launchable"] == "never"
    assert "sort -o" in verdict["evidence"][0]["why"]


def test_sql_is_known_by_its_beginning(tmp_path: Path) -> None:
    """Without a dialect, the strictest of three."""
    assert "only once the model has asked" in run("effects", "SELECT count(*) FROM t", cwd=tmp_path).output
    assert "never early" in run("effects", "DELETE FROM t", cwd=tmp_path).output
    assert "on a prediction" in run("effects", "SELECT 1", "--dialect", "sqlite", cwd=tmp_path).output


def test_tools_are_believed_only_where_the_user_says_so(tmp_path: Path) -> None:
    """A list of tools as a server gives it."""
    tools = [
        {"name": "get_ticket", "inputSchema": {}, "annotations": {"readOnlyHint": True}},
        {"name": "get_other", "inputSchema": {}},
    ]
    (tmp_path / "tools.json").write_text(json.dumps({"tools": tools}))
    plain = json.loads(run("effects", "tools.json", "--json", cwd=tmp_path).output)
    trusted = json.loads(run("effects", "tools.json", "--trust", "--json", cwd=tmp_path).output)
    assert [one["launchable"] for one in plain] == ["never", "never"]
    assert [one["launchable"] for one in trusted] == ["asked", "never"]


@pytest.mark.slow
def test_lines_are_answered_one_by_one() -> None:
    """Each verdict is there before the next case is written, also behind a line that is no case."""
    process = subprocess.Popen(
        [sys.executable, "-m", "agentaccel", "effects", "--jsonl"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    twice = '{"kind": "shell", "kind": "shell", "input": {"command": "ls"}}'
    cases = (
        (json.dumps({"kind": "shell", "input": {"command": "ls"}}), "predicted"),
        ("no JSON", "never"),
        (twice, "never"),
        ("", "never"),
        ("NaN", "never"),
        ("[" * 100_000, "never"),
        (json.dumps({"kind": "http", "input": {"method": "GET", "url": "https://example.com/"}}), "asked"),
    )
    for line, wanted in cases:
        process.stdin.write(line + "\n")
        process.stdin.flush()
        verdict = json.loads(process.stdout.readline())
        assert verdict["launchable"] == wanted, line[:50]
        assert verdict["evidence"]
    process.stdin.close()
    assert process.wait(timeout=60) == 0
    process.stdout.close()

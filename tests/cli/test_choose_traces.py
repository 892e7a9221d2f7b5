"""`agentaccel selfhost choose` on recorded traces: a report for each source that one can act on."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from agentaccel.cli import main

pytestmark = pytest.mark.traces

FOLDER = os.environ.get("AGENTACCEL_TRACES")
SOURCES = sorted(Path(FOLDER).glob("*.jsonl.gz")) if FOLDER else []


def chosen(*words: str) -> dict[str, Any]:
    done = CliRunner().invoke(main, ["selfhost", "choose", *words, "--format", "json"])
    assert done.exit_code == 0, done.stderr
    value: dict[str, Any] = json.loads(done.stdout)
    return value


@pytest.mark.skipif(not SOURCES, reason="AGENTACCEL_TRACES is not set")
@pytest.mark.parametrize("path", SOURCES, ids=[path.name.partition(".")[0] for path in SOURCES])
@pytest.mark.timeout(600)
def test_each_source_is_told_its_method_its_figures_and_why(path: Path) -> None:
    """And what a tree that remembers finds is never less than what a lookup in one conversation finds by much."""
    value = chosen(str(path), "--engine", "vllm", "--concurrency", "4", "--gpu", "H100")
    [source] = value["sources"]
    assert source["tokens"] > 10_000
    [engine] = source["engines"]
    options = {(one["method"], json.dumps(one["settings"])): one for one in engine["options"]}
    best = engine["options"][0]
    assert engine["method"] in {one["method"] for one in engine["options"]}
    assert (engine["method"] == "none") == (engine["render"] == {"engine": "vllm"})
    for one in options.values():
        assert one["tokens_per_step"] >= 1
        assert one["step_cost"] >= 1
        assert (one["speed"] > 1) == (one["pays_up_to"] >= 4) or one["schedule"] or one["method"] == "none"
    assert best["speed"] == max(one["speed"] for one in options.values())
    suffix, lookup = options["suffix", "{}"], options["ngram", "{}"]
    assert suffix["tokens_per_step"] >= 0.95 * lookup["tokens_per_step"]
    assert engine["sites"]
    assert all(site["options"] for site in engine["sites"].values())
    assert any("how sure" in reason for reason in engine["reasons"])
    assert any("tokens a step" in reason for reason in engine["reasons"])


@pytest.mark.skipif(not SOURCES, reason="AGENTACCEL_TRACES is not set")
def test_claude_codes_logs_are_read_as_well() -> None:
    logs = Path(FOLDER or "") / "claude_code"
    if not logs.is_dir():
        pytest.skip("there are no logs of Claude Code")
    [source] = chosen(str(logs), "--engine", "llamacpp", "--concurrency", "1")["sources"]
    assert source["replies"] > 10
    assert source["engines"][0]["options"]

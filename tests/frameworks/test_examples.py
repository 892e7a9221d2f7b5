"""An agent of each framework, unchanged: it is recorded; and with the line that the README adds, its tool is served."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT, Block, blocks

pytestmark = pytest.mark.frameworks

EXAMPLES = sorted((ROOT / "examples" / "frameworks").glob("*.py"))
DIFFS = [block for block in blocks("README.md") if block.kind == "diff"]


def runs_here(text: str) -> None:
    """Skip what needs a framework that is in another environment."""
    modules = re.findall(r"^(?:from|import) ([\w.]+)", text, re.MULTILINE)
    for name in modules:
        top = name.partition(".")[0]
        if importlib.util.find_spec(top) is None or (top != name and importlib.util.find_spec(name) is None):
            pytest.skip(f"{name} is in another environment")


def ran(folder: Path, *command: str) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AGENTACCEL_")}
    kept["AGENTACCEL_STORE"] = str(folder / "trace.db")
    done = subprocess.run([sys.executable, *command], cwd=folder, env=kept, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def report(folder: Path) -> Any:
    return json.loads(ran(folder, "-m", "agentaccel", "report", "--format", "json"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_unchanged_agent_is_recorded_whole(path: Path, tmp_path: Path) -> None:
    runs_here(path.read_text(encoding="utf-8"))
    said = ran(tmp_path, "-m", "agentaccel", "run", "--observe", "--", sys.executable, str(path))
    assert said == "It was sent on Monday.\n"
    assert report(tmp_path)["total"]["requests"] == 2


ACCEL = "from agentaccel import Accel, Policy\n\naccel = Accel(Policy(stream_inside=True))\n"


def changed(block: Block) -> str:
    """The example that a diff is of, with what it takes away and adds; what stands first is added in front."""
    text, at = f"{ACCEL}{(ROOT / block.title).read_text(encoding='utf-8')}", 0
    for line in block.text.splitlines(keepends=True):
        if line.startswith("-"):
            assert text.count(line[1:]) == 1, line
            at = text.index(line[1:])
            text = text.replace(line[1:], "")
        else:
            text = text[:at] + line[1:] + text[at:]
            at += len(line[1:])
    return text


@pytest.mark.parametrize("block", DIFFS, ids=lambda block: block.title)
def test_with_the_line_of_the_readme_its_tool_is_run_early_and_its_prompt_is_read(block: Block, tmp_path: Path) -> None:
    text = changed(block)
    runs_here(text)
    (tmp_path / "agent.py").write_text(text, encoding="utf-8")
    assert ran(tmp_path, "agent.py") == "It was sent on Monday.\n"
    total = report(tmp_path)["total"]
    assert (total["requests"], total["early"]["launched"], total["early"]["served"]) == (2, 1, 1)
    assert total["tokens"]["read"] > 1_000


def test_each_example_is_named_where_they_are_told_of() -> None:
    said = (ROOT / "docs" / "how-to" / "every-client.md").read_text(encoding="utf-8")
    assert not [path.name for path in EXAMPLES if path.name not in said]

"""Guards and what the code looks like without them: each must make a named check fail.

A mutant is a copy of the package in which one guard is deleted. Its text must occur exactly once, so a guard that moves
takes its mutant along or fails the suite.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One guard, deleted."""

    guard: str
    """What the guard keeps from happening."""
    file: str
    old: str
    new: str


def survives(mutant: Mutant, folder: Path, command: list[str]) -> str | None:
    """Run `command` in a copy of the package without the guard; its output where it passed all the same."""
    target = folder / "agentaccel" / mutant.file
    # What is compiled of other modules is as good here; what ends in a number is being written.
    compiled = shutil.ignore_patterns(f"{target.stem}.*.pyc", "*.pyc.*")
    for part in ("agentaccel", "tests"):
        shutil.copytree(ROOT / part, folder / part, ignore=compiled)
    text = target.read_text(encoding="utf-8")
    assert text.count(mutant.old) == 1, (
        f"the guard against {mutant.guard} has moved: found {text.count(mutant.old)} times"
    )
    target.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    environment = {
        **os.environ,
        "PYTHONPATH": str(folder),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_PLUGINS": "_hypothesis_pytestplugin,pytest_asyncio.plugin,pytest_timeout",
    }
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    assert "ModuleNotFoundError" not in done.stderr, done.stderr
    assert "SyntaxError" not in done.stderr, done.stderr
    assert "async def functions are not natively supported" not in done.stdout, done.stdout
    if "pytest" in command:  # any other code says that no test has run
        assert done.returncode in (0, 1), done.stdout
    return done.stdout if done.returncode == 0 else None

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

MADE: list[Mutant] = []
"""Every mutant of the modules that have been imported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One guard, deleted."""

    guard: str
    """What the guard keeps from happening."""
    file: str
    old: str
    new: str

    def __post_init__(self) -> None:
        MADE.append(self)

    def found(self, package: Path) -> str:
        """The text of its file in `package`. Fails where the guard is not there, or not there alone."""
        text = (package / self.file).read_text(encoding="utf-8")
        assert text.count(self.old) == 1, (
            f"the guard against {self.guard} has moved: found {text.count(self.old)} times"
        )
        return text


def running(*tests: str, only: str = "") -> list[str]:
    """The command that runs `tests`, paths from the root, in a copy; of them only those whose name has `only` in it."""
    command = ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", "."]
    return [*command, "-o", "asyncio_mode=auto", *(["-k", only] if only else []), *tests]


def survives(mutant: Mutant | None, folder: Path, command: list[str]) -> str | None:
    """Run `command` in a copy of the package without the guard; its output where it passed all the same.

    Where no guard is to be deleted, the command has to pass: a suite that cannot pass would fail for every mutant.
    """
    # What is compiled of other modules is as good here; what ends in a number is being written.
    changed = [f"{Path(mutant.file).stem}.*.pyc"] if mutant is not None else []
    for part in ("agentaccel", "tests"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("*.pyc.*", *changed))
    if mutant is not None:
        changed_text = mutant.found(folder / "agentaccel").replace(mutant.old, mutant.new)
        (folder / "agentaccel" / mutant.file).write_text(changed_text, encoding="utf-8")
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

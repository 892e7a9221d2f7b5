"""Guards and what the code looks like without them: each must make a named check fail.

A mutant is a copy of the package in which one guard is deleted. It names the function that has the guard, so a function
that moves takes its mutants along; within the function the text of the guard must occur exactly once, laid out as the
formatter likes, or the suite fails.
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

_NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)

MADE: list[Mutant] = []
"""Every mutant of the modules that have been imported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One guard, deleted."""

    guard: str
    """What the guard keeps from happening."""
    at: str
    """Where the guard stands: `package.module:Class.function`, a whole `package.module`, or the path of a data file."""
    old: str
    new: str

    def __post_init__(self) -> None:
        MADE.append(self)

    @property
    def file(self) -> Path:
        """The path of its file, from the root."""
        module = self.at.partition(":")[0]
        path = Path(module) if "/" in module else Path(f"{module.replace('.', '/')}.py")
        return Path("emulator") / path if path.parts[0] == "agentaccel_emulator" else path

    def without(self, root: Path) -> str:
        """The text of its file under `root` without the guard. Fails if the guard is not there exactly once."""
        text = (root / self.file).read_text(encoding="utf-8")
        wanted = "".join(self.old.split())
        found = [
            span for start, end in _spans(text, self.at.partition(":")[2]) for span in _places(text, start, end, wanted)
        ]
        assert len(found) == 1, f"the guard against {self.guard} has moved: found {len(found)} times at {self.at}"
        start, end = found[0]
        return text[:start] + self.new.strip() + text[end:]


def _spans(text: str, name: str) -> list[tuple[int, int]]:
    """Where the text of what is named so begins and ends; the whole text where nothing is named."""
    if not name:
        return [(0, len(text))]
    nodes: list[ast.AST] = [ast.parse(text)]
    for part in name.split("."):
        nodes = [one for node in nodes for one in ast.iter_child_nodes(node) if getattr(one, "name", None) == part]
    lines = [0]
    for line in text.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    found = [node for node in nodes if isinstance(node, _NAMED)]
    firsts = [min([node.lineno, *(one.lineno for one in node.decorator_list)]) for node in found]
    return [(lines[first - 1], lines[node.end_lineno or first]) for first, node in zip(firsts, found, strict=True)]


def _places(text: str, start: int, end: int, wanted: str) -> Iterable[tuple[int, int]]:
    """Where `wanted` stands between `start` and `end`, whatever white space is between its signs."""
    signs = [at for at in range(start, end) if not text[at].isspace()]
    within = "".join(text[at] for at in signs)
    at = within.find(wanted)
    while at >= 0:
        yield signs[at], signs[at + len(wanted) - 1] + 1
        at = within.find(wanted, at + 1)


def running(*tests: str, only: str = "") -> list[str]:
    """The command that runs `tests`, paths from the root, in a copy; of them only those whose name has `only` in it."""
    command = ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", "."]
    return [*command, "-o", "asyncio_mode=auto", *(["-k", only] if only else []), *tests]


Bites = Callable[[Mutant, Path], None]


def biting(guards: Sequence[Mutant], command: list[str]) -> tuple[Bites, Callable[[Path], None]]:
    """The two tests that a suite of guards needs: `command` fails without each of them, and passes with all."""

    @pytest.mark.soak
    @pytest.mark.parametrize("mutant", guards, ids=lambda mutant: mutant.guard)
    def fails_without_the_guard(mutant: Mutant, tmp_path: Path) -> None:
        """Chosen by us: a test of a guard that passes without the guard is none."""
        assert survives(mutant, tmp_path, command) is None

    @pytest.mark.soak
    def passes_with_every_guard(tmp_path: Path) -> None:
        """Or the others would prove nothing."""
        assert survives(None, tmp_path, command) is not None

    return fails_without_the_guard, passes_with_every_guard


def survives(mutant: Mutant | None, folder: Path, command: list[str]) -> str | None:
    """Run `command` in a copy of the package without the guard; its output where it passed all the same.

    Where no guard is to be deleted, the command has to pass: a suite that cannot pass would fail for every mutant.
    """
    # What is compiled of other modules is as good here; what ends in a number is being written.
    changed = [f"{mutant.file.stem}.*.pyc"] if mutant is not None else []
    for part in ("agentaccel", "emulator", "tests"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("*.pyc.*", *changed))
    if mutant is not None:
        (folder / mutant.file).write_text(mutant.without(folder), encoding="utf-8")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(folder), str(folder / "emulator")]),
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

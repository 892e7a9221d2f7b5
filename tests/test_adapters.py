"""Adapters decide nothing: they are short, and use what is public of agentaccel."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ADAPTERS = sorted(path for path in (ROOT / "adapters").iterdir() if (path / "__init__.py").exists())
PUBLIC = re.findall(r"^::: (agentaccel[\w.]*)$", (ROOT / "docs" / "reference" / "api.md").read_text(), re.MULTILINE)


def imported(path: Path) -> Iterator[str]:
    """What a module imports, by its whole name."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{one.name}" for one in node.names)


def is_public(name: str) -> bool:
    """True for what is not agentaccel's, too."""
    return name in PUBLIC or name.partition(".")[0] != "agentaccel"


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda path: path.name)
def test_an_adapter_uses_public_names_only(adapter: Path) -> None:
    private = {name for path in adapter.glob("*.py") for name in imported(path) if not is_public(name)}
    assert not private


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda path: path.name)
def test_an_adapter_has_at_most_250_lines_that_are_not_empty_and_says_that_it_has_types(adapter: Path) -> None:
    lines = [line for path in adapter.glob("*.py") for line in path.read_text(encoding="utf-8").splitlines()]
    assert sum(bool(line.strip()) for line in lines) <= 250
    assert (adapter / "py.typed").exists()


def test_each_adapter_is_in_the_wheel_and_has_an_extra() -> None:
    settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert ADAPTERS
    for adapter in ADAPTERS:
        assert f'"adapters/{adapter.name}",' in settings
        extra = adapter.name.removeprefix("agentaccel_").replace("_", "-")
        assert re.search(rf"^{extra} = \[", settings, re.MULTILINE)


def test_agentaccel_knows_no_adapter() -> None:
    for path in (ROOT / "agentaccel").rglob("*.py"):
        assert not {name.partition(".")[0] for name in imported(path)} & {one.name for one in ADAPTERS}, path


def test_what_is_private_is_told() -> None:
    """The twin."""
    assert is_public("agentaccel.Accel")
    assert not is_public("agentaccel.engine.scope.Session")

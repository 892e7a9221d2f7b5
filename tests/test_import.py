"""What `import agentaccel` costs, and that public means public."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import agentaccel

HEAVY = ("anthropic", "httpx2", "pydantic", "genai_prices", "click", "rich", "sqlite3", "asyncio", "orjson")


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_importing_loads_nothing_heavy() -> None:
    """The cost is bounded by what is loaded: none of these, so less than asyncio."""
    loaded = run("import sys, agentaccel; print(*sorted(sys.modules))").split()
    assert not {name.partition(".")[0] for name in loaded} & set(HEAVY)


@pytest.mark.slow
def test_using_the_public_names_loads_no_sdk_and_no_terminal_library() -> None:
    """An agent pays for what it uses: prices, SDKs and the report are loaded when they are needed."""
    code = "import sys, agentaccel; agentaccel.Accel; agentaccel.Policy(); print(*sorted(sys.modules))"
    loaded = {name.partition(".")[0] for name in run(code).split()}
    assert not loaded & {"anthropic", "httpx2", "genai_prices", "click", "rich", "pydantic"}


def test_every_public_name_exists_and_is_documented() -> None:
    """`__all__` keeps its promise, sorted but for the version."""
    names = agentaccel.__all__
    assert names[:-1] == sorted(names[:-1], key=lambda name: (name.islower(), name))
    for name in names[:-1]:
        assert getattr(agentaccel, name).__doc__, name


def test_an_unknown_name_is_an_attribute_error() -> None:
    """Lazy loading hides no typing mistake."""
    with pytest.raises(AttributeError, match="Acel"):
        agentaccel.Acel  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("name", ["", ".server", ".pytest_fixture"])
def test_the_former_name_of_the_emulator_gives_the_same_objects_and_says_so(name: str) -> None:
    """For one minor version; `PendingDeprecationWarning`, because suites of users turn other warnings into errors."""
    code = f"""
        import importlib, warnings
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            former = importlib.import_module("agentaccel.emulator{name}")
        now = importlib.import_module("agentaccel_emulator{name}")
        assert former.__all__ and all(getattr(former, one) is getattr(now, one) for one in former.__all__)
        print(*[(one.category.__name__, str(one.message)) for one in said])
    """
    said = run("".join(line.removeprefix(" " * 8) for line in code.splitlines(keepends=True)))
    assert said.strip() == "('PendingDeprecationWarning', 'agentaccel.emulator is now agentaccel_emulator')"


FORMER = {
    "agentaccel": {"Ledger": "agentaccel.predict.stats.SpeculationStats"},
    "agentaccel.listening": {name: f"agentaccel.hooks.{name}" for name in ("Listener", "Told")},
    "agentaccel.effects.declare": {
        name: f"agentaccel.effects.spec.{name}" for name in ("NotProven", "is_early", "running_early")
    },
    "agentaccel.tools": {name: f"agentaccel.executors.{name}" for name in ("Folder", "Http", "Ran", "Shell", "Sql")},
    "agentaccel.providers.anthropic": {"usage_of": "agentaccel.wire.anthropic.usage_of"},
    "agentaccel.providers.openai": {"usage_of": "agentaccel.wire.openai.usage_of"},
}
"""What was documented before this version, and where it is now."""


@pytest.mark.parametrize(
    ("module", "name", "home"), [(m, n, h) for m, names in FORMER.items() for n, h in names.items()]
)
def test_a_former_public_name_is_the_present_thing_and_says_so(module: str, name: str, home: str) -> None:
    where, _, now = home.rpartition(".")
    present = getattr(importlib.import_module(where), now)
    with pytest.warns(DeprecationWarning, match=f"is now {home}"):
        assert getattr(importlib.import_module(module), name) is present


@pytest.mark.parametrize("module", sorted(FORMER))
def test_a_name_that_never_was_is_an_attribute_error_there_too(module: str) -> None:
    with pytest.raises(AttributeError, match="never_was"):
        getattr(importlib.import_module(module), "never_was")  # noqa: B009

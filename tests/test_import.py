"""What `import agentaccel` costs, and that public means public."""

from __future__ import annotations

import importlib
import subprocess
import sys
import warnings

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
    """`__all__` keeps its promise, sorted, functions last."""
    names = agentaccel.__all__
    assert names == sorted(names, key=lambda name: (name.islower(), name))
    for name in set(names) - {"__version__"}:
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


PUBLIC_BEFORE = """
    Accel AgentAccelError CachePlan CachePolicy Cause Clock ConfigError Drift Effect Expected HistoryPolicy ManualClock
    Marker Miss MissingExtra Policy Session SessionClosed SpeculationStats StorePolicy SystemClock Tally ToolCall
    ToolPolicy ToolRecord ToolSpec TraceError Turn TurnRecord UnknownModel Usage apply files filtered git_head
"""
"""`agentaccel.__all__` as it was before its names were changed, without the version."""

FORMER = {
    "agentaccel": {
        "Ledger": "agentaccel.SpeculationStats",
        "MissingExtra": "agentaccel.MissingExtraError",
        "SessionClosed": "agentaccel.SessionClosedError",
        "Tally": "agentaccel.predict.stats.Tally",
        "UnknownModel": "agentaccel.errors.UnknownModel",
        "files": "agentaccel.validators.file_stat",
        "filtered": "agentaccel.rewrite.extractive",
        "git_head": "agentaccel.validators.git_head",
        **{name: f"agentaccel.testing.{name}" for name in ("Clock", "ManualClock", "SystemClock")},
        **{name: f"agentaccel.types.{name}" for name in ("Cause", "Drift", "Expected", "Marker", "Miss")},
    },
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


def test_every_name_that_was_public_still_works_and_one_that_is_not_any_more_warns() -> None:
    """By the list of names as it was, written down here: none was forgotten."""
    for name in PUBLIC_BEFORE.split():
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            assert getattr(agentaccel, name) is not None
        assert [one.category for one in said] == [DeprecationWarning] * (name not in agentaccel.__all__), name
    assert set(PUBLIC_BEFORE.split()) - set(agentaccel.__all__) == {*FORMER["agentaccel"], "apply"} - {"Ledger"}


def test_a_former_name_warns_where_it_is_used() -> None:
    """At the user's line, in whatever module of ours the name is found: only there does Python show such a warning."""
    with pytest.warns(DeprecationWarning, match="MissingExtra is now") as said:
        agentaccel.MissingExtra  # type: ignore[attr-defined]  # noqa: B018
    assert [one.filename for one in said] == [__file__]


def test_the_former_apply_does_what_plan_apply_does() -> None:
    """Its arguments stood the other way round."""
    hello = [{"role": "user", "content": "hi"}]
    body = {"model": "claude-sonnet-5", "max_tokens": 9, "system": "word " * 9000, "messages": hello}
    with agentaccel.Accel(agentaccel.Policy(store=agentaccel.StorePolicy(enabled=False)), environ={}) as accel:
        plan = accel.plan(body)
    with pytest.warns(DeprecationWarning, match=r"agentaccel\.apply is now plan\.apply\(request\)"):
        apply = agentaccel.apply  # type: ignore[attr-defined]
    marked = [{"type": "text", "text": "word " * 9000, "cache_control": {"type": "ephemeral"}}]
    assert apply(body, plan)["system"] == plan.apply(body)["system"] == marked
    with pytest.raises(TypeError, match="apply takes a request and then its plan"):
        apply(plan, body)

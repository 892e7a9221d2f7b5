"""Who may know whom, who may touch the world, and how long things may get."""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "agentaccel"

LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors", "clock", "hashing", "locks", "once", "semconv", "values"),
    ("facts", "checks", "former", "validators"),
    ("segments",),
    ("types",),
    ("records",),
    ("policy", "hooks", "beside"),
    (
        "wire",
        "cache",
        "effects",
        "predict",
        "turn",
        "selfhost.tables",
        "selfhost.probe",
        "selfhost.hints",
        "selfhost.slots",
        "selfhost.steps",
        "selfhost.output",
        "selfhost.metrics",
        "selfhost.plan",
        "selfhost.sheet",
        "selfhost.drafting",
        "selfhost.render",
        "selfhost.written",
        "selfhost.fields",
        "selfhost.layers",
        "selfhost.parameters",
        "selfhost.model_shape",
        "selfhost.gpus",
        "selfhost.sizing",
        "selfhost.turn_budget",
        "selfhost.sized",
        "selfhost.drafters",
        "selfhost.draft_replay",
        "selfhost.arctic",
        "selfhost.step_time",
        "selfhost.choosing",
        "selfhost.measured_steps",
        "selfhost.candidates",
        "selfhost.advising",
        "selfhost.chosen",
        "selfhost.kv_events",
    ),
    ("rewrite",),
    ("concurrency",),
    ("store",),
    ("tools.transcript", "tools.early", "tools.epochs", "tools.rates"),
    (
        "engine.conversation",
        "engine.scope",
        "engine.lineage",
        "engine.draft",
        "engine.gate",
        "engine.routing",
        "engine.pending",
    ),
    ("tools",),
    ("engine",),
    ("selfhost",),
    ("executors", "clients"),
    ("accel",),
    ("otel", "explain", "installation"),
    ("sources",),
    ("replay",),
    ("report",),
    ("demo", "testing", "emulator", "listening", "providers"),
    ("cli", "preload"),
)
"""A module may import its own package on its layer, and every lower layer; not another package of its layer.

Where single modules of a package stand in a layer of their own, the package means its other modules.
"""

EMULATOR = ROOT / "emulator" / "agentaccel_emulator"
OF_THE_EMULATOR = {"facts", "clock", "errors"}
"""All of agentaccel that its emulator may import: it must not share a misreading with the planner."""
MAY_EMULATE = {"cli", "testing", "demo", "emulator"}
"""The parts that may import the emulator; `agentaccel.emulator` is its former name."""

WORLD = {"sqlite3", "socket", "http", "subprocess", "os", "httpx", "httpx2", "zmq", "threading", "asyncio"}
MAY_TOUCH_THE_WORLD = {
    "store/database.py",
    "store/files.py",
    "store/ownership.py",
    "store/learned.py",
    "store/store.py",
    "store/segments.py",
    "store/evidence.py",
    "store/migrations.py",
    "store/recorder.py",
    "store/retention.py",
    "store/patterns.py",
    "concurrency.py",  # one thread, and what an event loop is told of it
    "tools/permission.py",  # on which event loop somebody waits
    "effects/unnamed.py",
    "locks.py",
    "policy.py",
    "accel.py",
    "installation.py",  # the user's environment
    "preload/sitecustomize.py",  # the same, and where Python finds this file
    "cli/run.py",  # becomes the user's program
    "rewrite/jobs.py",
    "tools/speculator.py",
    "tools/running.py",
    "tools/serving.py",
    "clients/attempt.py",
    "clients/looking.py",  # time limits, and whose loop it is
    "selfhost/attach.py",  # on which event loop somebody waits
    "effects/places.py",  # names of files, one after the other: a folder may hold millions
    "executors/processes.py",  # starts the programs of a shell tool
    "executors/line.py",  # their pipes, and where they are
    "executors/shell.py",  # the user's environment, time limits
    "executors/folder.py",  # reads the user's files
    "validators.py",  # the state of files, which is told by the system
    "executors/sql.py",  # in threads, and SQLite
    "executors/http.py",  # time limits, and requests
    "selfhost/kv_feed.py",  # listens to an engine
    "selfhost/launch.py",  # starts engines, and asks for their health
    "selfhost/supervisor.py",  # ends them
    "selfhost/tiny.py",  # installs one
    "demo/desk.py",
    "testing/virtual.py",
    "testing/conformance.py",  # holds conversations, and looks at what they leave running
    "cli/options.py",  # the width that the user asks for
    "cli/export.py",  # private files in a folder that appears as a whole
}
"""Modules that touch disk, network, processes, threads or the event loop. Importers and the emulator are apart."""


def modules() -> list[Path]:
    """Every module of agentaccel and of its emulator."""
    return sorted([*PACKAGE.rglob("*.py"), *EMULATOR.rglob("*.py")])


def own_part(path: Path) -> str:
    """The part of agentaccel that the module at `path` belongs to; `agentaccel_emulator` for its emulator."""
    return part(path).parts[0].removesuffix(".py")


def part(path: Path) -> Path:
    return path.relative_to(PACKAGE if path.is_relative_to(PACKAGE) else EMULATOR.parent)


OF_EACH_PART = pytest.mark.parametrize(
    "paths",
    [pytest.param(list(paths), id=part) for part, paths in groupby(sorted(modules(), key=own_part), own_part)],
)
"""A test for each module would be a thousand of them."""


class Read(NamedTuple):
    """What the tests below ask of a module, which is parsed once for all of them."""

    imported: frozenset[str]
    """Absolute names of every module that it imports, relative imports resolved."""
    tasks: tuple[int, ...]
    """Lines that create a task."""
    too_long: tuple[str, ...]
    """Functions of more than 50 lines without their docstring, or with more than 8 parameters."""
    models: tuple[int, ...]
    """Lines that compare with the name of a model."""


@cache
def read(path: Path) -> Read:
    package = (PACKAGE.name, *part(path).parts[:-1]) if path.is_relative_to(PACKAGE) else part(path).parts[:-1]
    found, tasks, too_long, models = set[str](), list[int](), list[str](), list[int]()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            found.add(".".join((*base, *(node.module or "").split("."))).strip("."))
        elif isinstance(node, ast.Attribute) and node.attr in ("create_task", "ensure_future"):
            tasks.append(node.lineno)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            doc = node.body[0].end_lineno - node.body[0].lineno + 1 if ast.get_docstring(node) else 0  # type: ignore[operator]
            arguments = [one for one in (*node.args.args, *node.args.kwonlyargs) if one.arg not in ("self", "cls")]
            if node.end_lineno - node.lineno + 1 - doc > 50 or len(arguments) > 8:  # type: ignore[operator]
                too_long.append(node.name)
        elif isinstance(node, ast.Compare):
            sides = [side.value for side in (node.left, *node.comparators) if isinstance(side, ast.Constant)]
            models += [node.lineno for value in sides if isinstance(value, str) and "claude" in value]
    return Read(frozenset(found), tuple(tasks), tuple(too_long), tuple(models))


def part_of(module: str) -> str | None:
    """The part of agentaccel that `module` belongs to, as `LAYERS` names it; None for what is not agentaccel's."""
    package, _, name = module.partition(".")
    if package != PACKAGE.name or not name:
        return None
    names = name.split(".")
    two = ".".join(names[:2])
    return two if any(two in parts for parts in LAYERS) else names[0]


def layer_of(part: str) -> int:
    return next(i for i, parts in enumerate(LAYERS) if part in parts)


def may_import(own: str, other: str) -> bool:
    """True if the part `own` may import the part `other`: its own package on its own layer, and what stands below."""
    layers = layer_of(other), layer_of(own)
    return layers[0] < layers[1] or (layers[0] == layers[1] and own.partition(".")[0] == other.partition(".")[0])


@OF_EACH_PART
def test_a_module_imports_only_what_stands_below_it(paths: list[Path]) -> None:
    """The layering of the design: decisions do not know storage, storage does not know sessions."""
    wrong = []
    for path in paths:
        own = part_of(".".join((PACKAGE.name, *part(path).with_suffix("").parts)))
        if own is None or own in ("__init__", "__main__") or not path.is_relative_to(PACKAGE):
            continue
        for module in read(path).imported:
            other = part_of(module)
            emulates = module.partition(".")[0] == EMULATOR.name
            if (emulates and own not in MAY_EMULATE) or (other is not None and not may_import(own, other)):
                wrong.append(f"{part(path)} imports {module}")
    assert not wrong


def test_the_emulator_shares_facts_clocks_and_errors_and_nothing_else() -> None:
    """The twin of the planner's arithmetic is not to repeat its mistakes."""
    for path in EMULATOR.rglob("*.py"):
        parts = {part_of(module) for module in read(path).imported} - {None}
        assert parts <= OF_THE_EMULATOR, f"{path.name} imports {parts - OF_THE_EMULATOR}"


@OF_EACH_PART
def test_only_listed_modules_touch_the_world(paths: list[Path]) -> None:
    """Disk, network, threads and tasks stay at the edges."""
    for path in paths:
        name = str(part(path))
        if name in MAY_TOUCH_THE_WORLD or name.startswith((EMULATOR.name, "sources/")):
            continue
        assert not touched(path), f"{name} imports {sorted(touched(path))}"


def touched(path: Path) -> set[str]:
    return {module.partition(".")[0] for module in read(path).imported} & WORLD


@pytest.mark.parametrize("name", sorted(MAY_TOUCH_THE_WORLD))
def test_a_listed_module_does_touch_the_world(name: str) -> None:
    """One that no longer does is not to begin again unnoticed."""
    assert touched(PACKAGE / name)


@OF_EACH_PART
def test_no_module_creates_tasks(paths: list[Path]) -> None:
    """Only `concurrency.py` may: what it creates, a session owns. The conformance kit cancels an agent, as users do."""
    for path in paths:
        assert path.name in ("concurrency.py", "conformance.py") or not read(path).tasks, path.name


@OF_EACH_PART
def test_files_functions_and_parameter_lists_stay_short(paths: list[Path]) -> None:
    """450 lines a file, 50 a function without its docstring, 8 parameters: reaching one means a noun is missing."""
    for path in paths:
        text = path.read_text(encoding="utf-8")
        assert text.count("\n") <= 450, f"{path.name} has {text.count(chr(10))} lines"
        assert not read(path).too_long, path.name


def test_no_two_classes_have_one_name() -> None:
    """A name means one thing, nested classes and private ones included."""
    found = [
        node.name
        for path in (ROOT / "agentaccel").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    ]
    assert sorted(name for name, count in Counter(found).items() if count > 1) == []


def test_no_module_names_a_model_in_a_branch() -> None:
    """Facts are data: no `if "claude" in model` anywhere."""
    for path in modules():
        assert not read(path).models, path.name

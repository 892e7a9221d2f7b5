"""Installs the wheel that lies in a folder into a fresh environment, away from the checkout, and uses it.

    python3 tests/wheel/try_wheel.py dist
    python3 tests/wheel/try_wheel.py dist --extras     # each extra by itself, with the examples that it is for

Exits with 0 where everything held, else with 1 and a sentence on standard error. Needs Python >= 3.11 and the package
index, nothing else.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

NEEDED = (
    "agentaccel/py.typed",
    "agentaccel_emulator/py.typed",
    "agentaccel_langgraph/py.typed",
    "agentaccel_llamaindex/py.typed",
    "agentaccel_mcp/py.typed",
    "agentaccel_pydantic_ai/py.typed",
    "agentaccel/facts/anthropic.toml",
    "agentaccel/facts/priors.toml",
    "agentaccel/effects/shell.toml",
    "agentaccel/selfhost/engine.txt",
    "agentaccel/selfhost/tools.jinja",
    "agentaccel/selfhost/weights.txt",
)
"""Files inside the wheel that are no Python."""


EXAMPLES = Path(__file__).parents[2] / "examples"
EXTRAS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "anthropic": ((), ("plain_loop.py", "session_and_tools.py", "streaming.py", "sync_client.py", "observe_mode.py")),
    "bedrock": ((), ("plain_loop.py",)),
    "vertex": ((), ("plain_loop.py",)),
    "openai": ((), ("openai_chat.py",)),
    "effects": (("anthropic",), ("early_tools.py",)),
    "otel": (("anthropic",), ("plain_loop.py",)),
    "selfhost": (("openai",), ("openai_chat.py",)),
    "langgraph": (("langchain-anthropic", "deepagents"), ("langchain_agent.py", "langgraph_graph.py", "deep_agent.py")),
    "pydantic-ai": (("anthropic",), ("pydantic_ai_agent.py",)),
    "llamaindex": (("llama-index-llms-anthropic", "anthropic<1"), ("llamaindex_agent.py",)),
    "mcp": (("anthropic",), ("plain_loop.py",)),
}
"""By extra: what its users have beside it, and the examples that run then."""
ADAPTERS = {"langgraph", "pydantic-ai", "llamaindex", "mcp"}
"""Extras with an import package of their own."""


class Failed(Exception):
    """The wheel is not what it should be; the message says why."""


def main(folder: Path, *, extras: bool = False) -> None:
    """Try the one wheel in `folder`, or each of its extras. Raises `Failed`."""
    wheels = sorted(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise Failed(f"expected one wheel in {folder}, found {len(wheels)}")
    wheel = wheels[0].resolve()
    if extras:
        for extra in EXTRAS:
            check_extra(wheel, extra)
        return
    check_contents(wheel)
    with tempfile.TemporaryDirectory(prefix="agentaccel-wheel-") as name:
        home = Path(name)
        python = install(wheel, home / "venv")
        empty = home / "empty"
        empty.mkdir()
        check_commands(python, empty, version=wheel.name.split("-")[1])
    print(f"{wheel.name}: installs, runs, carries its types")


def check_contents(wheel: Path) -> None:
    """What must be in the wheel is, and nothing of the repository besides."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    missing = [name for name in NEEDED if name not in names]
    if missing:
        raise Failed(f"the wheel lacks {', '.join(missing)}")
    ours = ("agentaccel/", "agentaccel-", "agentaccel_")
    stray = sorted({name.split("/")[0] for name in names if not name.startswith(ours)})
    if stray:
        raise Failed(f"the wheel holds more than agentaccel: {', '.join(stray)}")


def check_extra(wheel: Path, extra: str) -> None:
    """One extra in a fresh environment: what it is for can be imported, and its examples run from an empty folder."""
    beside, examples = EXTRAS[extra]
    with tempfile.TemporaryDirectory(prefix="agentaccel-wheel-") as name:
        home = Path(name)
        python = install(wheel, home / "venv", extra, beside)
        empty = home / "empty"
        empty.mkdir()
        if extra in ADAPTERS:
            run([python, "-c", f"import agentaccel_{extra.replace('-', '_')}"], empty)
        for example in examples:
            [path] = EXAMPLES.rglob(example)
            shutil.copy(path, empty)
            run([python, example], empty)
    print(f"{extra}: {', '.join(examples)}")


def install(wheel: Path, where: Path, extra: str = "anthropic", beside: tuple[str, ...] = ()) -> Path:
    """A fresh environment with the wheel, one extra, and what is to stand beside it; returns its Python."""
    venv.create(where, with_pip=True)
    python = where / ("Scripts" if os.name == "nt" else "bin") / "python"
    run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", f"{wheel}[{extra}]", *beside], where)
    return python


def check_commands(python: Path, folder: Path, *, version: str) -> None:
    """The command line works from an empty folder, without anything of the surroundings."""
    command = python.with_name("agentaccel")
    said = run([command, "--version"], folder)
    if version not in said:
        raise Failed(f"--version says {said.strip()!r}, and the wheel is {version}")
    demo = json.loads(run([command, "demo", "--json"], folder))
    if not demo["ok"]:
        raise Failed("the demo does not hold what it promises")
    at = run([python, "-c", "import agentaccel; print(agentaccel.__file__)"], folder).strip()
    if not Path(at).is_relative_to(python.parent.parent):
        raise Failed(f"agentaccel was imported from {at}, not from the wheel")
    run([command, "report", "agentaccel-demo.db", "--causes"], folder)
    run([command, "check", "agentaccel-demo.db", "--min-hit-rate", "0.1"], folder)
    run([command, "replay", "agentaccel-demo.db"], folder)
    check_emulator(command, folder)


def check_emulator(command: Path, folder: Path) -> None:
    """`agentaccel emulate` serves, and says where, until it is stopped."""
    with subprocess.Popen([command, "emulate", "--port", "0"], cwd=folder, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            said = server.stdout.readline()
        finally:
            server.terminate()
    if "http://127.0.0.1:" not in said:
        raise Failed(f"the emulator does not say where it serves: {said!r}")


def run(command: list[str | Path], folder: Path) -> str:
    """The output of `command`; `Failed` with its complaint where it fails."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AGENTACCEL_", "PYTHON"))}
    done = subprocess.run([str(part) for part in command], cwd=folder, env=kept, capture_output=True, text=True)
    if done.returncode:
        raise Failed(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    try:
        words = [word for word in sys.argv[1:] if word != "--extras"]
        main(Path(words[0] if words else "dist"), extras="--extras" in sys.argv)
    except Failed as failure:
        sys.exit(f"try_wheel: {failure}")

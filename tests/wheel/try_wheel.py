"""Installs the wheel that lies in a folder into a fresh environment, away from the checkout, and uses it.

    python3 tests/wheel/try_wheel.py dist

Exits with 0 where everything held, else with 1 and a sentence on standard error. Needs Python >= 3.11 and the package
index, nothing else.
"""

from __future__ import annotations

import json
import os
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


class Failed(Exception):
    """The wheel is not what it should be; the message says why."""


def main(folder: Path) -> None:
    """Try the one wheel in `folder`. Raises `Failed`."""
    wheels = sorted(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise Failed(f"expected one wheel in {folder}, found {len(wheels)}")
    wheel = wheels[0].resolve()
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


def install(wheel: Path, where: Path) -> Path:
    """A fresh environment with the wheel and the anthropic extra; returns its Python."""
    venv.create(where, with_pip=True)
    python = where / ("Scripts" if os.name == "nt" else "bin") / "python"
    run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", f"{wheel}[anthropic]"], where)
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
        main(Path(sys.argv[1] if len(sys.argv) > 1 else "dist"))
    except Failed as failure:
        sys.exit(f"try_wheel: {failure}")

"""`agentaccel run`: a program, unchanged, with every client of the vendor SDKs that it makes wrapped."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import click

from agentaccel.cli.options import say
from agentaccel.errors import ConfigError
from agentaccel.policy import ENV_MODE, ENV_STORE

ENV_RUN = "AGENTACCEL_RUN"
"""The id of the process that was started, for what it and the processes that it starts run first."""
_PRELOAD = Path(__file__).parent.parent / "preload"
"""The folder of the `sitecustomize` that does the rest."""
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126
"""Exit codes of shells."""


@click.command("run", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--observe", is_flag=True, help="Record what happens, and change nothing.")
@click.option("--store", type=click.Path(dir_okay=False), help="The trace store.  [default: AGENTACCEL_STORE]")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run_command(observe: bool, store: str | None, command: tuple[str, ...]) -> None:
    """Run a program with every client of the anthropic and openai SDKs wrapped that it makes, and that the Python
    processes make which it starts; then see `agentaccel report`.

    \b
        agentaccel run -- python agent.py
        agentaccel run --observe -- python -m my_agent --verbose
        agentaccel run -- uvicorn app:app --workers 4

    Its exit code and its signals are the program's own. Python that is told to ignore its environment (-I, -E, -S)
    runs without agentaccel.
    """
    environ = prepared(os.environ, observe=observe, store=store)
    try:
        if os.name == "nt":
            sys.exit(subprocess.call(command, env=environ))
        environ[ENV_RUN] = str(os.getpid())
        os.execvpe(command[0], command, environ)
    except FileNotFoundError:
        _failed(command[0], "no such program", _NOT_FOUND)
    except PermissionError:
        _failed(command[0], "is not executable", _NOT_EXECUTABLE)
    except OSError as error:
        _failed(command[0], str(error.strerror), _NOT_EXECUTABLE)


def prepared(environ: Mapping[str, str], *, observe: bool, store: str | None) -> dict[str, str]:
    """The environment of the program. Raises `ConfigError` where what it says contradicts what is asked for."""
    made = dict(environ)
    if observe:
        mode = made.get(ENV_MODE, "").strip().lower()
        if mode not in ("", "observe"):
            raise ConfigError(f"--observe was given, and {ENV_MODE} is {mode!r}: unset one of them")
        made[ENV_MODE] = "observe"
    if store is not None:
        made[ENV_STORE] = os.path.abspath(store)
    others = [entry for entry in made.get("PYTHONPATH", "").split(os.pathsep) if entry and Path(entry) != _PRELOAD]
    made["PYTHONPATH"] = os.pathsep.join([str(_PRELOAD), *others])
    made[ENV_RUN] = "1"
    return made


def _failed(program: str, why: str, code: int) -> None:
    say(f"agentaccel run: {program}: {why}", err=True)
    sys.exit(code)

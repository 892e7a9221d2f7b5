"""`agentaccel run`: the user's program, as it would have run, with its clients wrapped.

Whole processes; each test starts one or two.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentaccel import ConfigError
from agentaccel.cli import run
from agentaccel_emulator import serve
from tests.clients.wire import records

pytestmark = pytest.mark.slow
AGENT = """
import sys, openai
client = openai.OpenAI(base_url=sys.argv[1], api_key="k", max_retries=0)
client.chat.completions.create(model="gpt-6.1-sol", messages=[{"role": "user", "content": "Hello"}])
"""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serve(script=["One."] * 100) as running:
        yield f"{running.url}/v1"


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    path = tmp_path / "agent.py"
    path.write_text(AGENT)
    return path


def ran(
    folder: Path, *command: object, options: tuple[str, ...] = (), **environ: str
) -> subprocess.CompletedProcess[str]:
    """`agentaccel run`, with a trace store in `folder`."""
    words = [sys.executable, "-m", "agentaccel", "run", "--store", "trace.db", *options, "--", *map(str, command)]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AGENTACCEL_")}
    return subprocess.run(words, cwd=folder, env={**kept, **environ}, capture_output=True, text=True, timeout=60)


def modes(folder: Path) -> list[str]:
    """How each call went out that was recorded."""
    return [one.mode for one in records(folder)] if (folder / "trace.db").exists() else []


def test_a_program_that_knows_nothing_of_agentaccel_is_recorded(tmp_path: Path, agent: Path, url: str) -> None:
    done = ran(tmp_path, sys.executable, agent, url)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert modes(tmp_path) == ["on"]


def test_it_can_be_observed(tmp_path: Path, agent: Path, url: str) -> None:
    assert ran(tmp_path, sys.executable, agent, url, options=("--observe",)).returncode == 0
    assert modes(tmp_path) == ["observe"]


def test_a_module_and_the_processes_that_it_starts_are_wrapped_too(tmp_path: Path, agent: Path, url: str) -> None:
    (tmp_path / "crew.py").write_text(
        "import multiprocessing, runpy, subprocess, sys\n"
        "def work(url):\n"
        "    sys.argv = ['agent.py', url]\n"
        "    runpy.run_path('agent.py')\n"
        "if __name__ == '__main__':\n"
        "    subprocess.run([sys.executable, 'agent.py', sys.argv[1]], check=True)\n"
        "    one = multiprocessing.get_context('spawn').Process(target=work, args=(sys.argv[1],))\n"
        "    one.start(); one.join(); sys.exit(one.exitcode)\n"
    )
    assert ran(tmp_path, sys.executable, "-m", "crew", url).returncode == 0
    assert modes(tmp_path) == ["on", "on"]


def test_the_exit_code_and_the_words_are_the_programs(tmp_path: Path) -> None:
    done = ran(tmp_path, sys.executable, "-c", "import sys; print('out', *sys.argv); sys.exit(7)", "--observe", "-v")
    assert (done.returncode, done.stdout, done.stderr) == (7, "out -c --observe -v\n", "")


def test_a_signal_ends_it_as_it_ends_the_program(tmp_path: Path) -> None:
    """It is the very process that was started."""
    code = "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"
    assert ran(tmp_path, sys.executable, "-c", code).returncode == -signal.SIGTERM


@pytest.mark.parametrize(("what", "code"), [("no-such-program", 127), (".", 126), ("agent.txt", 126)])
def test_what_cannot_be_started_says_so_as_a_shell_does(tmp_path: Path, what: str, code: int) -> None:
    (tmp_path / "agent.txt").write_text("not a program")
    done = ran(tmp_path, f"./{what}" if what != "no-such-program" else what)
    assert done.returncode == code
    assert done.stderr.count("\n") == 1
    assert what in done.stderr


def test_the_users_own_sitecustomize_runs_first(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sitecustomize.py").write_text("import sys; sys.mine = 'agentaccel' not in sys.modules\n")
    code = "import sys, sitecustomize as s, agentaccel.installation as i; print(sys.mine, s.__file__, i._current)"
    done = ran(tmp_path, sys.executable, "-c", code, PYTHONPATH=str(tmp_path / "own"))
    first, file, current = done.stdout.split(maxsplit=2)
    assert (first, file) == ("True", str(tmp_path / "own" / "sitecustomize.py"))
    assert "Installation" in current


def test_an_error_in_it_is_told_as_python_tells_it(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import no_such_module\n")
    bare = subprocess.run(
        [sys.executable, "-c", "print(1)"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    done = ran(tmp_path, sys.executable, "-c", "print(1)", PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stdout) == (bare.returncode, bare.stdout) == (0, "1\n")
    assert "no_such_module" in bare.stderr
    assert "no_such_module" in done.stderr


@pytest.mark.parametrize("how", ["disabled", "isolated", "broken"])
def test_without_agentaccel_the_program_runs_all_the_same(tmp_path: Path, agent: Path, url: str, how: str) -> None:
    """Switched off, with Python that looks at no environment, and where agentaccel cannot be imported: it says so."""
    command, environ = [sys.executable, str(agent), url], dict[str, str]()
    if how == "disabled":
        environ["AGENTACCEL_DISABLE"] = "1"
    elif how == "isolated":
        command.insert(1, "-I")
    else:
        (tmp_path / "hidden").mkdir()
        (tmp_path / "hidden" / "agentaccel.py").write_text("raise ImportError('not here')\n")
        environ["PYTHONPATH"] = str(tmp_path / "hidden")
        command = ["/bin/sh", "-c", 'exec "$@"', "sh", *command]  # `-m agentaccel` itself must not be hidden
    done = ran(tmp_path, *command, **environ) if how != "broken" else _hidden(tmp_path, command)
    assert done.returncode == 0
    assert modes(tmp_path) == []
    assert ("runs without agentaccel: not here" in done.stderr) is (how == "broken")


def _hidden(folder: Path, command: list[str]) -> subprocess.CompletedProcess[str]:
    """The environment of a program whose Python has an agentaccel that cannot be imported."""
    environ = run.prepared({**os.environ, "PYTHONPATH": str(folder / "hidden")}, observe=False, store=None)
    code = f"import os; os.environ['AGENTACCEL_RUN'] = str(os.getpid()); os.execvp({command[0]!r}, {command!r})"
    return subprocess.run([sys.executable, "-I", "-c", code], env=environ, capture_output=True, text=True, timeout=60)


def test_what_the_program_installs_itself_comes_first(tmp_path: Path, agent: Path, url: str) -> None:
    mine = "import agentaccel\nagentaccel.install(agentaccel.Policy(holdout=0.5, mode='observe'))\n"
    agent.write_text(mine + AGENT)
    assert ran(tmp_path, sys.executable, agent, url).returncode == 0
    assert modes(tmp_path) == ["observe"]


def test_options_that_contradict_the_environment_are_refused() -> None:
    with pytest.raises(ConfigError, match="AGENTACCEL_MODE"):
        run.prepared({"AGENTACCEL_MODE": "on"}, observe=True, store=None)
    assert run.prepared({"AGENTACCEL_MODE": "observe"}, observe=True, store=None)["AGENTACCEL_MODE"] == "observe"


def test_inside_one_another_there_is_one_folder_of_ours() -> None:
    once = run.prepared({"PYTHONPATH": "a"}, observe=False, store=None)
    assert run.prepared(once, observe=False, store=None)["PYTHONPATH"] == once["PYTHONPATH"]

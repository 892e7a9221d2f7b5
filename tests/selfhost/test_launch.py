"""An engine of ours is there when it says so, and gone with whoever launched it. The engine is a fake, all else real.

That a process is gone is heard at a connection to it, which ends with the last process that holds it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentaccel.errors import ConfigError, EngineError
from agentaccel.selfhost import launch as launching
from agentaccel.selfhost.launch import EngineProcess, free_port, launch, passed_on
from tests.children import in_a_child

FAKE = str(Path(__file__).with_name("fake_engine.py"))
ROOT = Path(__file__).parents[2]


def fake(*words: str, port: int | None = None, program: tuple[str, ...] = (), **options: object) -> EngineProcess:
    port = port or free_port()
    argv = program or (sys.executable, "-I", "-S", FAKE, str(port), *words)
    options = {"patience": 20, **options}
    return launch(argv, url=f"http://127.0.0.1:{port}", **options)  # type: ignore[arg-type]


def saying(code: str) -> tuple[str, ...]:
    return (sys.executable, "-I", "-S", "-c", code)


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return str(answer.read().decode())


@contextlib.contextmanager
def connected(port: int) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as line:
        line.sendall(b"GET /stay HTTP/1.0\r\n\r\n")
        assert line.recv(4) == b"here"
        yield line


def has_ended(line: socket.socket) -> bool:
    """Wait until whoever holds the other end of `line` is gone; fails after its 20 seconds."""
    with contextlib.suppress(ConnectionResetError):
        assert line.recv(1) == b""
    return True


@pytest.fixture
def little_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that does not end by itself is ended soon."""
    monkeypatch.setattr(launching, "GRACE", 0.3)


@pytest.mark.slow
def test_an_engine_is_there_once_its_health_says_so_and_gone_when_it_is_left() -> None:
    """Busy twice and then ready: it was asked three times."""
    with fake("busy=2") as engine:
        assert get(f"{engine.url}/asked") == "3"
        assert engine.running
        with connected(int(engine.url.rpartition(":")[2])) as line:
            engine.stop()
            assert has_ended(line)
    assert not engine.running


@pytest.mark.slow
async def test_it_is_the_same_in_an_event_loop() -> None:
    async with fake("busy=1") as engine:
        assert await asyncio.to_thread(get, f"{engine.url}/asked") == "2"
        assert engine.running
    assert not engine.running


@pytest.mark.slow
async def test_a_start_that_is_cancelled_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The task that waits is cancelled when it is told that the engine runs and is not ready yet."""
    monkeypatch.setattr(launching, "TOLD_EVERY", 0.0)
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    port, cancelled, lines = free_port(), threading.Event(), []

    def say(line: str) -> None:
        if "begins" in line and not cancelled.is_set():
            cancelled.set()
            lines.append(socket.create_connection(("127.0.0.1", port), timeout=30))
            loop.call_soon_threadsafe(task.cancel)

    engine = fake("never", port=port, say=say)
    with pytest.raises(asyncio.CancelledError):
        async with engine:
            raise AssertionError("it is never ready")
    task.uncancel()
    assert not engine.running
    assert has_ended(lines[0])
    lines[0].close()


@pytest.mark.slow
def test_an_engine_that_ends_early_is_an_error_with_its_last_lines() -> None:
    """Status and lines as the program has them: twelve at most, the last of them last."""
    program = saying("for i in range(20): print('line', i)\nprint('unknown flag --spead'); raise SystemExit(7)")
    with pytest.raises(EngineError) as raised, fake(program=program):
        pass
    first, *lines = str(raised.value).split("\n")
    assert first.endswith("ended with status 7 before it was ready; the last lines of its log:")
    assert lines == [*(f"line {i}" for i in range(9, 20)), "unknown flag --spead"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "said"),
    [
        (("/nowhere/engine", "--x"), "engine cannot be started: /nowhere/engine: No such file or directory"),
        (("/",), "Permission denied"),
        (saying("import os; os.kill(os.getpid(), 9)"), "ended with signal 9 before it was ready; it printed nothing"),
    ],
    ids=["no program", "no file", "killed"],
)
def test_the_error_says_how_an_engine_failed_to_start(program: tuple[str, ...], said: str) -> None:
    with pytest.raises(EngineError) as raised, fake(program=program):
        pass
    assert said in str(raised.value)


@pytest.mark.slow
def test_an_engine_that_is_not_ready_in_time_is_stopped() -> None:
    engine = fake("never", patience=0.5)
    with pytest.raises(EngineError, match=r"^python.* was not ready after 0\.5 s; .*\nfake engine: begins"):
        engine.start()
    assert not engine.running


@pytest.mark.slow
def test_nothing_is_started_where_something_listens_already() -> None:
    """Another engine is healthy there: without a look, it would be taken for the one that was launched."""
    with (
        fake() as other,
        pytest.raises(EngineError, match=r"listens at http://127\.0\.0\.1:[0-9]+ already: choose another port"),
        fake(port=int(other.url.rpartition(":")[2]), program=saying("import time; time.sleep(60)")),
    ):
        pass


@pytest.mark.slow
def test_an_engine_is_asked_to_end_before_it_is_ended(tmp_path: Path) -> None:
    """It may still write what it has to."""
    with fake(f"tidy={tmp_path / 'tidied'}") as engine:
        assert engine.running
    assert (tmp_path / "tidied").read_text() == "tidied"


@pytest.mark.slow
@pytest.mark.usefixtures("little_grace")
def test_engines_that_do_not_end_and_what_they_have_started_are_ended() -> None:
    """Both ignore the signal by which they are asked, and the worker is no child of ours."""
    worker = free_port()
    with (
        fake("stubborn", f"worker={worker}") as engine,
        connected(int(engine.url.rpartition(":")[2])) as first,
        connected(worker) as second,
    ):
        engine.stop()
        assert has_ended(first)
        assert has_ended(second)


@pytest.mark.slow
@pytest.mark.usefixtures("little_grace")
def test_where_an_engine_ends_by_itself_so_do_its_workers() -> None:
    """Killed, as by the system where memory runs out; whoever waits for the engine is told, with its last lines."""
    worker = free_port()
    with fake(f"worker={worker}") as engine, connected(worker) as line:
        assert engine.pid is not None
        os.kill(engine.pid, signal.SIGKILL)
        with pytest.raises(EngineError, match="ended with signal 9; the last lines of its log:\nfake engine: begins"):
            engine.wait()
        assert has_ended(line)


@pytest.mark.slow
def test_an_engine_whose_supervisor_is_killed_is_ended_all_the_same() -> None:
    """By whoever launched it, when it is left."""
    with fake("stubborn") as engine, connected(int(engine.url.rpartition(":")[2])) as line:
        assert engine.pid is not None
        os.kill(os.getsid(engine.pid), signal.SIGKILL)  # the head of the engine's session
        engine.stop()
        assert has_ended(line)


OWNER = """
import os, sys
from agentaccel.selfhost import launch
launch.GRACE = 0.3
sys.path.insert(0, {root!r})
from tests.selfhost.test_launch import fake
engine = fake("stubborn", "worker={worker}", port={port})
engine.start()
if {fork}:
    os.fork()
os.write(1, b"ready\\n")
sys.stdin.read()
"""


@pytest.mark.slow
@pytest.mark.parametrize("fork", [False, True], ids=["alone", "with a fork that lives on"])
def test_no_engine_outlives_a_process_that_is_killed(fork: bool) -> None:
    """Neither the engine nor its worker, although both ignore SIGTERM; a fork holds all pipes of its parent."""
    port, worker = free_port(), free_port()
    code = OWNER.format(root=str(ROOT), port=port, worker=worker, fork=fork)
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as owner:
        assert owner.stdout is not None
        assert [owner.stdout.readline() for _ in range(1 + fork)] == ["ready\n"] * (1 + fork)
        with connected(port) as first, connected(worker) as second:
            owner.kill()
            assert has_ended(first)
            assert has_ended(second)


@pytest.mark.slow
def test_a_forked_child_that_leaves_the_block_leaves_the_engine_alone() -> None:
    with fake() as engine:
        child = in_a_child(engine.stop)
        assert os.waitpid(child, 0)[1] == 0
        assert get(f"{engine.url}/asked") == "1"


@pytest.mark.slow
def test_an_engine_sees_what_it_needs_of_the_environment_and_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    with fake(env={"MY_ENGINE_FLAG": "1"}) as engine:
        names = get(f"{engine.url}/environment").split()
    assert {"PATH", "CUDA_VISIBLE_DEVICES", "MY_ENGINE_FLAG"} <= set(names)
    assert not {name for name in names if "KEY" in name}


def test_variables_that_are_given_win() -> None:
    assert passed_on({"PATH": "/bin", "AWS_SECRET": "x"}, {"PATH": "/opt"}) == {"PATH": "/opt"}


@pytest.mark.slow
def test_what_an_engine_prints_is_added_to_the_log(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text("before\n")
    with fake(log=log) as engine:
        assert engine.tail() == "before\nfake engine: begins"
    assert log.read_text() == "before\nfake engine: begins\n"


def test_a_log_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="cannot be written: No such file"):
        fake(log=tmp_path / "nowhere" / "log").start()


@pytest.mark.slow
def test_an_engine_is_started_once() -> None:
    with fake() as engine, pytest.raises(EngineError, match="started already"):
        engine.start()
    engine.stop()


@pytest.mark.parametrize(
    "url",
    ["http://10.0.0.1:80", "http://example.com:80", "https://127.0.0.1:1", "http://127.0.0.1", "8131", "http://["],
)
def test_an_engine_is_launched_on_this_machine_only(url: str) -> None:
    with pytest.raises(ConfigError, match="url must be of this machine"):
        launch(["engine"], url=url)


@pytest.mark.parametrize("argv", [[], "engine --flag", ["engine", 7], ["engine", "a\0b"]])
def test_a_command_is_a_list_of_words(argv: object) -> None:
    with pytest.raises(ConfigError, match="a program and its arguments"):
        launch(argv, url="http://127.0.0.1:8131")  # type: ignore[arg-type]


def test_the_time_that_an_engine_is_given_is_not_nothing() -> None:
    with pytest.raises(ConfigError, match="patience"):
        launch(["engine"], url="http://127.0.0.1:8131", patience=0)


def test_on_windows_nothing_is_launched(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no process group to own."""
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(ConfigError, match="Linux and macOS only; attach to a server"):
        launch(["engine"], url="http://127.0.0.1:8131")

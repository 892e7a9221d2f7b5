"""One engine as processes of ours on this machine: started, waited for, watched, and stopped with all it has started.

The engine is the head of a process group of its own, under a supervisor that ends the group when this process is gone,
however that came about: also after SIGKILL there is no orphan.
"""

from __future__ import annotations

import asyncio
import http.client
import ipaddress
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from types import TracebackType
from typing import IO
from urllib.parse import urlsplit

from agentaccel.errors import ConfigError, EngineError
from agentaccel.locks import Lock

Say = Callable[[str], object]
"""Called with one line about what is being done, at least every `TOLD_EVERY` seconds while something is."""

TOLD_EVERY = 3.0
"""Seconds between two lines about something that takes long."""
GRACE = 10.0
"""Seconds that a stopped engine is given to end by itself."""
_LOOK_EVERY = 0.1
_TAIL_LINES = 12
_TAIL_BYTES = 16 << 10
_HEALTH_WITHIN = 2.0
"""Seconds that one question for the health may take; the next one follows."""

PASSED_ON = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR", "TERM"),
    *("LD_LIBRARY_PATH", "DYLD_*", "VIRTUAL_ENV", "CONDA_PREFIX", "XDG_*", "SSL_CERT_FILE", "SSL_CERT_DIR"),
    *("CUDA_*", "NVIDIA_*", "NCCL_*", "HIP_*", "ROCR_*", "ROCM_*", "HSA_*", "ZE_*", "ONEAPI_*", "OMP_*", "MKL_*"),
    *("GGML_*", "LLAMA_*", "VLLM_*", "SGLANG_*", "TORCH*", "PYTORCH_*", "TRITON_*", "TRTLLM_*", "HF_*", "LMCACHE_*"),
)
"""Names of environment variables that an engine may see, `*` for anything: where programs and libraries are, devices,
and settings of engines and of what they load models with. Keys of providers are none of them."""


def passed_on(outer: Mapping[str, str], given: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of an engine: of `outer` what `PASSED_ON` names, and all that is `given`.

    >>> passed_on({"PATH": "/bin", "LC_ALL": "C", "OPENAI_API_KEY": "sk-1"}, {"MY_FLAG": "1"})
    {'PATH': '/bin', 'LC_ALL': 'C', 'MY_FLAG': '1'}
    """
    kept = {name: value for name, value in outer.items() if any(fnmatchcase(name, one) for one in PASSED_ON)}
    return {**kept, **(given or {})}


def refuse_windows() -> None:
    """Raise `ConfigError` where no process group can be owned."""
    if sys.platform == "win32":
        raise ConfigError("engines are launched on Linux and macOS only; attach to a server that runs already")


def free_port() -> int:
    """A port of the loopback interface that nobody listens at now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
    return port


def launch(
    argv: Sequence[str],
    *,
    url: str,
    health: str = "/health",
    env: Mapping[str, str] | None = None,
    patience: float = 300.0,
    log: Path | None = None,
    name: str | None = None,
    say: Say = lambda line: None,
) -> EngineProcess:
    """An engine that `argv` starts and that then answers at `url`; a context manager, sync and async, starts it.

    `url` is its base URL, on the loopback interface, with a port; `health` is the path that answers 200 once the engine
    is ready, for which `patience` seconds are waited. The engine sees the environment variables of
    `passed_on(os.environ, env)`. What it prints is added to the file `log`, or is kept where only this process sees it.
    `name` is what errors call it, by default the program's name. No shell is involved. Raises `ConfigError` for a
    command or a URL that cannot be, and on Windows.
    """
    refuse_windows()
    if not argv or isinstance(argv, str) or not all(isinstance(word, str) and "\0" not in word for word in argv):
        raise ConfigError(f"argv must be a program and its arguments, each of them text; got {argv!r}")
    if patience <= 0:
        raise ConfigError("patience must be above 0 seconds")
    planned = _Planned(
        argv=tuple(argv),
        url=url.rstrip("/"),
        address=_address(url),
        health="/" + health.lstrip("/"),
        environment=passed_on(os.environ, env),
        patience=patience,
        log=log,
        name=name or Path(argv[0]).name,
    )
    return EngineProcess(planned, say)


def _address(url: str) -> tuple[str, int]:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port = "", None
    if not url.startswith("http://") or port is None or not _is_loopback(host):
        raise ConfigError(f"url must be of this machine, with a port, such as http://127.0.0.1:8131; got {url!r}")
    return host, port


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Planned:
    """What `launch` was given, checked."""

    argv: tuple[str, ...]
    url: str
    address: tuple[str, int]
    health: str
    environment: Mapping[str, str]
    patience: float
    log: Path | None
    name: str


class EngineProcess:
    """One launched engine. Entering it starts the engine and waits until it is ready; leaving it stops the engine.

    Thread-safe. A forked child cannot stop the engine of its parent: the pipe that keeps it is open in the parent, too.
    """

    def __init__(self, planned: _Planned, say: Say) -> None:
        self._planned, self._say = planned, say
        self._lock, self._stopping = Lock(), threading.Event()
        self._supervisor: subprocess.Popen[bytes] | None = None
        self._output: IO[bytes] | None = None
        self.pid: int | None = None
        """Process id of the engine, which is the number of its process group; None before it was started."""

    @property
    def url(self) -> str:
        """Base URL of the engine, without a slash at its end."""
        return self._planned.url

    def __enter__(self) -> EngineProcess:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> EngineProcess:
        try:
            await asyncio.to_thread(self.start)
        except BaseException:
            self._stopping.set()  # where this task was cancelled, the thread goes on until it sees this
            await asyncio.to_thread(self.stop)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)

    def start(self) -> None:
        """Start the engine, and wait until it is ready. Raises `EngineError`, with the last lines of its log, where it
        ends, is not ready in time, or something else listens at its address; nothing of it runs then."""
        with self._lock:
            if self._supervisor is not None:
                raise EngineError(f"{self._planned.name} was started already")
            if _answers(self._planned.address):
                raise EngineError(f"something listens at {self.url} already: choose another port, or stop it")
            try:
                self._run()
                self._await_health()
            except BaseException:
                self._end()
                raise

    def stop(self) -> None:
        """Stop the engine and all that it has started: they are asked to end, and after `GRACE` seconds ended. Returns
        when they have. An engine that was never started, or has ended, is no error."""
        self._stopping.set()
        with self._lock:
            self._end()

    @property
    def running(self) -> bool:
        """True if the engine was started and has not ended."""
        return self._supervisor is not None and self._supervisor.poll() is None

    def wait(self) -> None:
        """Wait until the engine ends. Raises `EngineError`, with the last lines of its log, unless `stop` ended it."""
        while self.running and not self._stopping.wait(_LOOK_EVERY):
            pass
        if not self._stopping.is_set():
            raise EngineError(self._ended())

    def tail(self) -> str:
        """The last lines that the engine has printed."""
        if self._output is None or self._output.closed:
            return ""
        size = os.fstat(self._output.fileno()).st_size
        data = os.pread(self._output.fileno(), _TAIL_BYTES, max(0, size - _TAIL_BYTES))
        lines = data.decode("utf-8", errors="replace").split("\n")
        return "\n".join([line.rstrip() for line in lines if line.strip()][-_TAIL_LINES:])

    # --- in the lock --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        planned, script = self._planned, Path(__file__).with_name("supervisor.py")
        words = [sys.executable, "-I", "-S", str(script), str(os.getpid()), str(GRACE), *planned.argv]
        try:
            self._output = (  # until the engine has ended
                tempfile.TemporaryFile() if planned.log is None else planned.log.open("ab+")  # noqa: SIM115
            )
        except OSError as error:
            raise EngineError(f"the log {planned.log or ''} cannot be written: {error.strerror}") from error
        self._supervisor = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._output,
            env=planned.environment,
            start_new_session=True,
        )
        assert self._supervisor.stdout is not None
        said = self._supervisor.stdout.readline().decode("utf-8", errors="replace").strip()
        if not said.isdecimal():
            raise EngineError(f"{self._planned.name} cannot be started: {said.removeprefix('! ') or self.tail()}")
        self.pid = int(said)

    def _await_health(self) -> None:
        begun = told = time.monotonic()
        while not self._is_healthy():
            now = time.monotonic()
            if not self.running:
                raise EngineError(self._ended("before it was ready"))
            if now - begun > self._planned.patience:
                raise EngineError(
                    self._with_tail(f"{self._planned.name} was not ready after {self._planned.patience:g} s")
                )
            if now - told >= TOLD_EVERY:
                told = now
                last = self.tail().rpartition("\n")[2]
                self._say(f"waiting for {self._planned.name} ({now - begun:.0f} s): {last or 'it says nothing yet'}")
            if self._stopping.wait(_LOOK_EVERY):
                raise EngineError(f"{self._planned.name} was stopped before it was ready")

    def _is_healthy(self) -> bool:
        with suppress(OSError, http.client.HTTPException):
            connection = http.client.HTTPConnection(*self._planned.address, timeout=_HEALTH_WITHIN)
            try:
                connection.request("GET", self._planned.health)
                return connection.getresponse().status == 200
            finally:
                connection.close()
        return False

    def _end(self) -> None:
        supervisor, output = self._supervisor, self._output
        if output is not None:
            output.close()
        if supervisor is None or supervisor.stdin is None or supervisor.stdin.closed:
            return
        assert supervisor.stdout is not None
        supervisor.stdout.close()
        with suppress(OSError):
            supervisor.stdin.close()
        try:
            supervisor.wait(GRACE + 5)
        except subprocess.TimeoutExpired:
            supervisor.kill()
            supervisor.wait()
        if supervisor.returncode < 0 and self.pid is not None:  # somebody ended it, so it could not end the engine
            with suppress(OSError):
                os.killpg(self.pid, signal.SIGKILL)

    # --- words --------------------------------------------------------------------------------------------------------

    def _ended(self, when: str = "") -> str:
        assert self._supervisor is not None
        status = self._supervisor.wait()
        how = f"signal {abs(status) % 128}" if status < 0 or status > 128 else f"status {status}"
        return self._with_tail(" ".join(filter(None, (f"{self._planned.name} ended with {how}", when))))

    def _with_tail(self, what: str) -> str:
        lines = self.tail()
        return f"{what}; the last lines of its log:\n{lines}" if lines else f"{what}; it printed nothing"


def _answers(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address, timeout=1.0).close()
    except OSError:
        return False
    return True

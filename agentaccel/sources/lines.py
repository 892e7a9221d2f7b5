"""Log files as lines: which files, one line at a time, bounded, compressed or not, whole or cut."""

from __future__ import annotations

import codecs
import gzip
import io
import json
import os
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import orjson

from agentaccel.errors import TraceError
from agentaccel.sources.tally import ImportTally, Progress
from agentaccel.store.files import open_file, real

SUFFIXES = (".jsonl", ".jsonl.gz")
"""What is taken from a folder; a file that is named itself may be called anything."""

MAX_LINE = 64 << 20
"""Bytes kept of one line: above what a reply with images takes, below what hurts; a longer line is skipped."""

GZIP_BUFFER = 1 << 14
"""Bytes unpacked at a time: as much is lost before the place where a compressed file was cut."""

MOST_UNPACKED, MOST_RATIO = 1 << 30, 200
"""Bytes up to which a compressed file may unpack to anything, and how many times its size it may be beyond that; logs
come to ten or twenty times theirs."""

REPORT_EVERY = 4 << 20
"""Bytes between two calls of the progress callback."""


def find_logs(paths: Iterable[Path | str]) -> list[Path]:
    """Every log under `paths`, each once, sub-agents' own files first, then by name.

    Sub-agents come first because the main log repeats only a part of what they did. Raises TraceError for a path
    that does not exist, or is a device, which need not end.
    """
    found: dict[str, Path] = {}
    for given in map(Path, paths):
        if given.is_dir():
            inside = (Path(root, name) for root, _, names in os.walk(given) for name in names)
            for path in inside:
                if path.name.endswith(SUFFIXES):
                    found.setdefault(real(path), path)
        elif given.is_char_device() or given.is_block_device():
            raise TraceError(f"{given} is a device and no file")
        elif given.exists():
            found.setdefault(real(given), given)
        else:
            raise TraceError(f"no such file or folder: {given}")
    return sorted(found.values(), key=lambda path: (not path.name.startswith("agent-"), str(path)))


def sizes(paths: Iterable[Path]) -> int:
    """Bytes on disk; a file that has gone meanwhile counts as none."""
    total = 0
    for path in paths:
        try:
            total += path.stat().st_size
        except OSError:
            continue
    return total


@dataclass(slots=True)
class Meter:
    """Adds up what several files have read and tells the progress callback now and then."""

    total: int
    progress: Progress | None
    done: int = 0
    told: int = 0

    def at(self, bytes_of_this_file: int) -> None:
        """`bytes_of_this_file` bytes of the current file have been read."""
        now = self.done + bytes_of_this_file
        if self.progress is not None and now - self.told >= REPORT_EVERY:
            self.told = now
            self.progress(now, max(now, self.total))

    def finish(self, bytes_of_this_file: int) -> None:
        """The current file is done."""
        self.done += bytes_of_this_file
        if self.progress is not None:
            self.told = self.done
            self.progress(self.done, max(self.done, self.total))


def raw_lines(path: Path, tally: ImportTally, meter: Meter, *, pipes: bool = False) -> Iterator[bytes]:
    """The lines of one file with their line ends; an unreadable rest ends the file and is noted in `tally`.

    With `pipes`, what may be a pipe is read as one; else that is unreadable, too.
    """
    try:
        if path.is_file() and not path.stat().st_size:
            return  # nor is it opened: it may be a database that is being made (`validators.keeps`)
        with open_file(path, pipes=pipes) as raw:
            stream = _unpacked(raw)  # owns `raw`, and closes it when it goes
            yield from _bounded(stream, raw, tally, meter)
            meter.finish(raw.tell())
    except (OSError, EOFError, ValueError, zlib.error) as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        tally.unreadable.append(f"{path}: {why}")


def _unpacked(raw: io.FileIO) -> IO[bytes]:
    """The file's content; compression is known by its first bytes, not by the name."""
    plain = io.BufferedReader(raw, 1 << 18)
    if plain.peek(2).startswith(b"\x1f\x8b"):
        return io.BufferedReader(_Gunzipped(plain), GZIP_BUFFER)
    return plain


class _Gunzipped(io.RawIOBase):
    """What a compressed file holds, as far as it goes: a reader that fills its buffer first has none of a file that is
    cut before that is full."""

    def __init__(self, packed: IO[bytes]) -> None:
        self._file, self._packed, self._given = gzip.GzipFile(fileobj=packed), packed, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._file.read1(len(buffer))
        self._given += len(data)
        if self._given > MOST_UNPACKED and self._given > MOST_RATIO * max(self._packed.tell(), 1):
            raise EOFError(f"unpacks to over {MOST_RATIO} times its size")
        buffer[: len(data)] = data
        return len(data)


def _bounded(stream: IO[bytes], raw: io.FileIO, tally: ImportTally, meter: Meter) -> Iterator[bytes]:
    too_long, told = False, raw.seekable()  # a pipe does not tell where it is
    for number, line in enumerate(iter(partial(stream.readline, MAX_LINE), b"")):
        goes_on = len(line) >= MAX_LINE and not line.endswith(b"\n")
        if not (goes_on or too_long):
            yield line
        elif not goes_on:
            tally.lines += 1
            tally.skipped += 1
        too_long = goes_on
        if number % 512 == 0 and told:
            meter.at(raw.tell())
    if too_long:
        tally.lines += 1
        tally.skipped += 1


def parse(line: bytes, tally: ImportTally) -> dict[str, object] | None:
    """One line as an object; None for a blank line, and for one that is noted in `tally` as unreadable."""
    try:
        value = orjson.loads(line)
    except ValueError:
        value = _second_try(line)
    if isinstance(value, dict):
        return value
    if not line.strip():
        return None
    if line.endswith(b"\n"):
        tally.skipped += 1
    else:
        tally.cut += 1
    return None


def _second_try(line: bytes) -> object:
    """What orjson refuses and other writers produce: a BOM, lone surrogates, bytes not UTF-8, huge integers."""
    body = line.strip().removeprefix(codecs.BOM_UTF8)
    if not (body.startswith(b"{") and body.endswith(b"}")):
        return None
    try:
        return json.loads(body.decode("utf-8", errors="replace"))
    except (ValueError, RecursionError):
        return None

"""The child processes of one call: heard up to a cap, stopped with the call, and none of them outlives it.

Each is the head of a session of its own, so it has no terminal to ask at, and a signal reaches what it has started.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from agentaccel.effects.spec import is_early

# --- Output of any length in memory of a bounded size, and as text that a model can read ------------------------------


class Excerpt:
    """The beginning and the end of a stream of bytes; what does not fit is left out of the middle, and counted.

    >>> kept = Excerpt(4)
    >>> for piece in (b"ab", b"cdefg", b"hi"):
    ...     kept.feed(piece)
    >>> kept.text()
    'ab\\n[5 bytes left out]\\nhi'
    """

    __slots__ = ("_first", "_half", "_last", "_total")

    def __init__(self, cap: int) -> None:
        self._half = max(cap // 2, 1)
        self._first, self._last = bytearray(), bytearray()
        self._total = 0

    def feed(self, data: bytes) -> None:
        self._total += len(data)
        room = self._half - len(self._first)
        if room > 0:
            self._first += data[:room]
            data = data[room:]
        self._last += data[-self._half :]
        if len(self._last) > 2 * self._half:
            del self._last[: -self._half]

    @property
    def left_out(self) -> int:
        """Bytes that are not kept."""
        return max(self._total - 2 * self._half, 0)

    def text(self) -> str:
        """What is kept, as UTF-8. Bytes that are none, and NUL, which some clients and stores refuse, become U+FFFD."""
        if not self.left_out:
            return readable(bytes(self._first + self._last))
        last = self._last[-self._half :]
        return f"{readable(bytes(self._first))}\n[{self.left_out:,} bytes left out]\n{readable(bytes(last))}"


def readable(data: bytes) -> str:
    r"""Bytes as text, whatever they are.

    >>> readable(b"caf\xc3\xa9 \xff\0")
    'café ��'
    """
    return data.decode("utf-8", errors="replace").replace("\0", "\ufffd")


LINGER = 0.5
"""Seconds that output is still read when the last process has ended: others may hold its end of the pipe."""
GRACE = 1.0
"""Seconds between asking the processes of a call to end, and ending them."""

Stream = int
"""An open file descriptor, or `asyncio.subprocess.DEVNULL`."""


class Streams(NamedTuple):
    """What a process reads and writes."""

    given: Stream
    out: Stream
    err: Stream


class _Listener(asyncio.Protocol):
    """Reads one pipe as fast as it fills: who writes there never waits for us, whatever the cap."""

    def __init__(self, kept: Excerpt) -> None:
        self.kept = kept
        self.ended = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self.kept.feed(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


class Processes:
    """Processes that share their output, as those of one shell line do. An async context manager.

    Leaving it early, by an exception or a cancellation, ends every process: asked first where `gentle`, else at once.
    """

    def __init__(self, cap: int, *, gentle: bool) -> None:
        self.out, self.err = Excerpt(cap), Excerpt(cap)
        self._gentle = gentle
        self._started: list[asyncio.subprocess.Process] = []
        self._ends: list[int] = []
        self._readers: list[tuple[asyncio.ReadTransport, _Listener]] = []

    async def __aenter__(self) -> Processes:
        try:
            for kept in (self.out, self.err):
                await self._listen(kept)
        except BaseException:
            self._close()
            raise
        return self

    async def _listen(self, kept: Excerpt) -> None:
        reading, writing = os.pipe()
        self._ends.append(writing)
        loop = asyncio.get_running_loop()
        file = os.fdopen(reading, "rb", 0)
        try:
            self._readers.append(await loop.connect_read_pipe(lambda: _Listener(kept), file))
        except BaseException:
            file.close()
            raise

    @property
    def streams(self) -> Streams:
        """No input, and the output that is kept."""
        return Streams(asyncio.subprocess.DEVNULL, self._ends[0], self._ends[1])

    async def start(
        self,
        argv: Sequence[str],
        streams: Streams,
        *,
        cwd: Path,
        environment: Mapping[str, str],
        program: str,
    ) -> asyncio.subprocess.Process:
        """Start `program` with the words `argv`. Raises `OSError` where that is impossible."""
        process = await asyncio.create_subprocess_exec(
            *argv,
            executable=program,
            cwd=cwd,
            env=environment,
            stdin=streams.given,
            stdout=streams.out,
            stderr=streams.err,
            start_new_session=True,
        )
        self._started.append(process)
        if is_early():
            _first_to_go(process.pid)
        return process

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for end in self._ends:
            os.close(end)
        self._ends.clear()
        try:
            if kind is not None:
                await self._stop()
            await asyncio.wait([listener.ended for _, listener in self._readers], timeout=LINGER)
        finally:
            self._signal(signal.SIGKILL)
            self._close()

    async def _stop(self) -> None:
        if self._gentle:
            self._signal(signal.SIGTERM)
            if await self._over(GRACE):
                return
        self._signal(signal.SIGKILL)
        await self._over(GRACE)

    async def _over(self, seconds: float) -> bool:
        """Wait until every process has ended; whether they have in time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                for process in self._started:
                    await process.wait()
                return True
        return False

    def _signal(self, number: int) -> None:
        """To those that run, and where they may have started others, to those as well."""
        for process in self._started:
            if self._gentle or process.returncode is None:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, number)

    def _close(self) -> None:
        for end in self._ends:
            os.close(end)
        for transport, _ in self._readers:
            transport.close()


def _first_to_go(process: int) -> None:
    """Have Linux end `process` first where memory runs out: nobody has asked for it, and it is run again on time."""
    with suppress(OSError):
        Path(f"/proc/{process}/oom_score_adj").write_text("1000")

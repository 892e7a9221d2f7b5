"""Logs that other programs wrote, as our records: streamed, counted once, never a crash on a bad line or file.

Three formats are recognised, by content: Claude Code's session logs, agent runs in one normalised format, and spans of
OpenTelemetry. Reading needs memory for the replies that may still grow and for one number per reply seen, not for the
files; only spans are all read before the first record, because a parent stands behind its children.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path

from agentaccel.records import ToolRecord, TurnRecord
from agentaccel.sources.claude_code import is_session_line, read_session
from agentaccel.sources.fields import Identities
from agentaccel.sources.lines import Meter, find_logs, parse, raw_lines, sizes
from agentaccel.sources.order import in_order
from agentaccel.sources.runs import read_runs
from agentaccel.sources.span_log import SpanLog
from agentaccel.sources.spans import is_spans, joined
from agentaccel.sources.tally import ImportTally, Progress, some_of

__all__ = ["ImportTally", "Progress", "read_logs", "some_of"]

PEEK = 200
"""Lines looked at, at most, to tell a file's format; the first one mostly tells."""


def read_logs(
    paths: Iterable[Path | str], *, progress: Progress | None = None, tally: ImportTally | None = None
) -> Iterator[TurnRecord | ToolRecord]:
    """The records in files and folders of logs, in the order of each conversation.

    Folders are searched for `.jsonl` and `.jsonl.gz`. `tally` is filled while reading. Raises TraceError at once for
    a path that does not exist; an unknown or unreadable file is noted in `tally` and the others are read.
    """
    given = [Path(path) for path in paths]
    files = in_order(find_logs(given))
    return _read(files, frozenset(given), Meter(sizes(files), progress), ImportTally() if tally is None else tally)


def _read(
    files: list[Path], given: frozenset[Path], meter: Meter, tally: ImportTally
) -> Iterator[TurnRecord | ToolRecord]:
    seen = Identities()
    spans = SpanLog(tally)
    for path in files:
        lines = raw_lines(path, tally, meter, pipes=path in given)
        head, kind = _recognise(lines)
        unread = len(tally.unreadable)
        if kind == "session":
            tally.files += 1
            yield from read_session(itertools.chain(head, lines), _stem(path), seen, tally)
        elif kind == "runs":
            tally.files += 1
            yield from read_runs(itertools.chain(head, lines), seen, tally)
        elif kind == "spans":
            tally.files += 1
            spans.take(itertools.chain(head, lines))
        elif _just_begun(head):
            tally.cut += 1
        elif any(line.strip() for line in head):
            tally.unrecognised.append(str(path))
        elif not tally.unreadable[unread - 1 : unread] or not tally.unreadable[-1].startswith(f"{path}:"):
            tally.empty += 1
    yield from spans.records()


def _recognise(lines: Iterator[bytes]) -> tuple[list[bytes], str | None]:
    """The lines up to the first telling one, and what that one says the file is."""
    head: list[bytes] = []

    def noted() -> Iterator[bytes]:
        for line in itertools.islice(lines, PEEK):
            head.append(line)
            yield line

    for line in joined(noted()):
        entry = parse(line, ImportTally())
        if entry is None:
            continue
        if is_spans(entry):
            return head, "spans"
        if isinstance(entry.get("messages"), list) and not isinstance(entry.get("type"), str):
            return head, "runs"
        if is_session_line(entry):
            return head, "session"
    return head, None


def _just_begun(head: list[bytes]) -> bool:
    """Whether a file is a log whose first line is still being written; one that is whole tells what it is not."""
    if len(head) != 1 or not head[0].startswith(b"{") or head[0].endswith(b"\n"):
        return False
    return parse(head[0], ImportTally()) is None


def _stem(path: Path) -> str:
    return path.name.removesuffix(".gz").removesuffix(".jsonl")

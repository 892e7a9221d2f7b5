"""How long the way of one model call through agentaccel is: calls, functions and files of ours. Counted by
`sys.setprofile` in files of the package during the second `messages.create` of a wrapped
`AsyncAnthropic` of one session, with one declared tool in the request, against the emulator.

Counted are events of the thread that makes the call, and beside them those of all other threads until the call and
what it leaves to do in the background have ended.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import anthropic
import click

import agentaccel
from agentaccel import Accel, Policy, StorePolicy
from agentaccel_emulator import serve
from benchmarks.registry import Result, Table, benchmark

PACKAGE = str(Path(agentaccel.__file__).parent) + "/"
_TOOL = {
    "name": "look_up",
    "description": "Looks up an order by its number.",
    "input_schema": {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]},
}
_SYSTEM = "You answer questions about orders. " * 400


@benchmark()
@click.option("--tools/--no-tools", default=True, show_default=True, help="Whether a tool is declared.")
def path(tools: bool) -> Result:
    here, elsewhere = asyncio.run(_counted(tools))
    rows = tuple(
        (name, *_figures(counter)) for name, counter in (("the caller's thread", here), ("other threads", elsewhere))
    )
    _, calls, functions, files = rows[0]
    return Result(
        figure=f"One messages.create takes {calls:,} calls of {functions} functions in {files} files of ours.",
        inputs={"declared tools": int(tools)},
        n=1,
        tables=(
            Table(title="The way of one model call", columns=("thread", "calls", "functions", "files"), rows=rows),
            Table(
                title="By package, in the caller's thread",
                columns=("package", "calls", "functions", "files"),
                rows=tuple(_by_package(here)),
            ),
        ),
    )


def _figures(counter: Counter[CodeType]) -> tuple[int, int, int]:
    return counter.total(), len(counter), len({code.co_filename for code in counter})


def _by_package(counter: Counter[CodeType]) -> Iterator[tuple[str, int, int, int]]:
    packages: dict[str, Counter[CodeType]] = {}
    for code, count in counter.items():
        name = code.co_filename.removeprefix(PACKAGE).partition("/")[0].removesuffix(".py")
        packages.setdefault(name, Counter())[code] = count
    for name, inside in sorted(packages.items(), key=lambda item: -item[1].total()):
        yield name, *_figures(inside)


async def _counted(tools: bool) -> tuple[Counter[CodeType], Counter[CodeType]]:
    """Calls of ours by function, in this thread and in the others, during the second call of a session."""
    request: dict[str, Any] = {"model": "claude-sonnet-4-5", "max_tokens": 64, "system": _SYSTEM}
    with tempfile.TemporaryDirectory() as folder, serve() as server, _profiled() as counting:
        accel = Accel(Policy(store=StorePolicy(path=Path(folder) / "trace.db")))
        table = accel.tools({"look_up": lambda order: "in transit"})
        if tools:
            request["tools"] = [{**_TOOL, "name": next(iter(table))}]
        bare = anthropic.AsyncAnthropic(api_key="none", base_url=server.url, max_retries=0)
        with accel:
            async with bare, accel.session("path"):
                client = accel.wrap(bare)
                messages: list[Any] = [{"role": "user", "content": "Where is order 7?"}]
                first = await client.messages.create(**request, messages=messages)
                messages += [
                    {"role": "assistant", "content": [one.model_dump(exclude_none=True) for one in first.content]},
                    {"role": "user", "content": "And order 8?"},
                ]
                counting.here = counting.elsewhere = True
                await client.messages.create(**request, messages=messages)
                counting.here = False
    return counting.of_caller, counting.of_others


@dataclass(slots=True)
class _Counting:
    """Counts calls by function. Mutable: it is switched on and off."""

    caller: int = field(default_factory=threading.get_ident)
    here: bool = False
    elsewhere: bool = False
    of_caller: Counter[CodeType] = field(default_factory=Counter)
    of_others: Counter[CodeType] = field(default_factory=Counter)

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or not _is_ours(code.co_filename):
            return
        if threading.get_ident() != self.caller:
            if self.elsewhere:
                self.of_others[code] += 1
        elif self.here:
            self.of_caller[code] += 1


@contextmanager
def _profiled() -> Iterator[_Counting]:
    """Counts in this thread and in those that begin inside; it is switched off at first."""
    counting = _Counting()
    threading.setprofile(counting)
    sys.setprofile(counting)
    try:
        yield counting
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def _is_ours(filename: str) -> bool:
    return filename.startswith(PACKAGE)

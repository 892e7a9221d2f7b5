"""An open session of 1,000 blocks takes at most 600 bytes a block. Everything that is kept counts, references to the
caller's objects included: what `tracemalloc` still holds once the caller has dropped its requests.

The session has been through every one of its turns, tool calls and recording included; other sessions came before it,
so that what is made once per process does not count.
"""

from __future__ import annotations

import gc
import tempfile
import tracemalloc
from pathlib import Path

import click

from agentaccel import Accel, Policy, StorePolicy
from agentaccel.testing import ManualClock
from benchmarks.conversation import BLOCK_BYTES, Conversation, run
from benchmarks.registry import Cell, Result, Table, benchmark

BOUND = 600
"""Bytes a block."""
TURNS = 330


@benchmark()
@click.option("--turns", default=TURNS, show_default=True, help="Turns of each session.")
@click.option("--sessions", default=3, show_default=True, help="Sessions measured one after another.")
def memory(turns: int, sessions: int) -> Result:
    return measure(turns=turns, sessions=sessions)


def measure(*, turns: int = TURNS, sessions: int = 3, quick: bool = False) -> Result:
    """The benchmark; `quick` measures one session."""
    sessions = 1 if quick else sessions
    rows: list[tuple[Cell, ...]] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, store in (
            ("recording", StorePolicy(path=Path(folder) / "trace.db")),
            ("no store", StorePolicy(enabled=False)),
        ):
            rows.append((name, *_kept(store, turns, sessions)))
    worst = max(float(figure) for row in rows for figure in row[1:] if isinstance(figure, float))
    broken = [f"{worst:.0f} bytes a block, and {BOUND} is the bound"] if worst > BOUND else []
    return Result(
        figure=f"An open session takes at most {worst:.0f} bytes a block.",
        inputs={"turns": turns, "blocks": Conversation(turns).blocks, "bytes of a block": BLOCK_BYTES},
        n=sessions,
        tables=(
            Table(
                title="Bytes a block, of sessions one after another",
                columns=("", *(f"session {i + 1}" for i in range(sessions))),
                rows=tuple(rows),
            ),
        ),
        broken=tuple(broken),
    )


def _kept(store: StorePolicy, turns: int, sessions: int) -> list[float]:
    clock = ManualClock()
    figures: list[float] = []
    with Accel(Policy(strict=True, store=store), clock=clock) as accel:
        with accel.session("before"):
            run(accel, clock, Conversation(0), 20)
        for number in range(sessions):
            gc.collect()
            tracemalloc.start()
            try:
                with accel.session(f"session {number}"):
                    blocks = _session(accel, clock, number, turns)
                    gc.collect()
                    figures.append(tracemalloc.get_traced_memory()[0] / blocks)
            finally:
                tracemalloc.stop()
    return figures


def _session(accel: Accel, clock: ManualClock, number: int, turns: int) -> int:
    conversation = Conversation(0, number=number)
    run(accel, clock, conversation, turns)
    return conversation.blocks

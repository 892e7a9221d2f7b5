"""The situations of the benchmarks, a few sessions of each: markers and lifetimes, learned from session to session."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.situations.form import Situation, bundled, grid
from benchmarks.situations.live import Live
from benchmarks.situations.sessions import requests
from tests.golden.form import Case, Heard, Rows, stored_rows

_SESSIONS, _LENGTHS = 5, (3, 12)
"""Sessions of each, and requests of those of the grid."""


def cases() -> Iterator[tuple[str, Case]]:
    for one in bundled():
        yield f"situation {one.name}", partial(_played, replace(one, sessions=min(one.sessions, _SESSIONS)))
    for one in grid():
        for length, platform in zip(_LENGTHS, (*one.platforms, *one.platforms), strict=False):
            chosen = replace(one, sessions=_SESSIONS, turns=float(length), platform=platform)
            yield f"grid {one.name}, {length} turns, {platform}", partial(_played, chosen)


def _played(situation: Situation, folder: Path) -> Rows:
    live = Live(situation, folder)
    heard: Any = Heard(live.accel)
    live.accel = heard
    for number, session in enumerate(requests(situation)):
        live.play(number, session)
    live.run()
    heard.close()
    return [*heard.rows(), *stored_rows(folder / "trace.db")]

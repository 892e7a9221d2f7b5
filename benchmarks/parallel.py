"""Work in as many processes as there are cores."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

J = TypeVar("J")
R = TypeVar("R")


def spread(work: Callable[[J], R], jobs: Sequence[J], *, at_once: int = 1) -> Iterator[R]:
    """What `work` makes of each of `jobs`, in their order; a process takes so many `at_once`. All of it can be pickled.

    A single job is done here.
    """
    if len(jobs) < 2:
        yield from map(work, jobs)
        return
    with ProcessPoolExecutor(max_workers=min(os.cpu_count() or 1, len(jobs))) as pool:
        yield from pool.map(work, jobs, chunksize=at_once)

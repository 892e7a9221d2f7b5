"""The figures of the benchmark as tables."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

from benchmarks.latency.experiment import (
    AGENTACCEL,
    ALL_WRONG,
    ARMS,
    OFF,
    ORACLE,
    SHARES,
    STEPS,
    THREADS,
    Cell,
    Limits,
    Played,
)
from benchmarks.latency.tallies import Sums, share_of_saving, slowdown
from benchmarks.registry import Cell as Figure
from benchmarks.registry import Table

_BY_SHARE = tuple(f"{share}" for share in SHARES)


def all_of(all_played: Sequence[Played], counting: Sequence[Played]) -> tuple[Table, ...]:
    """In the order in which they are read."""
    found = [_shares_of_oracle(counting)] if counting else []
    return (*found, _savings(all_played), _agentaccel(all_played), _depths(all_played), _limited(all_played))


def named(limits: Limits) -> str:
    """In words."""
    slots = f"{limits.slots} slot{'s' if limits.slots > 1 else ''}"
    return f"{slots}, threads" if limits.gives_back is THREADS else f"{slots}, {1000 * limits.gives_back:.0f} ms"


def _of_oracle(one: Played, share: float, sums: Sums) -> float:
    arms = one.cells[share].arms
    return share_of_saving((sums.seconds, arms[ORACLE.name].seconds, arms[OFF.name].seconds))


def _shares_of_oracle(counting: Sequence[Played]) -> Table:
    rows: list[tuple[Figure, ...]] = []
    for arm in ARMS:
        values = [mean(_of_oracle(one, share, one.cells[share].arms[arm.name]) for one in counting) for share in SHARES]
        rows.append((arm.name, *values))
    values = [mean(_of_oracle(one, share, one.cells[share].own) for one in counting) for share in SHARES]
    rows.append((f"{AGENTACCEL.name}, early runs take draws of their own", *values))
    return Table(
        title="Part of the one-step oracle's saving, mean of the sources that count, by the tools' share of the time",
        columns=("", *_BY_SHARE),
        rows=tuple(rows),
        notes=(
            "the oracle begins the true reads of the next reply when the model is asked; it keeps no result for later, "
            "so that more than 1 is possible",
            "all wrong: launches of agentaccel with their stated probabilities, of calls that are never made; no memo",
        ),
    )


def _savings(all_played: Sequence[Played]) -> Table:
    rows = []
    for one in all_played:
        for name in (ORACLE.name, *(arm.name for arm in ARMS)):
            values = [_saved(one.cells[share], name) for share in SHARES]
            rows.append((f"{one.name}: {name}", *values))
    note = "percent of the time without any acceleration, summed over sessions and draws"
    return Table(title="Time saved", columns=("", *_BY_SHARE), rows=tuple(rows), notes=(note,))


def _saved(cell: Cell, arm: str) -> float | None:
    if not cell.arms:
        return None
    return -100 * slowdown((cell.arms[arm].seconds, cell.arms[OFF.name].seconds))


def _agentaccel(all_played: Sequence[Played]) -> Table:
    rows = []
    for one in all_played:
        for share, cell in one.cells.items():
            if not cell.arms:
                continue
            own, without = cell.arms[AGENTACCEL.name], cell.arms[OFF.name]
            oracle = cell.arms[ORACLE.name]
            least, most = one.resampling.interval(slowdown, own.by_task, without.by_task)
            of_least, of_most = one.resampling.interval(share_of_saving, own.by_task, oracle.by_task, without.by_task)
            sessions = len(own.sessions)
            rows.append(
                (
                    f"{one.name} {share}",
                    f"{-100 * most:.1f} to {-100 * least:.1f}",
                    f"{of_least:.2f} to {of_most:.2f}",
                    -100 * slowdown((own.percentile(0.95), without.percentile(0.95))),
                    own.served,
                    own.joined,
                    own.launched,
                    own.waste_per_hit,
                    own.hidden / sessions,
                    own.wasted / sessions,
                )
            )
    columns = ("", "saved %", "of oracle", "p95 saved %", "served", "joined", "launched", "waste/hit", "hidden s")
    return Table(
        title="agentaccel, without eager dispatch",
        columns=(*columns, "wasted s"),
        rows=tuple(rows),
        notes=("95 % intervals by task; seconds per session; counts over all draws",),
    )


def _depths(all_played: Sequence[Played]) -> Table:
    rows = []
    for one in all_played:
        for arm in (*STEPS, AGENTACCEL):
            cells = [cell.arms[arm.name] for cell in one.cells.values() if cell.arms]
            if not cells:
                continue
            launched, served = sum(sums.deep_launched for sums in cells), sum(sums.deep_served for sums in cells)
            rows.append(
                (f"{one.name}: {arm.name}", *(_saved(one.cells[s], arm.name) for s in SHARES), served, launched)
            )
    return Table(
        title="Chains: early results that foretell further calls; agentaccel goes three steps deep",
        columns=("", *_BY_SHARE, "served", "launched"),
        rows=tuple(rows),
        notes=("percent of time saved; counts are of runs two or more steps ahead, over all draws and shares",),
    )


def _limited(all_played: Sequence[Played]) -> Table:
    rows = []
    for one in all_played:
        cells = [one.cells[share] for share in SHARES]
        for limits, arm in cells[0].limited:
            values = []
            for cell in cells:
                own, without = cell.limited[limits, arm], cell.unhelped[limits.slots]
                least, most = one.resampling.interval(slowdown, own.by_task, without.by_task)
                values.append(f"{-100 * most:.2f} to {-100 * least:.2f}")
            rows.append((f"{one.name}: {arm}, {named(limits)}", *values))
    return Table(
        title="Real and early runs share slots: percent of time saved, 95 % intervals by task",
        columns=("", *_BY_SHARE),
        rows=tuple(rows),
        notes=(
            "20 ms: a cancelled run has given its slot back after so long; threads: it goes on to its end",
            f"against the same slots without acceleration; {ALL_WRONG.name} has no memo",
        ),
    )

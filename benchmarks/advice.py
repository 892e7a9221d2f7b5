"""Advice names the fault that was planted first, and its saving within 10 %. Ten prepared workloads with one fault
each, and two healthy ones for which nothing may be said.

Each workload is recorded by agentaccel in observe mode against the emulator, and advice is drawn from that store. The
true saving is what the emulator bills for the workload less what it bills for the same sessions with the fault mended;
for faults in time it is the time at work. No replay takes part in that. With `--mode on`, agentaccel plans in both, and
nothing may be said of a fault that it mends by itself.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from agentaccel.policy import Mode
from agentaccel.report.advise.choose import LEAST_SHARE, REMEDIES, Remedy, advise
from agentaccel.report.advise.nouns import Advice
from agentaccel.report.advise.reading import talks_of_store
from agentaccel.store.store import open_reader
from benchmarks.registry import Result, Table, benchmark
from benchmarks.workloads import Workload, billed, bundled, load, record, sessions, wall

WITHIN = 0.1
"""By how much a saving may be off, as a share of the true one."""

WORTH = 0.1
"""Of the bill or of the time: what a planted fault costs at least, so that finding it means something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One workload, what was advised, and what would have been true."""

    workload: Workload
    advice: tuple[Advice, ...]
    whole: float
    """USD or seconds with the fault."""
    saved: float
    """Of these, without it."""
    mode: Mode
    """Of the recording."""

    @property
    def rank(self) -> int | None:
        """Where the fault stands in the advice, from 1; None where it is not named."""
        kinds = [one.kind for one in self.advice]
        kind = self.workload.fault.kind if self.workload.fault is not None else ""
        return kinds.index(kind) + 1 if kind in kinds else None

    @property
    def comes_first(self) -> bool:
        """True if the fault is the first advice of those that save what it costs: money and time are not compared."""
        fault = self.workload.fault
        if fault is None:
            return False
        alike = [one.kind for one in self.advice if (one.unit == "seconds") == (fault.unit == "seconds")]
        return alike[:1] == [fault.kind]

    @property
    def ratio(self) -> float | None:
        """The saving that was predicted over the true one."""
        return self.advice[self.rank - 1].saving / self.saved if self.rank and self.saved else None

    @property
    def mended_by_us(self) -> bool:
        """Whether agentaccel plans, and nothing is left of the fault."""
        return self.mode == "on" and self.workload.fault is not None and self.saved < LEAST_SHARE * self.whole

    def wrong(self) -> list[str]:
        """What should hold and does not."""
        name = self.workload.name
        if self.workload.fault is None:
            return [f"{name!r} is healthy, and {one.kind!r} is advised" for one in self.advice]
        found = []
        if self.mended_by_us:
            return [f"agentaccel mends {name!r}, and {one.kind!r} is advised" for one in self.advice]
        if self.saved < WORTH * self.whole:
            found.append(f"the fault of {name!r} is worth {self.saved / self.whole:.1%} only")
        if not self.comes_first:
            found.append(f"{self.workload.fault.kind!r} is not the first advice for {name!r}")
        elif self.ratio is None or abs(self.ratio - 1) > WITHIN:
            found.append(f"the saving for {name!r} is {self.ratio or 0:.3f} times the true one")
        return found


def found(workload: Workload, folder: Path, remedies: Sequence[Remedy] = REMEDIES, mode: Mode = "observe") -> Found:
    """Record `workload` under `folder`, ask for advice, and bill what would have been."""
    store = folder / "trace.db"
    faulty = sessions(workload, mended=False)
    bill = record(workload.situation, faulty, store, mode)
    with open_reader(store) as reader:
        advice = advise(talks_of_store(reader), remedies=remedies)
    whole = saved = 0.0
    if workload.fault is not None:
        mended = sessions(workload, mended=True)
        if workload.fault.unit == "seconds":
            whole = wall(faulty)
            saved = whole - wall(mended)
        else:
            whole = bill
            saved = whole - (
                billed(workload.situation, mended)
                if mode == "observe"
                else record(workload.situation, mended, folder / "mended.db", mode)
            )
    return Found(workload=workload, advice=advice, whole=whole, saved=saved, mode=mode)


@benchmark()
@click.option(
    "--workloads",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A folder of workload files in place of the bundled ones.",
)
@click.option(
    "--mode", type=click.Choice(["observe", "on"]), default="observe", show_default=True, help="What agentaccel does."
)
def run(workloads: Path | None, mode: Mode) -> Result:
    chosen = [load(path) for path in sorted(workloads.glob("*.toml"))] if workloads else bundled()
    everything = []
    for workload in chosen:
        with tempfile.TemporaryDirectory() as folder:
            everything.append(found(workload, Path(folder), mode=mode))
    faulty = [one for one in everything if one.workload.fault is not None and not one.mended_by_us]
    healthy = [one for one in everything if one not in faulty]
    first = sum(one.comes_first for one in faulty)
    furthest = max((abs(one.ratio - 1) for one in faulty if one.ratio is not None), default=0.0)
    silent = sum(not one.advice for one in healthy)
    nothing = "healthy workloads" if mode == "observe" else "workloads that are healthy or mended by agentaccel"
    return Result(
        figure=f"{first} of {len(faulty)} faults are named first, the saving at most {furthest:.1%} off; "
        f"nothing is said of {silent} of {len(healthy)} {nothing}.",
        inputs={
            "workloads": workloads.name if workloads else "bundled",
            "mode": mode,
            "within": WITHIN,
            "worth at least": WORTH,
        },
        n=len(everything),
        tables=(_table(everything),),
        broken=tuple(sentence for one in everything for sentence in one.wrong()),
    )


def _table(everything: Sequence[Found]) -> Table:
    rows = []
    for one in everything:
        fault, first = one.workload.fault, one.advice[0] if one.advice else None
        predicted = one.advice[one.rank - 1].saving if one.rank else None
        rows.append(
            (
                one.workload.name,
                fault.kind if fault is not None else "none",
                one.rank,
                predicted,
                one.saved if fault is not None else None,
                one.ratio,
                one.saved / one.whole if one.whole else None,
                first.sure if first is not None else "",
            )
        )
    return Table(
        title="Planted faults and what was advised",
        columns=("", "fault", "rank", "predicted", "true", "ratio", "worth", "sure"),
        rows=tuple(rows),
        notes=('savings are in USD, input and output, or in seconds; "worth" is the true one as a share of the whole',),
    )

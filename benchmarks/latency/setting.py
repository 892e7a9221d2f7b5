"""What a session is played with: what is done early, the world it is done in, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from agentaccel.predict.experience import Experience
from agentaccel.predict.latency import Runway
from agentaccel.predict.stats import SpeculationStats
from agentaccel.tools.catalog import still_needed
from benchmarks.latency.draws import Draw

START = 0.0003
"""Seconds of CPU that a launch is charged, unless another figure is given; stated, of the order of what the benchmark
of dispatching measures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """What is done early."""

    name: str
    memo: bool = False
    eager: bool = False
    foreseen: str = ""
    """By whom, as in `Turn.foreseen`; empty for by nobody."""
    decided: bool = True
    """Whether the product's decision says which guesses are launched; else so many of them are as another arm did."""
    depth: int = 3
    """Steps ahead of what is known; 1 for no chains."""
    hedged: bool = True


@dataclass(slots=True, kw_only=True)
class Setting:
    """The world that sessions are played in, one after another; what is learned there stays in `experience`."""

    draw: Draw
    scale: float
    """What tool times are multiplied with."""
    experience: Experience
    slots: int | None = None
    """Runs at once, real and early ones; None for no limit."""
    gives_back: float | None = 0.0
    """Seconds until a cancelled run has given its slot back; None where it goes on to its end."""
    own: bool = False
    """Early runs take a draw of their own."""
    start: float = START
    """Seconds of CPU for each launch, in which the session stands still."""
    needed: float = 1.0
    """Slots that real calls were seen to need at once, of late."""
    wall: float = 0.0
    """When the next session begins, in seconds."""
    _runways: dict[float, Runway] = field(default_factory=dict)

    def runway(self, elapsed: float) -> Runway:
        """Of a reply that was asked for so long ago, to a tenth of a second; replies are learned before, not here."""
        near = round(elapsed, 1)
        found = self._runways.get(near)
        if found is None:
            found = self._runways[near] = self.experience.runway(near)
        return found


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What a session came to."""

    seconds: float
    ledger: SpeculationStats
    launched: tuple[int, ...] = ()
    """Early runs by turn."""
    deep: tuple[int, int] = (0, 0)
    """Early runs two or more steps ahead, and those of them that were served."""


def needed_after(needed: float, calls: int) -> float:
    """The slots that real calls need at once after a reply that asked for so many."""
    for running in range(1, calls + 1):
        needed = still_needed(needed, running)
    return needed

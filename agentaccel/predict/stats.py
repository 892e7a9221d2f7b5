"""What running tools early has come to in one session: counts, seconds hidden and seconds wasted.

Hidden seconds are those of a run that passed while the agent did something else. They are not called saved: without an
early run some of them might have been spent otherwise, which only a control group can tell.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

_COUNTS = ("launched", "served", "joined", "unused", "stale", "failed")


@dataclass(slots=True, kw_only=True, repr=False)
class Tally:
    """Early runs of one kind. Mutable; whoever counts holds a lock."""

    launched: int = 0
    served: int = 0
    joined: int = 0
    """Those of `served` that were still running when their call came."""
    unused: int = 0
    """Nobody asked for it before it made room or its session was left."""
    stale: int = 0
    """Something that may have written ran meanwhile, what it read has changed, or it had waited too long."""
    failed: int = 0
    """It raised, took too long, gave too much, or was cancelled."""
    hidden: float = 0.0
    """Seconds of served runs for which no caller waited."""
    wasted: float = 0.0
    """Seconds of runs that were not served."""

    def __add__(self, other: Tally) -> Tally:
        return Tally(**{name: getattr(self, name) + getattr(other, name) for name in Tally.__slots__})

    def __repr__(self) -> str:
        """What is not 0, in words.

        >>> Tally(launched=3, served=1, stale=2, hidden=1.2345678)
        <3 launched, 1 served, 2 stale, 1.23 s hidden>
        """
        counts = [f"{getattr(self, name)} {name}" for name in _COUNTS if getattr(self, name)]
        seconds = [f"{getattr(self, name):.2f} s {name}" for name in ("hidden", "wasted") if getattr(self, name)]
        return f"<{', '.join(counts + seconds) or 'nothing'}>"

    @property
    def waste_per_hit(self) -> float | None:
        """Runs that were not served for each one that was; None where none was."""
        return (self.unused + self.stale + self.failed) / self.served if self.served else None


@dataclass(slots=True, kw_only=True, repr=False)
class SpeculationStats:
    """The early runs of one session.

    >>> predicted, asked = Tally(launched=3, served=1, stale=2), Tally(launched=1, served=1, hidden=0.5)
    >>> stats = SpeculationStats(predicted=predicted, asked=asked)
    >>> stats.total.launched, stats.predicted.waste_per_hit, stats.total.hidden
    (4, 2.0, 0.5)
    """

    predicted: Tally = field(default_factory=Tally)
    """Begun before the model had asked."""
    asked: Tally = field(default_factory=Tally)
    """Begun when the model had asked, before its message had ended."""
    memo: Tally = field(default_factory=Tally)
    """Answered from an earlier run of the same call; nothing is launched for these."""
    refused: Counter[str] = field(default_factory=Counter)
    """Calls that were not launched because of what they may do, by effect."""
    withheld: int = 0
    """Runs that would have been begun, had the mode allowed it."""

    def __repr__(self) -> str:
        """All of it, in words.

        >>> SpeculationStats(predicted=Tally(launched=1, served=1), refused=Counter(unknown=4))
        <SpeculationStats predicted <1 launched, 1 served>, asked <nothing>, memo <nothing>, 4 refused, 0 withheld>
        """
        runs = ", ".join(f"{name} {getattr(self, name)!r}" for name in ("predicted", "asked", "memo"))
        return f"<SpeculationStats {runs}, {self.refused.total()} refused, {self.withheld} withheld>"

    @property
    def total(self) -> Tally:
        """All of them together."""
        return self.predicted + self.asked + self.memo

"""What stands beside agentaccel around the calls of an agent: what it may stop, and what it costs.

Whoever brings agentaccel into a framework names what is there; what is known of each is a row of a data file. Records
of requests name what stood beside them, and a report says what was missed then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any, NamedTuple

from agentaccel.facts.tables import table
from agentaccel.once import Once
from agentaccel.types import Cause, Drift, Miss

ALL = None
"""Every tool of an agent."""

Stopped = frozenset[str] | None
"""Names of tools that may be stopped, or `ALL`."""


def stopped(parts: Iterable[object], may_stop: Callable[[object], bool]) -> Stopped:
    """The tools that these may keep from running once the model has asked for them; the log says what they cost.

    `parts` are objects, or the names of their classes where there is no more to see. `may_stop` is asked of those that
    are not known.
    """
    names: Stopped = frozenset()
    for part in parts:
        name, known = _names(part)
        row = None if known is None else table("middleware")[known]
        said: Stopped = frozenset()
        if row is not None:
            said = _stopped_by(part, row)
        elif may_stop(part):
            said = ALL
            _say(name, "it may stop tools, for all that is known here, and so none is run early")
        if row is not None and "says" in row:
            _say(name, row["says"])
        names = None if said is None or names is None else names | said
    return names


def _names(part: object) -> tuple[str, str | None]:
    """What it is called, and by which of the data file's names it is known there."""
    kinds = [part] if isinstance(part, str) else [kind.__name__ for kind in type(part).__mro__]
    rows = table("middleware")
    return kinds[0], next((kind for kind in kinds if isinstance(rows.get(kind), Mapping)), None)


def _stopped_by(part: object, row: Mapping[str, Any]) -> Stopped:
    if "stops" not in row:
        return frozenset()
    try:
        named = attrgetter(row["stops"])(part)
    except AttributeError:  # a later version, or only its name is known
        return ALL
    if named is False:
        return frozenset()
    if isinstance(named, str):
        return frozenset({named})
    if not isinstance(named, Iterable):
        return ALL
    return frozenset((one if isinstance(one, str) else str(getattr(one, "name", one))).strip() for one in named) or ALL


_ONCE = Once()


def _say(name: str, what: str) -> None:
    _ONCE.say_aloud(f"beside {name}: {what}")


# --- What it costs at the prompt cache --------------------------------------------------------------------------------


class CacheCost(NamedTuple):
    """What something costs that stands beside agentaccel."""

    says: str
    """What its settings cost, and what to do."""
    causes: frozenset[Cause]
    """The causes of the misses that it brings about; others may bring about the same."""
    level: str | None
    """The part of the prompt that it changes; None where it changes none, or any."""

    def may_explain(self, miss: Miss, drift: Drift | None) -> bool:
        """True for a miss of the kind that it brings about, in a request that left the one before it at `drift`."""
        if miss.cause not in self.causes:
            return False
        return miss.cause is not Cause.CHANGED or drift is None or self.level in (None, drift.level)


def cost_of(name: str) -> CacheCost | None:
    """What is known of what has this name in the data file to cost; None where that is nothing."""
    row = table("middleware").get(name)
    if not isinstance(row, Mapping) or "says" not in row:
        return None
    return CacheCost(row["says"], frozenset(map(Cause, row["causes"])), row.get("level"))


def costly(parts: Iterable[object]) -> tuple[str, ...]:
    """Those of `parts`, as in `stopped`, that are known to cost something, by their names in the data file."""
    known = dict.fromkeys(_names(part)[1] for part in parts)
    return tuple(name for name in known if name is not None and cost_of(name) is not None)

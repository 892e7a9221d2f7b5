"""What stands beside agentaccel around the calls of an agent: what it may stop, and what it costs.

Whoever brings agentaccel into a framework names what is there; what is known of each is a row of a data file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any

from agentaccel.facts.tables import table
from agentaccel.once import Once

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
        name, row = _row(part)
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


def _row(part: object) -> tuple[str, Mapping[str, Any] | None]:
    kinds = [part] if isinstance(part, str) else [kind.__name__ for kind in type(part).__mro__]
    rows = table("middleware")
    known = next((kind for kind in kinds if isinstance(rows.get(kind), Mapping)), None)
    return kinds[0], None if known is None else rows[known]


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

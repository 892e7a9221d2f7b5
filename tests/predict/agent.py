"""A small agent whose sessions teach: it looks a customer up, then each of the customer's trips."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from agentaccel.predict.events import Answered, Asked, Event, Returned, Said
from agentaccel.predict.knowledge import Knowledge
from agentaccel.predict.predictor import Predictor
from agentaccel.types import ToolCall

WORKLOAD = "agent desk"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What one session is about."""

    user: str
    trips: tuple[str, ...]
    note: str = "nothing special"
    """Stands in the results of tools, and nowhere else."""
    language: str = "en"

    def events(self) -> Iterator[Event]:
        """What happens in the session."""
        find = call("get_user", user_id=self.user)
        yield Said(f"Hello, I am {self.user}.")
        yield Asked((find,))
        yield Returned(find, json.dumps({"trips": list(self.trips), "note": self.note}))
        for trip in self.trips:
            look = call("get_trip", trip=trip, language=self.language)
            yield Asked((look,))
            yield Returned(look, json.dumps({"state": "booked", "note": self.note}))
        yield Answered(f"All is well, {self.note}.")


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(name=name, arguments=arguments)


def cases(count: int, start: int = 0) -> list[Case]:
    """Different customers."""
    return [
        Case(user=f"mia_li_{1000 + at}", trips=(f"K{at % 10}QX{at % 7}A", f"Z{at % 10}RW{at % 7}B"))
        for at in range(start, start + count)
    ]


def teach(knowledge: Knowledge, sessions: Sequence[Case]) -> None:
    """Let the sessions happen, one after the other."""
    predictor = Predictor(knowledge)
    for case in sessions:
        history = predictor.session(WORKLOAD)
        for event in case.events():
            history.take(event)
        history.close()


def foreseen(knowledge: Knowledge) -> list[tuple[str, object, float]]:
    """What is expected in a session of a customer whom nobody knows, once it is known which trips there are.

    A session that only looks teaches nothing: it asks before anything is realised.
    """
    history = Predictor(knowledge).session(WORKLOAD)
    history.take(Said("Hello, I am omar_rossi_1241."))
    found = call("get_user", user_id="omar_rossi_1241")
    then = history.supposing(found, json.dumps({"trips": ["P7PP7P"]}))
    guesses = (*history.predict(3), *then.predict(3))
    return [(one.call.name, dict(one.call.arguments), round(one.probability, 6)) for one in guesses]


KNOWN = ("get_trip", {"trip": "P7PP7P", "language": "en"})
"""What somebody who has learned foresees."""


def foresees(knowledge: Knowledge) -> bool:
    """Whether the agent's next call is the first guess, arguments included."""
    return KNOWN in [one[:2] for one in foreseen(knowledge)]

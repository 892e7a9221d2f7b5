"""Made-up loops that the predictor learns from."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from agentaccel.predict.events import Answered, Asked, Event, Returned, Said
from agentaccel.predict.predictor import Predictor, SessionHistory
from agentaccel.types import Prediction, ToolCall


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(name=name, arguments=arguments)


def step(*calls_and_results: tuple[ToolCall, Any]) -> list[Event]:
    """One reply and what its calls return."""
    calls = tuple(one for one, _ in calls_and_results)
    returned = (
        Returned(one, result if isinstance(result, str) else json.dumps(result)) for one, result in calls_and_results
    )
    return [Asked(calls), *returned]


def play(predictor: Predictor, events: Iterable[Event], **session: Any) -> SessionHistory:
    """A session in which `events` have happened, and that goes on."""
    history = predictor.session(**{"workload": "loop", "reads": lambda one: True, **session})
    for event in events:
        history.take(event)
    return history


def learn(predictor: Predictor, sessions: Iterable[Sequence[Event]], **session: Any) -> Predictor:
    for events in sessions:
        play(predictor, events, **session).close()
    return predictor


def arguments(predicted: Iterable[Prediction], name: str) -> list[Mapping[str, Any]]:
    """The arguments of the predicted calls of one tool, best first."""
    return [one.call.arguments for one in predicted if one.call.name == name]


def person(number: int) -> str:
    return f"mia_li_{1000 + number}"


def order(number: int, at: int) -> str:
    return f"Q{number:02}Z{at}X"


def opening(number: int, orders: int = 4) -> list[Event]:
    """The user says who they are; the agent looks them up and gets their orders, oldest first."""
    who = person(number)
    found = {"person": who, "orders": [order(number, at) for at in range(orders)]}
    return [Said(f"Hello, this is {who}."), *step((call("find_person", person=who), found))]


def one_by_one(number: int, orders: int = 4) -> list[Event]:
    """After the opening it looks at each order, one in each reply."""
    events = opening(number, orders)
    for at in range(orders):
        events += step((call("find_order", order=order(number, at)), {"state": "sent"}))
    return [*events, Answered("They are on their way.")]


def many(kind: Any, count: int = 24) -> Iterator[list[Event]]:
    return (kind(number) for number in range(count))

"""Telling the next tool takes at most 200 updates, and asking for it at most 300, of a table of what follows what. All
three trees mixed, 40 symbols, 10,000 learned sessions, against the statement
`c = t.setdefault(p, {}); c[y] = c.get(y, 0) + 1` in the same rounds; at 300 symbols at most twice the time at 40.

Sessions are made up: a random chain in which each symbol has a few successors, with a user's message now and then.
Binding arguments and ranking calls, which is what takes longer, is measured apart on made-up sessions of an agent that
looks a person up, then everything on their list. Memory is what the trees of fleet and workload hold in the end, and
what one tree holds that was fed noise until it was full.
"""

from __future__ import annotations

import json
import random
import tracemalloc
from collections.abc import Sequence

import click

from agentaccel.predict.events import Answered, Asked, Event, Returned, Said
from agentaccel.predict.predictor import Predictor, SessionHistory
from agentaccel.predict.tokens import REPLY, USER
from agentaccel.predict.tree import MOST_NODES, Mixture, Tree
from agentaccel.types import ToolCall
from benchmarks.measure import ROUNDS, Action, alternated
from benchmarks.registry import Cell, Result, Table, benchmark

UPDATE, PREDICT, WIDE = 200.0, 300.0, 2.0
"""Bounds: in times of the statement, and of the time at 40 symbols."""
SYMBOLS = (40, 300)
SESSIONS = 10_000
TURNS = 12
BLOCK = 200
"""Events in one measured block."""
MOMENTS = 20
"""Sessions in one measured block of binding."""
LEARNED = 60
"""Sessions that the predictor has learned before binding is measured: more change little, its tables are bounded."""
STATEMENT = "statement"
SEED = 7


@benchmark()
@click.option("--rounds", default=ROUNDS, show_default=True, help="Blocks of each kind.")
@click.option("--sessions", default=SESSIONS, show_default=True, help="Sessions learned beforehand.")
def predictor(rounds: int, sessions: int) -> Result:
    return measure(rounds=rounds, sessions=sessions)


def measure(*, rounds: int = ROUNDS, sessions: int = SESSIONS, quick: bool = False) -> Result:
    """The benchmark; `quick` takes few rounds after few sessions, and says nothing about bounds on time."""
    if quick:
        rounds, sessions = 3, 50
    grown = {count: Grown(count, sessions) for count in SYMBOLS}
    apart = Desk().actions()
    times = alternated(
        {STATEMENT: grown[SYMBOLS[0]].statement()}
        | {f"update {count}": one.update() for count, one in grown.items()}
        | {f"predict {count}": one.predict() for count, one in grown.items()}
        | apart,
        rounds=rounds,
    )
    many_at_once = {name: MOMENTS if name in apart else BLOCK for name in times.seconds}
    at = {name: times.ratio(name, to=STATEMENT) * BLOCK / count for name, count in many_at_once.items()}
    rows: list[tuple[Cell, ...]] = [
        (name, times.median(name) / count * 1e6, at[name]) for name, count in many_at_once.items()
    ]
    few, many = SYMBOLS
    held = {
        f"update, {few} symbols: at most {UPDATE:.0f} times the statement": at[f"update {few}"] <= UPDATE,
        f"predict, {few} symbols: at most {PREDICT:.0f} times the statement": at[f"predict {few}"] <= PREDICT,
        f"update, {many} symbols: at most {WIDE:.0f} times {few}": at[f"update {many}"] <= WIDE * at[f"update {few}"],
        f"predict, {many} symbols: at most {WIDE:.0f} times {few}": at[f"predict {many}"]
        <= WIDE * at[f"predict {few}"],
    }
    noise = Noise(MOST_NODES if not quick else 500)
    memory: list[tuple[Cell, ...]] = [
        (f"fleet and workload, {count} symbols", one.nodes, one.nodes * noise.each / 1e6)
        for count, one in grown.items()
    ]
    memory.append((f"one tree fed noise, {many} symbols, at its largest", noise.nodes, noise.nodes * noise.each / 1e6))
    broken = [] if quick else [claim for claim, holds in held.items() if not holds]
    if noise.nodes > MOST_NODES:
        broken.append(f"a tree has at most {MOST_NODES} nodes: it has {noise.nodes}")
    return Result(
        figure=f"Update {at[f'update {few}']:.0f}, prediction {at[f'predict {few}']:.0f} times the statement.",
        inputs={"rounds": rounds, "sessions": sessions, "a block": BLOCK, "time": "process CPU, median", "seed": SEED},
        n=rounds,
        tables=(
            Table(
                title="One event",
                columns=("what", "µs", "times the statement"),
                rows=tuple(rows),
                notes=("bind and rank: all candidates with arguments and probabilities; learn: one call, with its "
                       "arguments, after that",),
            ),
            Table(title="Memory", columns=("what", "nodes", "MB"), rows=tuple(memory)),
        ),
        broken=tuple(broken),
    )  # fmt: skip


class Grown:
    """Three trees that have learned made-up sessions, and events that come next."""

    def __init__(self, symbols: int, sessions: int) -> None:
        chance = random.Random(SEED)
        names = [f"tool_{number}" for number in range(symbols - 1)] + [REPLY]
        follows = {name: chance.sample(names, 5) for name in [*names, USER]}
        fleet, workload = Tree(names), Tree(names)
        past: list[str] = []
        self.events: list[tuple[tuple[str, ...], str]] = []
        for number in range(sessions + 40):
            past = [USER]
            for _ in range(TURNS):
                after = follows[past[-1]] if chance.random() < 0.9 else chance.sample(names, 5)
                symbol = chance.choices(after, [0.5**at for at in range(len(after))])[0]
                if number < sessions:
                    fleet.update(past, symbol), workload.update(past, symbol)
                else:
                    self.events.append((tuple(past[-8:]), symbol))
                past += [symbol, USER] if symbol == REPLY else [symbol]
        self.nodes = fleet.nodes + workload.nodes
        own = Tree(names)
        for before, symbol in self.events[:40]:
            own.update(before, symbol)
        self.mixture = Mixture((fleet, workload, own))
        self.events = self.events[:BLOCK]

    def statement(self) -> Action:
        table: dict[tuple[str, ...], dict[str, int]] = {}
        pairs = [(before[-1:], symbol) for before, symbol in self.events]

        def run(_: object) -> None:
            t = table
            for p, y in pairs:
                c = t.setdefault(p, {}); c[y] = c.get(y, 0) + 1  # noqa: E702  # fmt: skip

        return Action(run=run)

    def update(self) -> Action:
        def run(_: object) -> None:
            for before, symbol in self.events:
                self.mixture.update(before, (symbol,))

        return Action(run=run)

    def predict(self) -> Action:
        def run(_: object) -> None:
            for before, _symbol in self.events:
                self.mixture.predict(before)

        return Action(run=run)


class Noise:
    """A tree fed noise until it has had to make room: its most nodes, and the bytes of each."""

    def __init__(self, most: int) -> None:
        chance = random.Random(SEED)
        names = [f"tool_{number}" for number in range(SYMBOLS[-1])]
        tracemalloc.start()
        tree = Tree(names, most_nodes=most)
        seen = [chance.choice(names) for _ in range(most // 2)]
        self.nodes, self.each = 0, 0.0
        for at in range(5, len(seen)):
            tree.update(seen[at - 5 : at], seen[at])
            if tree.nodes > self.nodes:
                self.nodes = tree.nodes
                self.each = tracemalloc.get_traced_memory()[0] / tree.nodes
        tracemalloc.stop()


class Desk:
    """A predictor that has learned some sessions, and others that have reached the moment in question."""

    def __init__(self) -> None:
        self.predictor = Predictor()
        for number in range(LEARNED):
            history = self.history()
            for event in _session(number):
                history.take(event)
            history.close()
        self.events = _session(LEARNED)

    def history(self) -> SessionHistory:
        return self.predictor.session("desk", reads=lambda call: True)

    def begun(self) -> list[SessionHistory]:
        histories = [self.history() for _ in range(MOMENTS)]
        for history in histories:
            for event in self.events[:3]:
                history.take(event)
        return histories

    def predicted(self) -> list[SessionHistory]:
        histories = self.begun()
        self.ask(histories)
        return histories

    def ask(self, histories: Sequence[SessionHistory]) -> None:
        for history in histories:
            history.predict()

    def learn(self, histories: Sequence[SessionHistory]) -> None:
        for history in histories:
            history.take(self.events[3])

    def actions(self) -> dict[str, Action]:
        return {
            "bind and rank": Action(run=self.ask, prepare=self.begun),
            "learn": Action(run=self.learn, prepare=self.predicted),
        }


def _session(number: int) -> Sequence[Event]:
    """An agent that looks a person up, and then each of their orders."""
    person, orders = f"mia_li_{1000 + number}", [f"A{number:03}B{at}" for at in range(5)]
    look = ToolCall(name="find_person", arguments={"person": person})
    found = json.dumps({"person": person, "orders": [{"id": one, "day": "2024-05-20", "cost": 5} for one in orders]})
    events: list[Event] = [Said(f"Hello, I am {person}, where are my things?"), Asked((look,)), Returned(look, found)]
    for order in orders[:3]:
        one = ToolCall(name="find_order", arguments={"order": order, "person": person})
        events += [Asked((one,)), Returned(one, json.dumps({"id": order, "state": "sent", "parts": [1, 2]}))]
    return [*events, Answered("All of them are on their way.")]

"""Every order in which requests that begin alike come, are answered, fail, are cancelled, are dropped or tire."""

from __future__ import annotations

import gc
from concurrent.futures import Future

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agentaccel.engine.gate import Flight, HeldPrefix, Write, WriteGate

PREFIXES = [(0,), (0, 1), (0, 2)]
BOUNDS = st.sampled_from([0.0, 5.0, 20.0])


class Waiting:
    """A request that was told to wait, and until when it may be made to."""

    def __init__(self, flight: Flight, gate: Future[None], until: float, last: float) -> None:
        self.flight, self.gate, self.until, self.last = flight, gate, until, last


class Interleavings(RuleBasedStateMachine):
    """A process with any number of requests, one event after another."""

    def __init__(self) -> None:
        super().__init__()
        self.write_gate, self.now = WriteGate(), 0.0
        self.waiting: list[Waiting] = []
        self.flying: list[Flight] = []

    @rule(prefixes=st.sampled_from(PREFIXES), at_most=BOUNDS, worth=st.booleans(), streamed=st.booleans())
    def arrives(self, prefixes: tuple[int, ...], at_most: float, worth: bool, streamed: bool) -> None:
        writes = tuple(Write(("", b"%d" % n), 1000.0 * (n + 1), HeldPrefix("5m", 30.0)) for n in prefixes)
        flight = Flight(
            write_gate=self.write_gate,
            writes=writes,
            kind="any",
            total=4000.0,
            read=0.0,
            streamed=streamed,
            at_most=at_most,
            cost_per_second=0.001,
            price=lambda: 1.0 if worth else None,
        )
        self.asks(flight, self.now + at_most)

    def asks(self, flight: Flight, last: float) -> None:
        answer = flight.before(self.now)
        if answer is None:
            self.flying.append(flight)
            return
        gate, seconds = answer
        assert seconds > 0
        assert self.now + seconds <= last + 1e-9, "held beyond its bound"
        self.waiting.append(Waiting(flight, gate, self.now + seconds, last))

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def wakes(self, data: st.DataObject) -> None:
        """One whose gate is open, or whose time is up, asks again: in any order among those."""
        ready = [one for one in self.waiting if one.gate.done() or one.until <= self.now]
        if ready:
            one = data.draw(st.sampled_from(ready))
            self.waiting.remove(one)
            self.asks(one.flight, one.last)

    @precondition(lambda self: self.flying)
    @rule(data=st.data(), how=st.sampled_from(["begins", "fails", "is dropped"]))
    def ends(self, data: st.DataObject, how: str) -> None:
        flight = self.flying.pop(data.draw(st.integers(0, len(self.flying) - 1)))
        if how == "begins":
            flight.began(self.now)
            flight.over(self.now)
            for one in self.waiting:
                assert one.gate.done() or not {w.key for w in flight.writes} & self._keys_at(one.gate)
        elif how == "fails":
            flight.over(self.now)
        del flight
        gc.collect(0)

    def _keys_at(self, gate: Future[None]) -> set[object]:
        return {key for key, place in self.write_gate._places.items() if place.gate is gate}

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def is_cancelled(self, data: st.DataObject) -> None:
        """While it waits: it leads nothing, so nobody minds."""
        one = self.waiting.pop(data.draw(st.integers(0, len(self.waiting) - 1)))
        one.flight.over(self.now)

    @rule(seconds=st.sampled_from([0.1, 1.0, 3.0, 10.0, 40.0]))
    def passes(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def whoever_waits_waits_for_somebody_on_the_way(self) -> None:
        for one in self.waiting:
            if one.gate.done():
                continue
            leaders = {place.leader() for place in self.write_gate._places.values() if place.gate is one.gate}
            assert leaders, "a gate that nobody will open"
            assert leaders <= set(self.flying), "led by one that is not on its way"

    @invariant()
    def a_prefix_has_one_leader_and_one_gate(self) -> None:
        gates = [id(place.gate) for place in self.write_gate._places.values()]
        assert len(gates) == len(set(gates))

    def teardown(self) -> None:
        """Once all that fly have ended, every one that waits is let go, one after another."""
        while self.flying or self.waiting:
            while self.flying:
                self.flying.pop().over(self.now)
            before = len(self.waiting)
            for one in [one for one in self.waiting if one.gate.done() or one.until <= self.now]:
                self.waiting.remove(one)
                self.asks(one.flight, one.last)
            assert len(self.waiting) < before or not before, "nobody is let go"
        assert not self.write_gate._places, "a place is left that nobody leads"


TestInterleavings = Interleavings.TestCase
TestInterleavings.settings = settings(stateful_step_count=40)

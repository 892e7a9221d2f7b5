"""The interleavings bite: without any single guard against waiting in vain they fail."""

from __future__ import annotations

from tests.mutants import Mutant, biting, running

GUARDS = (
    Mutant(
        guard="a leader that fails and lets nobody go",
        at="agentaccel.engine.gate:Flight.over",
        old="            self.write_gate.open(self, at, began)\n",
        new="            if began is not None:\n                self.write_gate.open(self, at, began)\n",
    ),
    Mutant(
        guard="a leader that is dropped without a word",
        at="agentaccel.engine.gate:_dropped",
        old="        when_free(partial(there.release, keys))\n",
        new="        pass\n",
    ),
    Mutant(
        guard="a wait beyond its bound",
        at="agentaccel.engine.gate:WriteGate.ask",
        old="min(left, place.lost - now)",
        new="place.lost - now",
    ),
    Mutant(
        guard="a bound that begins anew with every leader",
        at="agentaccel.engine.gate:WriteGate.ask",
        old="                if flight.since is None:\n",
        new="                if True:\n",
    ),
    Mutant(
        guard="waiters that only their first leader lets go",
        at="agentaccel.engine.gate:WriteGate._leave",
        old="(written or place.leader() is flight)",
        new="place.leader() is flight",
    ),
    Mutant(
        guard="a leader that others were told of but that is not on its way",
        at="agentaccel.engine.gate:WriteGate.ask",
        old="            flight.sent = now\n            self._lead(flight, now)\n            return None\n",
        new="            self._lead(flight, now)\n            return None\n",
    ),
)

COMMAND = running("tests/gate/test_interleavings.py", "tests/gate/test_turns.py")

test_the_interleavings_fail_without_the_guard, test_with_every_guard_they_pass = biting(GUARDS, COMMAND)

"""The public test kit: assertions for your own suite, on the emulator, a trace store, or records and requests; and the
clocks that `Accel(clock=…)` and the emulator take.

Run your agent against the emulator (`agentaccel_emulator`) with `Policy(strict=True)`, then assert. With pytest, each
of them is a fixture, too, and `agentaccel_emulator` is a running emulator.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentaccel.clock import Clock, ManualClock, SystemClock
    from agentaccel.testing.assertions import assert_hit_rate, assert_no_new_cause, assert_prefix_stable

__all__ = ["Clock", "ManualClock", "SystemClock", "assert_hit_rate", "assert_no_new_cause", "assert_prefix_stable"]


def __getattr__(name: str) -> object:
    """Each is imported when it is first used: pytest loads this package wherever agentaccel is installed."""
    if name not in __all__:
        raise AttributeError(f"module 'agentaccel.testing' has no attribute {name!r}")
    module = "agentaccel.testing.assertions" if name.startswith("assert_") else "agentaccel.clock"
    return getattr(import_module(module), name)

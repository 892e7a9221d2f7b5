"""Prepared workloads, each with one planted fault or with none: what `agentaccel report --advise` has to find.

A file is a situation, which describes the agents without the fault, and a `[fault]` table. `sessions` writes the same
conversations with the fault on or off, `record` takes them through agentaccel, which observes or plans, and `billed`
asks the emulator alone what they cost.
"""

from benchmarks.workloads.drive import billed, record, wall
from benchmarks.workloads.faults import Sent, sessions
from benchmarks.workloads.form import Fault, Workload, bundled, load

__all__ = ["Fault", "Sent", "Workload", "billed", "bundled", "load", "record", "sessions", "wall"]

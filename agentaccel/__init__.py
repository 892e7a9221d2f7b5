"""agentaccel makes any LLM agent loop cheaper and faster without changing its answers."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

__version__ = "0.1.0"

logging.getLogger("agentaccel").addHandler(logging.NullHandler())

if TYPE_CHECKING:
    from agentaccel.accel import Accel, apply
    from agentaccel.clock import Clock, ManualClock, SystemClock
    from agentaccel.effects.spec import ToolSpec
    from agentaccel.engine.scope import Session
    from agentaccel.errors import (
        AgentAccelError,
        ConfigError,
        MissingExtra,
        SessionClosed,
        TraceError,
        UnknownModel,
    )
    from agentaccel.policy import CachePolicy, HistoryPolicy, Policy, StorePolicy, ToolPolicy
    from agentaccel.predict.stats import SpeculationStats, Tally
    from agentaccel.predict.validators import files, git_head
    from agentaccel.records import ToolRecord, TurnRecord
    from agentaccel.rewrite.extractive import filtered
    from agentaccel.turn import Turn
    from agentaccel.types import CachePlan, Cause, Drift, Effect, Expected, Marker, Miss, ToolCall, Usage

_HOMES = {
    "accel": ("Accel", "apply"),
    "clock": ("Clock", "ManualClock", "SystemClock"),
    "errors": ("AgentAccelError", "ConfigError", "MissingExtra", "SessionClosed", "TraceError", "UnknownModel"),
    "policy": ("CachePolicy", "HistoryPolicy", "Policy", "StorePolicy", "ToolPolicy"),
    "effects.spec": ("ToolSpec",),
    "predict.stats": ("SpeculationStats", "Tally"),
    "predict.validators": ("files", "git_head"),
    "rewrite.extractive": ("filtered",),
    "records": ("ToolRecord", "TurnRecord"),
    "engine.scope": ("Session",),
    "turn": ("Turn",),
    "types": (
        "CachePlan",
        "Cause",
        "Drift",
        "Effect",
        "Expected",
        "Marker",
        "Miss",
        "ToolCall",
        "Usage",
    ),
}

_FORMER = {"Ledger": "agentaccel.predict.stats.SpeculationStats"}

__all__ = [  # noqa: RUF022 - sorted within themselves; the version last
    "Accel",
    "AgentAccelError",
    "CachePlan",
    "CachePolicy",
    "Cause",
    "Clock",
    "ConfigError",
    "Drift",
    "Effect",
    "Expected",
    "HistoryPolicy",
    "ManualClock",
    "Marker",
    "Miss",
    "MissingExtra",
    "Policy",
    "Session",
    "SessionClosed",
    "SpeculationStats",
    "StorePolicy",
    "SystemClock",
    "Tally",
    "ToolCall",
    "ToolPolicy",
    "ToolRecord",
    "ToolSpec",
    "TraceError",
    "Turn",
    "TurnRecord",
    "UnknownModel",
    "Usage",
    "apply",
    "files",
    "filtered",
    "git_head",
    "__version__",
]


def __getattr__(name: str) -> object:
    """Public names are imported when they are first used, so that `import agentaccel` costs next to nothing."""
    import importlib

    for module, names in _HOMES.items():
        if name in names:
            value = getattr(importlib.import_module(f"agentaccel.{module}"), name)
            globals()[name] = value
            return value
    from agentaccel.former import former

    return former("agentaccel", _FORMER)(name)


def __dir__() -> list[str]:
    return sorted(__all__)

"""agentaccel makes any LLM agent loop cheaper and faster without changing its answers."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

__version__ = "0.1.0"

logging.getLogger("agentaccel").addHandler(logging.NullHandler())

if TYPE_CHECKING:
    from agentaccel.accel import Accel
    from agentaccel.effects.spec import ToolSpec
    from agentaccel.engine.scope import Session
    from agentaccel.errors import (
        AgentAccelError,
        ConfigError,
        EngineError,
        MissingExtraError,
        SessionClosedError,
        TraceError,
    )
    from agentaccel.installation import Installation, install, uninstall
    from agentaccel.policy import CachePolicy, HistoryPolicy, Policy, StorePolicy, ToolPolicy
    from agentaccel.predict.stats import SpeculationStats
    from agentaccel.records import ToolRecord, TurnRecord
    from agentaccel.tools.declarations import DeclaredTools
    from agentaccel.turn import Turn
    from agentaccel.types import CachePlan, Effect, ToolCall, Usage

_HOMES = {
    "accel": ("Accel",),
    "errors": (
        "AgentAccelError",
        "ConfigError",
        "EngineError",
        "MissingExtraError",
        "SessionClosedError",
        "TraceError",
    ),
    "policy": ("CachePolicy", "HistoryPolicy", "Policy", "StorePolicy", "ToolPolicy"),
    "tools.declarations": ("DeclaredTools",),
    "effects.spec": ("ToolSpec",),
    "installation": ("Installation", "install", "uninstall"),
    "predict.stats": ("SpeculationStats",),
    "records": ("ToolRecord", "TurnRecord"),
    "engine.scope": ("Session",),
    "turn": ("Turn",),
    "types": ("CachePlan", "Effect", "ToolCall", "Usage"),
}

_FORMER = {
    "Ledger": "agentaccel.SpeculationStats",
    "MissingExtra": "agentaccel.MissingExtraError",
    "SessionClosed": "agentaccel.SessionClosedError",
    "UnknownModel": "agentaccel.errors.UnknownModel",
    "apply": "agentaccel.accel.apply",
    "files": "agentaccel.validators.file_stat",
    "filtered": "agentaccel.rewrite.extractive",
    "git_head": "agentaccel.validators.git_head",
    "Tally": "agentaccel.predict.stats.Tally",
    **{name: f"agentaccel.testing.{name}" for name in ("Clock", "ManualClock", "SystemClock")},
    **{name: f"agentaccel.types.{name}" for name in ("Cause", "Drift", "Expected", "Marker", "Miss")},
}
"""Names that were public here, each with where it is now."""

__all__ = [
    "Accel",
    "AgentAccelError",
    "CachePlan",
    "CachePolicy",
    "ConfigError",
    "DeclaredTools",
    "Effect",
    "EngineError",
    "HistoryPolicy",
    "Installation",
    "MissingExtraError",
    "Policy",
    "Session",
    "SessionClosedError",
    "SpeculationStats",
    "StorePolicy",
    "ToolCall",
    "ToolPolicy",
    "ToolRecord",
    "ToolSpec",
    "TraceError",
    "Turn",
    "TurnRecord",
    "Usage",
    "__version__",
    "install",
    "uninstall",
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

    return former("agentaccel", _FORMER, {"apply": "plan.apply(request)"})(name)


def __dir__() -> list[str]:
    return sorted(__all__)

"""What tests of agentaccel itself look into: its engine, its speculator and its conversations.

What they return is private to agentaccel and changes without notice; these three functions do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentaccel.accel import Accel
    from agentaccel.engine.conversation import Conversation
    from agentaccel.engine.engine import Engine
    from agentaccel.tools.speculator import Speculator


def engine(accel: Accel) -> Engine:
    """What composes the decisions of each model call, with the recorder and the jobs that it uses."""
    return accel._engine


def speculator(accel: Accel) -> Speculator:
    """What predicts, launches and serves early runs."""
    return accel._speculator


def conversations(accel: Accel) -> list[Conversation]:
    """Each conversation that is known, in the order of their first requests or sessions."""
    return list(accel._registry._conversations.values())

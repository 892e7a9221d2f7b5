"""What we may do in a session: act, or only look."""

from __future__ import annotations

import hashlib

from agentaccel.policy import Policy
from agentaccel.session.going import TurnMode
from agentaccel.session.handle import Within


def mode_of(policy: Policy, key: bytes, session: str, within: Within) -> TurnMode:
    """The mode of what happens in `session`; `key` is the one that all processes agree on."""
    if within.bypass:
        return "bypass"
    if policy.mode == "observe":
        return "observe"
    if not policy.holdout:
        return "on"
    drawn = hashlib.blake2b(session.encode("utf-8", "replace"), digest_size=8, key=key).digest()
    return "holdout" if int.from_bytes(drawn) < policy.holdout * 2**64 else "on"

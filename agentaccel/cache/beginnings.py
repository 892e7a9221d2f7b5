"""What several sessions may begin with: told when a session begins, and counted for those that come after."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agentaccel.cache.beliefs import REPEATED, SHARED, SHARED_LATER, Observation
from agentaccel.cache.marks import turn_of
from agentaccel.cache.prefix import Prefixes
from agentaccel.facts import CacheFacts
from agentaccel.types import Usage


def beginnings_of(prefix: Prefixes) -> dict[str, bytes]:
    """What another session may begin with too, by the topic it is counted under: tools and system, and all of it."""
    beginnings: dict[str, bytes] = {}
    static = prefix.starts[2]
    if static:
        beginnings[SHARED] = prefix.hashes[static - 1]
    lasting = len(prefix.prompt.lasting)
    if lasting and not turn_of(prefix.prompt):
        beginnings[REPEATED] = prefix.hashes[lasting - 1]
    return beginnings


def read_beginning(prefix: Prefixes, usage: Usage) -> bool:
    """Whether a session's first request read its tools and system, which then another one had written."""
    static = prefix.starts[2]
    if not static or not usage.read or not usage.input:
        return False
    return usage.read * prefix.size >= _NEARLY * usage.input * prefix.sizes[static - 1]


_NEARLY = 0.9


def begun(
    beginnings: Mapping[str, bytes],
    last_used: Callable[[bytes], float | None],
    *,
    started: float,
    facts: CacheFacts,
    read: bool = False,
) -> list[Observation]:
    """Whether a session that began at `started`, begins as one did that was answered within a lifetime.

    `last_used` tells when a session that begins so was last answered, and `read` that this one did read its beginning:
    of several that began at once, and waited for the first of them, others may have been answered since.
    """
    shortest, longest, seen = facts.ttls[0].seconds, facts.ttls[-1].seconds, []
    for topic, hash_ in beginnings.items():
        last = last_used(hash_)
        ago = started - last if last is not None and last <= started else float("inf")
        if read and topic == SHARED:
            ago = 0.0
        seen.append(Observation(topic, float(ago <= shortest)))
        if topic == SHARED and longest > shortest and ago > shortest:
            seen.append(Observation(SHARED_LATER, float(ago <= longest)))
    return seen

"""What several sessions may begin with: told when a session begins, and counted for those that come after."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from agentaccel.cache.beliefs import LATER, REPEATED, SHARED, SHARED_TOOLS, Observation
from agentaccel.cache.prefix import Prefixes
from agentaccel.facts import CacheFacts
from agentaccel.types import Usage


def beginnings_of(prefix: Prefixes) -> dict[str, bytes]:
    """What another session may begin with too, by the topic it is counted under: the tools where a system prompt
    follows them, tools and system, and all of it."""
    beginnings = {topic: prefix.hashes[end - 1] for topic, end in _ends(prefix).items()}
    lasting = len(prefix.prompt.lasting)
    if lasting and not prefix.turn:
        beginnings[REPEATED] = prefix.hashes[lasting - 1]
    return beginnings


def _ends(prefix: Prefixes) -> dict[str, int]:
    """Where the static beginnings end, by topic: the segment behind each."""
    _, tools, static = prefix.starts
    ends = {SHARED_TOOLS: tools} if 0 < tools < static else {}
    return ends | {SHARED: static} if static else ends


def read_beginnings(prefix: Prefixes, usage: Usage) -> dict[str, bool]:
    """Which of its static beginnings a request read: one without entries of its own, so another session had them."""
    read, before, found = 0.0, 0, dict[str, bool]()
    if usage.read and usage.input:
        read = usage.read / usage.input * prefix.size
    for topic, end in _ends(prefix).items():
        size = prefix.sizes[end - 1]
        found[topic] = read >= max(_NEARLY * size, (before + size) / 2)  # else the shorter one is what was read
        before = size
    return found


_NEARLY = 0.9
"""Share of a beginning from which on it was read: by bytes its tokens are an estimate."""


def begun(
    beginnings: Mapping[str, bytes],
    last_used: Callable[[bytes], float | None],
    *,
    started: float,
    visible: float,
    facts: CacheFacts,
    read: Collection[str] = (),
) -> list[Observation]:
    """Whether a session that began at `started`, begins as one did that was answered within a lifetime.

    `last_used` tells when the reply to a session that begins so last began, and `visible` when this one's did: from
    reply to reply is as long as from request to request, by which lifetimes go. `read` are the beginnings that this one
    did read: of several that began at once, and waited for the first of them, others may have been answered since. What
    was read after the default lifetime, because it had been written for longer, was still used as late as it was.
    """
    shortest, longest, seen = facts.ttls[0].seconds, facts.ttls[-1].seconds, []
    for topic, hash_ in beginnings.items():
        last = last_used(hash_)
        ago = visible - last if last is not None and last <= started else float("inf")
        if topic in read and ago >= longest:
            ago = 0.0
        seen.append(Observation(topic, float(ago < shortest)))
        if topic in LATER and longest > shortest and ago >= shortest:
            seen.append(Observation(LATER[topic], float(ago < longest)))
    return seen

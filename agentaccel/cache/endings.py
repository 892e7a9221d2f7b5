"""Where a provider that sets a breakpoint of its own puts it: at the ends of messages.

OpenAI's guide (2026-09) names the endings that count: of a user's message, of the last of a run of tool outputs, and of
the last of the operator's messages that a conversation begins with.
"""

from __future__ import annotations

from agentaccel.types import Prompt


def endings(prompt: Prompt, most: int) -> list[int]:
    """The last segments of the latest `most` messages that count, and that of the opening; the latest first."""
    segments, found = prompt.segments, list[int]()
    start = prompt.starts[2]
    after, role_after = None, ""
    for i in range(len(segments) - 1, start - 1, -1):
        segment = segments[i]
        message, role = segment.path[1:2], segment.role
        if message != after and (role == "user" or (role == "tool" and role_after != "tool")):
            found.append(i)
            if len(found) == most:
                break
        after, role_after = message, role
    if start and segments[start - 1].level == "system" and segments[start - 1].kind != "instructions":
        found.append(start - 1)
    return found

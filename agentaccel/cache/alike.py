"""The topics under which it is counted what sessions begin with alike (`beliefs`); `beginnings` says where each ends.

- `shared`: tools and system, in need of being warm, were: a session began within a lifetime of another's request, or
  went on after a longer pause and read what another had kept
- `shared_later`: where none began within the default lifetime, one did within the longest
- `shared_tools`, `shared_tools_later`: the same of the tools alone, where a system prompt of its own follows them
- `shared_system_1`, `shared_system_1_later`, …: the same of tools and the first block of the system prompt, the first
  two, or three, where others follow: instructions that all have, and behind them what is known of a user
- `shared_opening`, `shared_opening_later`: the same of all that stands before the last block of the first prompt, where
  that is more than tools and system: documents with a question behind them, examples, the state of a project
- `repeated`: a session began with the whole prompt of another's first request, answered within a lifetime
"""

from __future__ import annotations

SHARED, SHARED_TOOLS, SHARED_OPENING, REPEATED = "shared", "shared_tools", "shared_opening", "repeated"
SHARED_BLOCKS = ("shared_system_1", "shared_system_2", "shared_system_3")
PARTS = frozenset({SHARED_TOOLS, *SHARED_BLOCKS})
"""What whoever begins with the same tools and system begins with, too."""
LATER = {one: f"{one}_later" for one in (SHARED, SHARED_OPENING, *PARTS)}
"""For each beginning, the topic that it came after the default lifetime and within the longest."""

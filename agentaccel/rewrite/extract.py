"""The filter of AgentCompress (AgentInfer, arXiv 2512.18337): what a long result most likely says, without a model.

Head and tail, and between them the lines that hold what an agent looks for again: errors, paths, figures.
"""

from __future__ import annotations

import re

_TELLING = re.compile(
    r"error|warn|fail|exception|traceback|denied|not found|[/\\]\w+[/\\.]\w|https?://|\d", re.IGNORECASE
)
_WORST = re.compile(r"error|fail|exception|traceback|denied|not found", re.IGNORECASE)
_SHARE = 0.2
"""Of the budget, what the head takes, and again the tail."""


def extractive(text: str, budget: int = 2000) -> str:
    """`text` in about `budget` characters: blank and repeated lines dropped, head, tail and telling lines kept.

    Telling are lines with an error, a path or a number, those with an error first. What was left out is said where it
    stood. The same text always gives the same result, and a short one is given back as it is. Made to be passed as
    `HistoryPolicy(distil=agentaccel.rewrite.extractive)`.

    >>> text = "\\n".join(["Looking.", "", *["still"] * 300, "ERROR: no order 7", *["waiting"] * 300, "Done."])
    >>> print(extractive(text, 60))
    Looking.
    [lines left out: 1]
    ERROR: no order 7
    [lines left out: 1]
    Done.
    """
    if len(text) <= budget:
        return text
    seen: set[str] = set()
    lines: list[str] = []
    for line in text.splitlines():
        bare = line.strip()
        if bare and bare not in seen:
            seen.add(bare)
            lines.append(line.rstrip())
    most = budget // min(2, max(len(lines), 1))  # the first and the last line stay, so neither may take all
    lines = [line if len(line) <= most else f"{line[:most]} [cut]" for line in lines]
    kept = _ends(lines, budget)
    room = budget - sum(len(lines[i]) + 1 for i in kept)
    telling = [i for i, line in enumerate(lines) if i not in kept and _TELLING.search(line)]
    for i in sorted(telling, key=lambda i: (_WORST.search(lines[i]) is None, i)):
        if len(lines[i]) < room:
            kept.add(i)
            room -= len(lines[i]) + 1
    return "\n".join(_joined(lines, kept))


def _ends(lines: list[str], budget: int) -> set[int]:
    """The first and the last lines, each up to their share; one of each whatever it takes."""
    kept: set[int] = set()
    for order in (range(len(lines)), range(len(lines) - 1, -1, -1)):
        room = _SHARE * budget
        for n, i in enumerate(order):
            room -= len(lines[i]) + 1
            if n and room < 0:
                break
            kept.add(i)
    return kept


def _joined(lines: list[str], kept: set[int]) -> list[str]:
    """The lines that are kept, and how many were left out between them."""
    parts: list[str] = []
    before = -1
    for i in sorted(kept):
        if i - before > 1:
            parts.append(f"[lines left out: {i - before - 1}]")
        parts.append(lines[i])
        before = i
    return parts

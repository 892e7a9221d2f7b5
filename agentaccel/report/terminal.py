"""Where text for a terminal is drawn: whatever comes from outside is harmless in it."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from agentaccel.report.numbers import clean_lines

if TYPE_CHECKING:
    from rich.console import Console


def terminal(width: int, *, color: bool, markup: bool = False) -> Console:
    """A console whose text `drawn` takes: `width` columns, in colour or without.

    What it is told to print may hold names from outside; only its own styles become escape sequences.
    """
    from rich.console import Console
    from rich.segment import Segment

    class Harmless(Console):
        def render(self, *arguments: Any, **options: Any) -> Iterator[Segment]:
            for segment in super().render(*arguments, **options):
                yield segment if segment.control else Segment(clean_lines(segment.text), segment.style)

    return Harmless(
        file=io.StringIO(),
        width=width,
        force_terminal=color,
        color_system="standard" if color else None,
        highlight=False,
        markup=markup,
        emoji=False,
        legacy_windows=False,
    )


def drawn(console: Console) -> str:
    """What `console`, one of `terminal`, was told to print; no line ends with blanks."""
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines()) + "\n"

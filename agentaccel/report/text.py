"""A report on a terminal: good in 80 columns, with and without colour."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agentaccel.report.block import PROSE, Block, Row
from agentaccel.report.numbers import NA, clean, columns, model_names, shorten
from agentaccel.report.terminal import drawn, terminal
from agentaccel.report.wording import EMPTY, WORDS, blocks, headline
from agentaccel.report.wording_groups import MODEL, SESSION

if TYPE_CHECKING:
    from rich.console import Console

    from agentaccel.report.figures import Report


INDENT = "  "
GAP = 2
"""Columns between two columns of a table."""


def render_text(report: Report, width: int = 80, color: bool = False) -> str:
    """The report as lines of at most `width` columns, with ANSI colours where `color` is set."""
    console = terminal(max(width, 40), color=color)
    if report.empty:
        console.print(EMPTY.rstrip(), soft_wrap=True)
    else:
        console.print(headline(report), style="bold")
        for block in blocks(report):
            console.print()
            _show(console, block)
    if report.notes:
        console.print()
        for note in report.notes:
            console.print(_wrapped(f"note: {clean(note)}", console.width), style="yellow", soft_wrap=True)
    return drawn(console)


def _show(console: Console, block: Block) -> None:
    from rich.table import Table
    from rich.text import Text

    console.print(clean(block.title), style="bold cyan")
    rows = _fitted(block, console.width)
    table = Table(box=None, padding=(0, GAP, 0, 0), show_header=bool(block.header), header_style="dim")
    count = len(block.header or (block.rows[0] if block.rows else ()))
    last_is_prose = not block.header or block.header[-1] == PROSE
    for index in range(count):
        prose = index == count - 1 and last_is_prose
        name = index == 0 or (bool(block.header) and block.header[index] in WORDS)
        table.add_column(
            (INDENT if index == 0 else "") + block.header[index] if block.header else "",
            justify="left" if prose or name else "right",
            no_wrap=not prose,
            overflow="fold" if prose else "ellipsis",
            min_width=16 if index == 0 and not block.header else None,
        )
    for row in rows:
        cells = [Text(f"{INDENT}{cell}" if index == 0 else cell) for index, cell in enumerate(row)]
        for cell in cells:
            if cell.plain == NA:
                cell.stylize("dim")
        if not block.header and len(cells) == 3:
            cells[1].stylize("bold")
            cells[2].stylize("dim")
        table.add_row(*cells)
    if rows:
        console.print(table)
    if block.after:
        console.print(_wrapped(block.after, console.width, INDENT), style="dim")


def _fitted(block: Block, width: int) -> list[Row]:
    """The rows of a table with names short enough for the numbers beside them to stay whole; prose gets most room."""
    if block.header and block.header[-1] == PROSE and SESSION in block.header:
        at = block.header.index(SESSION)
        return [(*row[:at], shorten(row[at], width // 5), *row[at + 1 :]) for row in block.rows]
    if not block.header or block.header[-1] == PROSE:
        return list(block.rows)
    others = [max(columns(row[index]) for row in (block.header, *block.rows)) for index in range(1, len(block.header))]
    room = width - len(INDENT) - sum(others) - GAP * len(block.header)
    names = [row[0] for row in block.rows]
    short = model_names if block.header[0] == MODEL else _shortened
    return [(name, *row[1:]) for name, row in zip(short(names, max(room, 8)), block.rows, strict=True)]


def _shortened(names: Sequence[str], width: int) -> list[str]:
    return [shorten(name, width) for name in names]


def _wrapped(text: str, width: int, indent: str = "") -> str:
    return textwrap.fill(
        text, width, initial_indent=indent, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )

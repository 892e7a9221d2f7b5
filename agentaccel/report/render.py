"""A report on a terminal: good in 80 columns, with and without colour."""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from agentaccel.report.numbers import NA, PROSE, Block, Row, clean, clean_lines, columns, model_names, shorten
from agentaccel.report.wording import EMPTY, WORDS, blocks, headline
from agentaccel.report.wording_groups import MODEL, SESSION

if TYPE_CHECKING:
    from rich.console import Console

    from agentaccel.report.figures import Group, Report


# --- A report for a pull request or a page ----------------------------------------------------------------------------

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#])")


def render_markdown(report: Report) -> str:
    """The report in Markdown."""
    if report.empty:
        parts = ["# agentaccel report", f"```text\n{EMPTY.rstrip()}\n```"]
    else:
        parts = ["# agentaccel report", _plain(headline(report))]
        for block in blocks(report):
            parts += _block(block)
    if report.notes:
        parts += ["## Notes", "\n".join(f"- {_plain(note)}" for note in report.notes)]
    return "\n\n".join(parts) + "\n"


def _block(block: Block) -> list[str]:
    parts = [f"## {_plain(block.title)}"]
    if block.rows:
        header = block.header or ("figure", "value", "")
        words = {0, *(index for index, name in enumerate(header) if name in WORDS or not name)}
        rule = tuple("---" if index in words else "--:" for index in range(len(header)))
        rows = (tuple(_plain(cell.strip()) for cell in row) for row in block.rows)
        parts.append("\n".join(_line(row) for row in (header, rule, *rows)))
    if block.after:
        parts.append(_plain(block.after))
    return parts


def _line(row: Row) -> str:
    return f"| {' | '.join(row)} |"


def _plain(text: str) -> str:
    """Text that Markdown shows as it is."""
    return _SPECIAL.sub(r"\\\1", clean(text))


# --- A report for programs: the figures with their own names, `null` where one is not known ---------------------------

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"

VERSION = 1
"""Of the form; raised when a name changes its meaning or goes away, not when one is added."""


def to_json(report: Report) -> dict[str, Json]:
    """The report as plain values for `json.dumps`."""
    return {
        "version": VERSION,
        "by": report.by,
        "first": report.first,
        "last": report.last,
        "since": report.period.since,
        "until": report.period.until,
        "tz": str(report.period.zone),
        "total": _group(report.total),
        "groups": [_group(group) for group in report.groups],
        "causes_by_agent": _plain_value(report.causes_by_agent),
        "advice": _plain_value(report.advice),
        "examples": _plain_value(report.examples),
        "notes": list(report.notes),
    }


def _group(group: Group) -> Json:
    """The stored figures and, beside them, those that follow from them."""
    form = _plain_value(group)
    assert isinstance(form, dict)
    tokens, costs, tools = form["tokens"], form["costs"], form["tools"]
    assert isinstance(tokens, dict)
    assert isinstance(costs, dict)
    assert isinstance(tools, dict)
    form["hit_rate"] = group.tokens.hit_rate
    form["perfect_hit_rate"] = group.tokens.perfect_rate
    form["rewrite_factor"] = group.tokens.rewrite
    tokens["written"] = group.tokens.written
    del tokens["told"], tokens["outputs"]
    tokens["total"] = group.tokens.input + group.tokens.output if group.metered else None
    if not group.metered:
        tokens.update(input=None, output=tokens["output"] or None)
    if not group.tokens.known:
        tokens.update(dict.fromkeys(("read", "write", "uncached", "needed", "reusable")))
    costs["saved"] = group.costs.saved
    costs["total"] = group.costs.total
    tools["share"] = group.tools.share
    early = form["early"]
    assert isinstance(early, dict)
    early["waste_per_hit"] = group.early.waste_per_hit
    if not group.beside:
        del form["beside"]
    return form


def _plain_value(value: object) -> Json:
    """A figure with what it holds: enumerations are strings, tuples become lists. `asdict` would copy every leaf."""
    if value is None or type(value) in (int, float, str, bool):
        return cast("Json", value)
    if is_dataclass(value):
        return {field.name: _plain_value(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {str(key): _plain_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain_value(item) for item in value]
    if isinstance(value, str):
        return str(value)
    return cast("Json", value)


# --- Where text for a terminal is drawn: whatever comes from outside is harmless in it --------------------------------


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

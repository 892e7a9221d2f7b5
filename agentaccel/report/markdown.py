"""A report for a pull request or a page."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from agentaccel.report.block import Block, Row
from agentaccel.report.numbers import clean
from agentaccel.report.wording import EMPTY, WORDS, blocks, headline

if TYPE_CHECKING:
    from agentaccel.report.figures import Report

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

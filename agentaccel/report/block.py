"""A part of a report for people, before any layout."""

from __future__ import annotations

from dataclasses import dataclass

PROSE = "why"
"""The header of a last column that holds sentences."""

Row = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A heading and rows of equal length; a block with a header is a table, one without a list of figures."""

    title: str
    rows: tuple[Row, ...]
    header: Row = ()
    after: str = ""
    """A sentence below the rows."""

"""How numbers and names are written for people."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

NA = "n/a"

_CONTROL = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
"""What names from logs may not bring to a terminal: control characters, changes of direction, half characters."""

_DATED = re.compile(r"[-@](20\d{6}|20\d\d-\d\d-\d\d)(-v\d+(:\d+)?)?$")
"""The date of a model's version at the end of its name, and what Bedrock puts behind that."""

_WORD = re.compile(r"[^-.]+[-.]?")
"""A part of a name, with the separator behind it."""


def clean(name: str) -> str:
    """A name from outside, harmless on a terminal."""
    return _CONTROL.sub("?", name)


def clean_lines(text: str) -> str:
    """Lines in which names from outside stand, harmless on a terminal."""
    return "\n".join(map(clean, text.split("\n")))


def shorten(name: str, width: int) -> str:
    """A name with its middle left out: sub-agents differ at the end.

    `width` is in columns of a terminal, of which wide letters take two.

    >>> shorten("533ff7a3-d390-41ff-b9e8-1b09fb4c2fe2/a7f5273", 20)
    '533ff7a3-d3…/a7f5273'
    >>> shorten("日本語の長い名前のエージェント", 20)
    '日本語の長…ジェント'
    """
    if columns(name) <= width:
        return name
    tail = min(8, width // 2)
    return f"{_cut(name, width - tail - 1)}…{_cut(name[::-1], tail)[::-1]}"


def columns(text: str) -> int:
    """How many columns of a terminal `text` takes."""
    from rich.cells import cell_len

    return len(text) if text.isascii() else cell_len(text)


def model_names(names: Sequence[str], width: int) -> list[str]:
    """Names of models in so many columns: what says the family and the version stays, and no two become the same.

    A date at the end goes first, then whose model it is.

    >>> model_names(["claude-sonnet-4-5-20250929", "claude-haiku-4-5-20251001"], 18)
    ['claude-sonnet-4-5', 'claude-haiku-4-5']
    >>> model_names(["us.anthropic.claude-sonnet-4-5-20250929-v1:0", "openai/gpt-5.4-mini"], 14)
    ['…sonnet-4-5', 'gpt-5.4-mini']
    >>> model_names(["gpt-4o-2024-05-13", "gpt-4o-2024-08-06"], 12)
    ['gpt-4…-05-13', 'gpt-4…-08-06']
    """
    forms = [_model_name(name, width) for name in names]
    return [form if forms.count(form) == 1 else shorten(name, width) for name, form in zip(names, forms, strict=True)]


def _model_name(name: str, width: int) -> str:
    if columns(name) <= width:
        return name
    family = _DATED.sub("", name) or name
    if columns(family) > width:
        family = family.rpartition("/")[2] or family
    words = _WORD.findall(family)
    while len(words) > 1 and columns("".join(words)) + 1 > width:
        family = "…" + "".join(words := words[1:])
    return shorten(family, width)


def _cut(text: str, width: int) -> str:
    """The beginning of `text` that fits into so many columns."""
    kept = text[:width]
    while columns(kept) > width:
        kept = kept[:-1]
    return kept


def share(value: float | None) -> str:
    """A share in percent.

    >>> share(0.9714), share(None)
    ('97.1 %', 'n/a')
    """
    return NA if value is None else f"{100 * value:.1f} %"


def usd(value: float | None) -> str:
    """An amount of USD, with as many digits below a hundred as the price of a request needs.

    >>> usd(1234.5), usd(1.2), usd(0.01234), usd(0), usd(None)
    ('1,234.50', '1.2000', '0.0123', '0.00', 'n/a')
    """
    if value is None:
        return NA
    return f"{value:,.4f}" if 0 < abs(value) < 100 else f"{value:,.2f}"


def short(tokens: int | None) -> str:
    """Tokens in few digits.

    >>> short(9_999), short(12_345), short(2_345_678), short(None)
    ('9,999', '12.3k', '2.35M', 'n/a')
    """
    if tokens is None:
        return NA
    if tokens < 10_000:
        return f"{tokens:,}"
    return f"{tokens / 1e3:,.1f}k" if tokens < 999_950 else f"{tokens / 1e6:,.2f}M"


def exact(tokens: int | None) -> str:
    """Tokens in full."""
    return NA if tokens is None else f"{tokens:,}"


def factor(value: float | None) -> str:
    return NA if value is None else f"{value:.2f}"


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


# --- A part of a report for people, before any layout -----------------------------------------------------------------

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

"""How big the package is: lines, files and classes.

Lines of Python as an editor counts them. Classes are those of the source by its syntax tree, nested and private ones
included; a name that stands for more than one is listed. Functions above the budgets of `CONTRIBUTING.md` have a test.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click

import agentaccel
from benchmarks.registry import Result, Table, benchmark

PACKAGE = Path(agentaccel.__file__).parent


@benchmark()
@click.option(
    "--package",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=PACKAGE,
    help="The package's folder.  [default: agentaccel]",
)
def house(package: Path) -> Result:
    sources = {path.relative_to(package): path.read_text(encoding="utf-8") for path in _files(package)}
    names = Counter(name for text in sources.values() for name in _classes(text))
    twice = sorted(name for name, count in names.items() if count > 1)
    by_part: dict[str, list[str]] = {}
    for path, text in sources.items():
        by_part.setdefault(path.parts[0] if len(path.parts) > 1 else "(files at the top)", []).append(text)
    lines, classes = sum(map(_lines, sources.values())), names.total()
    return Result(
        figure=f"{lines:,} lines in {len(sources)} files; {classes} classes, {len(twice)} names for more than one.",
        inputs={"package": package.name},
        n=len(sources),
        tables=(
            Table(
                title="The package",
                columns=("part", "lines", "files", "classes"),
                rows=tuple(
                    (part, sum(map(_lines, texts)), len(texts), sum(len(list(_classes(text))) for text in texts))
                    for part, texts in sorted(by_part.items())
                ),
            ),
            Table(
                title="Names of more than one class",
                columns=("name", "classes"),
                rows=tuple((name, names[name]) for name in twice),
            ),
        ),
    )


def _files(package: Path) -> Iterator[Path]:
    return iter(sorted(package.rglob("*.py")))


def _lines(text: str) -> int:
    return text.count("\n")


def _classes(text: str) -> Iterator[str]:
    return (node.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef))

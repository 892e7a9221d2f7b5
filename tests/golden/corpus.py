"""All cases, and the digests that are committed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from tests.golden import agents, recorded, situations, stores, wires
from tests.golden.form import Case, Rows, digest, fixed_chance

DIGESTS = Path(__file__).with_name("digests.json")


def chosen(beginnings: tuple[str, ...] = ()) -> dict[str, Case]:
    """The cases by name, those whose names begin so."""
    found = dict([*situations.cases(), *wires.cases(), *agents.cases(), *stores.cases(), *recorded.cases()])
    return {name: case for name, case in found.items() if not beginnings or name.startswith(beginnings)}


def made(case: Case, folder: Path) -> tuple[Rows, str]:
    """The rows of a case, and their digest."""
    with fixed_chance():
        rows = case(folder)
    return rows, digest(rows)


def committed() -> dict[str, str]:
    """The digest of each case."""
    found: dict[str, str] = json.loads(DIGESTS.read_text(encoding="utf-8"))
    return found


def written(found: Mapping[str, str], *, all_: bool) -> None:
    """Write the digests; those of cases that are not among `found` are kept unless these are `all_`, and those of
    recordings always: they are not everywhere."""
    kept = {name: told for name, told in committed().items() if not all_ or name.startswith("recorded ")}
    merged = {**kept, **found}
    DIGESTS.write_text(json.dumps(dict(sorted(merged.items())), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def compared(found: Mapping[str, str]) -> list[str]:
    """What differs from the digests that are committed; sentences. Recordings that have none are others' own."""
    told = committed()
    return [
        f"{name}: {one}, and {told.get(name, 'no digest')} is committed"
        for name, one in found.items()
        if told.get(name) != one and (name in told or not name.startswith("recorded "))
    ]

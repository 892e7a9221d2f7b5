"""Kinds of calls that strangers saw run early, as cases with their twins: what stands around them, and the verdict."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from agentaccel.effects.cases import judge
from agentaccel.effects.places import Surroundings
from agentaccel.effects.verdict import Verdict

KINDS = ("pipe", "starts", "tells", "asks")


class Found(NamedTuple):
    """One case with its twin."""

    kind: str
    row: Mapping[str, Any]

    @property
    def name(self) -> str:
        told = self.row.get("line") or self.row.get("url") or self.row.get("arguments")
        return (
            f"{self.kind}: {self.row.get('tool', '')} {told} {self.row.get('pipe', self.row.get('file', ''))}".strip()
        )


@cache
def found() -> tuple[Found, ...]:
    rows = tomllib.loads((Path(__file__).parent / "found.toml").read_text(encoding="utf-8"))
    return tuple(Found(kind, row) for kind in KINDS for row in rows[kind])


def verdicts(one: Found, work: Path, home: Path) -> tuple[Verdict, Verdict]:
    """What is said of the case and of its twin, in a folder as `tests.effects.sandbox.furnished` makes it."""
    with standing(one, work, home, twin=False):
        case = judge(_case(one, twin=False), Surroundings(cwd=work, home=home, root=work.parent))
    with standing(one, work, home, twin=True):
        return case, judge(_case(one, twin=True), Surroundings(cwd=work, home=home, root=work.parent))


@contextmanager
def standing(one: Found, work: Path, home: Path, *, twin: bool) -> Iterator[Path | None]:
    """What is around the case while it is judged or run: the pipe, the settings. Afterwards all is as before."""
    named = one.row.get("pipe", one.row.get("file"))
    if named is None:
        yield None
        return
    place = home / named[2:] if named.startswith("~/") else work / named
    before = place.read_bytes() if place.is_file() else None
    place.parent.mkdir(parents=True, exist_ok=True)
    link = work / one.row["link"] if "link" in one.row else None
    if link is not None:
        link.symlink_to(place)
    _set_up(one, place, before, work.parent / "evil", twin)
    try:
        yield place
    finally:
        place.unlink(missing_ok=True)
        if before is not None:
            place.write_bytes(before)
        if link is not None:
            link.unlink()


def _set_up(one: Found, place: Path, before: bytes | None, evil: Path, twin: bool) -> None:
    if "pipe" in one.row and twin:
        if before is None and not one.row.get("none", False):
            place.write_text(one.row.get("held", "x\n"))
    elif "pipe" in one.row:
        place.unlink(missing_ok=True)
        os.mkfifo(place)
    elif not twin:
        kept = (before or b"").decode() if place.name in ("config", ".gitconfig") and ".git" in str(place) else ""
        place.write_text(kept + one.row["text"].format(evil=evil))
        place.chmod(0o755)
    elif "twin" in one.row:
        kept = (before or b"").decode() if place.name in ("config", ".gitconfig") and ".git" in str(place) else ""
        place.write_text(kept + one.row["twin"].format(evil=evil))


def _case(one: Found, *, twin: bool) -> dict[str, Any]:
    row = one.row
    if one.kind in ("pipe", "starts"):
        return {"kind": "shell", "input": {"command": row["line"]}}
    if "line" in row:
        return {"kind": "shell", "input": {"command": row["twin" if twin else "line"]}}
    if "url" in row and "arguments" not in row:
        headers = row.get("twin_headers", row.get("headers")) if twin else row.get("headers")
        given = {"method": "GET", "url": row["twin" if twin else "url"], **({"headers": headers} if headers else {})}
        return {"kind": "http", "input": given}
    harmless = row.get("twin_arguments", row.get("twin"))
    tool = {
        "name": row.get("tool", "look"),
        "description": row.get("description", "Looks something up."),
        "inputSchema": {},
        "annotations": {"readOnlyHint": True, "openWorldHint": row.get("open", False)},
    }
    server = {"name": "desk", "trusted": True}
    return {
        "kind": "mcp",
        "input": {"server": server, "tool": tool, "arguments": harmless if twin else row["arguments"]},
    }

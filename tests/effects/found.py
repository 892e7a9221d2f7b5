"""Kinds of calls that strangers saw run early, as cases with their twins: what stands around them, and the verdict."""

from __future__ import annotations

import os
import shutil
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
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
    place, links, also = _placed(named, work, home), one.row.get("links", {}), one.row.get("also", {})
    before = place.read_bytes() if place.is_file() else None
    with ExitStack() as kept:
        for name in (named, *also, *links):
            kept.enter_context(_as_before(_placed(name, work, home)))
        for name, text in also.items():
            _placed(name, work, home).write_text(text.format(work=work))
        for name, target in links.items():
            _placed(name, work, home).unlink(missing_ok=True)
            _placed(name, work, home).symlink_to(_placed(target, work, home))
        _set_up(one, place, before, work.parent / "evil", twin)
        yield place


def _placed(name: str, work: Path, home: Path) -> Path:
    return home / name[2:] if name.startswith("~/") else work / name


@contextmanager
def _as_before(place: Path) -> Iterator[None]:
    """Its folders are there meanwhile; afterwards it is what it was, and folders that were not there are gone."""
    before = place.read_bytes() if place.is_file() else None
    missing = [folder for folder in place.parents if not folder.exists()]
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        place.unlink(missing_ok=True)
        if before is not None:
            place.write_bytes(before)
        if missing:
            shutil.rmtree(missing[-1])


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

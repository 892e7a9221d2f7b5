"""What engines said when they were asked, as files: `captured/ENGINE-VERSION-CASE`, which is made-up content.

Each `.json` of a case holds two passes of five turns: the usage of every turn, and the differences of the engine's
counters. `.prom` is /metrics after both passes, `-wire.json` what each path answered and what each field led to.
`-options.txt` has the names of all options of its server: vLLM's as its own parser lists them, SGLang's and llama.cpp's
out of their sources.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agentaccel.selfhost.probe import Page

FOLDER = Path(__file__).parent / "captured"


def case(name: str) -> Any:
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def metrics(name: str) -> str:
    return (FOLDER / f"{name}.prom").read_text(encoding="utf-8")


def options(name: str) -> frozenset[str]:
    return frozenset((FOLDER / f"{name}-options.txt").read_text(encoding="utf-8").split())


def pages(name: str) -> dict[str, Page]:
    """What each path of an engine answered."""
    wire = case(f"{name}-wire")
    asked = {
        path: Page(one["status"], wire.get("headers", {}), json.dumps(one["body"]).encode())
        for path, one in wire.get("probes", {}).items()
    }
    if "models" in wire:
        asked["/v1/models"] = Page(200, {}, json.dumps(wire["models"]).encode())
    return asked

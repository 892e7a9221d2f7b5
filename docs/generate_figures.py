"""Runs the demo and writes its table into the README; a test says when the README is out of date.

python docs/generate_figures.py
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

from agentaccel.demo.run import COLUMNS, run_demo
from agentaccel.demo.show import as_json

README = Path(__file__).parent.parent / "README.md"
PLACE = re.compile(r"(?<=<!-- agentaccel demo: begin -->\n).*?(?=<!-- agentaccel demo: end -->)", re.DOTALL)

FORMS = {
    "plain loop": "plain loop: history only grows",
    "clock in system": "a clock with seconds in the system prompt",
    "shuffled tools": "a new random tool order every turn",
    "30 pairs a turn": "30 text and tool-call pairs a turn",
    "7-minute pause": "one pause longer than an entry lives",
}


def figures() -> dict[str, Any]:
    """What the demo prints with --json."""
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "demo.db"
        return as_json(run_demo(store), store)


def rows(found: dict[str, Any]) -> str:
    """The demo as a Markdown table: cost of input in US cents, and hit rate."""
    lines = [["input cost, hit rate", *COLUMNS], ["---", *["---:"] * len(COLUMNS)]]
    for form in found["forms"]:
        cells = [form["columns"][column] for column in COLUMNS]
        shown = [f"{cell['cost'] * 100:.2f} ¢, {cell['hit_rate']:.1%}" for cell in cells]
        lines.append([FORMS[form["form"]], *shown])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


if __name__ == "__main__":
    text = README.read_text(encoding="utf-8")
    README.write_text(PLACE.sub(lambda _: "\n" + rows(figures()) + "\n", text), encoding="utf-8")
    print(README)

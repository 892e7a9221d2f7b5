"""`jq` programs that may never end, or may make far more than they are given.

The language writes nothing and starts nothing, so how long a program runs is all that remains to look at.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from agentaccel.effects.tables import table
from agentaccel.effects.verdict import Refused
from agentaccel.effects.words import Word

MOST_TIMES = 100_000
"""What a text may be repeated, all numbers of a program together: of a short text, some megabytes."""


def jq(program: Sequence[Word]) -> None:
    """Raises `Refused` where the program, if one is given, may never end or may grow over and over."""
    known = table("shell")["jq"]
    for word in program:
        code = _code(word.text)
        if any(re.search(pattern, word.text) for pattern in known["endless"]) or re.search(known["flagged"], code):
            raise Refused("jq: the program may never end")
        if re.search(known["assigns"], code) and re.search(known["computed_place"], word.text):
            raise Refused("jq: the program sets a place that is worked out, and fills what lies before it")
        if "*" in code:
            _times(code)


def _code(text: str) -> str:
    """The program without its texts; where one holds a program itself, with all of them."""
    return text if r"\(" in text else re.sub(r'"(?:\\.|[^"\\])*"', '""', text, flags=re.DOTALL)


def _times(code: str) -> None:
    """Raises `Refused` where a text may be repeated too often: a number makes as many copies of one."""
    known = table("shell")["jq"]
    many = code.count("*") > 1
    if re.search(known["large"], code) or (many and len(re.findall(known["times"], code)) < code.count("*")):
        raise Refused("jq: the program may repeat a text without a bound that is seen")
    numbers = [int(one) for one in re.findall(r"(?<![\w.$])\d+", code)]
    if max(numbers, default=0) > MOST_TIMES or (many and math.prod(filter(None, numbers)) > MOST_TIMES):
        raise Refused("jq: the program may repeat a text over and over")

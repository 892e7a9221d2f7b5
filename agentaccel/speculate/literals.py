"""What of a text may be written down in clear, by its look: plain words may, what may be anybody's may not.

Whatever looks like an address, a name, a number of somebody or something, an id, a key, a path of a user's, a URL, a
date or prose stays out. A look cannot tell everything: that is why a value is written only once two sessions have shown
it, and why arguments can be marked sensitive.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import Any

MOST_LETTERS = 40
MOST_WORDS = 2
MOST_DIGITS = 3
"""In one text; more of them are a number of somebody or something, or a date."""
_SHORT = 4
"""Letters and digits in one run, up to which it is no id: `utf8`, `v2`."""
_KEY_LETTERS = 16
"""Of one run that changes between small letters and others, from which it may be a key."""
_LONGEST_RUN = 24
"""Letters without anything between them, beyond which they are no word."""

_DIGIT = re.compile(r"\d")
_RUN = re.compile(r"[A-Za-z0-9+/=]+")
_BARRED = re.compile(r"@|://|^www\.|(?:^|[/\\])(?:home|users|root)(?:[/\\]|$)|^~|^[A-Za-z]:\\", re.I)
_NAME = re.compile(r"(?<![A-Za-z])[A-Z][a-z]+(?![a-z])|[^\x00-\x7f]")
"""A word as names are written, or a letter that only words of some language have."""


@lru_cache(maxsize=16384)
def may_be_kept(text: str) -> bool:
    """Whether `text`, the name of a field or a program, looks like nothing that is anybody's own.

    >>> [may_be_kept(one) for one in ("flight_number", "FlightNumber", "utf8", "")]
    [True, True, True, True]
    >>> [may_be_kept(one) for one in ("mia@example.com", "555-0199", "sk-a81Kx02Lq9", "/home/mia", "mia_li_3668")]
    [False, False, False, False, False]
    """
    if len(text) > MOST_LETTERS or len(text.split()) > MOST_WORDS or _BARRED.search(text) or not text.isprintable():
        return False
    if len(_DIGIT.findall(text)) > MOST_DIGITS:
        return False
    return not any(map(_may_be_an_id, _RUN.findall(text)))


def value_may_be_kept(value: Any) -> bool:
    """The same of a value, as JSON has it, with all that is in it; words that may be names are left out, too.

    >>> value_may_be_kept({"cabin": "economy", "bags": 2}), value_may_be_kept([4111111111111111])
    (True, False)
    >>> value_may_be_kept("Alice"), value_may_be_kept("SEA"), value_may_be_kept("round_trip")
    (False, True, True)
    """
    if isinstance(value, dict):
        return all(map(value_may_be_kept, (*value, *value.values())))
    if isinstance(value, list):
        return all(map(value_may_be_kept, value))
    if isinstance(value, str):
        return may_be_kept(value) and _NAME.search(value) is None
    return value is None or may_be_kept(str(value))


def _may_be_an_id(run: str) -> bool:
    if len(run) > _SHORT and _DIGIT.search(run) and not run.isdigit():
        return True
    changes = sum(one.islower() != two.islower() for one, two in pairwise(run))
    return len(run) > _LONGEST_RUN or (len(run) >= _KEY_LETTERS and changes > len(run) // 3)

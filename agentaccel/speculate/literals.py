"""What of a text may be written down in clear, told by how it looks: short words may, what may be personal may not.

Whatever looks like an address, a number of somebody or something, a key, a path of a user's, a date or prose stays out.
A look cannot tell a name from a word: that is why a template is only written once two sessions have shown it, and why
arguments can be marked sensitive.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import Any

MOST_LETTERS = 40
MOST_WORDS = 4
MOST_DIGITS = 4
"""In one text; more of them are a number of somebody or something, or a date."""
_ID_DIGITS = 3
"""In one word that has letters, too: such words are mostly ids."""
_KEY_LETTERS = 16
"""Of one run that changes between small letters and others, from which it may be a key."""
_LONGEST_RUN = 24
"""Letters without anything between them, beyond which they are no word."""

_DIGIT = re.compile(r"\d")
_RUN = re.compile(r"[A-Za-z0-9+/=]+")
_BARRED = re.compile(r"@|://.*[@?]|(?:^|[/\\])(?:home|users|root)(?:[/\\]|$)|^~|^[A-Za-z]:\\|[\x00-\x1f\x7f]", re.I)


@lru_cache(maxsize=8192)
def may_be_kept(text: str) -> bool:
    """Whether `text` looks like nothing that is anybody's own.

    >>> [may_be_kept(one) for one in ("round_trip", "main", "SFO", "en-US", "")]
    [True, True, True, True, True]
    >>> [may_be_kept(one) for one in ("mia@example.com", "555-0199-22", "mia_li_3668", "/home/mia", "2024-05-20")]
    [False, False, False, False, False]
    """
    if len(text) > MOST_LETTERS or len(text.split()) > MOST_WORDS or _BARRED.search(text):
        return False
    if len(_DIGIT.findall(text)) > MOST_DIGITS or any(map(_may_be_an_id, text.split())):
        return False
    return not any(map(_may_be_a_key, _RUN.findall(text)))


def value_may_be_kept(value: Any) -> bool:
    """The same of a value as JSON has it, with all that is in it.

    >>> value_may_be_kept({"cabin": "economy", "bags": 2}), value_may_be_kept([4111111111111111])
    (True, False)
    """
    if isinstance(value, dict):
        return all(may_be_kept(str(name)) and value_may_be_kept(one) for name, one in value.items())
    if isinstance(value, list):
        return all(map(value_may_be_kept, value))
    if isinstance(value, str):
        return may_be_kept(value)
    return value is None or may_be_kept(str(value))


def _may_be_an_id(word: str) -> bool:
    return len(_DIGIT.findall(word)) >= _ID_DIGITS and any(one.isalpha() for one in word)


def _may_be_a_key(run: str) -> bool:
    changes = sum(one.islower() != two.islower() for one, two in pairwise(run))
    return len(run) > _LONGEST_RUN or (len(run) >= _KEY_LETTERS and changes > len(run) // 3)

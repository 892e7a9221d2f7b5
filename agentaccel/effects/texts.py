"""Texts that a tool is given: whether one may be a statement that writes, in whatever language its server speaks.

Nobody says which language that is. So a text that is built as statements are may hold no word of writing at all,
wherever it stands; a sentence may, as long as it does not begin as a statement does.
"""

from __future__ import annotations

import functools
import json
import re
import shlex
from typing import Any

from agentaccel.effects.tables import table

MOST_READ = 100_000
"""Characters of a text that are looked at."""
_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)|^[ \t]*(?:#|//|--)[^\n]*$", re.DOTALL | re.MULTILINE)
_LEADING = re.compile(r"^[\ufeff\s,(]+", re.MULTILINE)
_ASKS = re.compile(r"\s*(?:what|how|why|who|when|which|does|do|can|should|is|are)\s", re.IGNORECASE)
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def writes(text: str) -> str | None:
    """Why the text may be a statement that writes; None where it is none.

    >>> writes("how to delete a branch"), writes("MATCH (n) RETURN n")
    (None, None)
    >>> writes("MATCH (n) DELETE n")
    "it holds 'delete', and is no plain sentence"
    """
    known = table("mcp")["texts"]
    if re.fullmatch(r"https?://[!-~]+", text):
        return None  # what an address asks for, the rules of addresses tell
    if len(text) > MOST_READ:
        return "it is too long to be looked at"
    begins = _LEADING.sub("", _COMMENT.sub("\n", text))
    capitals = re.findall(r"^[A-Z]+(?![\w'])", begins, re.MULTILINE)
    if {word.lower() for word in capitals} & set(known["capitals"]):
        return "it begins with a word of writing in capitals"
    if any(beginning.search(begins) for beginning in _beginnings()):
        return "it begins as a statement does that writes"
    if found := re.search(rf"\$(?:{'|'.join(known['operators'])})\b", text):
        return f"it holds {found[0]!r}"
    if re.fullmatch(known["sentence"], re.sub(known["spoken_of"], " ", text) if _ASKS.match(text) else text):
        return None
    for name in re.findall(r"\.\s*(\w+)\s*\(", text):  # comments included: MySQL runs what stands in some
        if {word.lower() for word in _WORDS.findall(name)} & set(known["methods"]):
            return f"it calls {name!r}"
    words = {word.lower() for word in re.findall(r"[^\W\d_]\w*", text)} & set(known["writing"])
    return f"it holds {min(words)!r}, and is no plain sentence" if words else None


@functools.cache
def _beginnings() -> list[re.Pattern[str]]:
    return [re.compile(f"^(?:{one})", re.IGNORECASE | re.MULTILINE) for one in table("mcp")["texts"]["beginnings"]]


def parsed(text: str) -> Any:
    """The object, list or text whose JSON the text is; None where it is none, or holds a name twice."""
    if not text.lstrip("\ufeff \t\r\n").startswith(("{", "[", '"{', '"[')) or len(text) > MOST_READ:
        return None
    try:
        found = json.loads(text.lstrip("\ufeff"), object_pairs_hook=_once)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict | list | str) else None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Which of two values a server takes is not known."""
    if len(found := dict(pairs)) < len(pairs):
        raise ValueError
    return found


def joined(words: object) -> str | None:
    """A list of words as a line, which a program may be started with; None where it is none."""
    if isinstance(words, list) and len(words) > 1 and all(isinstance(word, str) for word in words):
        return shlex.join(words)
    return None


def worded(text: object) -> list[str]:
    """The words of a name in small letters, told apart at capitals, digits and every sign.

    >>> worded("HTTPVerb"), worded("dry-run"), worded("command[0]"), worded("orders.Close")
    (['http', 'verb'], ['dry', 'run'], ['command'], ['orders', 'close'])
    """
    return [word.lower() for word in _WORDS.findall(str(text))]


def inside(name: str, key: object) -> str:
    """The name of what stands under `key` in the argument `name`: the words of all keys that say something.

    >>> inside("", "httpVerb"), inside("shell", "fullLine"), inside("command", "text")
    ('http_verb', 'shell.full_line', 'command')
    """
    words = worded(key)
    if name and set(words) <= set(table("mcp")["says_nothing"]):
        return name
    return f"{name}.{'_'.join(words)}" if name else "_".join(words)


def own(name: str) -> list[str]:
    """The words of the innermost key in the name of an argument."""
    return name.rsplit(".", 1)[-1].split("_")

"""Texts that a tool is given: whether one may be a statement that writes, in whatever language its server speaks.

Nobody says which language that is. So a text that is built as statements are may hold no word of writing at all,
wherever it stands; a sentence may, as long as it does not begin as a statement does.
"""

from __future__ import annotations

import functools
import itertools
import json
import re
import shlex
from collections.abc import Mapping
from typing import Any

from agentaccel.effects.tables import table

LONGEST = 4_096
"""Characters of a path (PATH_MAX of Linux), or of an address."""
MOST_READ = 100_000
"""Characters of a text that are looked at."""
MOST_NAMED = 80
"""Characters of a name that are looked at."""
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


# --- A name that is a deed and what it is done to --------------------------------------------------------------------


@functools.cache
def _done_to() -> re.Pattern[str]:
    known = table("mcp")["keys"]
    return re.compile("|".join(known["done_to"]).replace("THINGS", known["things"]))


@functools.cache
def _plainly() -> frozenset[str]:
    """Deeds that are neither things nor ways in which something is done."""
    return surely() - {*table("mcp")["keys"]["doubtful"]}


@functools.cache
def _undivided() -> re.Pattern[str]:
    verbs = "|".join(sorted(_plainly(), key=len, reverse=True))
    return re.compile(rf"({verbs})(?:the|all)?({table('mcp')['keys']['things']})")


def _thing(word: str) -> bool:
    return re.fullmatch(table("mcp")["keys"]["things"], word) is not None


def divided(words: list[str]) -> list[str]:
    """The words, and two where the only one is a deed and a thing without a border between them.

    >>> divided(["closeorder"]), divided(["bookmark"])
    (['close', 'order'], ['bookmark'])
    """
    found = _undivided().fullmatch(words[0]) if len(words) == 1 else None
    return [found[1], found[2]] if found else words


def done(key: object, value: object) -> str | None:
    """The deed that the name of an argument is, with what it is done to; None where it is none, or has no value.

    >>> done("deleteUser", "bob"), done("users-to-remove", ["bob"]), done("bookFlight", {"id": 5})
    ('delete', 'remove', 'book')
    >>> done("updatedSince", "2026-01-01"), done("create_time", 5), done("bookTitle", "x"), done("deleteUser", False)
    (None, None, None, None)
    """
    known, text = table("mcp")["keys"], str(key)
    if not value or len(text) > MOST_NAMED or (isinstance(value, str) and _STATED.get(value.strip().lower()) is False):
        return None
    words = divided([*itertools.dropwhile(lambda word: word in known["filling"], worded(text))])
    if len(words) < 2:
        return words[0] if {*words} & _plainly() and not _compared(value) else None
    name, (*before, last) = "_".join(words), words
    if re.fullmatch(known["nouns"], name):
        return None
    if _done_to().fullmatch(name):
        return words[0]
    if last in surely() and before[-1] == "to" and not {*before} & {*known["lasting"]}:
        return last
    if last in _plainly() and _thing(before[-1]):
        return last
    return words[0] if words[0] in _plainly() and _ends_with_thing(words) else None


def _ends_with_thing(words: list[str]) -> bool:
    """True if the name that begins with a deed ends with a thing: not with when, how or how many."""
    known = table("mcp")["keys"]
    what = [*itertools.dropwhile(lambda word: word in known["told"], reversed(words[1:]))]
    return not re.fullmatch(known["parts"], what[0]) if what else words[-1] in known["told_alone"]


def _compared(value: object) -> bool:
    """True if the value says how something is sorted or compared."""
    below = value if isinstance(value, Mapping) else [value]
    return bool({str(one).strip("$").lower() for one in below} & {*table("mcp")["keys"]["compared"]})


# --- What an argument asks for by its name and by a short value: a deed, a switch that is set, a file that is written -
# Words of deeds are those that contradict a read in the name of a tool or in an address; which of them are also words
# for things (`post`, `email`) stands beside them. Each rule here can only refuse.

_ONE_WORD = re.compile(r"[A-Za-z][\w$]*(?:(?:[.:#-]|::)[\w$]+)*(?:\(.*\))?")
"""A word, or words joined to a name: `delete`, `closeIssue`, `orders.Close`."""
_OPENED = re.compile(r"[rwax]b?t?\+?b?t?")
_STATED = {
    **dict.fromkeys(("true", "t", "yes", "y", "on", "1"), True),
    **dict.fromkeys(("false", "f", "no", "n", "off", "0"), False),
}


@functools.cache
def deeds() -> frozenset[str]:
    """Words that ask for a deed."""
    known, http = table("mcp"), table("http")
    return frozenset({*known["writing"], *known["writing_first"], *known["more_deeds"], *http["writing"]}) - {
        *http["harmless_words"],
        *known["no_deeds"],
    }


@functools.cache
def surely() -> frozenset[str]:
    """Words of deeds that stand for no thing."""
    return deeds() - {*table("http")["things"], *table("mcp")["deeds_and_things"]}


def asks(name: str, value: str | float, others: set[str]) -> str | None:
    """What the argument asks for that is no read; None where it is none. `others`: names of the arguments beside it.

    >>> asks("action", "closeIssue", set()), asks("action", "getOrder", set()), asks("dry_run", "no", set())
    ("'close' is a deed", None, 'it is to be done, and not only tried')
    >>> asks("output_file", "made", set()), asks("output_format", "made", set())
    ('it names a file that is written', None)
    """
    words = own(name)
    stated = _STATED.get(str(value).strip().lower()) if isinstance(value, str) else bool(value)
    counted = str(value).strip() not in ("0", "1") and not isinstance(value, bool | str)
    numeral = not isinstance(value, bool) and not str(value).strip().isalpha()
    if stated is not None and (why := _switched(words, stated, numeral, counted)):
        return why
    if not isinstance(value, str) or not value.strip():
        return None
    told = re.match(r"\s*[!/](\w+)\s+\S", value)  # a command of a chat
    if (stated is None and {name} <= surely()) or (told and told[1].lower() in deeds()):
        return "it names a deed, and says to what"
    if deed := _deed(name, value.strip()):
        return f"{deed!r} is a deed"
    around = name.split(".")[-2].split("_") if set(words) <= set(table("mcp")["files"]) and "." in name else []
    return "it names a file that is written" if _written([*around, *words], value.strip(), others) else None


def _switched(words: list[str], on: bool, numeral: bool, counted: bool) -> str | None:
    """Of a switch: a deed that is asked for, or a trial that is not. What says what is told, or left out, is none."""
    known = table("mcp")
    negated, name = words[0] in known["negations"], "_".join(words)
    if set(words) & set(known["trials"]) or re.fullmatch(known["only_tried"], name):
        return "it is to be done, and not only tried" if on is negated else None
    if not on or negated or words[0] in known["telling"]:
        return None
    if counted and len(words) > 1 and (re.fullmatch(known["keys"]["nouns"], name) or not _ends_with_thing(words)):
        return None
    found = set(words) & {
        *(surely() if numeral or len(words) > 1 else deeds()),
        *(() if counted else known["switches"]),
    }
    return f"{''.join(words)!r} is switched on" if found or "".join(words) in known["switches"] else None


def _deed(name: str, value: str) -> str | None:
    """A deed that the value is, or begins or ends with; where the name says that it tells one, anywhere in it."""
    known, words, said = table("mcp"), own(name), divided(worded(value[:1000]))
    if words == ["name"]:  # of a tool, of a function
        words = re.split(r"[._]", name)[-2:]
    if not said or "://" in value:
        return None
    if set(words) & set(known["deeds"]):
        if words[-1] == "mode" and _OPENED.fullmatch(value) and set(value) & {"w", "a", "x", "+"}:
            return value
        plainly = set(words) <= {*known["deeds"], *known["beside_deeds"]}
        found = set(said) & (deeds() if plainly and _ONE_WORD.fullmatch(value) else surely())
        stem = re.match(rf"({'|'.join(table('http')['writing_stems'])})(?![ds])\w{{0,8}}$", said[0])
        return min(found, default=stem[1] if stem and len(said) == 1 else None)
    titled = set(own(name)) <= {*table("mcp")["events"]["beside"]}  # event: {name: …}
    if (event := _told_by(re.split(r"[._]", name)[-2:] if titled else words)) is not None:
        return _caused(value, said, topic=event == "topic")
    if words[-1] in known["with_words"] and len(said) == 1 and said[0] in known["switches"]:
        return said[0]
    if words[-1] in (*known["searches"], *known["searched"]) or not _ONE_WORD.fullmatch(value):
        return None
    if re.search(r"[\w-]\.[a-z]{1,5}\d?$", value) and said[-1] not in deeds():
        return None  # the name of a file
    of_thing = said[-1] in (*known["searches"], *known["searched"])  # start_date, email_address
    ends = {said[0]} if of_thing else {said[0], said[-1]}
    return min(ends & (surely() if of_thing or len(said) == 1 or "-" in value else deeds()), default=None)


def _told_by(words: list[str]) -> str | None:
    """The word of a name that says of its value that it is an event."""
    known = table("mcp")["events"]
    kept = [*itertools.dropwhile(lambda word: word in known["beside"], reversed(words))] or words
    named = {*known["names"], *(known["with_beside"] if len(kept) < len(words) else ())}
    return kept[0] if kept[0] in named else None


def _caused(value: str, said: list[str], *, topic: bool) -> str | None:
    """The deed of an event that is told as an order: a verb, and what it is done to. What has happened is none."""
    known = table("mcp")["events"]
    form = known["topics"] if topic else known["values"]
    if topic and re.fullmatch(known["named"], value):
        return said[0] if said[0] in _plainly() and _thing(said[1]) else None
    if len(said) < 2 or not re.fullmatch(form, value) or re.fullmatch(known["happened"], value):
        return None
    first = said[0] if not re.fullmatch(known["after"], said[-1]) and said[-1] not in known["noted"] else ""
    last = said[-1] if re.search(r"[./:]\w+$", value) else ""
    return min({first} & (surely() if topic else deeds()) | ({last} & surely()), default=None)


def _written(words: list[str], value: str, others: set[str]) -> bool:
    """A file that is written, by the name of the argument; beside the place of another, one that may be."""
    known = table("mcp")
    if re.fullmatch(known["formats"], value, re.IGNORECASE):
        return False
    words = words[:-1] if words[-1] == "name" and len(words) > 2 else words  # output_file_name
    named = words[-1] in known["files"] and len(words) > 1
    beside = any(own(other)[-1] in known["opened"] and own(other) != words for other in others)
    if words[-1] in known["written_alone"] or (named and set(words) & {*known["written"], *known["written_alone"]}):
        return named or beside or set(words) <= {*known["written_alone"], *known["files"]}
    file = "/" in value or re.search(r"\.\w+$", value) is not None
    if words == ["destination"]:
        return beside or file
    if re.fullmatch(known["written_together"], "".join(words)):
        return True
    return beside and words[0] in known["written_beside"] and (named or (file and len(words) == 1))

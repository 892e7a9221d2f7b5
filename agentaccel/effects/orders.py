"""What arguments order in other ways than by a command: something that runs on an event, a thing that goes from one
place to another, a deed in plain words.

None of it is written down as a call. It is told by names, by the shapes of two values that stand side by side, and by
how a sentence begins. Each rule here can only refuse.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise, product
from typing import Any

from agentaccel.effects.tables import table
from agentaccel.effects.texts import LONGEST, MOST_READ, deeds, own, surely

MOST_BEGUN = 400
"""Characters of a sentence that are looked at: an order tells its deed at the beginning."""
_SENTENCE = re.compile(r"(?<=[.!?;:\n])\s+|\n+|\s+[\u2013\u2014-]+\s+")
_SPOKEN_TO = re.compile(r"@?[A-Z]\w{1,20},\s+|@\w{1,20}:?\s+")
"""Somebody who is spoken to."""
_VERB = re.compile(r"(?:re-)?([A-Za-z]+)[:,]?\s+(?:(?:up|down|off|on|out|back|in|over|away|to)\s+)?(.*)", re.DOTALL)
_AGAIN = re.compile(r"\b(?:and|then|,|but|also)\s+(?:then |please |also |just )?(\w+)(?: \w+)? (?:it|them|him|her)\b")
"""A second deed, to what the sentence has told of."""
_BEGGED = re.compile(r"\b(?:please|pls|kindly) (?:just |also |now )?(\w+) \w", re.IGNORECASE)
"""A deed that is asked for in the middle of a sentence."""


def _known() -> Mapping[str, Any]:
    found: Mapping[str, Any] = table("mcp")["ordered"]
    return found


# --- On an event -----------------------------------------------------------------------------------------------------


@functools.cache
def _hooks() -> re.Pattern[str]:
    known = _known()
    whole = known["hooks"]
    for name in ("event", "also", "deed"):
        whole = whole.replace(name.upper(), known[name])
    return re.compile(whole.replace("SURELY", "|".join(sorted(surely()))))


def on_event(name: str, value: str | float) -> str | None:
    """Why the argument is what runs on an event, or where a server tells of events; None where it is neither.

    A date, a number, a commit, and what is done where something fails are none.

    >>> on_event("pre_commit", "lint"), on_event("on.push", "lint"), on_event("before_merge", "2026-11-27")
    ('it runs on an event', 'it runs on an event', None)
    """
    if not isinstance(value, str) or not (text := value.strip()) or re.fullmatch(_known()["quiet"], text):
        return None
    parts = name.split(".")
    if any(_hooks().fullmatch(one) for one in (*parts, *map("_".join, pairwise(parts)))):
        return "it runs on an event"
    if re.fullmatch(_known()["told_there"], parts[-1]) and re.search(r"://|@", text):
        return "it is told of events"
    return None


# --- From one place to another ---------------------------------------------------------------------------------------


def moves(leaves: Sequence[tuple[str, str | float]]) -> str | None:
    """What two arguments move, rename, pay or tell, by their names and the shapes of their values; None for others.

    A range of times, numbers, versions, currencies, languages or places is none, nor what stands beside a query.

    >>> moves([("from", "a@example.org"), ("to", "b@example.org")]), moves([("from", "USD"), ("to", "EUR")])
    ("'to' and what stands beside it: something goes from one to the other", None)
    """
    known = _known()
    told = [(name, str(one).strip()) for name, one in leaves if not isinstance(one, bool) and str(one).strip()]
    last = {own(name)[-1] for name, _ in told}
    if last & {*known["asked_for"]}:
        return None
    for name, here, there in _pairs(told, known["here"], known["there"]):
        words = set(re.split(r"[._]", name))
        accounts = sum(re.fullmatch(known["accounts"], one) is not None for one in (here, there))
        paid = accounts > (0 if last & {*known["amounts"]} else 1)
        if words & {*known["holders"]} or paid or (_placed(there) and (_placed(here) or _person(there))):
            return f"{name!r} and what stands beside it: something goes from one to the other"
    for name, before, after in _pairs(told, known["old"], known["new"]):
        if not all(re.fullmatch(known["range"], one) for one in (before, after)):
            return f"{name!r} stands beside what was there before"
    if last & {*known["bodies"]}:
        for name, one in told:
            if own(name)[-1] in known["recipients"] and _person(one):
                return f"{name!r} is who is told something"
    return None


def _pairs(told: Sequence[tuple[str, str]], one: Sequence[str], other: Sequence[str]) -> list[tuple[str, str, str]]:
    """Values whose names are the same but for a word of `one` and a word of `other`: the second name, and both."""
    sides: dict[str, tuple[list[str], list[tuple[str, str]]]] = {}
    for name, value in told:
        found = [match for match in re.finditer(r"[a-z]+", name) if match[0] in (*one, *other)]
        if len(found) == 1:
            whole = f"{name[: found[0].start()]}*{name[found[0].end() :]}"
            here, there = sides.setdefault(whole, ([], []))
            if found[0][0] in one:
                here.append(value)
            else:
                there.append((name, value))
    return [
        (name, value, after) for here, there in sides.values() for value, (name, after) in product(here[:9], there[:9])
    ]


def _person(value: str) -> bool:
    return len(value) <= LONGEST and re.fullmatch(_known()["person"], value) is not None


def _placed(value: str) -> bool:
    """True if something can lie, or be paid or told, there."""
    known = _known()
    if _person(value):
        return True
    return (
        len(value) <= LONGEST
        and re.fullmatch(known["place"], value) is not None
        and not re.fullmatch(f"{known['no_place']}|{known['range']}", value)
    )


# --- In plain words --------------------------------------------------------------------------------------------------


@functools.cache
def _verbs() -> frozenset[str]:
    """First words of orders."""
    known = _known()
    return frozenset({*deeds(), *known["verbs"]}) - {*known["no_verbs"]}


def ordered(name: str, text: str) -> str | None:
    """The deed that a sentence of the text orders in plain words; None where none does.

    Who looks for something names it without an article ("cancel policy"), or asks ("how to delete a branch").

    >>> ordered("query", "please cancel my booking"), ordered("query", "Delete the order 17.")
    ('cancel', 'delete')
    >>> ordered("query", "delete a branch in git"), ordered("query", "delete order error 500")
    (None, None)
    """
    known = _known()
    if own(name)[-1] in known["titles"] or not re.search(r"\s", text.strip()) or len(text) > MOST_READ:
        return None
    said = {*own(name)[-1:]} & {*known["told"]}
    found = (_order(one, told=bool(said)) for one in _SENTENCE.split(text) if one.strip())
    return next((deed for deed in found if deed), None)


def _order(sentence: str, *, told: bool) -> str | None:
    known = _known()
    whole = re.sub(r"^(?:[^\w$#@]+|\d{1,3}[.)]\s+)+", "", sentence[:MOST_BEGUN])
    if re.match(known["questions"], whole, re.IGNORECASE):
        return None
    polite = re.search(known["polite"], whole, re.IGNORECASE) is not None
    for begun in dict.fromkeys((whole, _SPOKEN_TO.sub("", whole, count=1))):
        lead = re.match(known["lead"], begun, re.IGNORECASE)
        rest = begun[lead.end() if lead else 0 :]
        if re.match(known["foreign"], rest, re.IGNORECASE):
            return rest.split()[0].lower()
        if re.match(known["becomes"], rest, re.IGNORECASE):
            return rest.split()[0].lower()
        if lead and re.search(r"\bmind\W*$", lead[0], re.IGNORECASE):
            rest = re.sub(r"^[a-z]+ing\b", _plain, rest, count=1)
        match = _VERB.match(re.sub(f"^{known['phrases']}", "remove", rest, count=1, flags=re.IGNORECASE))
        if match is None or match[1].lower() not in _verbs() or (begun.rstrip().endswith("?") and rest == begun):
            continue
        if polite or _done_to(match[1].lower(), match[2], told=told):
            return match[1].lower()
    more = (again[1].lower() for again in (_AGAIN.search(whole), _BEGGED.search(whole)) if again)
    return next((verb for verb in more if verb in _verbs()), None)


def _plain(verb: re.Match[str]) -> str:
    """The verb of `closing`, `cancelling`."""
    stem = verb[0].removesuffix("ing")
    return next((one for one in (stem, f"{stem}e", stem[:-1]) if one in _verbs()), verb[0])


def _done_to(verb: str, what: str, *, told: bool) -> bool:
    """True if what follows the verb is one thing, or somebody, and not a kind of things."""
    known = _known()
    determiner = known["own" if verb in known["verbs"] else "definite"]
    if re.match(determiner, what, re.IGNORECASE) or re.match(known["numbered"], what):
        return True
    if told and verb not in known["makers"] and re.match(known["some"], what, re.IGNORECASE):
        return True
    if re.match(_numbered_thing(), what, re.IGNORECASE):
        return True
    if verb in known["persons"] and re.match(known["somebody"], what):
        return True
    if re.match(known["put_somewhere"], what) or re.search(known["sent"], what):
        return True
    return any("@" in one and _person(one.strip(".,;:!?()")) for one in what.split())


@functools.cache
def _numbered_thing() -> str:
    known = _known()
    things = sorted({*table("http")["things"], *known["things"]} - {"version", "status", "type"}, key=len, reverse=True)
    return rf"(?:\w+ )?(?:{'|'.join(things)})s? (?:{known['numbered']}|[\w-]*\d[\w-]*)"

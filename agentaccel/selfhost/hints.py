"""What an agent knows of a request, in the fields and headers that its server takes: pure.

    sent = rendered(Hints(session="ticket-1", tenant="acme", priority=2), server, key)
    client.chat.completions.create(…, extra_body=sent.fields, extra_headers=sent.headers)

Nothing is sent to a server that is not known to take it. Names of sessions and tenants travel as keyed hashes.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from agentaccel.checks import check_count, check_flags, check_session_name, is_amount
from agentaccel.errors import ConfigError
from agentaccel.facts import Wire, table
from agentaccel.hashing import pseudonym
from agentaccel.selfhost.probe import Server
from agentaccel.selfhost.tables import found as value_at
from agentaccel.selfhost.tables import has_by, name_of, row


@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """What is known of a request beside its text. Raises `ConfigError` for what cannot be meant; None says nothing."""

    session: str | None = None
    """The conversation that it belongs to."""
    parent: str | None = None
    """The session that this one works for."""
    final: bool = False
    """True if the session ends with this request."""
    tenant: str | None = None
    """Whose prefixes it may share, and nobody else's."""
    priority: int | None = None
    """How urgent it is: higher is earlier, whatever the sign that the server means."""
    expected_output: int | None = None
    """Tokens that the reply is expected to have."""
    ttft_target: float | None = None
    """Seconds within which the first token should come."""
    tpot_target: float | None = None
    """Seconds within which each later token should come."""
    next_turn_likely: bool = False
    """True if another request of the session follows soon: the server may prepare it, by a request of its own."""
    steps_to_execution: float | None = None
    """Steps of the workflow until the session's agent runs again (`steps.steps_to_execution`): what runs sooner is
    worth keeping longer."""

    def __post_init__(self) -> None:
        for name in ("session", "parent", "tenant"):
            check_session_name(name, getattr(self, name), required=False)
        check_flags(self, "final", "next_turn_likely")
        if self.priority is not None and (isinstance(self.priority, bool) or not isinstance(self.priority, int)):
            raise ConfigError(f"Hints.priority is {self.priority!r}; give a whole number, higher for more urgent")
        if self.expected_output is not None:
            check_count("Hints.expected_output", self.expected_output, 1)
        if self.steps_to_execution is not None and not is_amount(self.steps_to_execution):
            raise ConfigError(
                f"Hints.steps_to_execution is {self.steps_to_execution!r}; give a number of steps, 0 or more"
            )
        for name in ("ttft_target", "tpot_target"):
            value = getattr(self, name)
            if value is not None and not (is_amount(value) and value > 0):
                raise ConfigError(f"Hints.{name} is {value!r}; give a number of seconds above 0")


class Rendered(NamedTuple):
    """What is sent for hints."""

    fields: Mapping[str, Any]
    """To be joined with the body of the request."""
    headers: Mapping[str, str]
    reasons: Mapping[str, str]
    """What each of them does, by its name: of a field, the first part of its place."""
    unsent: Mapping[str, str]
    """Why a hint is not sent, by its name."""


_NAMES = ("session", "parent", "tenant")
_FORMS: Mapping[Wire, str] = {"messages": "Messages", "chat": "Chat Completions", "responses": "Responses"}


def rendered(hints: Hints, server: Server, key: bytes, wire: Wire = "chat") -> Rendered:
    """What `server` is sent for `hints` with a request of that form; names are hashed under `key`, the same in every
    process that has it."""
    fields: dict[str, Any] = {}
    headers: dict[str, str] = {}
    reasons: dict[str, str] = {}
    unsent: dict[str, str] = {}
    known = row(server.dialect)
    for name, value in _said(hints, key):
        hint = known.get("hints", {}).get(name)
        if hint is None or not _has(server, hint, known):
            unsent[name] = f"{name} is not sent: {name_of(server.dialect)} is not known to take it"
            continue
        if wire in hint.get("not_on", ()):
            unsent[name] = f"{name} is not sent: {name_of(server.dialect)} ignores it with {_FORMS[wire]}"
            continue
        if "header" in hint:
            valued = _valued(value, hint)
            headers[hint["header"]] = "true" if value is True else str(valued).removesuffix(".0")
            reasons[hint["header"]] = f"{hint['header']} {hint['means']}"
        if "most" in hint and value > hint["most"]:
            unsent[name] = f"{name} is not sent: {value:g} is more than the {hint['most']} that {hint['field']} is for"
        elif "field" in hint and value_at(fields, hint["field"]) is not None:
            unsent[name] = f"{name} is not sent: {hint['field']} has what another hint says"
        elif "field" in hint:
            put(fields, hint["field"], _valued(value, hint))
            first = hint["field"].partition(".")[0]
            reasons[first] = "; ".join(filter(None, (reasons.get(first), f"{hint['field']} {hint['means']}")))
        if "header" not in hint and "field" not in hint:
            unsent[name] = f"{name} is not sent: {name_of(server.dialect)} {hint['means']}"
    return Rendered(fields, headers, reasons, unsent)


def _said(hints: Hints, key: bytes) -> Iterator[tuple[str, Any]]:
    """The hints that say something, names as hashes."""
    for name in hints.__dataclass_fields__:
        value = getattr(hints, name)
        if value is None or value is False:
            continue
        # A parent is some session: it has the name that it is sent under itself.
        yield name, pseudonym(key, "tenant" if name == "tenant" else "session", value) if name in _NAMES else value


def _has(server: Server, hint: Mapping[str, Any], known: Mapping[str, Any]) -> bool:
    """True if the server's version takes the hint; where that cannot be told, if what it does not know does nothing."""
    has = has_by(server.version, hint.get("since"), hint.get("until"))
    return bool(known.get("ignores_unknown")) if has is None else has


def _valued(value: Any, hint: Mapping[str, Any]) -> Any:
    if "most" in hint:
        return True
    if "unit" in hint:
        return value * hint["unit"]
    return round(value) * hint["sign"] if "sign" in hint else value


def put(fields: dict[str, Any], place: str, value: Any) -> None:
    """Set what stands at `place`, a dotted path."""
    *outer, name = place.split(".")
    for part in outer:
        fields = fields.setdefault(part, {})
    fields[name] = value


def names_session(headers: Collection[str]) -> bool:
    """True if one of a request's headers, whose names are in lower case, names a session: the sender has done it."""
    return not _session_headers().isdisjoint(headers)


@functools.cache
def _session_headers() -> frozenset[str]:
    return frozenset(table("engines")["sessions"]["headers"])


# --- The rule for refusals: a server that names a field has generated nothing, and may be asked again without it ------

REFUSALS = (400, 422)
"""States of a reply that says what is wrong with a request."""


def added(sent: Mapping[str, Any], written: Mapping[str, Any], prefix: str = "") -> frozenset[str]:
    """The places of fields that `sent` has and the request as `written` has not: names, or dotted paths in objects.

    >>> sorted(added({"m": 1, "salt": "a", "nvext": {"x": 1, "y": 2}}, {"m": 1, "nvext": {"x": 1}}))
    ['nvext.y', 'salt']
    """
    found = set[str]()
    for name, value in sent.items():
        own = written.get(name)
        if name not in written:
            found.add(f"{prefix}{name}")
        if isinstance(value, Mapping) and value is not own and (name not in written or isinstance(own, Mapping)):
            found |= added(value, own or {}, f"{prefix}{name}.")
    return frozenset(found)


def refused(body: bytes, ours: Collection[str], written: Mapping[str, Any]) -> frozenset[str]:
    """Which fields of `ours` the body of a refusal names as not known; empty where the refusal is the sender's own.

    `ours` are places as `added` tells them; a name that the request as `written` has, too, is the sender's.

    >>> body = b'{"message": "Validation: Unsupported parameter(s): `priority`, `seed`", "code": 400}'
    >>> [sorted(refused(body, ours, {"seed": 1})) for ours in ({"priority", "cache_salt"}, {"cache_salt"})]
    [['priority'], []]
    """
    found = set[str]()
    texts = list(_texts(body))
    for pattern in _patterns():
        of = pattern["names"]
        for name in {name for text in texts for name in _named(pattern["text"], of, text)}:
            if not _is_the_senders(name, written, inside=of == "last"):
                inside = {place for place in ours if of == "last" and place.endswith(f".{name}")}
                found |= inside or {place for place in ours if place == name}
    return frozenset(found)


def without(fields: Mapping[str, Any], places: Collection[str]) -> dict[str, Any]:
    """`fields` without those at `places`; an object that is left empty goes, too.

    >>> without({"cache_salt": "s", "nvext": {"cache_salt": "s"}}, {"nvext.cache_salt"})
    {'cache_salt': 's'}
    """
    left = {}
    for name, value in fields.items():
        inner = {place.partition(".")[2] for place in places if place.startswith(f"{name}.")}
        kept = without(value, inner) if inner and isinstance(value, Mapping) else value
        if name not in places and (kept or not inner):
            left[name] = kept
    return left


def _is_the_senders(name: str, written: Mapping[str, Any], *, inside: bool) -> bool:
    """True if the sender has a field of that name: at the top or, where that can be meant, `inside` of an object."""
    if name in written or value_at(written, name) is not None:
        return True
    inner = [value for value in written.values() if isinstance(value, Mapping)] if inside else []
    return any(_is_the_senders(name, one, inside=True) for one in inner)


@functools.cache
def _patterns() -> tuple[Mapping[str, Any], ...]:
    return tuple({**one, "text": re.compile(one["text"])} for one in table("engines")["refusals"])


def _named(pattern: re.Pattern[str], of: str, text: str) -> Iterator[str]:
    """The names in a text; the parts of a path (`("body", "nvext", "cache_salt")`) are one."""
    for match in pattern.finditer(text):
        quoted = re.findall(r"""[`'"]([^`'"]+)[`'"]""", match["names"]) or [match["names"].strip(".,;:")]
        yield from [".".join(quoted[quoted[0] == "body" :])] if of == "path" else quoted


def _texts(body: bytes) -> Iterator[str]:
    """The sentences of a refusal: its body as it is, and every string in it."""
    yield body[:_MOST].decode("utf-8", "replace")
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return
    yield from _strings(value, 4)


def _strings(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        yield value[:_MOST]
    elif depth and isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _strings(one, depth - 1)


_MOST = 65_536
"""Bytes of a refusal that are looked at."""

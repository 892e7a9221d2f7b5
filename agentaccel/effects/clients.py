"""Programs with sub-commands, and clients of servers: which of their calls only read.

What a client's settings could make it start is looked at before: a file that must not be there, or whose every line
must be known. A client that asks a server is no more than a remote read, which waits until the model has asked.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from agentaccel.effects.http import judge_http
from agentaccel.effects.options import CommandForm, Options, form_of, taken_apart
from agentaccel.effects.places import Surroundings, expanded, plain
from agentaccel.effects.repository import lists_of_user, starts_nothing
from agentaccel.effects.secrets import parameter
from agentaccel.effects.sql import judge_sql
from agentaccel.effects.tables import table
from agentaccel.effects.unnamed import left_beside, plain_files, small_text, stands
from agentaccel.effects.verdict import Refused
from agentaccel.effects.words import Word
from agentaccel.types import Effect
from agentaccel.validators import SQLITE, head_of

_DEEPEST = 2
"""Words of the longest sub-command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """A sub-command, or several that have the same options."""

    words: str
    form: CommandForm
    row: Mapping[str, Any]


@functools.cache
def clients() -> Mapping[str, Mapping[str, Any]]:
    """The rows of the data file by name of the program."""
    rows = table("clients")["client"]
    return {name: row for row in rows for name in (row["name"], *row.get("same", ()))}


@functools.cache
def _verbs(name: str) -> tuple[Verb, ...]:
    client = clients()[name]
    groups = {"anywhere": client["anywhere"]}
    found = []
    for row in client["verb"]:
        allowed = {**client["anywhere"].get("allowed", {}), **row.get("allowed", {})}
        form = form_of({**row, "name": f"{name} {row['words']}", "allowed": allowed, "groups": ["anywhere"]}, groups)
        found.append(Verb(words=row["words"], form=form, row=row))
    return tuple(found)


def read_only(name: str, words: Sequence[Word], there: Surroundings) -> tuple[Effect, str]:
    """What this call of the client `name` does at worst, and why. Raises `Refused`."""
    client = clients()[name]
    if "refused" in client:
        raise Refused(f"{name} {client['refused']}")
    if any(word.home or (word.glob and _matches(word, there)) for word in words):
        raise Refused(f"{name} would get as many words as files match, or a folder that is not looked at")
    called, verb, options = _call(name, words)
    _looked_into(client, verb, options, there)
    remote = client.get("remote", False) and not verb.row.get("local", False)
    effect = Effect.READ_REMOTE if remote else Effect.READ_LOCAL
    if "sql" in verb.row:
        _query(verb.row["sql"], options, there)
    if "headers" in verb.row:
        _address(verb.row["headers"], options)
    headers = tuple(value for name, value in options.values if value and name in verb.row.get("headers", ()))
    for word in words if remote else ():
        if not word.text.startswith(("http:", "https:")) and not (headers and word.text.endswith(headers)):
            # an address is judged with its host, and with its headers
            parameter(_host(options), "", word.text)
    settings(name, client, there)
    settings(name, verb.row, there)
    return effect, f"{name}{' ' if called else ''}{called} with these options only reads"


def _matches(word: Word, there: Surroundings) -> bool:
    """It would become names of files; the ? of an address does not."""
    return there.cwd is None or not word.text.startswith("http") or expanded(word, there) != [word.text]


def _call(name: str, words: Sequence[Word]) -> tuple[str, Verb, Options]:
    """The sub-command as written, its row and the options. Raises `Refused` where no row takes them."""
    before = _before(clients()[name]["anywhere"], words)
    refusal: Refused | None = None
    for depth in range(_DEEPEST, -1, -1):
        path = words[before : before + depth]
        called = " ".join(word.text for word in path)
        if len(path) < depth or any(word.text.startswith("-") for word in path):
            continue
        for verb in _verbs(name):
            if not re.fullmatch(verb.words, called):
                continue
            try:
                form = replace(verb.form, name=f"{name} {called}".strip())
                options = taken_apart(form, [*words[:before], *words[before + depth :]])
            except Refused as why:
                if depth or verb.row.get("alone", False) or before == len(words):
                    refusal = refusal or why  # the longest sub-command comes first, and its first row is the usual one
                continue
            if not depth and options.operands and not verb.row.get("alone", False):
                continue  # it is a sub-command that no row has
            return called, verb, options
    raise refusal or Refused(f"{name} with this sub-command is not known to be a read")


def _before(anywhere: Mapping[str, Any], words: Sequence[Word]) -> int:
    """How many words stand before the sub-command: options, and their values."""
    values = {*anywhere.get("long_values", ()), *(f"-{letter}" for letter in anywhere.get("short_values", ()))}
    place = 0
    while place < len(words) and words[place].text.startswith("-"):
        place += 2 if words[place].text in values else 1
    return min(place, len(words))


def _looked_into(client: Mapping[str, Any], verb: Verb, options: Options, there: Surroundings) -> None:
    """What is beside the options."""
    refused = verb.row.get("refused_operands")
    if refused and any(re.fullmatch(refused, word.text) for word in options.operands):
        raise Refused(f"{client['name']} with this operand is not known to be a read")
    for file in (*options.files, *(options.operands if verb.form.operands == "path" else ())):
        plain(file, there)
    if client.get("git", False):
        starts_nothing(there, reads_worktree=True)


def _query(rule: Mapping[str, Any], options: Options, there: Surroundings) -> None:
    """Raises `Refused` where the one query, or the one command that shows something, is not known to be a read."""
    if "database" in rule:
        queries = [options.operands[1].text]
        _quiet(options.operands[0], there)
    else:
        queries = [value for name, value in options.values if name in rule["options"]]
    if len(queries) != 1:
        raise Refused("not exactly one query is given")
    if re.fullmatch(rule["shown"], queries[0].strip()):
        return
    verdict = judge_sql(queries[0], rule["dialect"])
    if verdict.launchable == "never":
        raise Refused(verdict.evidence[0].why)


def _quiet(database: Word, there: Surroundings) -> None:
    """Raises `Refused` for a database of SQLite that to open may make a file, or bring one up to date."""
    plain(database, there)
    if there.cwd is None or not re.fullmatch(r"[\w./-]+", database.text):
        raise Refused("the database is not looked at")
    file = there.cwd / database.text
    try:
        head = head_of(file, 20)
    except OSError:
        raise Refused("the database is not there, and would be made") from None
    if head[:16] != SQLITE or head[18:20] != b"\1\1" or left_beside(file):
        raise Refused("the database keeps a log beside itself, or was left in the middle of a change")


def _address(names: Sequence[str], options: Options) -> None:
    """Raises `Refused` where the address, or a header, is not one of a read."""
    headers = [
        (name.strip(), text.strip())
        for name, _, text in (value.partition(":") for option, value in options.values if option in names)
    ]
    if len({name.lower() for name, _ in headers}) != len(headers):
        raise Refused("a header is given twice")
    verdict = judge_http({"method": "GET", "url": options.operands[0].text, "headers": dict(headers)})
    if verdict.launchable == "never":
        raise Refused(verdict.evidence[0].why)


def _host(options: Options) -> str | None:
    """Whom an address among the operands names."""
    hosts = [urlsplit(word.text).hostname for word in options.operands if word.text.startswith(("http:", "https:"))]
    return hosts[0] if len(hosts) == 1 else None


def led_elsewhere(name: str, surrounding: Mapping[str, str]) -> str | None:
    """A variable of the user's that would lead the client elsewhere than without it."""
    beginnings = tuple(clients()[name].get("environment", ()))
    return min((one for one in surrounding if beginnings and one.startswith(beginnings)), default=None)


def is_set_up(name: str, there: Surroundings) -> bool:
    """Whether the client has the settings that its first run would write."""
    needed = clients()[name].get("set_up", {})
    return all(
        any(re.fullmatch(line, one) for place in _placed(file, there) for one in _lines(place))
        for file, line in needed.items()
    )


def settings(name: str, row: Mapping[str, Any], there: Surroundings) -> None:
    """Raises `Refused` where settings, as the `row` names them, could start another program, or lead elsewhere."""
    lines, absent = row.get("lines", {}), row.get("absent", ())
    if (lines or absent) and there.home is None:
        raise Refused(f"{name}: the home folder is not known, and settings there may start programs")
    for one in absent:
        if any(map(stands, _placed(one, there))):
            raise Refused(f"{name}: {one} may start programs, or lead elsewhere")
    for one, pattern in lines.items():
        for file in _placed(one, there):
            _known(name, file, pattern)
    if there.home is not None:
        plain_files(chain.from_iterable(_placed(one, there) for one in row.get("opens", ())))
    if row.get("lists_of_git", False):
        lists_of_user(there)
    for one in row.get("absent_here", ()):
        if there.cwd is None or stands(there.cwd / one):
            raise Refused(f"{name}: {one} in the folder may lead elsewhere, or the folder is not known")


def _known(name: str, file: Path, pattern: str) -> None:
    if not all(re.fullmatch(pattern, line) for line in _lines(file)):
        raise Refused(f"{name}: a line of {file.name} may start a program, or lead elsewhere")


def _placed(one: str, there: Surroundings) -> list[Path]:
    """Where the settings are: below the home folder, or the root; of a pattern, all that match."""
    base, name = (there.root, one[1:]) if one.startswith("/") else (there.home or there.root, one)
    return sorted(base.glob(name)) if "*" in name else [base / name]


def _lines(path: Path) -> list[str]:
    text = small_text(path)
    return [] if text is None else text.splitlines() or [""]

"""Calls of MCP tools: the word of a server counts only where the user trusts it, and only as long as it says the same.

Both spellings of the hints are read; two that disagree refuse. A hint is true only as JSON true. Silence is no read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from agentaccel.effects.code import calls, does
from agentaccel.effects.commands import WORD, folder_of, line_of_git, lines_of, runs, started, told
from agentaccel.effects.declared import Named, named
from agentaccel.effects.http import judge_http
from agentaccel.effects.orders import moves, on_event, ordered
from agentaccel.effects.places import Surroundings
from agentaccel.effects.secrets import parameter, recovers
from agentaccel.effects.shell import judge_shell
from agentaccel.effects.sql import judge_sql, surely_sql
from agentaccel.effects.tables import table
from agentaccel.effects.texts import asks, done, inside, joined, own, parsed, surely, worded, writes
from agentaccel.effects.unnamed import no_pipe
from agentaccel.effects.verdict import Evidence, Refused, Verdict, judged, weigh
from agentaccel.types import Effect

# --- What the arguments of a tool ask of another host, and tell it: addresses, what stands beside them, credentials ---

_HOST = r"(?:[\w-]+\.)+[A-Za-z][\w-]*(?::\d+)?"
_OF_WEB = re.compile(r"(?:(?:https?|wss?|ftps?|sftp):)?(?=//)", re.IGNORECASE)
_LINE = re.compile(r"\s*([A-Za-z]+)\s+(/[!-~]*|https?://[!-~]+)(\s+HTTP/[\d.]+)?\s*(?:[\r\n].*)?", re.DOTALL)
"""The first line of a request."""
NOWHERE = "https://example.com/"
"""Where a path without a host is taken to lead."""
LEAST_SECRET = 99_999
"""A number up to which none is taken for a credential."""


def tells_no_key(leaves: Sequence[tuple[str, str | float]], remote: bool) -> None:
    """Raises `Refused` where an argument holds a credential that the tool would tell a host that has not issued it."""
    told = ((name, str(one)) for name, one in leaves if isinstance(one, str) or one > LEAST_SECRET)
    texts = list(dict.fromkeys(told))
    urls = [url for name, text in texts if (url := _address(name, text.strip(), hosts=True)) is not None]
    hosts = {urlsplit(url).hostname for url in urls}
    if not hosts and not remote:
        return
    host = next(iter(hosts)) if len(hosts) == 1 else None
    lists = (" ".join(str(one) for key, one in leaves if key == name) for name in dict.fromkeys(dict(texts)))
    if any(map(recovers, lists)):
        raise Refused("its arguments hold a recovery phrase, which would be told")
    for name, text in texts:
        # An address is judged by itself, and headers beside one with the request that both make.
        if not re.fullmatch(r"https?://[!-~]+", text) and not (hosts and {"header", "headers"} & set(name.split("."))):
            for key in name.split("."):
                parameter(host, key, text)


def addressed(name: str, value: str) -> Iterator[Evidence]:
    """What is said of an address; where the name does not say that it is one to open, only that it may do something.

    Of a path without a host, what it asks for is told by the same rules.
    """
    known, last = table("mcp"), own(name)[-1]
    if re.match(r"(?:java|vb)script:", value, re.IGNORECASE):
        raise Refused(f"the argument {name!r} is a program, spelled as an address")
    if (line := _LINE.fullmatch(value)) and (_is_method(line[1]) or line[3]):
        url = line[2] if line[2].startswith("http") else NOWHERE + line[2].lstrip("/")
        yield from judge_http({"method": line[1], "url": url}).evidence
        return
    url = _address(name, value)
    if url is None and re.fullmatch(r"[\w-]*(?:/\S*)?", value):
        place = "/" in value and (last in known["places"] or own(name)[0] == "api")
        if place or (last in known["opened"] and re.fullmatch(r"/\S*(?:\?\S*=\S*|/[\w-]*\d[\w-]*/\w+)", value)):
            url = NOWHERE + value.lstrip("/")
    if url is not None:
        verdict = judge_http({"method": "GET", "url": url})
        if (url == value and last in known["addresses"]) or verdict.launchable == "never":
            yield from verdict.evidence


def _is_method(text: str) -> bool:
    return text in table("mcp")["http_methods"] or text.upper() in ("POST", "PUT", "PATCH", "DELETE")


def _address(name: str, value: str, *, hosts: bool = False) -> str | None:
    """The address that the argument is; None where it is none. A service of the web may be named without its scheme,
    or, where `hosts` stands, without a path."""
    if re.match(r"https?://\S*$", value, re.IGNORECASE):
        return value
    known, last = table("mcp"), own(name)[-1]
    if last in known["addresses"] and re.fullmatch(rf"{_OF_WEB.pattern}\S+", value, re.IGNORECASE):
        return _OF_WEB.sub("https:", value, count=1)
    named = last in (*known["addresses"], *known["places"]) or (hosts and last in known["hosts"])
    return f"https://{value}" if named and re.fullmatch(rf"{_HOST}(?:[/?#]\S*)?", value) else None


def request(arguments: object, depth: int = 0) -> Iterator[Evidence]:
    """What is said of the requests that addresses make together with what stands beside them, at any depth."""
    if depth > DEEPEST or not isinstance(arguments, Mapping | list):
        return
    for one in arguments.values() if isinstance(arguments, Mapping) else arguments:
        yield from request(one, depth + 1)
    if not isinstance(arguments, Mapping):
        return
    within = [one for key in ("options", "init", "config") if isinstance(one := arguments.get(key), Mapping)]
    beside = {"_".join(worded(key)): value for one in (*within, arguments) for key, value in one.items()}
    if not isinstance(beside.get("url", ""), str):
        raise Refused("the address is no text")
    known = table("mcp")
    texts = {name: value.strip() for name, value in beside.items() if isinstance(value, str)}
    urls = {name: url for name, value in texts.items() if (url := _address(name, value)) is not None}
    nowhere = [value for name, value in texts.items() if name.split("_")[-1] in known["places"] and "/" in value]
    if any(name in known["hosts"] for name in texts) and texts.get("path", "").startswith("/"):
        nowhere.append(texts["path"])
    for url in urls.values() or (NOWHERE + one.lstrip("/") for one in nowhere):
        verdicts = [judge_http(one) for one in _asked(url, {name: beside[name] for name in beside if name not in urls})]
        yield from (one for said in verdicts if urls or said.launchable == "never" for one in said.evidence)


def _asked(url: str, beside: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    """The requests of an address, by every method that is named beside it; none of an address with nothing beside."""
    known, methods, headers, fields = table("mcp"), list[str](), dict[str, object](), list[tuple[str, str]]()
    for name, value in beside.items():
        words = set(name.split("_"))
        sent = words & set(known["bodies"]) and words <= {*known["bodies"], *known["beside_bodies"]}
        if sent and value and (value is not True or words & {"post", "put", "patch", "upload"}):
            raise Refused(f"{name!r} stands beside an address: it may be sent there")
        if name in known["asked"]:
            fields += _fields(value)
        elif name in ("header", "headers"):
            headers |= _headers(value)
        elif name in known["method_names"] or (isinstance(value, str) and _is_method(value)):
            methods.append(str(value))
    if fields or headers or methods or url.startswith(NOWHERE):
        whole = f"{url}{'&' if '?' in url else '?'}{urlencode(fields)}" if fields else url
        for method in methods or ["GET"]:
            yield {"method": method, "url": whole, "headers": headers}


def _headers(value: object) -> dict[str, object]:
    """Headers that stand beside an address: as an object, as lines, or as a list of either."""
    if isinstance(value, Mapping):
        return dict(value)
    lines = value.splitlines() if isinstance(value, str) else value if isinstance(value, list) else [None]
    pairs = [line.split(":", 1) for line in lines if isinstance(line, str) and ":" in line]
    if len(pairs) < len(lines):
        raise Refused("its headers are in no known form")
    return {name.strip(): text.strip() for name, text in pairs}


def _fields(value: object) -> list[tuple[str, str]]:
    """Parameters that stand beside an address, as an object or as a text."""
    if isinstance(value, Mapping):
        return [(str(name), str(one)) for name, one in value.items() if isinstance(one, str | int | float)]
    return parse_qsl(value) if isinstance(value, str) and "=" in value else []


_NO = (False, None, "", "never", "none", "forbidden")
"""Values with which a field says nothing, or no."""
DEEPEST = 12
"""Levels of arguments that are looked at."""


@judged("mcp")
def judge_mcp(given: Mapping[str, Any], there: Surroundings) -> Verdict:
    """The verdict about a call of `tool` with `arguments` on `server`, beside what the server said of it earlier."""
    hint = declared(given.get("server"), given.get("tool"), given.get("earlier_listing"), "earlier_listing" in given)
    arguments = given.get("arguments")
    _fits(arguments, given["tool"])
    leaves, tool = list(_leaves(arguments, 0)), named(given["tool"])
    names = {name for name, value in leaves if isinstance(value, str)}
    if (why := moves(leaves)) is not None:
        raise Refused(f"its arguments ask for more than a read: {why}")
    around = folder_of(leaves, there, tool)
    said = [one for name, value in leaves for one in _heard(name, value, names, tool, around)]
    if not tool.runs and (line := line_of_git(leaves, tool)) is not None:
        said += judge_shell(line, around).evidence
    said += request(arguments)
    no_pipe(leaves, there)
    tells_no_key(leaves, remote=hint.effect is Effect.READ_REMOTE)
    return weigh([hint, *said])


def declared(server: object, tool: object, earlier: object = None, listed_before: bool = False) -> Evidence:
    """What the declaration of `tool` proves. Raises `Refused` where it proves nothing.

    >>> read = {"name": "look", "inputSchema": {}, "annotations": {"readOnlyHint": True, "openWorldHint": False}}
    >>> declared({"name": "desk", "trusted": True}, read).effect.value
    'read_local'
    """
    if not isinstance(server, Mapping) or not isinstance(server.get("name"), str) or not _plain_name(server["name"]):
        raise Refused("no server is named")
    if server.get("trusted") is not True:
        raise Refused(f"the server {server['name']!r} is not trusted, and its hints are no proof")
    if not isinstance(tool, Mapping) or not isinstance(tool.get("name"), str) or not tool["name"]:
        raise Refused("no tool is declared")
    if listed_before and not _same(tool, earlier):
        raise Refused("the server declares the tool differently than before")
    _contradicts(tool)
    hints = _hints(tool)
    if hints.get("readonlyhint") is not True:
        raise Refused("the server does not say readOnlyHint: true")
    if hints.get("destructivehint") is True:
        raise Refused("the server says that the tool reads only, and that it destroys")
    if hints.get("openworldhint") is False:
        return Evidence(
            source="annotation", effect=Effect.READ_LOCAL, why="mcp: a trusted server says that it only reads"
        )
    why = "mcp: a trusted server says that it only reads, from a world that is open"
    return Evidence(source="annotation", effect=Effect.READ_REMOTE, why=why)


def metadata_says(name: str, metadata: object, *, trusted: bool) -> Iterator[Evidence]:
    """What the metadata says that a framework keeps of a tool, where it holds hints: flat, or under `annotations`.

    Adapters copy there what a server said, so it makes a read only where the user trusts it. It makes a call worse
    whoever wrote it. Metadata without hints has no vote.

    >>> [one.effect.value for one in metadata_says("look", {"metadata": {"readOnlyHint": False}}, trusted=False)]
    ['unknown']
    >>> list(metadata_says("look", {"metadata": {"readOnlyHint": True}}, trusted=False))
    []
    """
    for hints in _hinted(metadata, 0):
        try:
            said = declared({"name": "its framework", "trusted": True}, {"name": name, "annotations": hints})
        except Refused as refusal:
            yield Evidence(source="metadata", effect=Effect.UNKNOWN, why=f"metadata: {refusal}")
        else:
            if trusted:
                yield Evidence(source="metadata", effect=said.effect, why="metadata that you trust: it only reads")


def _plain_name(name: str) -> bool:
    return bool(name.strip()) and name.isprintable()


def _hinted(metadata: object, depth: int) -> Iterator[Mapping[str, Any]]:
    """Every object in the metadata that holds a hint."""
    if not isinstance(metadata, Mapping) or depth > DEEPEST:
        return
    if any(str(name).replace("_", "").lower() in table("mcp")["hints"] for name in metadata):
        yield metadata
    for name in ("annotations", "metadata", "function"):
        yield from _hinted(metadata.get(name), depth + 1)


def _same(one: object, other: object) -> bool:
    """Equal as JSON: Python's 1 == True is not."""
    if type(one) is not type(other):
        return False
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return one == other


def _hints(tool: Mapping[str, Any]) -> dict[str, bool]:
    if sum(re.sub(r"[^a-z]", "", str(name).lower()) == "annotations" for name in tool) > 1:
        raise Refused("its annotations are given twice")
    annotations = tool.get("annotations")
    if not isinstance(annotations, Mapping):
        raise Refused("the server says nothing of what the tool does")
    known = table("mcp")
    hints = dict[str, bool]()
    for name, value in annotations.items():
        plain = re.sub(r"[^a-z]", "", str(name).lower())
        if plain not in known["hints"]:
            if any(part in plain for part in known["says_of_effects"]):
                raise Refused(f"{name!r} says something of its effects, in no known spelling")
            if value not in _NO and any(part in plain for part in known["asks_people"]):
                raise Refused(f"{name!r} says that a person is asked")
            continue
        if name not in known["spellings"]:
            raise Refused(f"the hint {name!r} is spelled in no known way")
        if not isinstance(value, bool):
            raise Refused(f"the hint {name!r} is neither true nor false")
        if hints.setdefault(plain, value) is not value:
            raise Refused(f"the hint {name!r} is given in two spellings that disagree")
    return hints


def _contradicts(tool: Mapping[str, Any]) -> None:
    known = table("mcp")
    words = [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", tool["name"])]
    if not re.fullmatch(r"[A-Za-z0-9_./:-]{1,128}", tool["name"]):
        raise Refused("the name of the tool is no plain name")
    last = re.findall(r"[A-Za-z]+", re.split(r"[/:.]|__", tool["name"])[-1])[:1]
    found = {one.lower() for one in last} & set(known["writing"]) | set(words[:1]) & set(known["writing_first"])
    if not set(words[:1]) & set(known["reading"]) or {"and", "then"} & set(words):
        found |= set(words) & {*known["writing"], *(known["writing_first"] if {"and", "then"} & set(words) else ())}
    if found:
        raise Refused(f"the tool is named {tool['name']!r}: {sorted(found)[0]!r} contradicts a read")
    _tells(tool, 0)
    for text in (tool.get("description"), tool.get("title")):
        match = re.match(known["deed_in_words"], text, re.IGNORECASE) if isinstance(text, str) else None
        verbs = {match[1].lower(), match[1].lower().removesuffix("s")} if match else set[str]()
        if verbs & {*known["writing"], *known["writing_first"]}:
            raise Refused(f"it is described as one that {sorted(verbs)[-1]}")
        if isinstance(text, str) and (said := re.search(known["warning_words"], text, re.IGNORECASE)):
            raise Refused(f"its description says {said[0]!r}")
    execution = tool.get("execution")
    if isinstance(execution, Mapping) and execution.get("taskSupport", "forbidden") not in ("forbidden", "optional"):
        raise Refused("the tool runs only as a task")
    for name in set(tool) & set(known["spellings"]):
        if tool[name] is not (name.replace("_", "").lower() == "readonlyhint"):
            raise Refused(f"{name!r} stands beside the annotations, and contradicts a read")


def _tells(place: object, depth: int) -> None:
    """Raises `Refused` where what stands beside the annotations says that people are asked, or that it writes."""
    known = table("mcp")
    for name, value in place.items() if isinstance(place, Mapping) and depth < DEEPEST else ():
        plain = re.sub(r"[^a-z]", "", str(name).lower())
        if plain in known["not_about_effects"]:
            continue
        if value not in _NO and any(part in plain for part in known["asks_people"]):
            raise Refused(f"{name!r} says that a person is asked, or that state is kept")
        reads = "readonly" in plain
        if (reads and value is not True) or (
            not reads and value not in _NO and any(part in plain for part in known["says_of_effects"])
        ):
            raise Refused(f"{name!r} stands beside the annotations, and contradicts a read")
        _tells(value, depth + 1)


def _fits(arguments: object, tool: Mapping[str, Any]) -> None:
    if not isinstance(arguments, Mapping):
        raise Refused("the arguments are no object")
    schema = tool.get("inputSchema", tool.get("input_schema", {}))
    if not _same(schema, tool.get("input_schema", schema)):
        raise Refused("the schema of its arguments is given in two spellings that disagree")
    if not isinstance(schema, Mapping) or schema.get("type", "object") != "object":
        raise Refused("the schema of the arguments is no object")
    properties = schema.get("properties")
    required = schema.get("required", [])
    if not isinstance(required, list) or not all(name in arguments for name in required):
        raise Refused("an argument is missing that the tool requires")
    closed = bool(properties) or schema.get("additionalProperties") is False  # an empty schema says nothing of them
    if isinstance(properties, Mapping) and closed and not set(arguments) <= set(properties):
        raise Refused("it has an argument that the tool does not declare")


def _leaves(value: object, depth: int, name: str = "") -> Iterator[tuple[str, str | float]]:
    if depth > DEEPEST:
        raise Refused("its arguments are nested too deep")
    if isinstance(value, Mapping):
        asked = _no_command(value, depth) and runs(name)  # what a database is asked is no line
        yield from (lines := list(started(value)))
        for key, one in value.items():
            within = bool(lines) and "_".join(worded(key)) in (*table("mcp")["with_words"], *table("mcp")["runs"])
            yield from _leaves(one, depth + 1, WORD if within else inside("" if asked else name, key))
    elif isinstance(value, list):
        pattern = own(name)[-1] in (*table("mcp")["patterns"], *table("mcp")["globs"])
        if not pattern and (line := joined(value)) is not None and (why := writes(line)) is not None:
            raise Refused(f"the argument {name!r} may be a command: {why}")
        line = told(value, name)
        if line is not None:
            yield name, line
        plural = own(name)[-1].endswith("s") and runs(own(name)[-1])  # each may be a line
        for one in value:
            yield from _leaves(one, depth + 1, WORD if line is not None and not plural else name)
    elif isinstance(value, str | int | float):
        yield name, value
        if isinstance(value, str) and (inner := parsed(value)) is not None and inner != value:
            yield from _leaves(inner, depth + 1, name)


def _no_command(value: Mapping[str, Any], depth: int) -> bool:
    """True if the object is a command of MongoDB that reads. Raises `Refused` where it writes, runs a program, or one
    of its names is a deed."""
    known = table("mcp")
    for key, one in value.items():
        if (deed := done(key, one)) is not None:
            raise Refused(f"the argument {str(key)!r} asks for more than a read: {deed!r} is a deed")
    if set(value) & set(known["writing_keys"]):
        raise Refused("its arguments hold an operator that writes, or runs a program")
    if not depth and any(
        one and isinstance(one, Mapping | list) and set(worded(key)) <= surely() for key, one in value.items()
    ):
        raise Refused("one of its arguments is a deed, and holds what it is done with")
    first, told = next(iter(value.items()), ("", None))
    if depth and first in known["database_commands"] and isinstance(told, str):
        raise Refused("its arguments hold a command of a database that writes")
    return first in known["database_reads"]


def _heard(name: str, value: str | float, names: set[str], tool: Named, there: Surroundings) -> Iterator[Evidence]:
    """What the analysers say of one argument: they can only make a read worse."""
    known = table("mcp")
    if name != WORD and (why := asks(name, value, names) or on_event(name, value)) is not None:
        raise Refused(f"the argument {name!r} asks for more than a read: {why}")
    if not isinstance(value, str):
        return
    yield from addressed(name, value.strip())
    pattern = own(name)[-1] in (*known["patterns"], *known["globs"]) and not re.search(r"\s", value)
    what = does(value) if _is_code(name, value) and not tool.runs else ""
    if "_".join(own(name)) in known["statements"] or (surely_sql(value) and not tool.runs):
        yield from judge_sql(value, None).evidence
    elif what and not tool.program:
        raise Refused(f"the argument {name!r} may be a program that does more than work something out: {what}")
    elif what is not None and (lines := lines_of(name, value, tool)):
        for line in lines:
            yield from judge_shell(line, there).evidence
    elif not pattern and parsed(value) is None and (why := writes(value)) is not None:  # each text of JSON is read
        raise Refused(f"the argument {name!r} may be a statement that writes: {why}")
    elif what is not None and not tool.language and own(name)[-1] not in known["patterns"] and (why := calls(value)):
        raise Refused(f"the argument {name!r} may be a program: {why}")
    elif not pattern and (why := ordered(name, value)) is not None:
        raise Refused(f"the argument {name!r} asks for a deed in plain words: {why!r}")


def _is_code(name: str, value: str) -> bool:
    """A source may be a program, and the name of where something comes from."""
    last = own(name)[-1]
    return last in table("mcp")["code_words"] and not (last == "source" and re.fullmatch(r"[A-Za-z][\w-]*", value))

"""What answers at an address, concluded from pages that were asked for: pure, and every conclusion has its evidence.

    probe({"/version": Page(200, {}, b'{"version": "0.32.0"}'), "/v1/models": …}).dialect        # "vllm"

A page says something if it is a JSON object, or Prometheus text, that was answered with 200. Each sign leaves some
dialects; what all leave is who answers. Signs that contradict one another, and signs that leave several, leave nobody:
a server that is not known is sent standard fields only.
"""

from __future__ import annotations

import ipaddress
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from agentaccel.facts import table
from agentaccel.selfhost.tables import UNKNOWN, dialects, found, has_by, name_of, row

MODELS = "/v1/models"
"""The path of the list of models, which every server of this kind has: behind its base URL, as `/models`."""


class Page(NamedTuple):
    """An answer to a GET."""

    status: int
    headers: Mapping[str, str]
    body: bytes


Asked = Mapping[str, "Page | str"]
"""By path: what was answered, or in a word why nothing was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What is known of one server."""

    dialect: str = UNKNOWN
    """A row of `facts/engines.toml`: "vllm", "sglang", "llamacpp", "dynamo", "smg", "llm-d", "production-stack", "ray",
    "trtllm", "transformers"; "unknown" where nothing tells."""
    version: str | None = None
    """As the server says it."""
    models: tuple[str, ...] = ()
    """Names of the models that it serves."""
    context: int | None = None
    """Tokens that one request may have; of a slot, where there are slots."""
    slots: int | None = None
    """Requests that are computed at once; where each has a slot, it remembers as many conversations."""
    tokens: int | None = None
    """Tokens whose keys and values it can hold."""
    template: Mapping[str, bool] = field(default_factory=dict)
    """What the model's chat template can do, as llama.cpp tells it: `supports_tools` False drops tools in silence."""
    metrics: bool | None = None
    """True if it has counters to observe; None where they were not asked for."""
    evidence: tuple[str, ...] = ()
    """Why, in sentences."""

    @property
    def platform(self) -> str | None:
        """The platform of `facts/compatible.toml` whose cache rules hold; None where none is known to."""
        platform: str | None = row(self.dialect).get("platform")
        return platform

    def can(self, capability: str) -> bool | None:
        """True if the dialect, in this version, has the capability; None where that is not known.

        >>> Server(dialect="vllm", version="0.33.0").can("medusa"), Server(dialect="llamacpp").can("shares_prefixes")
        (False, False)
        >>> Server().can("priority") is None
        True
        """
        known = row(self.dialect).get("capabilities")
        if known is None:
            return None
        if capability not in known:
            return False
        return has_by(self.version, known[capability].get("since"), known[capability].get("until"))

    def __str__(self) -> str:
        facts = [name_of(self.dialect) + (f" {self.version}" if self.version else "")]
        facts += [f"{', '.join(self.models)}"] if self.models else []
        facts += [f"{self.slots} slots"] if self.slots else []
        facts += [f"{self.context} tokens a request"] if self.context else []
        facts += [f"room for {self.tokens}"] if self.tokens else []
        return "; ".join(facts)


def paths(dialect: str | None = None) -> tuple[str, ...]:
    """The paths that are asked of a server; of one whose dialect is named, only those that it has."""
    of = dialects() if dialect is None else (dialect,)
    signs = [] if dialect is not None else [sign["path"] for sign in table("engines")["signs"]]
    reads = [read[0] for one in of for read in row(one).get("reads", {}).values()]
    metrics = [row(one)["metrics"] for one in of if "metrics" in row(one)]
    return tuple(dict.fromkeys((MODELS, *signs, *reads, *metrics)))


def probe(asked: Asked, *, named: str | None = None) -> Server:
    """Who answers, concluded from pages; `named` is the dialect where the user says it."""
    pages = {path: page for path, page in asked.items() if isinstance(page, Page)}
    objects = {path: body for path, page in pages.items() if (body := _object(page)) is not None}
    signs = list(_signs(pages, objects))
    evidence = [f"{what}: {_one_of(of)}" for what, of in signs]
    dialect = named or _common(signs, evidence)
    if named is not None:
        evidence.append(f"the user names {name_of(named)}")
    silent = sorted({f"GET {path}: {why}" for path, why in asked.items() if isinstance(why, str)})
    evidence += silent if not objects else []
    reads = {name: found(objects.get(read[0]), read[1]) for name, read in row(dialect).get("reads", {}).items()}
    listed = found(objects.get(MODELS), "data")
    return Server(
        dialect=dialect,
        version=_text(reads.get("version")),
        models=tuple(name for one in (listed if isinstance(listed, list) else ()) if (name := _text(found(one, "id")))),
        context=_count(reads.get("context")),
        slots=_count(reads.get("slots")),
        tokens=_count(reads.get("tokens")) or _held(dialect, pages),
        template=_flags(reads.get("template")),
        metrics=_has_metrics(dialect, pages, asked),
        evidence=tuple(evidence),
    )


def _common(signs: list[tuple[str, frozenset[str]]], evidence: list[str]) -> str:
    """The one dialect that all signs leave; the evidence gets a sentence where they leave none, or several."""
    if not signs:
        evidence.append("nothing that was answered tells who answers")
        return UNKNOWN
    left = frozenset.intersection(*(of for _, of in signs))
    if len(left) == 1:
        return next(iter(left))
    evidence.append(f"that leaves {_one_of(left)}" if left else "these signs contradict one another")
    return UNKNOWN


def _signs(pages: Mapping[str, Page], objects: Mapping[str, Any]) -> Iterator[tuple[str, frozenset[str]]]:
    """What the pages say, each with the dialects that it leaves."""
    for sign in table("engines")["signs"]:
        if sign["has"] in objects.get(sign["path"], ()):
            yield f"GET {sign['path']} has {sign['has']!r}", frozenset(sign["of"])
    listed = found(objects.get(MODELS), "data")
    owners = {_text(found(one, "owned_by")) or "nobody" for one in (listed if isinstance(listed, list) else ())}
    of = {one: owners.intersection(row(one).get("owned_by", ())) for one in dialects()}
    if any(of.values()):
        # Several owners: a gateway that passes on what the servers behind it say, and none of these answers.
        left = frozenset(one for one in of if (of[one] if len(owners) == 1 else "owned_by" not in row(one)))
        yield f"its models are owned by {' and '.join(sorted(map(repr, owners)))}", left
    for one in dialects():
        header, families = row(one).get("server"), row(one).get("families", "")
        if header and any(_header(page, "server") == header for page in pages.values()):
            yield f"its responses are of {header!r}", frozenset([one])
        page = pages.get(row(one).get("metrics", ""))
        if page is not None and page.status == 200 and f"# TYPE {families}".encode() in page.body:
            yield f"its metrics begin with {families!r}", frozenset([one])


def _has_metrics(dialect: str, pages: Mapping[str, Page], asked: Asked) -> bool | None:
    path = row(dialect).get("metrics")
    if path is None or path not in asked:
        return None
    page = pages.get(path)
    return page is not None and page.status == 200 and b"# TYPE " in page.body


def _held(dialect: str, pages: Mapping[str, Page]) -> int | None:
    """Tokens that it can hold, all engines together, where its metrics tell by labels."""
    holds, page = row(dialect).get("holds"), pages.get(row(dialect).get("metrics", ""))
    if holds is None or page is None or page.status != 200:
        return None
    total = 0
    for line in page.body.decode(errors="replace").splitlines():
        if line.startswith(f"{holds['family']}{{"):
            told = [re.search(rf'[{{,]{label}="(\d{{1,12}})"', line) for label in holds["labels"]]
            total += math.prod(int(one[1]) if one else 0 for one in told)
    return total or None


def _object(page: Page) -> dict[str, Any] | None:
    """The JSON object of a page that was answered with 200; None for any other page."""
    if page.status != 200:
        return None
    try:
        body = json.loads(page.body)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def _header(page: Page, name: str) -> str | None:
    return next((value for key, value in page.headers.items() if key.lower() == name), None)


def _text(value: object) -> str | None:
    return value[:_LONGEST] if isinstance(value, str) and value and value.isprintable() else None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _flags(value: object) -> Mapping[str, bool]:
    pairs = value.items() if isinstance(value, Mapping) else ()
    return {name: flag for name, flag in pairs if isinstance(flag, bool)}


def _one_of(of: frozenset[str]) -> str:
    return " or ".join(name_of(one) for one in sorted(of))


_LONGEST = 200
"""Characters of a name or version that are kept: they go into log lines."""


# --- Hosts of the user's own network ----------------------------------------------------------------------------------


def is_private(host: str) -> bool:
    """True if `host` is this machine or one of a private network, told by its name alone: nothing is looked up.

    >>> [is_private(one) for one in ("127.0.0.1", "::1", "192.168.1.5", "gpu-box", "gpu.local", "localhost")]
    [True, True, True, True, True, True]
    >>> [is_private(one) for one in ("api.openai.com", "8.8.8.8", "10.a.example", "172.32.0.1", "169.254.169.254", "")]
    [False, False, False, False, False, False]
    """
    private = table("engines")["private"]
    host = host.lower().rstrip(".").strip("[]")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return bool(host) and not _is_number(host) and ("." not in host or host.endswith(tuple(private["suffixes"])))
    return any(address in ipaddress.ip_network(one) for one in private["networks"])


def _is_number(host: str) -> bool:
    """True if resolvers take a name without a dot for an address: 2130706433, 0x7f000001."""
    return host.isdecimal() or host.startswith("0x")

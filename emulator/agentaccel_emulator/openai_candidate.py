"""An OpenAI-style request on trial, and what the facts say of the model that it asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from agentaccel.facts import CacheFacts, Wire, plain_name, table
from agentaccel_emulator.openai_prompt import MARK
from agentaccel_emulator.trial import Json, Problem, Trial


def refusal(message: str, param: str | None = None, code: str | None = None, status: int = 400) -> Problem:
    """A refusal in OpenAI's terms."""
    return Problem(message, "invalid_request_error", status, param, code)


@dataclass(frozen=True, slots=True)
class Part:
    """A content part and where it stands."""

    path: str
    """Path as in error texts, such as `messages[0].content[1]`."""
    part: Json
    """The part itself."""
    role: str
    """Role of the message that holds it; `tool` for the output of a call."""


@dataclass(frozen=True, kw_only=True)  # not slotted: the cached properties live in the instance
class Candidate(Trial):
    """An OpenAI-style request on trial."""

    wire: Wire
    """chat or responses."""
    serves: Callable[[str], bool]
    """Whether a model is served."""
    strict: bool = True
    """Whether what is unknown is refused, as OpenAI does; most servers that speak its API ignore it."""
    deployment: str | None = None
    """The deployment that the path names, which stands for the model."""
    refused: frozenset[str] = frozenset()
    """Fields that the server does not take."""

    @cached_property
    def api_key(self) -> str | None:
        """The key of the caller, from either header."""
        scheme, _, token = self.headers.get("authorization", "").partition(" ")
        return (token.strip() if scheme.lower() == "bearer" else "") or self.headers.get("api-key") or None

    @property
    def model(self) -> str:
        """The model, or the deployment that stands for one."""
        return self.deployment or self.body["model"]

    @cached_property
    def items(self) -> tuple[tuple[str, Json], ...]:
        """Path and object of each message or input item."""
        name = "messages" if self.wire == "chat" else "input"
        given = self.body.get(name)
        return tuple((f"{name}[{index}]", item) for index, item in enumerate(given if isinstance(given, list) else ()))

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """Every content part of every message and of every output of a call."""
        return tuple(self._walk())

    @cached_property
    def breakpoints(self) -> tuple[Part, ...]:
        """The content parts that carry an explicit breakpoint."""
        return tuple(found for found in self.parts if found.part.get(MARK) is not None)

    def _walk(self) -> Iterator[Part]:
        for path, item in self.items:
            for name in ("content", "output"):
                content = item.get(name)
                role = "tool" if name == "output" else item.get("role") or ""
                for number, part in enumerate(content if isinstance(content, list) else ()):
                    yield Part(f"{path}.{name}[{number}]", part, role)


def extra_facts(facts: CacheFacts) -> Mapping[str, Any]:
    """What the data file says of a model beyond `CacheFacts`, for the emulator alone: rates, windows, retentions."""
    data = table(facts.provider)
    row: Mapping[str, Any] = {}
    for one in (*data.get("models", ()), *data["families"]):
        if facts.model in (*map(plain_name, one.get("match", ())), one.get("prefix")):
            row = one
            break
    generation = data.get("generations", {}).get(row.get("generation"), {})
    return {**data["rules"], **generation, **data["platforms"][facts.platform], **row}

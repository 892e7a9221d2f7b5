"""A Messages request on trial: where its blocks and markers stand, and what a check and its objection are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from agentaccel.emulator.exchange import read_json
from agentaccel.facts import CacheFacts

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a request is refused."""

    message: str
    """The text of the error."""
    kind: str = "invalid_request_error"
    """The error's type."""
    status: int = 400
    """The HTTP status."""
    param: str | None = None
    """The field that is to blame, where the API names it."""
    code: str | None = None
    """The error's code, where the API has one."""


@dataclass(frozen=True, slots=True)
class Found:
    """A block and where it stands."""

    path: str
    """Path as in error texts, such as `messages.0.content.1`."""
    kind: str
    """Type of the block, `custom` for a tool without one."""
    block: Json
    """The block itself."""
    level: str
    """tools, system or messages."""
    role: str = ""
    """Role of the message that holds it."""
    nested: bool = False
    """Whether it lies inside a tool result."""

    @property
    def typed_path(self) -> str:
        """Path with the block's type, as field errors name it (system blocks are of one type and lack it)."""
        return self.path if self.level == "system" else f"{self.path}.{self.kind}"


@dataclass(frozen=True, kw_only=True)  # not slotted: the cached properties live in the instance
class Candidate:
    """A request on trial. Its properties may be read only after the checks that make them meaningful."""

    headers: Mapping[str, str]
    """Headers, names in lower case."""
    raw: bytes
    """The body, undecoded."""
    counting: bool
    """Whether this is a call of count_tokens."""
    resolve: Callable[[str], CacheFacts | None]
    """The facts of a model that is served, or None."""
    platform: str = "api"
    """The platform that is emulated."""
    api_keys: frozenset[str] | None = None
    """Keys that are accepted; None accepts any."""

    @cached_property
    def api_key(self) -> str | None:
        """The key of the caller, from either header; of a signature of AWS, which is not verified, the key's id."""
        scheme, _, token = self.headers.get("authorization", "").partition(" ")
        if scheme == "AWS4-HMAC-SHA256":
            return token.partition("Credential=")[2].partition("/")[0] or None
        return (token.strip() if scheme.lower() == "bearer" else "") or self.headers.get("x-api-key") or None

    @cached_property
    def version(self) -> str:
        """The anthropic-version header."""
        return self.headers.get("anthropic-version", "")

    @cached_property
    def decoded(self) -> Any:
        """The body as JSON. Raises orjson.JSONDecodeError."""
        return read_json(self.raw)

    @cached_property
    def body(self) -> Json:
        """The body, an object."""
        body: Json = self.decoded
        return body

    @cached_property
    def facts(self) -> CacheFacts | None:
        """The facts of the model asked for."""
        return self.resolve(self.body["model"])

    @cached_property
    def known(self) -> CacheFacts:
        """The facts of the model asked for, which is served."""
        if self.facts is None:
            raise LookupError("the check model_is_known has not run")
        return self.facts

    @cached_property
    def blocks(self) -> tuple[Found, ...]:
        """Every tool, system block and content block in reading order, nested ones after the block that holds them."""
        return tuple(self._walk())

    @cached_property
    def markers(self) -> tuple[Found, ...]:
        """Every block that carries a marker, in reading order."""
        return tuple(found for found in self.blocks if found.block.get("cache_control") is not None)

    def _walk(self) -> Iterator[Found]:
        for number, tool in enumerate(self.body.get("tools") or ()):
            yield Found(f"tools.{number}", tool.get("type") or "custom", tool, "tools")
        system = self.body.get("system")
        for number, block in enumerate(system if isinstance(system, list) else ()):
            yield Found(f"system.{number}", block["type"], block, "system")
        for index, message in enumerate(self.body["messages"]):
            content = message.get("content")
            for number, block in enumerate(content if isinstance(content, list) else ()):
                path, kind, role = f"messages.{index}.content.{number}", block["type"], message["role"]
                inner = block.get("content") if kind == "tool_result" else None
                yield Found(path, kind, block, "messages", role)
                for place, part in enumerate(inner if isinstance(inner, list) else ()):
                    yield Found(f"{path}.{kind}.content.{place}", part["type"], part, "messages", role, True)


@dataclass(frozen=True, slots=True)
class Check:
    """A named rule."""

    name: str
    """Its name, which the log and `Behaviour.skipped_checks` use."""
    objection: Callable[[Candidate], Problem | None] = field(repr=False)
    """The problem that it finds, or None."""

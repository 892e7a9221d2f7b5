"""A Messages request on trial: where its blocks and markers stand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from agentaccel_emulator.trial import Json, Trial


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
class Candidate(Trial):
    """A Messages request on trial."""

    counting: bool
    """Whether this is a call of count_tokens."""
    platform: str = "api"
    """The platform that is emulated."""

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

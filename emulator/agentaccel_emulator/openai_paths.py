"""Which path is which operation of OpenAI's APIs, on OpenAI's own host, on Azure and on servers that imitate them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import unquote

from agentaccel.facts import Wire

Operation = Literal["chat", "responses", "count", "response", "conversations", "conversation"]

_METHODS: dict[Operation, tuple[str, ...]] = {
    "chat": ("POST",),
    "responses": ("POST",),
    "count": ("POST",),
    "response": ("GET", "DELETE"),
    "conversations": ("POST",),
    "conversation": ("GET", "DELETE"),
}
_OPERATIONS: tuple[tuple[re.Pattern[str], Operation], ...] = (
    (re.compile(r"/chat/completions"), "chat"),
    (re.compile(r"/deployments/(?P<name>[^/]+)/chat/completions"), "chat"),
    (re.compile(r"/responses"), "responses"),
    (re.compile(r"/responses/input_tokens"), "count"),
    (re.compile(r"/responses/(?P<name>[^/]+)"), "response"),
    (re.compile(r"/conversations"), "conversations"),
    (re.compile(r"/conversations/(?P<name>[^/]+)"), "conversation"),
)
_AZURE_ONLY = "/deployments/"


@dataclass(frozen=True, slots=True)
class Place:
    """What a path stands for."""

    operation: Operation
    """The operation."""
    name: str = ""
    """The deployment, response or conversation that the path names."""
    versioned: bool = False
    """Whether the query has to name a version of the API."""

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods that it takes."""
        return _METHODS[self.operation]

    @property
    def wire(self) -> Wire:
        """The form of the request."""
        return "chat" if self.operation == "chat" else "responses"


def place_of(path: str, prefixes: Sequence[str], *, azure: bool) -> Place | None:
    """What `path` stands for below one of the prefixes, the longest of which come first.

    >>> place_of("/openai/deployments/mine/chat/completions", ["/openai/v1", "/openai"], azure=True)
    Place(operation='chat', name='mine', versioned=True)
    >>> place_of("/v1/responses/resp_1", ["/v1"], azure=False).operation
    'response'
    """
    prefix = next((prefix for prefix in prefixes if path.startswith(prefix + "/")), None)
    if prefix is None:
        return None
    rest = path[len(prefix) :]
    if rest.startswith(_AZURE_ONLY) and not azure:
        return None
    for pattern, operation in _OPERATIONS:
        if found := pattern.fullmatch(rest):
            name = unquote(found.groupdict().get("name") or "")
            return Place(operation, name, azure and not prefix.endswith("/v1"))
    return None

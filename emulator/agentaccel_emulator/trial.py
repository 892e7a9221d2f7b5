"""A request on trial, of whichever API: its body, what is known of its model, and what a check and an objection are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, TypeVar

from agentaccel.facts import CacheFacts
from agentaccel_emulator.exchange import read_json

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


@dataclass(frozen=True, kw_only=True)  # not slotted: the cached properties live in the instance
class Trial:
    """A request on trial. Its properties may be read only after the checks that make them meaningful."""

    headers: Mapping[str, str]
    """Headers, names in lower case."""
    raw: bytes
    """The body, undecoded."""
    resolve: Callable[[str], CacheFacts | None]
    """What is known of a model, or None."""
    api_keys: frozenset[str] | None = None
    """Keys that are accepted; None accepts any."""

    @cached_property
    def decoded(self) -> Any:
        """The body as JSON. Raises orjson.JSONDecodeError."""
        return read_json(self.raw)

    @cached_property
    def body(self) -> Json:
        """The body, an object."""
        body: Json = self.decoded
        return body

    @property
    def model(self) -> str:
        """The model asked for."""
        model: str = self.body["model"]
        return model

    @cached_property
    def facts(self) -> CacheFacts | None:
        """The facts of the model asked for."""
        return self.resolve(self.model)

    @cached_property
    def known(self) -> CacheFacts:
        """The facts of the model asked for, which is served."""
        if self.facts is None:
            raise LookupError("the check model_is_known has not run")
        return self.facts


T = TypeVar("T", bound=Trial)


@dataclass(frozen=True, slots=True)
class Check(Generic[T]):
    """A named rule."""

    name: str
    """Its name, which the log and `Behaviour.skipped_checks` use."""
    objection: Callable[[T], Problem | None] = field(repr=False)
    """The problem that it finds, or None."""

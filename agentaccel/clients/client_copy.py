"""Deriving a client from the user's by the SDK's own means, and saying where the user's class does not play along."""

from __future__ import annotations

import functools
import inspect
import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from agentaccel.checks import is_of_sdk
from agentaccel.engine.engine import Engine
from agentaccel.errors import ConfigError
from agentaccel.facts import client_platform
from agentaccel.hashing import digest
from agentaccel.once import Once

log = logging.getLogger("agentaccel")

C = TypeVar("C")


def derived(client: C, make: Callable[[], C], *, is_ours: Callable[[C], bool]) -> C:
    """What `make` derives from `client`, with all that the SDK's own copies leave out."""
    lost = sorted(_patches(client))
    if lost:
        log.warning(
            "agentaccel: the wrapped client is a new one and does not have what was put on the one given in place of "
            "its own methods (%s): wrap first, then patch the wrapped client",
            ", ".join(lost),
        )
    name = f"{type(client).__module__}.{type(client).__qualname__}"
    try:
        made = make()
    except Exception as error:
        raise ConfigError(
            f"{name} cannot be copied ({error}), which is how it is wrapped: let its with_options() make a copy, by an "
            "override of copy() or by an __init__ that can do without arguments of its own"
        ) from error
    if not is_ours(made):
        raise ConfigError(f"{name} does not hand on what its with_options() is given: let its __init__ do so")
    strict: Any = getattr(client, "_strict_response_validation", None)
    if strict is not None:
        made._strict_response_validation = strict  # type: ignore[attr-defined]  # the SDK's copies forget it
    for name, value in vars(client).items():
        if type(value) in _PLAIN and name not in vars(made):
            vars(made)[name] = value  # of a user's class: what it was given after it was made
    _tell_of_lost(made, is_ours, Once())
    return made


def _tell_of_lost(client: Any, is_ours: Callable[[Any], bool], once: Once) -> None:
    """Have the client, and each copy of it, say once when one of its copies has nothing of us any more.

    The SDKs' copies take another `http_client`, or a list of `middleware`, in the place of what the client has. Only
    the client itself can be asked to look at them: its class is everybody's.
    """
    for name in _COPIES:
        if name not in vars(client):
            copy = getattr(client, name)
            vars(client)[name] = functools.wraps(copy)(functools.partial(_copied, copy, is_ours, once))
    if "__getstate__" not in vars(client):
        vars(client)["__getstate__"] = functools.partial(_state, client.__getstate__)


def _state(own: Callable[[], object]) -> object:
    """What `copy.copy` takes over of a wrapped client: not the methods bound to that one, or copies of the copy
    would have the key and the host of that one."""
    state = own()
    return {name: value for name, value in state.items() if name not in _OURS} if isinstance(state, dict) else state


def _copied(copy: Callable[..., Any], is_ours: Callable[[Any], bool], once: Once, *given: Any, **named: Any) -> Any:
    made = copy(*given, **named)
    try:
        if is_ours(made):
            _tell_of_lost(made, is_ours, once)
        else:
            replaced = [f"{name}=" for name in ("http_client", "middleware") if name in named]
            once.say(
                f"a copy of a wrapped client was made with {' and '.join(replaced) or 'options'} in the place of what "
                "agentaccel goes by: its calls go out as written, unrecorded; wrap the copy"
            )
    except Exception:  # it is a copy of the user's own making
        log.debug("agentaccel: cannot look at a copy of a wrapped client", exc_info=True)
    return made


def _patches(thing: Any, path: str = "") -> Iterator[str]:
    """Where a client, or a resource that it has made, carries a function of its own in place of its class's."""
    for name, value in vars(thing).items():
        if callable(value) and inspect.isroutine(getattr(type(thing), name, None)):
            yield path + name
        elif type(value).__module__.startswith(_RESOURCES) and not name.startswith("_"):
            yield from _patches(value, f"{path}{name}.")


_PLAIN = frozenset({str, int, float, bool, bytes, type(None)})
"""Types of what can be handed on: nothing in it belongs to the client that it was given to."""

_COPIES = ("copy", "with_options")
"""The methods of the SDKs' clients that make another one; `with_middleware` goes through the first."""

_OURS = frozenset({*_COPIES, "__getstate__"})
"""What `_tell_of_lost` puts on a client."""

_RESOURCES = ("openai.resources.", "anthropic.resources.")


# --- Clients that other code makes, and `install` has a hand in ------------------------------------------------------


class Switch:
    """Whether what `install` has put into clients takes part: it stays there for as long as they live."""

    __slots__ = ("on",)

    def __init__(self) -> None:
        self.on = True


class EqualInCopies:
    """What is put into a client is equal to what its copies have: so their `middleware` is equal to the client's, as it
    is without us."""

    agentaccel_engine: Engine
    agentaccel_switch: Switch | None

    def __eq__(self, other: object) -> bool:
        of_one = getattr(other, "agentaccel_engine", None) is self.agentaccel_engine
        return of_one and switch_of(other) is self.agentaccel_switch

    def __hash__(self) -> int:
        return hash((id(self.agentaccel_engine), id(self.agentaccel_switch)))


def switch_of(seam: object) -> Switch | None:
    """The switch of a middleware or a transport that `install` has put into a client; None for any other one."""
    switch = getattr(seam, "agentaccel_switch", None)
    return switch if isinstance(switch, Switch) else None


def is_off(switch: Switch | None) -> bool:
    """True if what has this switch has been told to leave calls alone."""
    return switch is not None and not switch.on


def library_of(thing: Any) -> Any:
    """The HTTP library, httpx or httpx2, that a client, request or response belongs to."""
    roots = {base.__module__.partition(".")[0] for base in type(thing).__mro__}
    return sys.modules["httpx2" if "httpx2" in roots else "httpx"]


def place_of_class(kind: type) -> tuple[str, str] | None:
    """The provider and platform that a client class of a vendor SDK, or one derived from it, speaks to; None for any
    other class."""
    own = (base.__name__ for base in kind.__mro__ if is_of_sdk(base))
    return next((found for name in own if (found := client_platform(name)) is not None), None)


# --- Whose requests share a cache at a provider: told by the credentials that they are sent with, which are not kept --

CREDENTIALS = ("authorization", "x-api-key", "api-key", "openai-organization", "openai-project")
"""Headers that say on whose behalf a request is made."""

_SETTINGS = (
    *("api_key", "auth_token", "workspace_id"),
    *("aws_access_key", "aws_profile", "aws_region"),
    *("project_id", "_project"),
)
"""The same of clients that sign their requests later, or ask for a token: what stays as tokens are renewed."""

_numbers: WeakKeyDictionary[object, int] = WeakKeyDictionary()
"""Of objects that give tokens, which tell nothing of themselves and are shared by copies of a client."""
_next = count(1)


def account_of(credentials: Iterable[str | None], key: bytes) -> str:
    """A name for whoever has these `credentials`, by a keyed hash; equal for equal ones.

    >>> account_of(["k"], b"") == account_of(["k"], b""), account_of(["k"], b"") == account_of(["l"], b"")
    (True, False)
    """
    return digest("\x00".join(one or "" for one in credentials).encode("utf-8", "replace"), key).hex()


def account_in(headers: Mapping[str, str], key: bytes) -> str:
    """The same for a request with these `headers`, whose names are in any case."""
    return account_of([headers.get(name) for name in CREDENTIALS], key)


def account_behind(client: Any, headers: Mapping[str, Any], key: bytes) -> str:
    """The same for a request with these `headers` that `client` adds its credentials to: its own, those that it was
    given as headers, or whatever it asks for tokens."""
    found = [getattr(client, name, None) for name in _SETTINGS]
    given = {
        name.lower(): value
        for of in (getattr(client, "_custom_headers", None) or {}, headers)
        for name, value in of.items()
    }
    found += [given.get(name) for name in CREDENTIALS]
    tokens = getattr(client, "_token_cache", None)
    if tokens is not None:
        found.append(f"tokens {_numbers.setdefault(tokens, next(_next))}")
    return account_of([one if isinstance(one, str) else None for one in found], key)

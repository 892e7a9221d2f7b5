"""`install`: every client of the vendor SDKs that this process makes from then on, whichever framework makes it.

    install ─▶ an SDK is imported, or has been ─▶ its constructors ─▶ each client that they make ─▶ the last hop

Nothing of an SDK is imported here, and no trace store is opened before an SDK is.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from agentaccel.errors import ConfigError
from agentaccel.locks import Lock
from agentaccel.policy import Policy, from_environment, policy_of

if TYPE_CHECKING:  # loaded once an SDK is: a process that has none pays nothing
    from agentaccel.accel import Accel
    from agentaccel.clients.constructors import Constructors

log = logging.getLogger("agentaccel")

SDKS = ("anthropic", "openai")
"""The SDKs whose clients can be wrapped."""


class Installation:
    """That clients which are made from now on are wrapped, until `uninstall`; it can be entered like a file.

    with agentaccel.install() as installed:
        tools = installed.accel.tools({"search": search})
    """

    def __init__(self, policy: Policy, *, by_command: bool = False) -> None:
        self.policy = policy
        """As it was given, or the default one."""
        self.by_command = by_command
        """True if it is `agentaccel run` that asked for it, so that what the program itself asks for comes first."""
        self._off = from_environment(policy, os.environ).mode == "off"
        self._lock = Lock()
        self._is_over = False
        self._accel: Accel | None = None
        self._constructors: Constructors | None = None

    @property
    def accel(self) -> Accel:
        """The `Accel` of these clients, for tools, sessions and hooks."""
        with self._lock:
            if self._accel is None:
                from agentaccel.accel import Accel

                self._accel = Accel(self.policy)
            return self._accel

    def uninstall(self) -> None:
        """Clients that are made from now on are as their maker wants them, and those that were made go on as if nobody
        had wrapped them. Closes the `Accel`."""
        global _current
        with _lock:
            if _current is self:
                _current = None
        with self._lock:
            self._is_over = True
            if self._constructors is not None:
                self._constructors.give_back()
            if self._accel is not None:
                self._accel.close()

    def __enter__(self) -> Installation:
        return self

    def __exit__(self, *error: object) -> None:
        self.uninstall()

    def _take(self, sdk: str) -> None:
        """The SDK has been imported."""
        if self._off or self._is_over:
            return
        try:
            from agentaccel.clients.constructors import Constructors

            accel = self.accel
            with self._lock:
                if self._constructors is None:
                    self._constructors = Constructors(accel._engine, accel._elsewhere)
                self._constructors.take(sdk)
        except Exception:
            if self.policy.strict:
                raise
            log.exception("agentaccel: could not install itself into %s; its calls go out as written", sdk)


_current: Installation | None = None
_lock = Lock()


def install(policy: Policy | None = None) -> Installation:
    """Wrap every client of the `anthropic` and `openai` SDKs that this process makes from now on, at its last hop.

        agentaccel.install()
        agent = create_agent("anthropic:claude-sonnet-5", tools=tools)       # or any other framework

    A client that was made before, or that is wrapped by hand, stays as it is. Asked for again, it gives what is there.
    Raises `ConfigError` for a policy that cannot be meant, and for another one than the one that is installed.
    """
    return _install(policy, by_command=False)


def for_command() -> Installation:
    """What `agentaccel run` asks for in each process: the default policy, and what the environment says. Where the
    program installs a policy of its own, that one is taken in its place."""
    return _install(None, by_command=True)


def uninstall() -> None:
    """End what `install` has begun; nothing happens where nothing has."""
    if _current is not None:
        _current.uninstall()


def _install(policy: Policy | None, *, by_command: bool) -> Installation:
    global _current
    wanted = policy_of(policy)
    with _lock:
        there = _current
        if there is not None and (by_command or not there.by_command):
            if policy is not None and wanted != there.policy:
                raise ConfigError("agentaccel is installed with another policy: call agentaccel.uninstall() first")
            return there
        made = _current = Installation(wanted, by_command=by_command)
    if there is not None:
        there.uninstall()
    _await_imports()
    for sdk in SDKS:
        if sdk in sys.modules:
            made._take(sdk)
    return made


def _imported(sdk: str) -> None:
    """An SDK was imported: whoever is installed now takes part in its clients."""
    if _current is not None:
        _current._take(sdk)


# --- To be told when an SDK is imported ------------------------------------------------------------------------------
# A finder that finds nothing by itself: it asks the others, and has what they found call us once the module is there.
# wrapt has the same; it takes longer to import than all of agentaccel, and every process of `agentaccel run` would.


class _Finder:
    def __init__(self) -> None:
        self._asking: set[str] = set()

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in SDKS or name in self._asking or _current is None:
            return None
        self._asking.add(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._asking.discard(name)
        if spec is not None and spec.loader is not None:
            _tell(spec.loader, name)
        return spec


def _tell(loader: Any, name: str) -> None:
    """Have the loader of one module call `_imported` when the module has been executed."""
    execute: Callable[[ModuleType], None] = loader.exec_module

    def executed(module: ModuleType) -> None:
        vars(loader).pop("exec_module", None)
        execute(module)
        _imported(name)

    try:
        loader.exec_module = executed
    except AttributeError:  # a loader of somebody's own that takes no attributes
        log.warning("agentaccel: could not install itself into %s: import it before agentaccel.install()", name)


_finder = _Finder()


def _await_imports() -> None:
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)

"""Log lines that are written once: inside a run, a failure of ours is a miss and one line."""

from __future__ import annotations

import logging

log = logging.getLogger("agentaccel")


class Once:
    """Whoever has one says each thing once."""

    __slots__ = ("_said",)

    def __init__(self) -> None:
        self._said: set[str] = set()

    def say(self, message: str, *, about: str = "", level: int = logging.WARNING) -> None:
        """Log `message`, unless something was said `about` the same before; by default, the very same."""
        if self._is_new(about or message):
            log.log(level, "agentaccel: %s", message, stacklevel=2)

    def failed(self, message: str) -> None:
        """Log `message` and the exception that is being handled, unless it was said before."""
        if self._is_new(message):
            log.exception("agentaccel: %s", message, stacklevel=2)

    def _is_new(self, what: str) -> bool:
        if what in self._said:
            return False
        self._said.add(what)
        return True

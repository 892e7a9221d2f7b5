"""Log lines that are written once: inside a run, a failure of ours is a miss and one line."""

from __future__ import annotations

import logging

log = logging.getLogger("agentaccel")

_LEVEL = logging.WARNING


class Once:
    """Whoever has one says each thing once."""

    __slots__ = ("_said",)

    def __init__(self) -> None:
        self._said: set[str] = set()

    def say(self, message: str, *, about: str = "", level: int = logging.WARNING) -> None:
        """Log `message`, unless something was said `about` the same before; by default, the very same."""
        if self._is_new(about or message):
            log.log(level, "agentaccel: %s", message, stacklevel=2)

    def say_aloud(self, message: str, *, about: str = "") -> None:
        """The same for what must not go on unseen: on standard error, too, where nobody has configured logging; there
        each thing once per process, whoever says it.
        """
        if not self._is_new(about or message):
            return
        log.warning("agentaccel: %s", message, stacklevel=2)
        if logging.lastResort is not None and _is_left_alone(log) and _aloud._is_new(about or message):
            logging.lastResort.handle(logging.makeLogRecord({"msg": f"agentaccel: {message}", "levelno": _LEVEL}))

    def failed(self, message: str) -> None:
        """Log `message` and the exception that is being handled, unless it was said before."""
        if self._is_new(message):
            log.exception("agentaccel: %s", message, stacklevel=2)

    def _is_new(self, what: str) -> bool:
        if what in self._said:
            return False
        self._said.add(what)
        return True


def _is_left_alone(logger: logging.Logger) -> bool:
    """True if the program has configured nothing that warnings of `logger` come to, or that keeps them back."""
    if logger.level != logging.NOTSET or not logger.propagate or logger.filters or not logger.isEnabledFor(_LEVEL):
        return False
    one: logging.Logger | None = logger
    while one is not None:
        if any(not isinstance(handler, logging.NullHandler) for handler in one.handlers):
            return False
        one = one.parent if one.propagate else None
    return True


_aloud = Once()
"""What this process has printed."""

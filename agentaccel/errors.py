"""The exceptions that agentaccel raises: from what you call of it, never from a call to a model or of a tool.

::

    AgentAccelError
    ├── ConfigError            you asked for something impossible; raised where you asked
    │   ├── UnknownModel       no cache facts are known for this model and none were given
    │   └── MissingExtraError  an optional package is not installed; the message is the pip line
    ├── EngineError            an engine could not be set up or did not start, it ended, or did not do what it was asked
    ├── SessionClosedError     a session was used after it was left
    └── TraceError             a trace store or a log is unreadable, or was written by a newer version

Exceptions of providers and tools are never wrapped: they reach the caller as they were raised. `NotProven`
(`effects.spec`) stops a run that was begun early, of which the agent's own code sees nothing.
"""

from __future__ import annotations


class AgentAccelError(Exception):
    """The root of everything that agentaccel raises to its caller."""


class ConfigError(AgentAccelError, ValueError):
    """A setting, a request or a client that cannot work; the message says what to do."""


class UnknownModel(ConfigError):
    """No cache facts are known for `model`, nor for its family."""

    def __init__(self, model: str, remedy: str | None = None) -> None:
        self.model = model
        remedy = remedy or f"map it to a known one, for example Policy(aliases={{{model!r}: 'claude-sonnet-5'}})"
        super().__init__(f"no cache facts are known for model {model!r}: {remedy}")


class MissingExtraError(ConfigError):
    """The optional packages of `extra` are not installed."""

    def __init__(self, extra: str, package: str) -> None:
        self.extra, self.package = extra, package
        super().__init__(f'{package} is not installed: pip install "agentaccel[{extra}]"')


class EngineError(AgentAccelError):
    """An engine that was to run on this machine could not be set up, did not start, or ended; the message has the last
    lines that the engine, or its installer, printed. Or an engine did not do what it was asked, and the message says
    why."""


class SessionClosedError(AgentAccelError):
    """A session was used after it was left; open a new one with the same id to go on."""


class TraceError(AgentAccelError):
    """A trace store or a log file is unreadable, or was written by a newer version of agentaccel."""

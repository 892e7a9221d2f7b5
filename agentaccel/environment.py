"""What the environment says: it has the last word on the policy, and asks for log lines."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, get_args

from agentaccel.errors import ConfigError

if TYPE_CHECKING:
    from agentaccel.policy import Policy

ENV_DISABLE = "AGENTACCEL_DISABLE"
"""Set to 1 to remove agentaccel: `Accel` then hands back clients and tools as they were given."""
ENV_MODE = "AGENTACCEL_MODE"
"""Overrides `Policy.mode`."""
ENV_LOG = "AGENTACCEL_LOG"
"""Set to debug, info or warning to see agentaccel's log lines on standard error."""
ENV_STORE = "AGENTACCEL_STORE"
"""Overrides the path of the trace store."""
ENV_PLATFORM = "AGENTACCEL_PLATFORM"
"""Who answers `openai` clients at hosts that no data file lists; `wrap(client, platform=…)` says it of one client."""

log = logging.getLogger("agentaccel")


def from_environment(policy: Policy, environ: Mapping[str, str]) -> Policy:
    """`policy` with what the environment says in its place. Raises `ConfigError` for what cannot be meant."""
    disable = environ.get(ENV_DISABLE, "").strip().lower()
    if disable in {"1", "true", "yes", "on"}:
        return replace(policy, mode="off")
    if disable not in {"", "0", "false", "no", "off"}:
        raise ConfigError(f"{ENV_DISABLE} is {disable!r}; set it to 1 to remove agentaccel, or to 0, or unset it")
    mode = environ.get(ENV_MODE, "").strip().lower()
    if mode:
        from agentaccel.policy import Mode  # who gives a policy has loaded it, and who asks where the store is need not

        if mode not in get_args(Mode):
            raise ConfigError(f"{ENV_MODE} is {mode!r}; set it to one of {', '.join(get_args(Mode))}, or unset it")
        policy = replace(policy, mode=mode)  # type: ignore[arg-type]  # checked on the line above
    path = environ.get(ENV_STORE, "").strip()
    if path:
        policy = replace(policy, store=replace(policy.store, path=path))
    return policy


def log_as_asked(environ: Mapping[str, str], *, strict: bool) -> None:
    """Follow `AGENTACCEL_LOG`, once: libraries leave logging to the application unless the user asks for it.

    Where `strict`, raises `ConfigError` for what is no level; else that is left.
    """
    wanted = environ.get(ENV_LOG, "").strip()
    level = logging.getLevelNamesMapping().get(wanted.upper())
    if wanted and level is None and strict:
        raise ConfigError(f"{ENV_LOG} is {wanted!r}; set it to debug, info or warning, or unset it")
    if level is None or any(isinstance(handler, logging.StreamHandler) for handler in log.handlers):
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.addHandler(handler)
    log.setLevel(level)

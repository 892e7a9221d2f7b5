"""What is logged, where the environment asks for it: libraries leave that to the application unless the user does."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from agentaccel.errors import ConfigError
from agentaccel.policy import ENV_LOG

log = logging.getLogger("agentaccel")


def log_as_asked(environ: Mapping[str, str], *, strict: bool) -> None:
    """Follow `AGENTACCEL_LOG`, once. Where `strict`, raises `ConfigError` for what is no level; else that is left."""
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

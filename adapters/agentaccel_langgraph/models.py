"""LangChain's chat models with the clients of their vendors wrapped."""

from __future__ import annotations

import logging
from functools import cached_property
from typing import TypeVar

from langchain_core.language_models import BaseChatModel

from agentaccel import Accel, ConfigError

log = logging.getLogger("agentaccel")

M = TypeVar("M", bound=BaseChatModel)


def wrap_model(accel: Accel, model: M) -> M:
    """A copy of `model` whose calls go through `accel`; the model given is not changed, and shares its connections.

    ChatAnthropic, ChatOpenAI, and what is made of them. Another model is given back as it is, and the log says so.
    """
    fields, why = dict[str, object](), "its client is not known here"
    try:
        if isinstance(getattr(type(model), "_async_client", None), cached_property):  # ChatAnthropic makes them itself
            fields = {name: accel.wrap(getattr(model, name)) for name in ("_client", "_async_client")}
        for root, part in (("root_client", "client"), ("root_async_client", "async_client")):
            if (client := getattr(model, root, None)) is not None:  # ChatOpenAI, whose constructor takes none as well
                wrapped = accel.wrap(client)
                fields |= {root: wrapped, part: wrapped.chat.completions}
    except ConfigError as refused:
        fields, why = {}, str(refused)
    if not fields:
        log.warning("agentaccel: %s goes out as it did: %s", type(model).__name__, why)
        return model
    copy = model.model_copy()
    copy.__dict__.update(fields)
    return copy

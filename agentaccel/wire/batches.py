"""Results of a batch, one line of JSON each, as both providers hand them out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from agentaccel.facts import Wire
from agentaccel.wire.json import is_object, loaded, name_or_none

_REPLIES: Mapping[str, Wire] = {"message": "messages", "chat.completion": "chat", "response": "responses"}
"""What a reply says that it is, and its wire. Whatever else a batch is made of, such as embeddings, is no model call
that a cache could serve."""


class BatchResult(NamedTuple):
    """What came of one request of a batch."""

    custom_id: str
    """How whoever made the batch calls the request; no other of the batch is called so."""
    wire: Wire
    """The form of the reply."""
    reply: Mapping[str, Any] | None
    """None where there is no reply of a model: the request failed, was cancelled or expired, or is another kind."""


def result_of(line: bytes) -> BatchResult | None:
    """The result that a line holds; None for a line that is none.

    >>> result_of(b'{"custom_id": "a", "result": {"type": "succeeded", "message": {"type": "message"}}}')
    BatchResult(custom_id='a', wire='messages', reply={'type': 'message'})
    >>> result_of(b'{"custom_id": "a", "result": {"type": "expired"}}').reply
    >>> result_of(b'{"prompt": "of a file for fine-tuning"}')
    """
    entry = loaded(line)
    named = name_or_none(entry.get("custom_id")) if entry is not None else None
    if entry is None or named is None:
        return None
    for around, within in (("result", "message"), ("response", "body")):
        reply = entry[around].get(within) if is_object(entry.get(around)) else None
        if is_object(reply):
            wire = _REPLIES.get(name_or_none(reply.get("type")) or name_or_none(reply.get("object")) or "")
            return BatchResult(named, wire or "messages", reply if wire is not None else None)
    return BatchResult(named, "messages", None)

"""Message threads: conversations that the provider holds, of which a request names the last reply and adds to it.

What a thread takes from its beginning, what it refuses and by which codes it says so is the SDK's own account
(anthropic 2.12, `lib/threads` and `types/thread_*_error`). The texts are invented, and so is the bill, for nobody has
published it: that of the same conversation under automatic caching.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from agentaccel_emulator.anthropic_candidate import Candidate
from agentaccel_emulator.trial import Problem

Json = Mapping[str, Any]

BETA = "message-threads-"
"""Start of the anthropic-beta value that allows message threads."""
_FROM_THE_BEGINNING = ("system", "tools")
"""Fields that a thread keeps as it was created with."""
_UNSUPPORTED = ("cache_control", "context_management", "fallbacks", "thinking")
"""Fields that a request in a thread may not have (`thread_unsupported_feature_name`)."""
_KEPT = 10_000


@dataclass(slots=True)
class _Held:
    """A reply that a thread can go on from."""

    begun_with: Json
    messages: Sequence[Json]
    """The whole conversation, the reply included."""
    continued: bool = False


@dataclass(slots=True)
class Threads:
    """Replies by workspace and id. Mutable: it remembers the last ten thousand."""

    _held: OrderedDict[tuple[str, str], _Held] = field(default_factory=OrderedDict)

    def whole(self, body: Json, workspace: str) -> Json | Problem:
        """The request with all that the thread holds, or why that cannot be had."""
        held = self._held.get((workspace, _previous(body) or ""))
        if held is None:
            text = "thread: no usable state was found for previous_message_id"
            return Problem(text, "not_found_error", 404, code="thread_not_found")
        if held.continued:
            return Problem("thread: previous_message_id was continued already", code="thread_already_continued")
        repeated = [name for name in _FROM_THE_BEGINNING if body.get(name) is not None]
        if repeated:
            text = f"thread: {', '.join(repeated)} cannot be given again"
            return Problem(text, param=repeated[0], code="thread_fingerprint_mismatch")
        return {**body, **held.begun_with, "messages": [*held.messages, *body["messages"]]}

    def keep(self, body: Json, workspace: str, id_: str, content: Sequence[Json]) -> None:
        """A whole request of a thread was answered so."""
        before = self._held.get((workspace, _previous(body) or ""))
        if before is not None:
            before.continued = True
        begun_with = {name: body[name] for name in _FROM_THE_BEGINNING if body.get(name) is not None}
        messages = [*body["messages"], {"role": "assistant", "content": content}]
        self._held[workspace, id_] = _Held(begun_with, messages)
        if len(self._held) > _KEPT:
            self._held.popitem(last=False)


def goes_on(candidate: Candidate) -> bool:
    """Whether this is a request, as far as it can be read, that goes on with a thread."""
    try:
        body = candidate.decoded
    except orjson.JSONDecodeError:
        return False
    return (
        isinstance(body, dict)
        and isinstance(body.get("messages"), list)
        and BETA in candidate.headers.get("anthropic-beta", "")
        and _previous(body) is not None
    )


def _previous(body: Json) -> str | None:
    thread = body.get("thread")
    if not isinstance(thread, Mapping) or thread.get("type") != "continue":
        return None
    previous = thread.get("previous_message_id")
    return previous if isinstance(previous, str) else None


def message_thread(request: Candidate) -> Problem | None:
    """A thread needs its beta, says how it goes on, and has no markers."""
    thread = request.body.get("thread")
    if thread is None:
        return None
    if BETA not in request.headers.get("anthropic-beta", ""):
        return Problem("thread: Extra inputs are not permitted")
    if not isinstance(thread, dict) or (thread.get("type") != "create" and _previous(request.body) is None):
        return Problem("thread: Input should be a create, or a continue with its previous_message_id")
    found = ["cache_control"] if request.markers else []
    found += [name for name in _UNSUPPORTED if request.body.get(name) is not None and name not in found]
    if found:
        text = f"thread: {', '.join(found)} is not supported in message threads"
        return Problem(text, param=found[0], code="thread_unsupported_request")
    return None

"""How a conversation begins: what is believed of its workload, and what it goes on from under another name."""

from __future__ import annotations

from dataclasses import replace

from agentaccel.cache.prefix import turn_of
from agentaccel.cache.rhythm import snapshot
from agentaccel.facts import CacheFacts
from agentaccel.session.conversation import Conversation, refresh, workload_of
from agentaccel.session.lineage import Lineage
from agentaccel.session.registry import Registry
from agentaccel.types import Prompt, digest_of


def open_with(
    registry: Registry, conversation: Conversation, prompt: Prompt, facts: CacheFacts | None, now: float, *, named: bool
) -> None:
    """The first request of a conversation: what is believed of its workload is fixed here.

    One whose session the user has `named` may go on from all that another has sent: a fork, a sub-agent that is told
    everything, a name for every request of a web service. What that one has come to is where this one begins.
    """
    recorder = registry.recorder
    conversation.workload = workload = workload_of(prompt, conversation.agent)
    conversation.created = now
    conversation.snapshot = snapshot(recorder.beliefs(workload, now, tools=prompt.starts[1] > 0))
    if not named or prompt.held or not turn_of(prompt):
        return
    source = registry.by_lineage(prompt, Lineage(prompt, conversation.tenant))
    if source is None or source.id == conversation.id:
        return
    with source.lock:  # it has begun, so it takes the lock of none that it would go on from
        recorder.read(lambda store: refresh(source, store, facts, prompt.provider), None)
        if _goes_on(prompt, source):
            _inherit(conversation, source, prompt)


def _goes_on(prompt: Prompt, source: Conversation) -> bool:
    """Whether the messages of `prompt` begin with all those of the last prompt of `source`, which were sent as written:
    what was moved or taken out there, it was for that session alone."""
    head, state = source.head, source.state
    if head is None or head.arranged or state.cleared or source.arranging is not None or source.edits is not None:
        return False
    sent, now = head.segments[head.starts[2] :], prompt.segments[prompt.starts[2] :]
    return bool(sent) and list(map(digest_of, sent)) == list(map(digest_of, now[: len(sent)]))


def _inherit(conversation: Conversation, source: Conversation, prompt: Prompt) -> None:
    """Let `conversation` begin where `source` is. That this was followed is for its own workload to learn."""
    state = source.state
    if source.workload == conversation.workload:
        conversation.origin = source
    else:
        state = replace(state, last_started=None, awaits="")
    conversation.state = replace(state, born=prompt.messages, standing=None)
    conversation.head, conversation.print = source.head, source.print
    conversation.inherited = conversation.stored_turns = state.turns


def followed(conversation: Conversation) -> None:
    """The first request of `conversation` is sent: that the last one of its origin was followed counts once."""
    source, conversation.origin = conversation.origin, None
    if source is not None:
        with source.lock:
            source.state = replace(source.state, last_started=None, awaits="")

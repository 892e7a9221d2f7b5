"""How a conversation begins: what is believed of its workload, and what it goes on from under another name."""

from __future__ import annotations

from dataclasses import replace

from agentaccel.cache.prefix import turn_of
from agentaccel.cache.rhythm import snapshot
from agentaccel.facts import CacheFacts
from agentaccel.session.conversation import Conversation, refresh, workload_of
from agentaccel.session.lineage import Lineage
from agentaccel.session.registry import Registry
from agentaccel.types import Prompt


def open_with(
    registry: Registry, conversation: Conversation, prompt: Prompt, facts: CacheFacts | None, now: float, *, named: bool
) -> None:
    """The first request of a conversation: what is believed of its workload is fixed here.

    One whose session the user has `named` may go on from the history of another: a fork, a sub-agent that is told all,
    a name for every request of a web service. What that one has come to is where this one begins.
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
        conversation.state = replace(source.state, born=prompt.messages, standing=None)
        conversation.head, conversation.print = source.head, source.print
        conversation.arranging, conversation.edits = source.arranging, source.edits
        conversation.stored_turns = source.state.turns  # what others add to it is seen by a greater number

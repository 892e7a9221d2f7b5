"""How a conversation begins: what is believed of its workload, and what it goes on from under another name.

One whose session the user has named may go on from all that another has sent: a fork, a sub-agent that is told
everything, a name for every request of a web service. What that one has come to is where this one begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agentaccel.cache.forecast import snapshot
from agentaccel.cache.ledger import Ledger
from agentaccel.cache.prefix import turn_of
from agentaccel.engine.conversation import Conversation, refresh, workload_of
from agentaccel.engine.lineage import Lineage, Registry
from agentaccel.engine.threads import static_of
from agentaccel.facts import CacheFacts
from agentaccel.types import Prompt, Segment, digest_of


def open_with(
    registry: Registry,
    conversation: Conversation,
    prompt: Prompt,
    facts: CacheFacts | None,
    now: float,
    *,
    named: bool,
    edits: bool,
) -> None:
    """A request of a conversation none of whose own was answered: with the first, what is believed of its workload is
    fixed. What it goes on from is looked for with each: the first may have been announced, without its history.

    From what was edited with consent goes on only what `edits` alike, and is not sent as it was written.
    """
    if conversation.created is None:
        workload = conversation.workload or _workload(conversation, prompt)
        believed = snapshot(registry.recorder.beliefs(workload, now, tools=prompt.starts[1] > 0))
        with conversation.lock:
            if conversation.created is None:
                conversation.workload, conversation.created, conversation.snapshot = workload, now, believed
    if not named or prompt.held or not turn_of(prompt):
        return
    source = registry.by_lineage(prompt, Lineage(prompt, conversation.tenant), conversation.agent)
    if source is None or source.id == conversation.id:
        return
    registry.recorder.read(lambda store: refresh(source, store, facts, prompt.provider), None)
    # The source was answered, so it takes the lock of none that it would go on from.
    with conversation.lock, source.lock:
        if conversation.state.turns:
            return
        if (edits or source.state.edited_of is None) and _goes_on(prompt, source):
            _inherit(conversation, source, prompt)


def _workload(conversation: Conversation, prompt: Prompt) -> str:
    """Under which name the conversation's statistics are kept. One beside the first of its session is of that one's
    workload where it is of its kind, and else has its own: how an agent goes on says nothing of its summaries."""
    session, now = conversation.session, static_of(prompt)
    workload = workload_of(prompt, conversation.agent)
    first = session.state.static or (session.begun[1] if session.begun is not None else None)
    if conversation is session or conversation.agent is None or first is None:
        return workload
    if (first.tools, first.model, bool(first.size)) == (now.tools, now.model, bool(now.size)):
        return workload
    return f"{workload}, {workload_of(prompt, None)}{'' if now.size else ' alone'}"


def _goes_on(prompt: Prompt, source: Conversation) -> bool:
    """Whether the messages of `prompt` begin with all those of the last request of `source`, as its user wrote them."""
    head, edited_of = source.head, source.state.edited_of
    if edited_of is not None:
        count, end = edited_of
        lineage = Lineage(prompt, source.tenant)
        return count < len(lineage) and lineage[count - 1] == end
    if head is None:
        return False
    sent, now = head.segments[head.starts[2] :], prompt.segments[prompt.starts[2] :]
    return bool(sent) and _digests(sent) == _digests(now[: len(sent)])


def _inherit(conversation: Conversation, source: Conversation, prompt: Prompt) -> None:
    """Let `conversation` begin where `source` is. That this was followed is for its own workload to learn."""
    state, ahead = source.state, conversation.state.ledger.entries
    if source.workload == conversation.workload:
        conversation.origin = source
    else:
        state = replace(state, last_started=None, awaits="")
    if source.account != conversation.account and source.account and conversation.account:  # it reads another cache
        state = replace(state, ledger=Ledger(), shadow=Ledger())
    if ahead:  # what was announced
        state = replace(state, ledger=Ledger({**state.ledger.entries, **ahead}), ours=True)
    conversation.state = replace(state, born=prompt.messages, standing=None)
    conversation.edits = source.edits
    if _begins_alike(conversation, source, prompt):
        conversation.head, conversation.print = source.head, source.print
    conversation.inherited = conversation.stored_turns = state.turns


def _begins_alike(conversation: Conversation, source: Conversation, prompt: Prompt) -> bool:
    """Whether what stands before the messages is the same agent's, so that what is another there has changed.

    A sub-agent that is told everything may have rules and tools of its own; a system prompt with a clock is the same.
    """
    head, level = source.head, 1 if source.workload == conversation.workload else 2
    if head is None or head.model != prompt.model:
        return False
    return _digests(head.segments[: head.starts[level]]) == _digests(prompt.segments[: prompt.starts[level]])


def _digests(segments: Sequence[Segment]) -> list[bytes]:
    return list(map(digest_of, segments))


def followed(conversation: Conversation) -> None:
    """The first request of `conversation` is sent: that the last one of its origin was followed counts once."""
    source, conversation.origin = conversation.origin, None
    if source is not None:
        with source.lock:
            source.state = replace(source.state, last_started=None, awaits="")

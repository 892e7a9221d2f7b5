"""What has been seen of one session: in memory, and as the trace store keeps it for other processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple
from urllib.parse import quote

import orjson

from agentaccel.cache.beliefs import Beliefs
from agentaccel.cache.planner import Latest
from agentaccel.cache.prefix import prefixes
from agentaccel.cache.state import PreviousPrompt, SessionState, Static, head_of
from agentaccel.facts import CacheFacts
from agentaccel.hashing import digest
from agentaccel.locks import Lock
from agentaccel.predict.stats import SpeculationStats
from agentaccel.records import key_of
from agentaccel.rewrite.arrangement import Memory
from agentaccel.rewrite.drift import Print
from agentaccel.rewrite.edits import Edits
from agentaccel.rewrite.jobs import Asides
from agentaccel.store.codec import SessionRow, dump_json
from agentaccel.store.states import dump_state, load_state
from agentaccel.store.store import Store
from agentaccel.tools.transcript import SpeculationState
from agentaccel.types import Prompt, Segment


class ConversationState(NamedTuple):
    """What settling a call may change of a conversation; the fields have the meanings that they have there."""

    state: SessionState
    head: PreviousPrompt | None
    print: Print | None
    arranging: Memory | None
    edits: Edits | None
    ahead: int | None
    latest: Latest | None
    begun: tuple[bytes, Static] | None


@dataclass(slots=True, weakref_slot=True)
class Conversation:
    """One session, shared by every handle of the same id in this process. `lock` guards every field."""

    id: str
    """The session's, unlike that of any other tenant: `own_id`."""
    thread: str = ""
    """Which of the conversations under that name it is; empty for the first, which stands for the session."""
    root: Conversation | None = None
    """The first of them; None for that itself."""
    others: list[Conversation] = field(default_factory=list)
    """All but the first, that one only; those used last come last. `sorting` guards it."""
    begun: tuple[bytes, Static] | None = None
    """The whole of its first request, and what that has in front; None while none is under way or was answered."""
    repeats: int = 0
    """How often its first request was sent again, and no other conversation has begun from that."""
    sorting: Lock = field(default_factory=Lock)
    """Held while it is found out which of them a request belongs to; taken before `lock`."""
    agent: str | None = None
    tenant: str | None = None
    parent: str | None = None
    account: str = ""
    """Whose cache its last request was planned for: as in `Endpoint`."""
    workload: str = ""
    """What statistics are learned for; known from the first request on."""
    created: float | None = None
    snapshot: Beliefs = field(default_factory=Beliefs)
    """What was believed of the workload when the session began; the same in every process that takes part."""
    state: SessionState = field(default_factory=SessionState)
    head: PreviousPrompt | None = None
    print: Print | None = None
    """Checksums of the last prompt, to place a change in it; only in the process that saw it."""
    like: Print | None = None
    """The same of another conversation under its name, which began alike, while it has none of its own."""
    arranging: Memory | None = None
    """What the last request was arranged by; only in the process that saw it, and only with consent."""
    left: bool = False
    """Whether it was open in this process and is not any more: nothing is begun for it."""
    open: int = 0
    """Handles of it that are open in this process."""
    own_requests_cost: float = 0.0
    """USD that requests of our own have cost it in this process."""
    can_resend: bool = True
    """Whether its last request said how another one can be sent as it was; True before the first one has ended."""
    ahead: int | None = None
    """Tokens that were written ahead for its next request; None where nothing was."""
    latest: Latest | None = None
    """What was decided for the last request that was planned; None once one was answered, or the session was left."""
    edits: Edits | None = None
    """What stands in the place of parts of its history; only in the process that put it there, with consent."""
    asides: Asides = field(default_factory=Asides)
    """What the user's functions were asked for."""
    ledger: SpeculationStats = field(default_factory=SpeculationStats)
    """What running its tools early has come to in this process."""
    following: SpeculationState = field(default_factory=SpeculationState)
    """What running its tools early goes by; only in the process that saw it."""
    origin: Conversation | None = None
    """The one of the same workload that it goes on from under another name, until its first request is sent."""
    inherited: int = 0
    """Turns of its state that were another's."""
    stored_turns: int = 0
    """Turns that the store had when this process last looked."""
    texts: tuple[tuple[Segment, ...], frozenset[bytes]] = ((), frozenset())
    """The digests of all messages of the prompt with these segments, once they were asked for. `sorting` guards it."""
    lock: Lock = field(default_factory=Lock)
    key: str = field(init=False)
    """What tells it from the others of its name."""

    def __post_init__(self) -> None:
        self.key = key_of(self.id, self.thread)

    @property
    def knowledge(self) -> ConversationState:
        """What the next call is settled with."""
        return ConversationState(
            self.state, self.head, self.print, self.arranging, self.edits, self.ahead, self.latest, self.begun
        )

    def advance(self, known: ConversationState) -> None:
        """Take over what a call has shown: the only place where settling one changes its conversation."""
        self.state, self.head, self.print, self.arranging, self.edits, self.ahead, self.latest, self.begun = known

    @property
    def session(self) -> Conversation:
        """The one that stands for the session."""
        return self.root if self.root is not None else self

    @property
    def is_new(self) -> bool:
        """Whether none of its own requests was answered yet."""
        return self.state.turns == self.inherited


def own_id(name: str, tenant: str | None) -> str:
    """The id of the session that `tenant` calls `name`: two tenants, or one and nobody, never have the same.

    >>> own_id("ticket-1", None), own_id("ticket-1", "acme"), own_id("@acme/ticket-1", None)
    ('ticket-1', '@acme/ticket-1', '@@acme/ticket-1')
    """
    if tenant is None:
        return f"@{name}" if name.startswith("@") else name
    return f"@{quote(tenant, safe=' ', errors='surrogatepass')}/{name}"


def workload_of(prompt: Prompt, agent: str | None) -> str:
    """The name that statistics are kept under: the agent's, else tool names and model, never system text."""
    if agent:
        return f"agent {agent}"
    names = sorted([segment.name for segment in prompt.segments[: prompt.starts[1]] if segment.level == "tools"])
    parts = (prompt.model.encode("utf-8", "replace"), *(name.encode("utf-8", "replace") for name in names))
    return "tools " + digest(b"\x00".join(parts)).hex()


# --- the store's form -------------------------------------------------------------------------------------------------


def row_of(conversation: Conversation) -> SessionRow:
    """The conversation as the store keeps it; the head is written separately, once its chains have row ids."""
    return SessionRow(
        id=conversation.key,
        agent=conversation.agent,
        tenant=conversation.tenant,
        parent=conversation.parent,
        workload=conversation.workload,
        created=conversation.created or 0.0,
        turns=conversation.state.turns,
        snapshot=conversation.snapshot,
        state=dump_state(conversation.state),
        head=None,
    )


def dump_head(head: PreviousPrompt, ends: tuple[int, int, int]) -> str:
    """What of a head cannot be read off its chains, and where these end."""
    return dump_json(
        {
            "ends": ends,
            "parameters": {name: value.hex() for name, value in head.parameters.items()},
            "model": head.model,
            "messages": head.messages,
            "last_message": head.added,  # its name since the first version of the store
            "started": head.started,
            "tokens": head.tokens,
            "message_id": head.message_id,
            **({"arranged": sorted(head.arranged)} if head.arranged else {}),
        }
    )


def refresh(conversation: Conversation, store: Store, facts: CacheFacts | None, provider: str) -> None:
    """Take over what other processes have added to the session since this one last looked.

    As many turns as this process knows of, or fewer, are no news: what it knows may still be waiting to be written, or
    may have been removed as old. The conversation is locked only to be changed: a loop that ends one of its calls must
    not wait for the disk.
    """
    if store.turns_of(conversation.key) <= conversation.stored_turns:
        return
    row = store.session(conversation.key)
    if row is None:
        return
    state = load_state(row.state)
    head = known = None
    if row.head is not None and facts is not None:
        head, known = _load_head(orjson.loads(row.head), store, facts, provider)
    with conversation.lock:
        if row.turns <= conversation.stored_turns:
            return  # it was answered here meanwhile
        conversation.agent = conversation.agent or row.agent
        conversation.parent = conversation.parent or row.parent
        conversation.tenant = conversation.tenant or row.tenant
        conversation.workload = row.workload
        conversation.created = row.created
        conversation.snapshot, conversation.state = row.snapshot, state
        conversation.stored_turns = row.turns
        conversation.head, conversation.print, conversation.arranging, conversation.edits = head, known, None, None


def _load_head(raw: Mapping[str, Any], store: Store, facts: CacheFacts, provider: str) -> tuple[PreviousPrompt, Print]:
    segments: list[Segment] = []
    for end in raw["ends"]:
        segments.extend(store.chain_to(end) if end else ())
    parameters = {name: bytes.fromhex(value) for name, value in raw["parameters"].items()}
    prompt = Prompt(
        provider=provider,
        platform=facts.platform,
        model=raw["model"],
        segments=tuple(segment._replace(path=("messages", 0)) for segment in segments),
        parameters=parameters,
        markers=(),
        messages=raw["messages"],
        arranged=frozenset(raw.get("arranged", ())),
        stream=False,
    )
    head = head_of(prefixes(prompt, facts), started=raw["started"], tokens=raw["tokens"], message_id=raw["message_id"])
    known = Print(
        model=raw["model"],
        parameters=parameters,
        messages=raw["messages"],
        segments=prompt.segments,
        checks=(b"",) * len(segments),
    )
    return replace(head, added=raw["last_message"]), known

"""What a model call that has ended amounts to: the next knowledge of its conversation, and a record.

Done ─settle▶ Settled ─advance▶ Conversation ─▶ observers: the trace store first, then whoever else is told
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from agentaccel.cache.beliefs import Beliefs, Observation, goes_on_topic
from agentaccel.cache.breakpoints import marks_of, written_marks
from agentaccel.cache.observe import Observed
from agentaccel.cache.own_requests import CAME, SENT
from agentaccel.cache.pauses import TOOL, USER
from agentaccel.cache.prefix import Prefixes, prefixes
from agentaccel.cache.settle import Reconciled
from agentaccel.cache.settle import settle as reconcile
from agentaccel.cache.sharing import beginnings_of, begun, read_by_first, used_earlier
from agentaccel.cache.state import SessionState, head_of
from agentaccel.cache.teach import Sent
from agentaccel.cache.waiting import waiting
from agentaccel.engine.conversation import ConversationState, dump_head, row_of
from agentaccel.engine.draft import Done, Planned, Settled
from agentaccel.engine.lineage import Lineage, Registry
from agentaccel.engine.routing import is_elsewhere
from agentaccel.engine.sharing import with_lent, without_unread
from agentaccel.engine.threads import static_of
from agentaccel.hashing import digest, link, wire_bytes
from agentaccel.records import TurnRecord
from agentaccel.rewrite.drift import drift, imprint
from agentaccel.rewrite.edits import Edits
from agentaccel.rewrite.results import Edited
from agentaccel.rewrite.volatile import TOPIC
from agentaccel.store.codec import LastUsed
from agentaccel.store.recorder import Recorder
from agentaccel.store.store import TurnWrite
from agentaccel.turn import Ended
from agentaccel.types import Expected, Segment, ToolCall, Usage, value_at
from agentaccel.values import kept_name, kept_name_or_none


def settle(done: Done) -> Settled:
    """Settle a call; its conversation is locked, and is changed by `Conversation.advance` alone."""
    planned, reply = done.planned, done.reply
    conversation = planned.conversation
    known, came = _announced(conversation.knowledge, reply.usage)
    answered = reply.outcome == "ok" or reply.usage.input is not None
    if answered:
        known = known._replace(latest=None)
    elif conversation.is_new:
        known = known._replace(begun=None)
    if planned.prefix is None or planned.observed is None or not answered or planned.prompt.held:
        # What the provider holds cannot be told from what was added to it.
        known, learned = _follow(known, planned.observed) if planned.prompt.held else (known, ())
        return Settled(record_of(planned, reply, None), known, None, learned)
    reconciled = _reconciled(planned, reply, known.state)
    state = without_unread(reconciled.state, planned.lent)
    state = replace(state, static=static_of(planned.as_written), replied=reply.usage.output)
    head = head_of(
        planned.prefix,
        planned.head,
        started=planned.started,
        tokens=reply.usage.input,
        message_id=reply.said.message_id,
    )
    known = known._replace(state=state, head=head)
    if planned.request:
        known = known._replace(print=imprint(planned.lasting, planned.request, planned.print))
    if planned.arranged is not None:
        known = known._replace(arranging=planned.arranged.memory)
    if planned.edited is not None:
        known = _with_edits(known, planned, planned.edited)
    return Settled(record_of(planned, reply, reconciled), known, reconciled, came)


def _announced(known: ConversationState, usage: Usage) -> tuple[ConversationState, tuple[Observation, ...]]:
    """What shows where this is the first call since something was written ahead: that it read that."""
    if known.ahead is None or usage.read is None:
        return known, ()
    tokens, known = known.ahead, known._replace(ahead=None)
    if usage.read < tokens * _READ_AHEAD:
        return known, ()
    return known._replace(state=replace(known.state, seen=known.state.seen.after((CAME,)))), (CAME,)


_READ_AHEAD = 0.9
"""Of what was written ahead, a request that came as announced reads at least this share."""


def _reconciled(planned: Planned, reply: Ended, state: SessionState) -> Reconciled:
    assert planned.prefix is not None
    assert planned.observed is not None
    prefix, on, written = planned.prefix, planned.mode == "on", None
    if planned.written is not None:
        written = prefixes(planned.written, prefix.facts)
    heard = reply.first_byte if reply.first_byte is not None else reply.finished
    return reconcile(
        with_lent(state, planned.lent),
        planned.head,
        Sent(
            prefix=prefix,
            marks=marks_of(prefix, planned.markers_sent),
            written_marks=written_marks(written or prefix, planned.as_written, arranged=written is not None),
            written=written,
            intact=planned.arranged.intact if planned.arranged is not None else 0,
            started=planned.started,
            visible=planned.started + (heard - reply.started),
            usage=reply.usage,
            ours=on and bool(planned.plan.markers or planned.plan.without or written),
            standing=planned.standing,
            lent=planned.lent,
            awaits=_awaited(reply.calls),
            work=reply.said.work,
            first=planned.conversation.is_new,
        ),
        planned.observed,
    )


def _awaited(calls: Sequence[ToolCall]) -> str:
    """As `Sent.awaits`, of a reply with these calls."""
    name = kept_name(calls[0].name) if calls else ""
    return f"{TOOL}:{name}" if name else TOOL if calls else USER


def written_ahead(
    known: ConversationState, planned: Planned, prefix: Prefixes, observed: Observed, ended: Ended
) -> ConversationState:
    """What a request of our own has written is held now; nothing else of the session has changed."""
    usage = ended.usage
    sent = Sent(
        prefix=prefix,
        marks=marks_of(prefix, planned.markers_sent),
        written_marks=(),
        started=planned.started,
        visible=planned.started + (ended.finished - ended.started),
        usage=usage,
        ours=True,
    )
    reconciled = reconcile(with_lent(known.state, planned.lent), known.head, sent, observed)
    state = replace(
        known.state,
        ledger=reconciled.state.ledger,
        seen=known.state.seen.after((SENT,)),
        ours=True,  # from here on, what the user's own markers would have done is another thing
    )
    kept = usage.input if prefix.facts.physics == "automatic" else (usage.read or 0) + (usage.written or 0)
    return known._replace(state=without_unread(state, planned.lent), ahead=kept or None)


def record_of(planned: Planned, ended: Ended, settled: Reconciled | None) -> TurnRecord:
    """The record of a call; `settled` is None where its reply told nothing that can be used."""
    conversation, prompt = planned.conversation, planned.prompt
    moved = None
    if planned.print is not None and planned.facts is not None and settled is not None:
        moved = planned.drift or drift(planned.print, planned.lasting, planned.request, planned.facts)

    def wall(at: float | None) -> float | None:
        return None if at is None else planned.started + (at - ended.started)

    return TurnRecord(
        session=conversation.id,
        provider=prompt.provider,
        platform=prompt.platform,
        model=prompt.model,
        known_as=planned.known_as,
        agent=conversation.agent,
        tenant=conversation.tenant,
        parent=conversation.parent,
        thread=conversation.thread,
        attempt=planned.attempt,
        started=planned.started,
        first_byte=wall(ended.first_byte),
        finished=wall(ended.finished),
        outcome=ended.outcome,
        status=ended.status,
        error=kept_name_or_none(ended.error),
        mode=planned.mode,
        streamed=planned.streamed,
        usage=ended.usage,
        answered_by=kept_name_or_none(ended.said.model),
        besides=ended.said.besides,
        doubts=ended.said.doubts,
        terms={kept_name(name): kept_name(value) for name, value in planned.terms(ended.said.terms).items()},
        stop=kept_name_or_none(ended.said.stop),
        calls=tuple(kept_name(call.name) for call in ended.calls),
        markers=planned.markers_sent,
        reasons=planned.plan.reasons,
        consents=planned.plan.consents,
        expected=_whole(settled.expected) if settled is not None else None,
        as_written=_as_written(planned, ended, settled),
        reusable=settled.reusable if settled is not None else None,
        misses=settled.misses if settled is not None else (),
        drift=moved,
        held=prompt.held,
        diagnosis=kept_name_or_none(ended.said.diagnostics),
        waited=planned.waited,
        work=ended.said.work,
        beside=planned.beside,
    )


@dataclass(frozen=True, slots=True)
class Recording:
    """The observer that leaves each call in the trace store, and tells a session that begins what others left there."""

    recorder: Recorder
    registry: Registry
    keep_content: bool
    """True if message content goes into the store."""

    def begins(self, planned: Planned) -> Planned:
        """The call, which begins a session, with what is known of others that begin alike."""
        if planned.prefix is None or planned.prompt.held:
            return planned
        earlier: dict[str, float] = {}
        beginnings = _beginnings(planned, planned.prefix, 0)
        self.recorder.look(lambda last_used: earlier.update(used_earlier(beginnings, last_used)))
        return planned._replace(earlier=earlier)

    def __call__(self, done: Done, settled: Settled) -> None:
        self.write(done.planned, settled.reconciled, settled.record, settled.learned)

    def write(
        self, planned: Planned, settled: Reconciled | None, record: TurnRecord, learned: tuple[Observation, ...]
    ) -> None:
        """Leave the turn in the store, and what a request teaches that was not settled. The conversation is locked."""
        row = self._row(planned, settled, record, learned)
        if settled is not None:
            self.registry.waits_at(planned.conversation.key, row.lineage, row.messages)
        if row.session is not None:
            planned.conversation.stored_turns += 1  # to this process it is no news
        self.recorder.write(row)

    def _row(
        self, planned: Planned, settled: Reconciled | None, record: TurnRecord, learned: tuple[Observation, ...]
    ) -> TurnWrite:
        conversation, prefix, lineage = planned.conversation, planned.prefix, tuple[bytes, ...]()
        beginnings: Mapping[str, bytes] = {}
        if settled is not None and prefix is not None:
            lineage = Lineage(planned.as_written, conversation.tenant).written(settled.state.born)
            beginnings = _beginnings(planned, prefix, settled.state.born)
            learned = (*settled.learned, *learned)
        head = conversation.head
        return TurnWrite(
            record=record,
            session=row_of(conversation) if settled is not None or learned else None,
            segments=planned.prompt.lasting,
            content=self._content(planned) if self.keep_content else None,
            lineage=lineage,
            messages=planned.as_written.messages,
            learned=_bounded(learned, conversation.snapshot),
            beginnings=tuple(beginnings.values()),
            waiting=waiting(conversation.state),
            ends=(lambda ends: dump_head(head, ends)) if head is not None else None,
            begun=_begun(planned, settled, beginnings, record) if settled is not None else None,
        )

    def _content(self, planned: Planned) -> Callable[[Segment], bytes]:
        """How to get the wire bytes of a segment, once the caller may have changed what it sent."""
        segments, request = planned.prompt.lasting, planned.request
        kept = {one.path: wire_bytes(value_at(request, one.path)) for one in segments}
        return lambda one: kept[one.path]


def _begun(
    planned: Planned, settled: Reconciled, beginnings: Mapping[str, bytes], record: TurnRecord
) -> Callable[[LastUsed], Sequence[Observation]] | None:
    """Tells whether a session that begins, begins as one did that was answered within a lifetime."""
    if settled.state.turns != 1 or planned.facts is None or planned.prefix is None:
        return None
    return partial(
        begun,
        beginnings,
        earlier=planned.earlier,
        started=planned.started,
        visible=record.first_byte or record.finished or planned.started,
        facts=planned.facts,
        read=read_by_first(planned.prefix, record.usage),
    )


def _beginnings(planned: Planned, prefix: Prefixes, born: int) -> dict[str, bytes]:
    """What others may begin with as well, in the same place: what they begin with elsewhere is of no use here."""
    beginnings = beginnings_of(prefix, born)
    if not planned.apart:
        return beginnings
    there = digest(planned.apart.encode())
    return {topic: link(hash_, there) for topic, hash_ in beginnings.items()}


def _with_edits(known: ConversationState, planned: Planned, edited: Edited) -> ConversationState:
    """With what stands in the place of parts of the history, and which history that was."""
    lineage = Lineage(planned.as_written, planned.conversation.tenant)
    is_edited = bool(edited.cleared) or edited.edits != Edits()
    edited_of = (len(lineage), lineage[-1]) if is_edited and len(lineage) else None
    state = replace(known.state, cleared=edited.cleared, edited_of=edited_of)
    return known._replace(state=state, edits=edited.edits)


def _follow(known: ConversationState, observed: Observed | None) -> tuple[ConversationState, tuple[Observation, ...]]:
    """What a held request shows: that the one before it was followed. Counted once."""
    if not known.state.turns or observed is None or observed.in_time is None:
        return known, ()
    state = replace(known.state, last_started=None)
    return known._replace(state=state), (Observation(goes_on_topic(known.state.last_turn), 1.0, 0.0), *observed.pause)


def _bounded(learned: Sequence[Observation], snapshot: Beliefs) -> tuple[Observation, ...]:
    """`learned` without what nobody knows yet of pieces of text, or of tools, where a workload has too many already.

    Where what stands around a piece, or the name of a tool, differs from session to session, each would add some of its
    own for good.
    """
    known = snapshot.counts
    if len(known) < min(_MOST.values()):
        return tuple(learned)
    news = {one.topic for one in learned if one.topic not in known}
    for start, most in _MOST.items():
        of_it = {topic for topic in news if topic.startswith(start)}
        if of_it and sum(topic.startswith(start) for topic in known) >= most:
            learned = [one for one in learned if one.topic not in of_it]
    return tuple(learned)


_MOST = {TOPIC: 64, f"pause/{TOOL}:": 640}
"""The most topics of a kind that are known of a workload: pieces of text, and ten steps of a pause for each tool."""


def _as_written(planned: Planned, ended: Ended, settled: Reconciled | None) -> Usage | None:
    """The bill of the request as the user wrote it; None where that cannot be told."""
    if planned.mode == "on" and planned.facts is not None and is_elsewhere(planned.plan, planned.facts):
        return None
    if settled is not None:
        return settled.as_written
    changed = planned.mode == "on" and (planned.plan.markers or planned.plan.without or planned.written is not None)
    return None if changed or ended.usage.input is None else ended.usage


def _whole(expected: Expected) -> Expected:
    """An expectation rounded to whole tokens: more digits would claim more than is known."""
    return Expected(
        read=round(expected.read),
        write={label: round(tokens) for label, tokens in expected.write.items()},
        uncached=round(expected.uncached),
    )

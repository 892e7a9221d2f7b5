"""How a request is arranged, with the user's consent: a tool list that only grows, and volatile text at the end.

Both give the provider a prefix that comes back. What the model is told stays the same, in another place; where that
changes who says it, the reasons of the plan say so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple

from agentaccel.cache.beliefs import Beliefs, Observation
from agentaccel.cache.prefix import turn_of
from agentaccel.cache.state import PreviousPrompt
from agentaccel.facts import CacheFacts, Wire
from agentaccel.hashing import digest
from agentaccel.policy import CachePolicy
from agentaccel.rewrite.arrangement import Frozen, Memory, Moves, RequestTool, freeze, move
from agentaccel.rewrite.volatile import PieceTerms
from agentaccel.segments import THINKING
from agentaccel.types import CachePlan, Marker, Prompt, Request, Text, digest_of
from agentaccel.wire import dialect
from agentaccel.wire.editing import Listed, listed, texts_of, with_tools
from agentaccel.wire.json import with_texts

CONSENTED = {
    "move_volatile": "moving text that keeps changing to the end of prompts, as the policy allows",
    "freeze_tools": "sending tools in the order in which they first came, as the policy allows",
}
"""What is logged once of each consent that is used."""

NO_MEMORY = Memory({}, (), (0, b""), (0, b""))
_LONGEST = 12.0
"""Requests for which a tool that was removed is expected to be kept, at most."""
_NOTE_TOKENS = 30.0
"""Of the sentence that says which tools are not available."""


class ArrangeInputs(NamedTuple):
    """What an arrangement is made with, beside the request."""

    policy: CachePolicy
    memory: Memory | None
    head: PreviousPrompt | None
    """The prompt before, where there was one."""
    beliefs: Beliefs
    now: float
    key: bytes
    read: Callable[[Request], Prompt]
    """Reads a request as the one at hand was read."""


class Arranged(NamedTuple):
    """A request as it is to be sent; the very one that was given where nothing changed."""

    request: Request
    prompt: Prompt
    memory: Memory | None
    """For the next request, once this one was answered."""
    moves: tuple[Observation, ...] = ()
    """What was counted of the pieces of its texts."""
    reasons: tuple[str, ...] = ()
    consents: tuple[str, ...] = ()
    """Those that were used."""
    intact: int = 0
    """Bytes of the prompt as written in front of all that was arranged."""
    left: Mapping[int, str] = {}
    """Why texts that changed were left where they are, by segment."""


class _Listing(NamedTuple):
    """What becomes of the tool list."""

    request: Request
    prompt: Prompt
    tools: tuple[RequestTool, ...]
    reasons: tuple[str, ...] = ()
    note: str = ""
    """What to say at the end of tools that are kept and must not be called."""


def arrange(request: Request, prompt: Prompt, facts: CacheFacts, wire: Wire, knowing: ArrangeInputs) -> Arranged:
    """`request` with its tools in their first order and what keeps changing at its end, as far as the policy consents.

    Left alone are requests whose history the provider holds, that it will reject as written, or at whose end nothing
    can be said.
    """
    untouched = Arranged(request, prompt, knowing.memory)
    if prompt.held or prompt.illegal or not prompt.messages or not facts.operator_message:
        return untouched
    unable = unsaid(request, prompt, facts, wire)
    says, memory = not unable, knowing.memory or NO_MEMORY
    if unable and knowing.policy.move_volatile and any(text.moved for text in memory.texts.values()):
        untouched = untouched._replace(reasons=(f"nothing is moved in this request: {unable}",))
    listing = _frozen(request, prompt, facts, wire, knowing, says)
    moves = _no_moves(memory)
    if knowing.policy.move_volatile and says:
        moves = _moved(listing, facts, knowing, memory)
    last = prompt.segments[-1].digest if prompt.segments else b""
    messages = len(prompt.segments) - prompt.starts[2]
    kept = Memory(moves.known, listing.tools, (len(prompt.segments), last), (messages, _history(prompt, messages)))
    seen = tuple(Observation(*one) for one in moves.seen)
    note = "\n".join(filter(None, (moves.note, listing.note)))
    if listing.request is request and not moves.edits:
        return untouched._replace(memory=kept, moves=seen, left=moves.left)
    sent = _with_note(with_texts(listing.request, moves.edits), listing.prompt, facts, wire, note)
    read = replace(
        knowing.read(sent),
        messages=prompt.messages,
        ephemeral=int(bool(note)),
        arranged=prompt.arranged | moves.places | ({"tools"} if listing.request is not request else set()),
    )
    if read.illegal:
        return untouched
    return Arranged(
        sent,
        read,
        kept,
        seen,
        (*listing.reasons, *moves.reasons, *_authority(facts, note)),
        (*(["move_volatile"] if moves.edits else []), *(["freeze_tools"] if listing.request is not request else [])),
        _intact(moves, listing, prompt),
        moves.left,
    )


def unsaid(request: Request, prompt: Prompt, facts: CacheFacts, wire: Wire) -> str:
    """Why nothing can be said at the end of this request; empty where it can."""
    if facts.strips_thinking and any(segment.kind in THINKING for segment in prompt.segments):
        return "text at the end would take earlier thinking out of the prompt"
    if dialect(wire).with_note(request, "-", facts.operator_message or "user") is None:
        return "nothing can be said at the end of this request"
    return ""


def _no_moves(memory: Memory) -> Moves:
    return Moves((), "", memory.texts, (), None, frozenset(), (), {})


def _intact(moves: Moves, listing: _Listing, prompt: Prompt) -> int:
    """Bytes of the prompt as written that stand in front of all that was arranged."""
    if moves.first is None or listing.prompt is not prompt:
        return 0
    segment, characters = moves.first
    return sum(one.size for one in prompt.segments[:segment]) + characters


def _authority(facts: CacheFacts, note: str) -> tuple[str, ...]:
    if not note:
        return ()
    if facts.operator_message == "last":
        return ("what stands at the end is said in the last message, not by the system: a change of authority",)
    if facts.operator_message == "user":
        return ("what stands at the end is said in the user's message, not by the system: a change of authority",)
    return (f"what stands at the end is said by a {facts.operator_message} message, with the operator's authority",)


def _with_note(request: Request, prompt: Prompt, facts: CacheFacts, wire: Wire, note: str) -> Request:
    """`request` with `note` at its end; its own top-level marker stays on the block on which it stood."""
    if not note:
        return request
    if prompt.markers and not prompt.markers[-1].path and facts.physics == "markers":
        *others, top = prompt.markers
        path = next((one.path for one in reversed(prompt.segments) if one.markable), None)
        there = path is None or any(marker.path == path for marker in others)
        marker = () if there or path is None else (Marker(path=path, ttl=top.ttl, ours=True),)
        request = dialect(wire).encode(request, CachePlan(wire=wire, mark=facts.mark, markers=marker, without=(top,)))
    return dialect(wire).with_note(request, note, facts.operator_message) or request


# --- text -------------------------------------------------------------------------------------------------------------


def _moved(listing: _Listing, facts: CacheFacts, knowing: ArrangeInputs, memory: Memory) -> Moves:
    request, prompt, tools = listing.request, listing.prompt, listing.tools
    texts = movable(request, prompt, knowing.policy)
    terms = terms_of(prompt, facts, knowing)
    if not texts or (terms.behind[0] < facts.min_tokens and not memory.texts):
        return _no_moves(memory)
    order = bool(memory.tools) and [tool.key for tool in tools] != [tool.key for tool in memory.tools]
    return move(texts, memory.texts, terms, fresh=knowing.memory is None or order)


def movable(request: Request, prompt: Prompt, policy: CachePolicy) -> list[Text]:
    """The texts before the conversation that the policy does not keep in their place."""
    return [text for text in texts_of(request, prompt) if not is_pinned(text.segment, prompt, policy.pinned)]


def terms_of(prompt: Prompt, facts: CacheFacts, knowing: ArrangeInputs) -> PieceTerms:
    """What pieces of the texts of `prompt` are weighed by."""
    memory = knowing.memory or NO_MEMORY
    ratio = knowing.beliefs.bytes_per_token(prompt.model) or facts.bytes_per_token
    ends = list(accumulate((segment.size for segment in prompt.segments), initial=0))
    written = facts.ttl(knowing.policy.ttl) or facts.ttls[0]
    return PieceTerms(
        now=knowing.now,
        key=knowing.key,
        counts=knowing.beliefs.counts,
        write=written.write,
        read=facts.read,
        bytes_per_token=ratio,
        behind=[(ends[-1] - end) / ratio for end in ends],
        worth=max(_goes_on(prompt, knowing.beliefs), knowing.beliefs.shared()),
        grows=knowing.beliefs.grows(),
        compares=memory.last != (len(prompt.segments), prompt.segments[-1].digest),
        in_blocks=facts.physics != "automatic",
    )


def _goes_on(prompt: Prompt, beliefs: Beliefs) -> float:
    return beliefs.followed(turn_of(prompt), tools=prompt.starts[1] > 0)


def is_pinned(segment: int, prompt: Prompt, pinned: Sequence[str]) -> bool:
    """Whether the policy keeps what stands there in its place."""
    if not pinned:
        return False
    level, start = ("tools", 0) if segment < prompt.starts[1] else ("system", prompt.starts[1])
    return level in pinned or f"{level}[{segment - start}]" in pinned


# --- tools ------------------------------------------------------------------------------------------------------------


def _frozen(
    request: Request, prompt: Prompt, facts: CacheFacts, wire: Wire, knowing: ArrangeInputs, says: bool
) -> _Listing:
    ratio = knowing.beliefs.bytes_per_token(prompt.model) or facts.bytes_per_token
    now = listed(request, prompt)
    tools = tuple(RequestTool(one.key, one.segment.digest, one.value, one.segment.size / ratio) for one in now)
    before = _before(knowing)
    if not knowing.policy.freeze_tools or any(place.startswith("tools") for place in knowing.policy.pinned):
        return _Listing(request, prompt, tools)
    if not before:
        return _Listing(request, prompt, tools)
    for keeps in (_keeps(prompt, facts, knowing, ratio) if _goes_on_from(prompt, knowing.memory) else 0.0, 0.0):
        frozen = freeze(tools, before, keeps=keeps)
        if frozen is None:
            return _Listing(request, prompt, before)
        if not frozen.changed:
            return _Listing(request, prompt, frozen.tools)
        sent = _listed(request, wire, now, frozen, says)
        if sent is not None:
            changed, note = sent
            return _Listing(changed, knowing.read(changed), frozen.tools, frozen.reasons, note)
    return _Listing(request, prompt, tools)


def _before(knowing: ArrangeInputs) -> tuple[RequestTool, ...]:
    """The tools of the prompt before: in another process, their names and hashes alone."""
    if knowing.memory is not None:
        return knowing.memory.tools
    if knowing.head is None:
        return ()
    tools = (segment for segment in knowing.head.segments if segment.level == "tools")
    return tuple(RequestTool(one.name or one.kind, one.digest, None) for one in tools)


def _goes_on_from(prompt: Prompt, memory: Memory | None) -> bool:
    """Whether `prompt` holds all of the last request. Only what that offered is kept: of another conversation, and of
    another branch of this one, the author may have withheld it."""
    return memory is not None and _history(prompt, memory.history[0]) == memory.history[1]


def _history(prompt: Prompt, messages: int) -> bytes:
    """A hash of the system prompt and of the first so many segments of the messages."""
    return digest(b"".join(map(digest_of, prompt.segments[prompt.starts[1] : prompt.starts[2] + messages])))


def _keeps(prompt: Prompt, facts: CacheFacts, knowing: ArrangeInputs, ratio: float) -> float:
    """Up to how many tokens of removed tools cost less, read in every request to come, than a prefix written anew."""
    behind = sum(segment.size for segment in prompt.segments[prompt.starts[1] :]) / ratio
    requests = min(1 / max(1 - _goes_on(prompt, knowing.beliefs), 1 / _LONGEST), _LONGEST)
    gain = behind * (facts.ttls[0].write - facts.read) / requests - _NOTE_TOKENS
    return max(gain, 0.0) / max(facts.read, 0.01)


def _listed(
    request: Request, wire: Wire, now: Sequence[Listed], frozen: Frozen, says: bool
) -> tuple[Request, str] | None:
    """The request with its frozen list, and what to say of tools that were kept; None where that cannot be sent."""
    unmarked = frozenset(one.key for one in now if not one.segment.markable)
    sent = with_tools(request, now, [(tool.key, tool.value) for tool in frozen.tools], unmarked)
    if sent is None or not frozen.kept:
        return None if sent is None else (sent, "")
    refused = dialect(wire).only_tools(sent, tuple(one.key for one in now))
    if refused is not None:
        return refused, ""
    names = ", ".join(frozen.kept)
    return (sent, f"Not available at the moment, and not to be called: {names}.") if says else None

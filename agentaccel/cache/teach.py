"""What one answered request teaches: its own session at once, and the workload for those that come after."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from agentaccel.cache.beliefs import (
    ALIVE,
    GROWS,
    LATER,
    Beliefs,
    Observation,
    after_topic,
    alive_topic,
    followed_at_topic,
    goes_on_topic,
    is_history,
    went_on,
)
from agentaccel.cache.forecast import length_seen
from agentaccel.cache.ledger import Breakpoint, CacheBill, Entry
from agentaccel.cache.observe import Observed
from agentaccel.cache.pauses import rhythm_seen
from agentaccel.cache.prefix import Prefixes
from agentaccel.cache.sharing import read_beginnings
from agentaccel.cache.standing import Standing
from agentaccel.cache.state import SessionState, lasting_tokens
from agentaccel.facts import priors
from agentaccel.types import EngineWork, Usage, prefilled

# --- One request as it went out and came back: what settling it starts from -------------------------------------------

Held = Mapping[int, Entry]
"""Entries by the segment of this prompt that they end with."""


class Sent(NamedTuple):
    """One request as it went out and came back."""

    prefix: Prefixes
    """The prompt as sent; markers are no part of it."""
    marks: tuple[Breakpoint, ...]
    """All markers as sent."""
    written_marks: tuple[Breakpoint, ...]
    """The user's markers alone."""
    started: float
    visible: float
    """When the reply began; entries can be read from then on."""
    usage: Usage
    ours: bool
    """Whether a marker of ours was among them, or the prompt was arranged."""
    written: Prefixes | None = None
    """The prompt as the user wrote it, where it was arranged before it was sent; `written_marks` stand in it."""
    awaits: str = ""
    """As in `SessionState`: what its reply asked for."""

    work: EngineWork | None = None
    """What a server of the user's own says of its work; None where it says nothing."""

    first: bool = False
    """Whether it is the first of its session that was answered, which may know what another one has come to."""

    standing: Standing | None = None
    """The decision that it was sent by, where that may stand."""

    lent: Mapping[bytes, Entry] = MappingProxyType({})
    """Of what the session holds, what is only known from others, by the hash of the prefix."""

    intact: int = 0
    """Bytes of it in front of all that was arranged."""

    @property
    def as_written(self) -> Prefixes:
        """The prompt as the user wrote it."""
        return self.written if self.written is not None else self.prefix


class Taught(NamedTuple):
    """What is known more."""

    seen: Beliefs
    """The session's own observations after this request."""
    lasting: tuple[Observation, ...]
    """What the workload's statistics gain by it."""


def teach(
    state: SessionState, sent: Sent, observed: Observed, predicted: CacheBill, before: int | None = None
) -> Taught:
    """What the reply to `sent` teaches a session in `state`; `predicted` is the bill that was expected, `before` the
    tokens of the prompt before it.
    """
    usage = sent.usage
    grows = _grows(observed, lasting_tokens(sent.prefix, usage.input), before)
    size, alive = (*_size(sent.prefix, usage), *_prefilled(sent)), _alive(observed, predicted, usage)
    pace = _pace(state, sent, observed, predicted)
    return Taught(
        _seen(state, observed, pace).after([*size, *alive, *grows]),
        (
            *_lasting(observed),
            *size,
            *alive,
            *grows,
            *_going_on(state, sent, observed, pace),
            *_after(state, sent, observed),
            *_rhythm(state, sent, observed),
        ),
    )


def _size(prefix: Prefixes, usage: Usage) -> tuple[Observation, ...]:
    if not usage.input:
        return ()
    return (Observation(f"bytes/{prefix.prompt.model}", float(prefix.size), float(usage.input)),)


def _prefilled(sent: Sent) -> tuple[Observation, ...]:
    """In how many seconds a server of the user's own has computed what it had not kept of the prompt: as it says
    itself, else until the reply began."""
    if not sent.prefix.facts.self_hosted:
        return ()
    prompt = sent.prefix.prompt
    done = prefilled(sent.work, sent.usage, sent.visible - sent.started if prompt.stream else None)
    if done is None:
        return ()
    seconds, tokens = done  # times the tokens: of a small prompt most of the time is what any request takes
    return (Observation(f"prefill/{prompt.model}", seconds * tokens, float(tokens * tokens)),) if tokens else ()


def _grows(observed: Observed, now: int | None, before: int | None) -> tuple[Observation, ...]:
    """By how many tokens the prompt has grown, but for what we have put at its end; one that became smaller was edited,
    and says nothing of that."""
    if observed.in_time is None or before is None or now is None or now < before:
        return ()
    return (Observation(GROWS, float(now - before)),)


def _lasting(observed: Observed) -> tuple[Observation, ...]:
    """What other sessions can learn from: not where in its history this one was edited."""
    lasting = tuple(one for one in observed.stability if not is_history(one.topic.removeprefix("stable/")))
    return (*lasting, *observed.moves)


def _seen(state: SessionState, observed: Observed, pace: Sequence[Observation]) -> Beliefs:
    """The session's own observations after this request; a gap is remembered longer than a change."""
    seen = state.seen.after(observed.stability, priors().memory).after(pace, priors().pace_memory)
    seen = seen.after(observed.moves)
    return seen if observed.in_time is None else seen.after(went_on(state.last_turn, state.awaits))


def _going_on(
    state: SessionState, sent: Sent, observed: Observed, pace: Sequence[Observation]
) -> tuple[Observation, ...]:
    """That this request was made, that the one before was followed by it, what the gap between them showed, and how
    long the session has become."""
    made = [Observation(topic, 0.0, 1.0) for topic in _places(sent.prefix.turn, state.turns)]
    length = length_seen(state.turns + 1)
    if observed.in_time is None:
        return *made, *length
    before = [Observation(topic, 1.0, 0.0) for topic in _places(state.last_turn, state.turns - 1)]
    return *made, *before, *pace, *length


def _places(turn: int, place: int) -> Iterator[str]:
    yield goes_on_topic(turn)
    topic = followed_at_topic(place)
    if topic is not None:
        yield topic


def _after(state: SessionState, sent: Sent, observed: Observed) -> Iterator[Observation]:
    """That this reply came, and that the one before was followed, by what they asked for."""
    if sent.awaits:
        yield Observation(after_topic(sent.awaits), 0.0, 1.0)
    if state.awaits and observed.in_time is not None:
        yield Observation(after_topic(state.awaits), 1.0, 0.0)


def _alive(observed: Observed, predicted: CacheBill, usage: Usage) -> tuple[Observation, ...]:
    """Whether what was expected to be read was, but for what an estimate may be out by."""
    if predicted.hit < 0 or usage.read is None:
        return ()
    held = float(usage.read >= _NEARLY * predicted.expected.read)
    there = () if observed.others is None else (Observation(alive_topic(observed.others), held),)
    return (Observation(ALIVE, held), *there)


_NEARLY = 0.9
"""Share of the expected read from which on it was what was expected."""


def _rhythm(state: SessionState, sent: Sent, observed: Observed) -> Sequence[Observation]:
    """What the pause shows of its place in a session: for others of the workload, because each has it once."""
    if observed.in_time is None or state.last_started is None:
        return ()
    return rhythm_seen(state.turns - 1, sent.started - state.last_started)


def _pace(state: SessionState, sent: Sent, observed: Observed, predicted: CacheBill) -> tuple[Observation, ...]:
    """What the gap before a request showed; a session's own gaps are the best guide to its next one."""
    if observed.in_time is not False or sent.usage.read is None or predicted.hit >= 0 or state.last_started is None:
        return observed.pause  # not reported is not zero: it says nothing of who shares, as what is its own does not
    # Too late for its own entries. What is read all the same, another session has kept warm.
    there = read_beginnings(sent.prefix, sent.usage, state.born)
    seen = [Observation(topic, float(read)) for topic, read in there.items()]
    # Nor would the longest lifetime have been enough: sessions that begin soon after others do not make up for that.
    if sent.started - state.last_started > sent.prefix.facts.ttls[-1].seconds:
        seen += [Observation(LATER[topic], 0.0) for topic, read in there.items() if not read]
    return *observed.pause, *seen

"""What a plan says of text that keeps changing, and of a tool list in another order: the consent that would mend it, or
why it stays where it is. Both are judged by what moves text, so nothing is recommended that would not be done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from agentaccel.cache.beliefs import PARAMETERS, TAIL
from agentaccel.cache.observe import Observed
from agentaccel.cache.prefix import Prefixes
from agentaccel.facts import CacheFacts, priors
from agentaccel.policy import CachePolicy
from agentaccel.rewrite.arrangement import MoveBudget, move
from agentaccel.rewrite.arranging import ArrangeInputs, is_pinned, movable, terms_of, unsaid
from agentaccel.rewrite.drift import COMPARED, Print, drift
from agentaccel.rewrite.templates import stamps
from agentaccel.rewrite.volatile import TOO_MUCH, changed_once, fits, pays
from agentaccel.segments import agreeing, digest_of
from agentaccel.types import Drift, Request

_LIKELY = 0.5
"""The prior from which text is named by its shape alone, before anything was compared."""

_UNSEEN = "how much of it changed is not known; with CachePolicy(move_volatile=True) all of it is compared"
"""Of a text whose change was not seen."""

_LONGEST = 1 << 16
"""Characters of a text that are looked at."""

_SHAPES = {"clock": "clock with seconds", "id": "uuid"}
"""What a drift calls a shape that has another name among the priors."""


class Seen(NamedTuple):
    """What is at hand when a request is planned."""

    request: Request
    prefix: Prefixes
    observed: Observed
    print: Print | None
    """Of the prompt before, or of another conversation's that began alike; None where there is neither."""
    knowing: Callable[[], ArrangeInputs]
    """What an arrangement of it is made with."""
    left: Mapping[int, str] = {}
    """Why texts that changed were left where they are, with consent, by segment."""
    own: bool = True
    """Whether the prompt before was this conversation's: of another one's, only what would mend it is said."""


class Advisories(NamedTuple):
    """What is said."""

    reasons: tuple[str, ...] = ()
    drift: Drift | None = None
    """Where the prompt leaves the one before, as far as it had to be found out for that."""


NO_ADVISORIES = Advisories()


def advisories(seen: Seen, policy: CachePolicy) -> Advisories:
    """What the beginning of the prompt loses by changing, and what would mend it. Of a prompt that only grew, nobody
    asks."""
    prompt, facts = seen.prefix.prompt, seen.prefix.facts
    if prompt.held or prompt.illegal or not prompt.messages or not (facts.operator_message or _reuses(facts)):
        return NO_ADVISORIES
    if seen.print is None:
        return Advisories(() if policy.move_volatile else tuple(_by_shape(seen, policy)))
    places = [one.topic.partition("/")[2] for one in seen.observed.stability if not one.yes]
    if seen.own and not seen.left and not any(map(_is_above_messages, places)):
        return NO_ADVISORIES
    found = drift(seen.print, prompt, seen.request, facts)
    if found is None or found.level not in ("tools", "system"):
        return Advisories(drift=found)
    return Advisories(tuple(_of_drift(found, seen.print, seen, policy)), found)


def _is_above_messages(place: str) -> bool:
    return place != TAIL and not place.startswith((PARAMETERS, "messages", "input"))


def _by_shape(seen: Seen, policy: CachePolicy) -> Iterator[str]:
    known, prompt, facts = priors().moves, seen.prefix.prompt, seen.prefix.facts
    texts = movable(seen.request, prompt, policy)
    if not texts:
        return
    knowing = seen.knowing()
    for text in texts:
        stamped = stamps(text.text[:_LONGEST], knowing.now)
        found = next((one for one in stamped if known.get(one.shape, 0.0) >= _LIKELY), None)
        if found is None:
            continue
        if not facts.operator_message:
            before = len(text.text[: found.start].encode("utf-8", "replace")) / facts.bytes_per_token
            yield f"{text.name} has a {found.shape}: where it changes, {_again(_behind(seen, text.segment) - before)}"
            return
        moves = move(texts, {}, terms_of(prompt, facts, knowing), fresh=True)
        if text.place in moves.places and not unsaid(seen.request, prompt, facts, seen.prefix.facts.wire):
            behind = _behind(seen, text.segment)
            yield (
                f"{text.name} has a {found.shape}: where it changes, {_tokens(seen, behind)} behind it are not read; "
                "CachePolicy(move_volatile=True) consents to moving it to the end"
            )
        return


def _reuses(facts: CacheFacts) -> bool:
    """Whether a server is known to go on from any prefix that it still has, with no field of ours."""
    return facts.physics == "automatic" and facts.assured


def _again(tokens: float) -> str:
    return (
        f"the server computes about {tokens:.0f} tokens from there on again; at the end of the prompt it breaks nothing"
    )


def _of_drift(found: Drift, before: Print, seen: Seen, policy: CachePolicy) -> Iterator[str]:
    if not seen.prefix.facts.operator_message:
        segment = agreeing(before.segments, seen.prefix.prompt.segments)
        unmoved = ", but it is not known how text is said there" if policy.move_volatile else ""
        yield f"{found.where} changed ({found.likely}): {_again(_behind(seen, segment))}{unmoved}"
        return
    if found.where == "tools" or found.likely == "key order":
        if not policy.freeze_tools and _is_own_list(found, before, seen):
            yield (
                f"{found.likely} in {found.where}: {_tokens(seen, _behind(seen, 0))} from there on are not read; "
                "CachePolicy(freeze_tools=True) consents to keeping what came first"
            )
        return
    segment = agreeing(before.segments, seen.prefix.prompt.segments)
    text = next(
        (one for one in movable(seen.request, seen.prefix.prompt, CachePolicy()) if one.segment == segment), None
    )
    if text is not None and text.place in seen.prefix.prompt.arranged:
        return  # what is new there is what we have put in its place
    start = 0 if found.level == "tools" else seen.prefix.starts[1]
    lost = f"{found.where} changed ({found.likely}): {_tokens(seen, _behind(seen, start))} from there on are not read; "
    why = seen.left.get(segment) or _why_not(found, before, seen, policy, segment)
    if why:
        if seen.own:
            yield f"{lost}it stays where it is: {why}"
    elif not policy.move_volatile:
        yield f"{lost}CachePolicy(move_volatile=True) consents to moving what changes to the end"
    else:
        yield f"{lost}it stays where it is until it has been compared in this process"


def _tokens(seen: Seen, tokens: float) -> str:
    """So many tokens, and where a server of the user's own computes them again, in what time."""
    prompt = seen.prefix.prompt
    each = seen.knowing().beliefs.prefill(prompt.model) if seen.prefix.facts.self_hosted else None
    return (
        f"about {tokens:.0f} tokens"
        if each is None
        else f"about {tokens:.0f} tokens, {tokens * each:.1f} s to compute,"
    )


def _is_own_list(found: Drift, before: Print, seen: Seen) -> bool:
    """Whether the tools are this conversation's with another order or a few others, and no list of somebody else's."""
    old, now = before.segments, seen.prefix.prompt.segments
    if found.likely != "changed tool set":
        return True
    names = {one.name for one in old if one.level == "tools"}
    kept = names & {one.name for one in now if one.level == "tools"}
    systems = [list(map(digest_of, (one for one in side if one.level == "system"))) for side in (old, now)]
    return 2 * len(kept) >= len(names) and systems[0] == systems[1]


def _why_not(found: Drift, before: Print, seen: Seen, policy: CachePolicy, segment: int) -> str:
    """Why what has changed in that segment would stay where it is, with consent; empty where it would be moved."""
    prompt, facts = seen.prefix.prompt, seen.prefix.facts
    if is_pinned(segment, prompt, policy.pinned):
        return "the policy has it pinned"
    texts = movable(seen.request, prompt, policy)
    text = next((one for one in texts if one.segment == segment), None)
    if text is None:
        return "it is no text that can be moved"
    why = unsaid(seen.request, prompt, facts, seen.prefix.facts.wire)
    if why:
        return why
    room, size = MoveBudget(texts), len(text.text)
    for one in texts:
        if one.segment < segment:
            room.moved(one, 0)
    # Where nothing that was compared has changed, at most all that was not.
    most = size - COMPARED if before.checks[segment] and size > COMPARED else size
    changed = most if found.bytes is None else min(found.bytes, size)
    if not fits(changed, size, room.of(text)):
        return TOO_MUCH if found.bytes is not None else _UNSEEN
    knowing = seen.knowing()
    terms = terms_of(prompt, facts, knowing._replace(policy=replace(policy, move_volatile=True)))
    if terms.behind[0] < facts.min_tokens:
        return f"the prompt has fewer than {facts.min_tokens} tokens, and nothing of it is cached"
    piece = changed_once(_SHAPES.get(found.likely, found.likely), changed, terms.behind[segment], terms)
    if pays(piece, terms):
        return ""
    return piece.stays() if found.bytes is not None else _UNSEEN


def _behind(seen: Seen, segment: int) -> float:
    before = seen.prefix.sizes[segment - 1] if segment else 0
    return (seen.prefix.size - before) / seen.prefix.facts.bytes_per_token

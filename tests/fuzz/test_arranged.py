"""With both consents, at every place: never a 400 of our making, and all that was written is still there, once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentaccel.policy import CachePolicy
from tests.fuzz.arranged import HERE, note_of, restored, run, spaced

AT_EACH = pytest.mark.parametrize("name", HERE)
LEFT_ALONE = ("azure chat", "azure responses", "openrouter", "mistral", "xai", "server")
"""Where it is not known what may stand at the end of a conversation."""


def assert_arranged_well(name: str, conversations: int, seed: int) -> None:
    tally = run(name, conversations, seed)
    assert tally.rejected_by_us == []
    assert [(written, sent) for written, sent in tally.unlike[:1]] == []
    assert tally.legal > tally.requests / 2, "the generator must reach the stage"
    if name in LEFT_ALONE:
        assert not tally.arranged
    else:
        assert tally.arranged["move_volatile"] > tally.legal / 2, "not by doing nothing"
        assert tally.arranged["freeze_tools"] > tally.legal / 100
        assert tally.stable >= 0.4 * tally.followed


@pytest.mark.many(24)
@AT_EACH
def test_arranged_requests_are_legal_and_can_be_put_together_again(name: str) -> None:
    """Contract lines 1 and 2, where content may be moved: what was moved is there exactly once, the rest as it was."""
    assert_arranged_well(name, 5 if name in LEFT_ALONE else 40, seed=7)


@pytest.mark.soak
@AT_EACH
def test_arranged_requests_are_legal_in_six_hundred_conversations(name: str) -> None:
    """The same at length."""
    assert_arranged_well(name, 600, seed=1001)


@pytest.mark.parametrize(
    "consent", [CachePolicy(move_volatile=True, pinned=("system", "tools")), CachePolicy(), CachePolicy(ttl="1h")]
)
def test_nothing_is_moved_without_consent(consent: CachePolicy) -> None:
    """Nor where all of it is pinned."""
    tally = run("api", 6, 3, consent)
    assert not tally.arranged
    assert tally.unlike == []


def test_a_lost_or_doubled_piece_would_be_found_out() -> None:
    """The twin: the guard that puts requests together again bites."""
    written = {"messages": [{"role": "user", "content": "Hi"}], "system": "You are Ada.\nIt is noon.\nBe brief."}
    note = "[current value 1] It is noon."
    sent: dict[str, Any] = {
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": "text", "text": note}]}],
        "system": "You are Ada.\n[current value 1, at the end of this conversation]\nBe brief.",
    }
    assert note_of(sent) == note
    assert spaced(restored(sent, written)) == spaced(written)
    for broken in (note.replace("noon", "one"), note.replace("It is noon.", "")):
        lost = json.loads(json.dumps(sent).replace(json.dumps(note)[1:-1], json.dumps(broken)[1:-1]))
        assert spaced(restored(lost, written)) != spaced(written)
    assert spaced(restored({**sent, "system": written["system"]}, written)) == spaced(written)
    twice = {**sent, "system": str(sent["system"]) + "\nIt is noon."}
    assert spaced(restored(twice, written)) != spaced(written)

"""Servers that go on from any prefix they still have, at no charge: what keeps them from it is named, in tokens."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentaccel import Accel, CachePolicy, Policy, StorePolicy, Usage
from agentaccel.testing import ManualClock
from agentaccel.turn import Finished, FirstByte, Reported, Started
from tests.driver import Json, prose
from tests.engine.test_arranging import START, stamp


def _request(now: float, turns: int, *, clock_first: bool) -> Json:
    clock, rules = f"It is {stamp(now)} UTC.", prose(1500)
    system = f"{clock}\n{rules}" if clock_first else rules
    said = [{"role": "user" if i % 2 == 0 else "assistant", "content": prose(30, i)} for i in range(2 * turns + 1)]
    return {"model": "qwen3", "messages": [{"role": "system", "content": system}, *said]}


def _reasons(platform: str, folder: Path, *, clock_first: bool, consents: bool = False) -> list[str]:
    """What the plans of three requests say."""
    clock, said = ManualClock(now=START), []
    cache = CachePolicy(move_volatile=consents)
    policy = Policy(strict=True, store=StorePolicy(path=folder / "t.db"), cache=cache)
    with Accel(policy, clock=clock, environ={}) as accel, accel.session("s"):
        for turns in range(3):
            turn = accel.turn(
                _request(clock.now, turns, clock_first=clock_first), provider="compatible", platform=platform
            )
            turn.handle(Started(clock.monotonic()))
            clock.advance(2)
            turn.handle(FirstByte(clock.monotonic()))
            turn.handle(Reported(usage=Usage(input=2800, read=0, output=9)))
            turn.handle(Finished(clock.monotonic()))
            said.append(" ".join(turn.plan.reasons))
            clock.advance(9)
    return said


@pytest.mark.parametrize("platform", ["vllm", "sglang", "llamacpp"])
def test_what_keeps_a_server_from_reusing_the_prompt_is_named_in_tokens(platform: str, tmp_path: Path) -> None:
    """Each time: by its shape on the first request, and by comparing from the second on. Behind the clock stands nearly
    all of the prompt, some 9,000 bytes at the facts' bytes per token; nothing is recommended that nobody would do."""
    for turn, said in enumerate(_reasons(platform, tmp_path, clock_first=True)):
        assert "computes about" in said
        tokens = float(said.split("computes about ")[1].split()[0])
        size = len(json.dumps(_request(START, turn, clock_first=True)))
        assert size / 4.5 < tokens < size / 3
        assert "consents to" not in said


def test_that_consent_moves_nothing_there_is_said(tmp_path: Path) -> None:
    _, *later = _reasons("vllm", tmp_path, clock_first=True, consents=True)
    assert all("but nothing is moved for servers without prices" in said for said in later)


def test_a_server_that_reuses_all_of_it_is_not_talked_about(tmp_path: Path) -> None:
    assert not any("computes about" in said for said in _reasons("vllm", tmp_path, clock_first=False))


def test_where_nothing_is_known_of_a_cache_nothing_is_said_of_it(tmp_path: Path) -> None:
    assert not any("computes about" in said for said in _reasons("openrouter", tmp_path, clock_first=True))

"""What `choose` predicts of vLLM's suffix decoding, against what vLLM counts on the toy's conversations."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentaccel import Accel
from agentaccel.replay.events import run_of
from agentaccel.replay.talks import tokenised
from agentaccel.selfhost.candidates import key_of, replay_all, rows_of
from agentaccel.selfhost.launch import EngineProcess
from agentaccel.selfhost.tokens import ByServer
from tests.engines.conftest import placed
from tests.engines.exchange import SYSTEM, TURNS, play, sdk
from tests.engines.starting import start_vllm

pytestmark = pytest.mark.engines

ROOT = Path(__file__).parents[2]
SITES = {
    "first": [SYSTEM],
    "again": [SYSTEM, SYSTEM],
    "another": ["Answer in one line. " * 12, "You write prose about rivers, and no code. " * 6],
}
"""By site: the system prompts of its exchanges, in the order in which they are held."""


@pytest.fixture(scope="module")
def suffix(models: Path) -> Iterator[EngineProcess]:
    """With its own settings, and nothing remembered yet."""
    env = {"PYTHONPATH": str(placed("suffix") / "lib")}
    config = {"method": "suffix", "num_speculative_tokens": 16}
    engine = start_vllm(placed("vllm") / "bin" / "python", models, speculative=config, env=env)
    yield engine
    engine.stop()


def as_run(site: str, number: int, system: str, replies: tuple[Any, ...]) -> dict[str, Any]:
    """An exchange in the normalised form of agent runs."""
    messages: list[dict[str, Any]] = []
    for turn, reply in zip(TURNS, replies, strict=True):
        # The toy calls tools in its text, so that is where results come from: they are what somebody has said to it.
        messages += [
            {"role": "user", "content": turn["content"]},
            {"role": "assistant", "content": reply.choices[0].message.content or ""},
        ]
    return {"id": f"{site}-{number}", "domain": site, "system": system, "messages": messages}


def test_predicted_tokens_a_step_are_those_that_vllm_counts(suffix: EngineProcess, accel: Accel) -> None:
    """Within 15 % at each site; and whoever says the mean of all sites everywhere is not."""
    backend = accel.backend(f"{suffix.url}/v1")
    assert backend.wait_ready()
    counted: dict[str, float] = {}
    runs = []
    with sdk(suffix) as client:
        for site, systems in SITES.items():
            with backend.observe() as seen:
                for number, system in enumerate(systems):
                    runs.append(as_run(site, number, system, play(client, system=system).replies))
            assert seen.figures.tokens_per_step is not None
            counted[site] = seen.figures.tokens_per_step
    said = predicted(runs, suffix.url)
    assert fits(said, counted), (said, counted)
    assert not fits(dict.fromkeys(counted, sum(counted.values()) / len(counted)), counted)


def predicted(runs: list[dict[str, Any]], url: str) -> dict[str, float]:
    """By site, with its own settings. The command itself tells nothing of places where so little was said."""
    own = rows_of("vllm")[0]
    assert (own["method"], own["settings"]) == ("suffix", {})
    talks = list(tokenised(map(run_of, runs), ByServer(url)))
    found = replay_all(("vllm",), talks)[key_of(own)]
    return {site: found[f"agent {site}"].tokens_per_step for site in SITES}


def fits(said: dict[str, float], counted: dict[str, float]) -> bool:
    return all(abs(said[site] / counted[site] - 1) <= 0.15 for site in counted)


def test_our_suffix_tree_drafts_as_that_of_arctic_inference_does() -> None:
    """On text of phrases that come again: as many tokens a step, and as many drafted, within 2 %."""
    python, library = placed("vllm") / "bin" / "python", placed("suffix") / "lib"
    done = subprocess.run(
        [python, "-m", "tests.engines.against_arctic"],
        cwd=ROOT,
        env={"PYTHONPATH": f"{ROOT}:{library}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for (theirs, drafted), (ours, also) in json.loads(done.stdout):
        assert theirs > 1.3
        assert ours == pytest.approx(theirs, rel=0.02)
        assert also == pytest.approx(drafted, rel=0.02)

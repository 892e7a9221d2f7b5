"""What `choose` predicts of an engine, against what the engine counts, on conversations that its model really held."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

from agentaccel import Accel
from agentaccel.cli import main
from tests.selfhost.engine.asking import sdk
from tests.selfhost.engine.conversations import SITES, conversations


class Held(NamedTuple):
    """Conversations of all sites, and what the engine counted meanwhile, by site."""

    path: Path
    url: str
    tokens: dict[str, float]
    rates: dict[str, float]
    """Tokens a step."""


@pytest.fixture(
    params=[pytest.param(40, marks=pytest.mark.engine), pytest.param(200, marks=pytest.mark.engines)], scope="module"
)
def held(request: pytest.FixtureRequest, tiny: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Held]:
    """An engine that drafts from the prompt, and so many turns with it."""
    from agentaccel.selfhost.tiny import TinyOptions, launch_tiny

    path = tmp_path_factory.mktemp("held") / "runs.jsonl"
    tokens, rates, runs = {}, {}, []
    options = TinyOptions(speculate="ngram-simple", slots=1, context=2048, threads=1)
    with launch_tiny(tiny, options) as engine, Accel() as accel, sdk(engine) as client:
        backend = accel.backend(f"{engine.url}/v1")
        for site in SITES:
            with backend.observe() as seen:
                runs += conversations(client, site, -(-request.param // len(SITES)))
            figures = seen.figures
            assert figures.output is not None
            assert figures.tokens_per_step is not None
            tokens[site], rates[site] = figures.output, figures.tokens_per_step
        path.write_text("\n".join(map(json.dumps, runs)), encoding="utf-8")
        yield Held(path, engine.url, tokens, rates)


def predicted(held: Held, *words: str) -> dict[str, float]:
    """By site: the tokens a step of ngram-simple with the engine's own settings."""
    command = ["selfhost", "choose", str(held.path), "--engine", "llamacpp", "--format", "json", *words]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 0, done.stderr
    sites = json.loads(done.stdout)["sources"][0]["engines"][0]["sites"]
    return {site: of_ngram_simple(sites[f"agent {site}"]["options"]) for site in SITES}


def of_ngram_simple(options: list[dict[str, Any]]) -> float:
    [option] = [one for one in options if (one["method"], one["tokens"]) == ("ngram-simple", 48)]
    return float(option["tokens_per_step"])


def fits(said: dict[str, float], counted: dict[str, float]) -> bool:
    """Each site within a fifth, and their mean within a tenth."""
    mean = sum(said.values()) / sum(counted.values())
    return 0.9 <= mean <= 1.1 and all(0.8 <= said[site] / counted[site] <= 1.2 for site in SITES)


@pytest.mark.parametrize("cut", [lambda url: ["--tokenizer", url], lambda url: []], ids=["exact tokens", "by the rule"])
def test_predicted_tokens_a_step_are_those_that_the_engine_counts(held: Held, cut: Callable[[str], list[str]]) -> None:
    """At each site; and whoever says the mean of all sites everywhere is not right."""
    assert all(tokens >= 500 for tokens in held.tokens.values())
    said = predicted(held, *cut(held.url))
    assert fits(said, held.rates), (said, held.rates)
    mean = sum(held.rates.values()) / len(SITES)
    assert not fits(dict.fromkeys(SITES, mean), held.rates)

"""Watching a real engine: what is said follows from what it counts of real requests, at the right window.

Its drafts are n-grams of two tokens, so that few tokens suffice. Text is fixed by a grammar, or acceptance is synthetic
(`synth_rates`, drawn with the seed of the request), so all figures are known beforehand; a window is what was asked in
it, and lasts as long.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import openai
import pytest

from agentaccel import Accel
from agentaccel.selfhost import tiny as bundled
from agentaccel.selfhost.attach import Backend
from agentaccel.selfhost.launch import EngineProcess, free_port, launch
from agentaccel.selfhost.metrics import ServerFigures
from agentaccel.selfhost.tiny import Tiny, TinyOptions
from agentaccel.selfhost.watching import Watcher, WatchPolicy
from tests.clients.wire import an_accel
from tests.selfhost.engine.asking import COUNTING, ask, sdk

pytestmark = pytest.mark.engine

Start = Callable[..., EngineProcess]
NGRAMS = {"ngram_simple.size_n": 2, "ngram_simple.size_m": 3}
"""Looks for the last two tokens, and drafts three."""
TOKENS = 26
SHORT = WatchPolicy(least_output=20)
"""Windows of few tokens tell, too."""


@pytest.fixture
def drafting(tiny: Tiny) -> Iterator[Start]:
    """Starts engines with other n-grams, and with synthetic acceptance; they are stopped with the test."""
    with ExitStack() as started:

        def start(*, port: int, slots: int = 1, **speculation: object) -> EngineProcess:
            options = TinyOptions(threads=2, context=512, slots=slots, speculate="ngram-simple")
            words = [
                json.dumps(bundled.settings(tiny, options, port)),
                str(bundled.HERE),
                json.dumps({**NGRAMS, **speculation}),
            ]
            argv = [sys.executable, "-I", "-S", str(Path(__file__).with_name("drafting_server.py")), *words]
            return started.enter_context(launch(argv, url=f"http://127.0.0.1:{port}", name="the tiny engine"))

        yield start


@pytest.fixture
def accel(tmp_path: Path) -> Iterator[Accel]:
    with an_accel(tmp_path) as made:
        yield made


class Watched:
    """A server and its watcher: at which window which finding began, or was over."""

    def __init__(self, backend: Backend, policy: WatchPolicy = SHORT) -> None:
        self._backend, self._watcher = backend, Watcher(policy)
        self.said: list[tuple[int, str, bool]] = []
        self.windows: list[ServerFigures] = []

    @contextmanager
    def window(self) -> Iterator[None]:
        with self._backend.observe() as seen:
            yield
        told = self._watcher.see(seen.figures)
        self.said += [(len(self.windows), one.kind, one.over) for one in told]
        self.windows.append(seen.figures)


def passes(tokens: int, in_a_step: int) -> int:
    """The prompt gives the first token."""
    return 1 + -(-(tokens - 1) // in_a_step)


def counts(client: openai.OpenAI, tokens: int = TOKENS, seed: int = 0) -> None:
    ask(client, COUNTING, tokens=tokens, ignore_eos=True, seed=seed)


def test_drafts_that_no_longer_pay_after_a_restart_are_told_at_the_third_window(drafting: Start, accel: Accel) -> None:
    """Three tokens a step for as long as there is nothing to say, then one: the watcher sees that it is another
    engine, at the same address, and takes what it had seen for gone."""
    port = free_port()
    engine = drafting(port=port, synth_rates=[1.0, 1.0, 0.0])
    backend = accel.backend(f"{engine.url}/v1")
    assert backend.wait_ready()
    watched = Watched(backend)
    with sdk(engine) as client:
        for _ in range(3):
            with watched.window():
                counts(client)
        assert [one.tokens_per_step for one in watched.windows] == [TOKENS / passes(TOKENS, 3)] * 3
        assert watched.said == []
        with watched.window():
            engine.stop()
            drafting(port=port, synth_rates=[0.0, 0.0, 0.0])
        for _ in range(3):
            with watched.window():
                counts(client)
    assert watched.windows[3].restarted == (f"127.0.0.1:{port}",)
    assert [one.tokens_per_step for one in watched.windows[4:]] == [1.0] * 3
    assert all(one.drafted for one in watched.windows[4:])
    assert watched.said == [(3, "restarted", False), (6, "break-even", False)]


def test_tokens_a_step_are_those_that_the_rates_give(drafting: Start, accel: Accel) -> None:
    """Of the first place each draft is taken, of the second every other one: 2.5 tokens a step, within a tenth over all
    windows, and within a quarter in each, of sixteen steps."""
    engine = drafting(port=free_port(), synth_rates=[1.0, 0.5, 0.0])
    backend = accel.backend(f"{engine.url}/v1")
    assert backend.wait_ready()
    watched = Watched(backend)
    with sdk(engine) as client:
        for number in range(4):
            with watched.window():
                counts(client, 41, seed=number)
    steps = sum((one.output or 0) - (one.accepted or 0) for one in watched.windows)
    assert 4 * 41 / steps == pytest.approx(2.5, rel=0.1)
    for one in watched.windows:
        assert one.tokens_per_step == pytest.approx(2.5, rel=0.25)
    assert watched.said == []


REPETITIVE = "12345678" * 4
DIVERSE = "".join(Random(14).choices("01234", k=32))
"""Pairs of digits come again and go on otherwise: there are drafts, and hardly one is right."""
DIGITS = [{"role": "user", "content": "Say digits."}]


def dictated(text: str) -> dict[str, Any]:
    """A reply that says just that."""
    return {"grammar": f'root ::= "{text}"'}


def test_drift_from_repetitive_to_diverse_is_told_in_one_running_engine(drafting: Start, accel: Accel) -> None:
    """No acceptance is faked: the text is dictated, and what of it n-grams foresee follows from it."""
    engine = drafting(port=free_port())
    backend = accel.backend(f"{engine.url}/v1")
    assert backend.wait_ready()
    watched = Watched(backend)
    with sdk(engine) as client:
        for text in [REPETITIVE] * 3 + [DIVERSE] * 3 + [REPETITIVE] * 3:
            with watched.window():
                reply = ask(client, DIGITS, tokens=60, **dictated(text))
            assert reply.choices[0].message.content == text
    rates = [one.tokens_per_step or 0 for one in watched.windows]
    assert min(rates[:3] + rates[6:]) > 1.5
    assert max(rates[3:6]) < 1.1
    assert watched.said == [(5, "break-even", False), (5, "workload", False), (8, "break-even", True)]


def test_a_load_that_rises_past_break_even_is_told_as_that(drafting: Start, accel: Accel) -> None:
    """Two conversations go on while the windows are taken, with as many tokens a step as ever; then they are left."""
    engine = drafting(port=free_port(), slots=3, synth_rates=[1.0, 0.0, 0.0])
    backend = accel.backend(f"{engine.url}/v1")
    assert backend.wait_ready()
    watched = Watched(backend, WatchPolicy(least_output=20, break_even=((1, 1.2), (2, 2.5))))
    with sdk(engine) as client, ExitStack() as others:
        for _ in range(3):
            with watched.window():
                counts(client)
        for _ in range(2):
            stream = client.chat.completions.create(
                model="any",
                messages=COUNTING,
                max_tokens=400,
                stream=True,
                extra_body={"ignore_eos": True},  # type: ignore[arg-type]
            )
            next(iter(others.enter_context(stream)))
        for _ in range(3):
            with watched.window():
                counts(client)
    assert [one.running for one in watched.windows] == [0, 0, 0, 2, 2, 2]
    assert [one.tokens_per_step for one in watched.windows] == [TOKENS / passes(TOKENS, 2)] * 6
    assert watched.said == [(5, "load", False)]

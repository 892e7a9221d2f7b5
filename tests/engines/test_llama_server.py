"""The compiled llama-server serves the toy model, and is understood. Its own figures are the right values."""

from __future__ import annotations

import pytest

from agentaccel import Accel
from tests.engines.exchange import play, sdk
from tests.engines.starting import Start

pytestmark = pytest.mark.engines


def test_an_exchange_is_counted_as_the_engine_counts_it(start_llama: Start, accel: Accel) -> None:
    """Through the wrapped SDK: the same text as through the bare one, cached tokens that grow by turn, and counters
    whose differences are the sums of `timings`."""
    engine = start_llama()
    backend = accel.backend(f"{engine.url}/v1")
    assert backend.wait_ready()
    assert (backend.server.dialect, backend.server.slots) == ("llamacpp", 2)
    with sdk(engine) as bare, backend.observe() as seen:
        played = play(accel.wrap(bare))
    timings = [one.model_extra["timings"] for one in played.replies]
    assert seen.figures.cached == sum(one["cache_n"] for one in timings) == sum(played.cached)
    assert seen.figures.prompt == sum(one["cache_n"] + one["prompt_n"] for one in timings) == played.prompt
    assert seen.figures.output == played.output
    assert sorted(played.cached[1:]) == played.cached[1:]
    assert played.cached[1] > played.cached[0]
    with sdk(engine) as bare:
        assert play(bare).digest == played.digest

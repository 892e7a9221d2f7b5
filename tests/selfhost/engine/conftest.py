"""One real engine for all tests that need one: llama.cpp's server with SmolLM2-135M-Instruct, from the package index.

Where it cannot be installed the tests are skipped, with the reason; with AGENTACCEL_ENGINE=required, as in `.ci/run`,
they fail. Prompts and replies are short: on two busy cores a token takes 20 ms to read and a tenth of a second to
write.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from agentaccel.errors import EngineError
from agentaccel.selfhost.launch import EngineProcess
from agentaccel.selfhost.tiny import Tiny, TinyOptions, launch_tiny, prepare
from tests.selfhost.engine.asking import sdk

REQUIRED = os.environ.get("AGENTACCEL_ENGINE") == "required"  # read here: no test sees variables of that name


@pytest.fixture(scope="session")
def tiny() -> Tiny:
    """The engine and its weights; installed at most once for all processes of a run."""
    try:
        return prepare(say=lambda line: sys.stderr.write(f"{line}\n"))
    except EngineError as error:
        if REQUIRED:
            raise
        pytest.skip(f"no real engine here: {str(error).splitlines()[0]}")


@pytest.fixture(scope="session")
def slot_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("slots")


@pytest.fixture(scope="session")
def engine(tiny: Tiny, slot_folder: Path) -> Iterator[EngineProcess]:
    """The engine that all tests share which do not harm it."""
    with launch_tiny(tiny, TinyOptions(threads=2, context=1024, slot_folder=slot_folder)) as engine:
        yield engine


@pytest.fixture
def own_engine(tiny: Tiny) -> Iterator[Callable[..., EngineProcess]]:
    """Starts engines for one test; they are stopped with it."""
    started: list[EngineProcess] = []

    def start(**options: Any) -> EngineProcess:
        chosen = TinyOptions(**{"threads": 2, "context": 512, "slots": 1, **options})
        started.append(launch_tiny(tiny, chosen))
        started[-1].start()
        return started[-1]

    yield start
    for one in started:
        one.stop()


@pytest.fixture
def client(engine: EngineProcess) -> Iterator[openai.OpenAI]:
    with sdk(engine) as client:
        yield client

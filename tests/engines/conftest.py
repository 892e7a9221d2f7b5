"""Where the engines lie that `make engines` has set up; what could not be set up skips its tests, with the reason.

With AGENTACCEL_ENGINES=required they fail.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentaccel import Accel
from agentaccel.selfhost.launch import EngineProcess
from tests.clients.wire import an_accel
from tests.engines.setup import REQUIRED, SetUpError, place
from tests.engines.starting import Start, start_llama_server


def placed(name: str) -> Path:
    try:
        return place(name)
    except SetUpError as error:
        if REQUIRED:
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def models() -> Path:
    """The folder of the toy models: `tiny.gguf`, `tiny-draft.gguf`, `tiny-eagle3.gguf`, and folders of those names."""
    return placed("models")


@pytest.fixture(scope="session")
def llama_server() -> Path:
    """The compiled program."""
    return placed("llama-server") / "llama-server"


@pytest.fixture(scope="module")
def start_llama(llama_server: Path, models: Path) -> Iterator[Start]:
    """Starts a llama-server of the toy model, with more options; each is stopped with the module."""
    started: list[EngineProcess] = []

    def start(*options: str) -> EngineProcess:
        started.append(start_llama_server(llama_server, models, *options))
        return started[-1]

    yield start
    for one in started:
        one.stop()


@pytest.fixture
def accel(tmp_path: Path) -> Iterator[Accel]:
    with an_accel(tmp_path) as made:
        yield made

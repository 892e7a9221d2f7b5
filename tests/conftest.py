"""What every test shares: hypothesis profiles, and no agentaccel settings from the outside."""

from __future__ import annotations

import gc
import itertools
import os
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings

from agentaccel.store import database

ANY_SEED = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("soak", ANY_SEED)
# Whether a change may land is not for luck to decide: in `fast` the examples are those of every other run. The search
# for new ones is what `soak` is for.
settings.register_profile("fast", ANY_SEED, max_examples=10, derandomize=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--soak-share", type=int, default=1, metavar="N", help="of the soak, one in N, always the same ones"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Load the profile, before any test module makes settings of its own from it.

    And look for no garbage until all is imported: there is none, and looking is a third of the time that it takes.
    """
    gc.disable()
    if not config.getoption("--hypothesis-profile"):
        settings.load_profile("soak" if searches(config) else "fast")


def searches(config: pytest.Config) -> bool:
    """Whether this is the soak."""
    return bool(config.getoption("-m") == "soak")


def pytest_collection_finish() -> None:
    """What is loaded by now stays: the garbage collector, which some tests call, need not go through it each time."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(20_000, 10, 10)  # what tests leave behind is little: looking for it often is a tenth of their time


@pytest.fixture(scope="session")
def _homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Names of folders, a new one for each test; what nobody writes to is never made."""
    parent = tmp_path_factory.mktemp("homes")
    return (parent / str(number) for number in itertools.count())


@pytest.fixture(scope="session")
def _no_certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty folder: reading the system's takes every new client 25 ms, and no test talks TLS to anybody."""
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def _little_to_collect() -> None:
    """For modules whose tests call the garbage collector often: what other modules left is not gone through again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _no_power_failures() -> Iterator[None]:
    """No test cuts the power, so no store waits for the disk, which takes each new one longer than all else."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "SYNCHRONOUS", "OFF")
        yield


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, _homes: Iterator[Path], _no_certificates: Path) -> None:
    """No test reads the user's settings, writes the user's store or goes through the user's proxy."""
    for name in [name for name in os.environ if name.startswith("AGENTACCEL_") and name != "AGENTACCEL_TRACES"]:
        monkeypatch.delenv(name)
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(next(_homes) / "data"))
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setenv("SSL_CERT_DIR", str(_no_certificates))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of tests marked `many(n)` one in n is fast, always the same ones; the others are soak.

    What the fast tests draw at random is never new, so the soak draws for them, too. Tests of real traces are skipped
    where there are none.
    """
    for item in items:
        if item.get_closest_marker("traces") and not os.environ.get("AGENTACCEL_TRACES"):
            item.add_marker(pytest.mark.skip(reason="needs AGENTACCEL_TRACES"))
        mark = item.get_closest_marker("many")
        if mark is not None and zlib.crc32(item.nodeid.encode()) % mark.args[0]:
            item.add_marker(pytest.mark.soak)
        if searches(config) and is_hypothesis_test(getattr(item, "obj", None)):
            item.add_marker(pytest.mark.soak)
    share = config.getoption("--soak-share")
    if searches(config) and share > 1:  # by the other end of the digits: the soak of `many` is chosen by this one
        items[:] = [item for item in items if zlib.crc32(item.nodeid[::-1].encode()) % share == 0]

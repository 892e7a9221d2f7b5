"""A trace store that fails is seen by a user who has configured no logging: one line on standard error."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from agentaccel import ConfigError, StorePolicy, once
from agentaccel.once import Once
from agentaccel.policy import log_as_asked
from agentaccel.records import ToolRecord
from agentaccel.store.recorder import Recorder

TOOL = ToolRecord(session="s", name="t", key="k", started=1.0, finished=2.0, outcome="ok")
OURS = logging.getLogger("agentaccel")
STOPS = "; recording to it stops, sessions go on in memory\n"


@contextmanager
def fresh_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process in which nobody has configured logging: pytest's own handlers are out of the way."""
    with monkeypatch.context() as patch:
        patch.setattr(logging.getLogger(), "handlers", [])
        patch.setattr(OURS, "handlers", [logging.NullHandler()])
        patch.setattr(once, "_aloud", Once())
        yield


def damaged(folder: Path) -> Path:
    """A store whose first bytes are SQLite's and whose others are not."""
    path = folder / "trace.db"
    path.write_bytes(b"SQLite format 3\0" + b"x" * 4096)
    return path


def recorder(path: Path) -> Recorder:
    return Recorder(StorePolicy(path=path), strict=False)


def test_a_damaged_store_is_one_line_on_standard_error_for_all_recorders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with fresh_process(monkeypatch):
        for _ in range(3):
            recorder(damaged(tmp_path)).write(TOOL)
        said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith("agentaccel: cannot open the trace store: ")
    assert said.endswith(STOPS)


def test_a_store_in_a_place_that_is_no_folder_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    with fresh_process(monkeypatch):
        recorder(tmp_path / "file" / "trace.db").write(TOOL)
        said = capsys.readouterr().err
    assert (said.count("\n"), said.endswith(STOPS)) == (1, True)


def test_a_locked_store_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "trace.db"
    with fresh_process(monkeypatch):
        ours = recorder(path)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            ours.write(TOOL)
            ours.write(TOOL)
            ours.flush()
        ours.close()
        said = capsys.readouterr().err
    assert said == "agentaccel: cannot write the trace store: database is locked; recording waits in memory\n"


def in_trouble_twice(path: Path) -> None:
    """A store that is locked for a while, and later damaged; twice in one process."""
    for _ in range(2):
        path.unlink(missing_ok=True)
        ours = recorder(path)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            ours.write(TOOL)
            ours.flush()
        ours.write(TOOL)
        ours.flush()
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("DROP TABLE tools")
        ours.write(TOOL)
        ours.flush()
        ours.close()


@pytest.mark.slow
def test_each_kind_of_trouble_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """That records wait does not use up that recording stops, which nobody would miss otherwise."""
    with fresh_process(monkeypatch):
        in_trouble_twice(tmp_path / "trace.db")
        said = capsys.readouterr().err
    assert said == (
        "agentaccel: cannot write the trace store: database is locked; recording waits in memory\n"
        f"agentaccel: cannot write the trace store: no such table: tools{STOPS}"
    )


@pytest.mark.slow
def test_twin_one_line_for_all_hides_that_recording_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class One(Once):
        def _is_new(self, what: str) -> bool:
            return super()._is_new("aloud")

    with fresh_process(monkeypatch):
        monkeypatch.setattr(once, "_aloud", One())
        in_trouble_twice(tmp_path / "trace.db")
        assert capsys.readouterr().err.count("\n") == 1


def configure(how: str) -> None:
    if how == "a handler at the root":
        logging.getLogger().addHandler(logging.StreamHandler())
    elif how == "AGENTACCEL_LOG":
        log_as_asked({"AGENTACCEL_LOG": "warning"}, strict=True)
    elif how == "a level":
        OURS.setLevel(logging.CRITICAL)
    elif how == "no propagation":
        OURS.propagate = False
    elif how == "a level at the root":
        logging.getLogger().setLevel(logging.CRITICAL)
    else:
        logging.lastResort = None


@pytest.mark.parametrize(
    ("how", "lines"),
    [
        ("a handler at the root", 1),
        ("AGENTACCEL_LOG", 1),
        ("a level", 0),
        ("no propagation", 0),
        ("a level at the root", 0),
        ("no last resort", 0),
    ],
)
def test_a_program_that_has_configured_logging_has_the_last_word(
    how: str, lines: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The lines are those of what it has configured, with nothing of ours beside them."""
    before = OURS.level, OURS.propagate, logging.getLogger().level, logging.lastResort
    with fresh_process(monkeypatch):
        try:
            configure(how)
            recorder(damaged(tmp_path)).write(TOOL)
        finally:
            OURS.setLevel(before[0])
            OURS.propagate = before[1]
            logging.getLogger().setLevel(before[2])
            logging.lastResort = before[3]
        assert capsys.readouterr().err.count("agentaccel: cannot open the trace store: ") == lines


def test_what_is_no_failure_of_the_store_stays_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def odd(_: object) -> None:
        raise ValueError("odd")

    with fresh_process(monkeypatch):
        ours = recorder(tmp_path / "trace.db")
        ours.change(odd, None)
        Once().say("an ordinary warning")
        ours.close()
        assert capsys.readouterr().err == ""


def test_strict_mode_raises_and_prints_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with fresh_process(monkeypatch):
        with pytest.raises(Exception, match=r"cannot be|malformed|not a database"):
            Recorder(StorePolicy(path=damaged(tmp_path)), strict=True)
        with pytest.raises(ConfigError):
            Recorder(StorePolicy(path=tmp_path), strict=False)
        assert capsys.readouterr().err == ""


@pytest.mark.parametrize("guard", ["once per process", "configured logging"])
def test_twin_without_its_guard_a_line_is_printed_too_often(
    guard: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with fresh_process(monkeypatch), monkeypatch.context() as patch:
        if guard == "once per process":
            patch.setattr(once._aloud, "_said", _Forgets())
            recorder(damaged(tmp_path))
        else:
            patch.setattr(once, "_is_left_alone", lambda logger: True)
            logging.getLogger().addHandler(logging.StreamHandler())
        recorder(damaged(tmp_path))
        assert capsys.readouterr().err.count("agentaccel: cannot open the trace store: ") == 2


class _Forgets(set[str]):
    def add(self, element: str) -> None:
        """Nothing is kept."""

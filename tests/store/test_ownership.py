"""Whose the files of a trace store are: what is ours becomes ours alone, and what somebody else may have put there is
never written to.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from agentaccel import Accel, ConfigError, Policy, StorePolicy, TraceError
from agentaccel.once import Once
from agentaccel.store import ownership
from agentaccel.store.database import is_sqlite
from agentaccel.store.ownership import how_to_read, judge
from agentaccel.store.store import open_reader
from tests.driver import Driver, body, user

LENIENT = Policy(strict=False)
ELSE = 54321
"""A user that nobody is."""
FILES = ("trace.db", "trace.db-wal", "trace.db-shm", "trace.db.key")

needs_modes = pytest.mark.skipif(os.name == "nt", reason="modes are POSIX")
needs_root = pytest.mark.skipif(getattr(os, "geteuid", lambda: 1)() != 0, reason="only root can give files away")


@pytest.fixture(autouse=True)
def _nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that has said nothing of any store."""
    monkeypatch.setattr(ownership, "_once", Once())


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A folder like `/tmp`: everybody may write there, and take away only their own."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


def seen(folder: Path) -> list[tuple[Any, ...]]:
    """All that there is to see of a folder: names, owners, modes, times and content."""
    return sorted(
        (path.name, path.lstat().st_uid, path.lstat().st_mode, path.lstat().st_mtime_ns, path.read_bytes())
        for path in folder.iterdir()
    )


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def stored(folder: Path) -> None:
    """Leave a store with one request, and its key."""
    driver = Driver(folder)
    driver.ask(body(user("a")))
    driver.accel.close()


def given_away(folder: Path, *names: str) -> None:
    for name in names:
        os.chown(folder / name, ELSE, ELSE, follow_symlinks=False)


# --- the decision -----------------------------------------------------------------------------------------------------

US, ROOT = 1000, 0
TABLE = [
    # owner, mode, owner and mode of the folder, who we are, what is right
    (US, 0o600, US, 0o700, US, "use"),
    (US, 0o400, US, 0o700, US, "use"),
    (US, 0o600, ROOT, 0o1777, US, "use"),  # nobody can take it away from us in /tmp, nor read it
    (US, 0o600, ELSE, 0o755, US, "use"),
    (US, 0o640, US, 0o700, US, "tighten"),
    (US, 0o604, US, 0o700, US, "tighten"),
    (US, 0o620, US, 0o700, US, "tighten"),
    (US, 0o602, US, 0o700, US, "tighten"),
    (US, 0o666, ROOT, 0o1777, US, "tighten"),
    (ROOT, 0o600, US, 0o700, US, "trust"),  # as after one run with sudo
    (ELSE, 0o666, US, 0o755, US, "trust"),
    (ELSE, 0o600, US, 0o775, US, "refuse"),  # our group may have put it there
    (ELSE, 0o600, US, 0o707, US, "refuse"),
    (ELSE, 0o600, US, 0o1777, US, "refuse"),
    (ELSE, 0o600, ROOT, 0o1777, US, "refuse"),  # the attack: it was there before us, in /tmp
    (ROOT, 0o666, ROOT, 0o755, US, "refuse"),
    (ELSE, 0o600, ELSE, 0o700, US, "refuse"),
    (ROOT, 0o600, US, 0o700, ROOT, "use"),
    (ROOT, 0o644, ROOT, 0o755, ROOT, "tighten"),
    (US, 0o600, ROOT, 0o700, ROOT, "trust"),
    (US, 0o600, ROOT, 0o1777, ROOT, "refuse"),
    (US, 0o600, US, 0o700, ROOT, "refuse"),
]


@pytest.mark.parametrize(("owner", "mode", "folder_owner", "folder_mode", "us", "right"), TABLE)
def test_a_file_is_judged_by_whose_it_is_and_who_may_have_put_it_there(
    owner: int, mode: int, folder_owner: int, folder_mode: int, us: int, right: str
) -> None:
    """Right by hand: ours are used, and tightened where a bit of group or others is set. Another user's is trusted
    where only we may write to its folder.
    """
    assert judge(owner, stat.S_IFREG | mode, folder_owner, stat.S_IFDIR | folder_mode, us) == right


@pytest.mark.parametrize(
    ("ours", "log", "writable", "right"),
    [
        (True, False, True, "mode=ro"),
        (True, True, True, "mode=ro"),
        (True, True, False, "mode=ro"),
        (True, False, False, "mode=ro&immutable=1"),
        (False, False, True, "mode=ro&immutable=1"),
        (False, False, False, "mode=ro&immutable=1"),
        (False, True, True, "mode=ro&readonly_shm=1"),
        (False, True, False, "mode=ro&readonly_shm=1"),
    ],
)
def test_a_reader_makes_no_files_where_they_are_not_its_to_make(
    ours: bool, log: bool, writable: bool, right: str
) -> None:
    """Right by SQLite's documentation of WAL mode and of URI file names. "immutable" would miss what is in a log."""
    assert how_to_read(ours=ours, log=log, writable=writable) == right


# --- ours, and open to others -----------------------------------------------------------------------------------------


def open_to_all(folder: Path) -> Callable[[], None]:
    """A store in use whose every file anybody may read; what ends that use."""
    driver = Driver(folder)
    driver.ask(body(user("a")))
    assert sorted(modes(folder)) == sorted(FILES)
    for path in folder.iterdir():
        path.chmod(0o644)
    return driver.accel.close


@needs_modes
def test_files_that_others_may_read_become_ours_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """All four of them, with one line for however many processes and Accels."""
    close = open_to_all(tmp_path)
    with caplog.at_level(logging.WARNING, "agentaccel"):
        for _ in range(2):
            stored(tmp_path)
    assert modes(tmp_path) == dict.fromkeys(FILES, 0o600)
    (line,) = said(caplog)
    assert line.startswith(f"agentaccel: others could read the trace store at {tmp_path / 'trace.db'} or its key; now ")
    close()
    stored(tmp_path)
    assert set(modes(tmp_path).values()) == {0o600}


@needs_modes
def test_twin_without_the_decision_they_stay_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    close = open_to_all(tmp_path)
    monkeypatch.setattr(ownership, "judge", lambda *_: "use")
    stored(tmp_path)
    assert modes(tmp_path) == dict.fromkeys(FILES, 0o644)
    close()


@needs_modes
def test_a_reader_leaves_the_modes_as_they_are(tmp_path: Path) -> None:
    """Chosen by us: a report of what was copied from elsewhere changes nothing of it."""
    stored(tmp_path)
    (tmp_path / "trace.db").chmod(0o644)
    with open_reader(tmp_path / "trace.db") as reader:
        assert len(list(reader.turns())) == 1
    assert modes(tmp_path)["trace.db"] == 0o644


@needs_modes
@pytest.mark.parametrize("how", ["refused", "without effect"])
def test_where_modes_cannot_be_changed_that_is_said_and_recording_goes_on(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As on a file system that keeps no modes, or that is another machine's."""
    stored(tmp_path)
    for path in tmp_path.iterdir():
        path.chmod(0o666)

    def change(*_: Any, **__: Any) -> None:
        if how == "refused":
            raise PermissionError(1, "Operation not permitted")

    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING, "agentaccel"):
        patch.setattr(os, "chmod", change)
        patch.setattr(os, "fchmod", change)
        stored(tmp_path)
    (line,) = said(caplog)
    assert line.startswith(f"agentaccel: others may read the trace store: {tmp_path / 'trace.db.key'} cannot be made ")
    assert len(Driver(tmp_path).records) == 2


@needs_modes
def test_a_database_of_another_program_keeps_its_mode(tmp_path: Path) -> None:
    """It is refused, and stays as it is."""
    path = tmp_path / "trace.db"
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE invoices (n)")
    path.chmod(0o644)
    with pytest.raises(TraceError, match="not a trace store"):
        Driver(tmp_path)
    assert modes(tmp_path) == {"trace.db": 0o644}


@needs_modes
def test_where_the_file_system_says_whose_a_file_is_ours_are_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As on a network share that gives all files to one user: what we make there belongs to somebody else, too."""
    monkeypatch.setattr(os, "geteuid", lambda: ELSE)
    with caplog.at_level(logging.WARNING, "agentaccel"):
        for _ in range(2):
            stored(tmp_path)
        assert len(Driver(tmp_path).records) == 2
    assert not caplog.records


# --- somebody else's --------------------------------------------------------------------------------------------------


@needs_root
def test_what_somebody_else_owns_is_used_where_only_we_can_have_put_it_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With one line; it goes on to be theirs, under the key that is there."""
    stored(tmp_path)
    key = (tmp_path / "trace.db.key").read_bytes()
    given_away(tmp_path, "trace.db", "trace.db.key")
    with caplog.at_level(logging.WARNING, "agentaccel"):
        for _ in range(2):
            stored(tmp_path)
    assert len(Driver(tmp_path).records) == 3
    assert said(caplog) == [
        f"agentaccel: {tmp_path / 'trace.db.key'} belongs to user {ELSE}, not to you; it is used, because its folder is"
        " yours alone"
    ]
    assert {path.stat().st_uid for path in tmp_path.iterdir() if path.name in ("trace.db", "trace.db.key")} == {ELSE}
    assert (tmp_path / "trace.db.key").read_bytes() == key


PLANTED = {
    "the store": ("trace.db", "trace.db.key"),
    "the store alone": ("trace.db",),
    "the key": ("trace.db.key",),
    "the log": ("trace.db-wal",),
    "the index of the log": ("trace.db-shm",),
    "a journal": ("trace.db-journal",),
}


def planted(folder: Path, names: tuple[str, ...]) -> None:
    """What somebody has put into a folder that is open to all; with modes by which everybody may use it."""
    if "trace.db" in names:
        stored(folder)
    for name in names:
        (folder / name).touch()
        (folder / name).chmod(0o666)
    if "trace.db.key" not in names:
        (folder / "trace.db.key").unlink(missing_ok=True)
    given_away(folder, *names)


@needs_root
@pytest.mark.parametrize("names", PLANTED.values(), ids=PLANTED)
def test_what_somebody_else_may_have_put_there_is_never_written_to(
    names: tuple[str, ...], shared: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The agent goes on, with one line that says what to do; nothing is written, beside it neither, but our own key."""
    planted(shared, names)
    before = [one for one in seen(shared) if one[0] in names]
    with caplog.at_level(logging.WARNING, "agentaccel"):
        driver = Driver(shared, policy=LENIENT)
        assert driver.ask(body(user("b"))).input
        driver.accel.close()
    assert [one for one in seen(shared) if one[0] in names] == before
    (line,) = said(caplog)
    assert line.startswith(f"agentaccel: cannot open the trace store: {shared / 'trace.db'}")
    assert f" belongs to user {ELSE}, and its folder is not yours alone" in line
    assert line.endswith("give the trace store another path; recording to it stops, sessions go on in memory")
    if "trace.db" in names:
        assert {one[0] for one in seen(shared)} == set(names)
    with pytest.raises(TraceError, match="is not yours alone"):
        Driver(shared)


@needs_root
@pytest.mark.parametrize("names", [PLANTED["the store"], PLANTED["the key"]], ids=["the store", "the key"])
def test_twin_without_the_decision_it_is_written_to(
    names: tuple[str, ...], shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted(shared, names)
    before = seen(shared)
    monkeypatch.setattr(ownership, "judge", lambda *_: "use")
    (shared / "trace.db.key").write_bytes(b"k" * 32)  # which its owner knows
    Driver(shared).ask(body(user("b")))
    assert seen(shared) != before


@needs_root
@pytest.mark.parametrize("ending", ["", ".key", "-wal"])
def test_a_link_that_somebody_else_has_put_there_is_not_followed(ending: str, shared: Path, tmp_path: Path) -> None:
    """It leads to a file of ours, which stays as it is."""
    ours = tmp_path / "ours"
    ours.touch(0o644)
    (shared / f"trace.db{ending}").symlink_to(ours)
    given_away(shared, f"trace.db{ending}")
    with pytest.raises(TraceError, match=f"trace.db{ending} belongs to user {ELSE}"):
        Driver(shared)
    assert (ours.stat().st_size, stat.S_IMODE(ours.stat().st_mode)) == (0, 0o644)


@needs_modes
@pytest.mark.parametrize("there", [True, False], ids=["to a store", "to nothing yet"])
def test_our_own_links_are_followed(there: bool, tmp_path: Path) -> None:
    """As of who keeps the store on another disk. What SQLite keeps beside it, a reader takes away there."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "data").mkdir()
    if there:
        stored(tmp_path / "disk")
    for name in ("trace.db", "trace.db.key"):
        (tmp_path / "data" / name).symlink_to(Path("..") / "disk" / name)
    stored(tmp_path / "data")
    with open_reader(tmp_path / "data" / "trace.db") as reader:
        assert len(list(reader.turns())) == 1 + there
    assert modes(tmp_path / "disk") == {"trace.db": 0o600, "trace.db.key": 0o600}
    assert all(path.is_symlink() for path in (tmp_path / "data").iterdir())


@needs_modes
@pytest.mark.parametrize("kind", ["a pipe", "a folder", "a link to itself"])
def test_a_key_that_is_no_file_is_refused_at_once(kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A pipe that nobody writes to would be read for ever."""
    key = tmp_path / "trace.db.key"
    {"a pipe": lambda: os.mkfifo(key), "a folder": key.mkdir, "a link to itself": lambda: key.symlink_to(key)}[kind]()
    with caplog.at_level(logging.WARNING, "agentaccel"):
        Driver(tmp_path, policy=LENIENT).ask(body(user("a")))
    (line,) = said(caplog)
    assert "trace.db.key" in line


BOUNDED = """
import pathlib, sys
from agentaccel import Accel, ConfigError, Policy, StorePolicy, TraceError
from agentaccel.store import ownership
from agentaccel.store.store import open_reader

path, guarded = pathlib.Path(sys.argv[1]), sys.argv[2] == "guarded"
if not guarded:
    ownership.check_kind = lambda place: None
for begin in (
    lambda: Accel(Policy(strict=True), environ={"AGENTACCEL_STORE": str(path)}),
    lambda: open_reader(path).__enter__(),
):
    try:
        begin()
    except (ConfigError, TraceError) as refusal:
        print(refusal)
"""
"""Opens what stands at a path, to write and to read; a process that hangs can be ended."""


def opened(path: Path, words: str = "guarded", seconds: float = 60.0) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", BOUNDED, str(path), words],
        capture_output=True, text=True, timeout=seconds, check=True, env={**os.environ, "AGENTACCEL_STORE": str(path)},
    )  # fmt: skip
    return done.stdout.splitlines()


@needs_modes
@pytest.mark.slow
@pytest.mark.parametrize("beside", ["", "-wal", "-journal"])
@pytest.mark.parametrize("kind", ["a pipe", "a device", "a link to a pipe"])
def test_a_store_that_is_no_file_is_refused_at_once(kind: str, beside: str, tmp_path: Path) -> None:
    """Nor is one beside which SQLite would look into a pipe: whoever opens one waits for its other end."""
    stored(tmp_path)
    path = tmp_path / f"trace.db{beside}"
    path.unlink(missing_ok=True)
    if kind == "a pipe":
        os.mkfifo(path)
    else:
        os.mkfifo(tmp_path / "pipe")
        path.symlink_to("/dev/zero" if kind == "a device" else "pipe")
    said_ = opened(tmp_path / "trace.db")
    assert len(said_) == 2
    assert all("no regular file" in line or "which is no file" in line for line in said_)


@needs_modes
@pytest.mark.slow
def test_without_the_look_at_what_it_is_a_pipe_is_waited_for(tmp_path: Path) -> None:
    """The twin."""
    os.mkfifo(tmp_path / "trace.db")
    with pytest.raises(subprocess.TimeoutExpired):
        opened(tmp_path / "trace.db", "as before", seconds=5.0)


@needs_modes
def test_a_policy_that_names_no_file_is_refused_where_it_is_given(tmp_path: Path) -> None:
    """Before anything is opened: a pipe, a device."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(ConfigError, match="which is no file"):
            Accel(Policy(store=StorePolicy(path=path)), environ={})


# --- reading what is somebody else's ----------------------------------------------------------------------------------


HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("SELECT count(*) FROM turns").fetchone()
print("open", flush=True)
sys.stdin.read()
"""
"""A process that has a store open until it is told to end."""


@needs_root
@pytest.mark.parametrize("state", ["closed", "in use", "left by a kill"])
def test_reading_a_store_of_somebody_else_leaves_everything_as_it_is(state: str, tmp_path: Path) -> None:
    """Names, owners, modes, times and bytes; and what is in its log is read."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    driver = Driver(folder)
    driver.ask(body(user("a")))
    other = subprocess.Popen([sys.executable, "-c", HOLD, str(folder / "trace.db")], stdin=PIPE, stdout=PIPE)
    assert other.stdout is not None
    assert other.stdout.readline() == b"open\n"
    if state == "closed":
        other.communicate()
    driver.accel.close()
    if state == "left by a kill":
        copy = tmp_path / "copy"
        copy.mkdir()
        for path in folder.iterdir():
            (copy / path.name).write_bytes(path.read_bytes())
        folder = copy
    for path in (folder, *folder.iterdir()):
        os.chown(path, ELSE, ELSE)
    before = seen(folder)
    with open_reader(folder / "trace.db") as reader:
        assert len(list(reader.turns())) == 1
    assert seen(folder) == before
    assert (len(before) == len(FILES)) == (state != "closed")
    other.communicate()


@needs_root
def test_twin_read_as_our_own_it_is_altered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored(tmp_path)
    given_away(tmp_path, "trace.db", "trace.db.key")
    before = seen(tmp_path)
    monkeypatch.setattr(ownership, "how_to_read", lambda **_: "mode=ro")
    with open_reader(tmp_path / "trace.db") as reader:
        assert len(list(reader.turns())) == 1
    assert seen(tmp_path) != before


# --- locks ------------------------------------------------------------------------------------------------------------

COUNT = "import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute('SELECT count(*) FROM turns').fetchone()[0])"


def turns_that_another_process_sees(path: Path) -> int:
    done = subprocess.run([sys.executable, "-c", COUNT, str(path)], check=True, capture_output=True, text=True)
    return int(done.stdout)


@needs_modes
@pytest.mark.parametrize("careless", [False, True], ids=["as it is", "twin: opened and closed beside SQLite"])
def test_looking_at_a_store_takes_no_lock_from_who_has_it_open_in_this_process(careless: bool, tmp_path: Path) -> None:
    """POSIX drops the locks of a process on a file when it closes any descriptor of it. Another process would then take
    itself for the last, and take away the log that is still written to: what was written last is seen by nobody.
    """
    driver, path = Driver(tmp_path), tmp_path / "trace.db"
    driver.ask(body(user("a")))
    with Accel(Policy(store=StorePolicy(path=path)), environ={}):
        assert is_sqlite(path)
    if careless:
        os.close(os.open(path, os.O_RDONLY))
    assert turns_that_another_process_sees(path) == 1
    assert (tmp_path / "trace.db-wal").exists() != careless
    driver.ask(body(user("b")))
    assert turns_that_another_process_sees(path) == (1 if careless else 2)

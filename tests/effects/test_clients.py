"""Clients are believed only where their settings start nothing and lead nowhere else."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from agentaccel.effects.clients import clients, is_set_up, led_elsewhere
from agentaccel.effects.places import Surroundings
from agentaccel.effects.shell import judge_shell
from agentaccel.executors import Shell

CASES = [
    ("docker ps", ".docker/config.json", '{\n  "auths": {}\n}\n', '{\n  "currentContext": "far"\n}\n'),
    ("gh pr list", ".config/gh/config.yml", "version: 1\n", "version: 1\nhttp_unix_socket: /x\n"),
]
ABSENT = [
    ("curl https://example.com", ".curlrc"),
    ("curl --version", ".ldaprc"),
    ("curl -s https://example.com", "ldaprc"),
    ("gh --version", ".local/share/gh/extensions/gh-x"),
    ("jq . a.json", ".jq"),
    ("dpkg -l", ".dpkg.cfg"),
    ("apt list --installed", ".apt.conf"),
    ("wget -qO- https://example.com", ".wgetrc"),
    ("psql -c 'select 1'", ".psqlrc"),
    ("dig example.com", ".digrc"),
    ("less README.md", ".lesskey"),
]


def verdict(text: str, home: Path, cwd: Path | None = None) -> str:
    """As on a machine that has no settings of its own."""
    return judge_shell(text, Surroundings(cwd=cwd or home, home=home, root=home / "machine")).launchable


@pytest.mark.parametrize(("text", "file", "harmless", "evil"), CASES)
def test_settings_are_read_line_by_line(tmp_path: Path, text: str, file: str, harmless: str, evil: str) -> None:
    assert verdict(text, tmp_path) != "never"
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(harmless)
    assert verdict(text, tmp_path) != "never"
    path.write_text(evil)
    assert verdict(text, tmp_path) == "never"
    path.unlink()
    path.symlink_to("/nowhere")
    assert verdict(text, tmp_path) == "never", "what cannot be read is not believed"


@pytest.mark.parametrize(("text", "file"), ABSENT)
def test_settings_that_are_not_understood_may_not_be_there(tmp_path: Path, text: str, file: str) -> None:
    assert verdict(text, tmp_path) != "never"
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text("")
    assert verdict(text, tmp_path) == "never"


def test_settings_of_the_whole_machine_count_too(tmp_path: Path) -> None:
    there = tmp_path / "machine/etc"
    there.mkdir(parents=True)
    assert verdict("less README.md", tmp_path) == "predicted"
    (there / "lesskey").write_text("")
    assert verdict("less README.md", tmp_path) == "never"


def test_the_folder_itself_may_hold_settings(tmp_path: Path) -> None:
    """Of curl: its library for LDAP reads them there, whatever curl is asked (seen with curl 7.88)."""
    home, work = tmp_path / "home", tmp_path / "work"
    for folder in (home, work):
        folder.mkdir()
    assert verdict("curl --version", home, work) == "predicted"
    (work / "ldaprc").write_text("")
    assert verdict("curl --version", home, work) == verdict("curl -s https://example.com", home, work) == "never"
    assert judge_shell("curl --version", Surroundings(home=home)).launchable == "never", "the folder is not known"


def test_what_opens_more_than_anybody_can_list_is_not_run_early_and_says_so(tmp_path: Path) -> None:
    """Those that a project's, or a user's, files may fill with pipes and programs."""
    for name in ("npm", *clients()["npm"]["same"]):
        for text in (f"{name} --version", f"{name} list", f"timeout 5 {name} --version"):
            assert verdict(text, tmp_path) == "never", text
    assert "nobody has a list" in judge_shell("pip list", Surroundings()).evidence[0].why


def test_a_database_is_there_and_quiet(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "a.db") as made:
        made.execute("create table t (x)")
    query = "sqlite3 a.db 'select x from t'"
    assert verdict(query, tmp_path) == "predicted"
    assert verdict("sqlite3 a.db .tables", tmp_path) == "predicted"
    assert verdict("sqlite3 b.db 'select 1'", tmp_path) == "never", "it would be made"
    for text in (
        "drop table t",
        ".shell id",
        "select writefile('a', 'b')",
        "pragma journal_mode=wal",
        ".tables\n.shell x",
    ):
        assert verdict(f'sqlite3 a.db "{text}"', tmp_path) == "never"
    (tmp_path / "a.db-journal").write_text("x")
    assert verdict(query, tmp_path) == "never", "a change would be rolled back"
    (tmp_path / "a.db-journal").unlink()
    with sqlite3.connect(tmp_path / "a.db") as made:
        made.execute("pragma journal_mode=wal")
    assert verdict(query, tmp_path) == "never", "it keeps a log beside itself"


def test_a_variable_of_the_users_leads_a_client_elsewhere() -> None:
    assert led_elsewhere("docker", {"DOCKER_HOST": "x", "PATH": "y"}) == "DOCKER_HOST"
    assert led_elsewhere("docker", {"PATH": "y"}) is None


def test_our_executor_declines_a_client_that_a_variable_leads_elsewhere(tmp_path: Path) -> None:
    """Wherever the client is installed."""
    (tmp_path / "more").write_text("#!/bin/sh\n")
    (tmp_path / "more").chmod(0o755)
    (tmp_path / "a").write_text("x\n")
    there = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    for more, launchable in ({}, "predicted"), ({"MORE": "-d"}, "never"):
        shell = Shell(cwd=tmp_path, path=str(tmp_path), environment={**there, **more})
        assert shell.judge("more a").launchable == launchable


def test_a_client_that_would_write_its_settings_first_is_not_set_up(tmp_path: Path) -> None:
    there = Surroundings(cwd=tmp_path, home=tmp_path)
    assert not is_set_up("gh", there)
    (tmp_path / ".config/gh").mkdir(parents=True)
    (tmp_path / ".config/gh/config.yml").write_text('version: "1"\n')
    assert not is_set_up("gh", there), "it would start what keeps its key"
    (tmp_path / ".config/gh/hosts.yml").write_text("github.com:\n    oauth_token: x\n")
    assert is_set_up("gh", there)


def test_every_client_that_asks_a_server_waits_until_the_model_has_asked(tmp_path: Path) -> None:
    for text in (
        "docker ps",
        "gh pr list",
        "psql -c 'select 1'",
        "ping -c 1 example.com",
    ):
        assert verdict(text, tmp_path) == "asked", text
        assert clients()[text.split()[0]]["remote"] is True


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("curl -s -A '@x' https://example.com", "curl -A has a value"),
        ("docker ps --odd", "docker ps --odd is not on the list"),
        ("docker rm x", "docker with this sub-command"),
    ],
)
def test_a_refusal_names_what_of_the_call_is_not_known(text: str, reason: str, tmp_path: Path) -> None:
    """And not what another form of the client lacks."""
    assert reason in judge_shell(text, Surroundings(cwd=tmp_path, home=tmp_path)).evidence[0].why

"""Clients of servers, as the real programs: what reaches a server of ours on this machine only reads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentaccel.effects.places import Surroundings
from agentaccel.effects.shell import judge_shell
from tests.effects import forms, sandbox, servers, watched
from tests.effects.servers import Asked, Recorder

READING = re.compile(r"(?:Describe|List|Get|Head|Filter)\w*|query")
"""Names of actions that only read, where all requests are of one method."""
UNHELD = {"/apis/authorization.k8s.io/v1/selfsubject", "/apis/authentication.k8s.io/v1/selfsubject"}
"""Beginnings of addresses to which a question is put by POST: what may I do, who am I. Nothing of it is kept."""
pytestmark = pytest.mark.soak


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("asked")
    (folder / "place").mkdir()
    sandbox.furnished(folder / "place")
    return folder


@pytest.fixture
def server(root: Path) -> Iterator[Recorder]:
    with servers.recorder(root / "place/work/cert.pem") as server:
        yield server


def lines_of(root: Path, *programs: str) -> list[str]:
    """What these clients may be asked for; skipped where they are not installed."""
    given = [form for form in forms.forms() if form.program in programs]
    here, missing = forms.installed(given, forms.path_of(root))
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    there = Surroundings(cwd=root / "place/work", home=root / "place/home")
    lines = [form.line for form in here if judge_shell(form.line, there).launchable == "asked"]
    return list(dict.fromkeys(lines))


def reads(one: Asked) -> bool:
    if one.method in ("GET", "HEAD", "OPTIONS"):
        return True
    return READING.fullmatch(one.action) is not None or any(one.address.startswith(held) for held in UNHELD)


def pointing(client: str, root: Path, port: int) -> dict[str, str]:
    """Variables that lead a client to our server: with them our executor itself would decline it."""
    proxy, certificate = f"http://127.0.0.1:{port}", str(root / "place/work/cert.pem")
    through = {name: proxy for name in ("http_proxy", "https_proxy", "HTTPS_PROXY")}
    return {
        "docker": {"DOCKER_HOST": f"tcp://127.0.0.1:{port}"},
        "gh": {**through, "SSL_CERT_FILE": certificate, "GH_TOKEN": "x"},
        "curl": {**through, "CURL_CA_BUNDLE": certificate},
        "wget": through,
    }[client]


@pytest.mark.parametrize(
    ("client", "share", "of"),
    [("docker", 0, 1), ("curl", 0, 1), ("wget", 0, 1)] + [("gh", share, 3) for share in range(3)],
)
def test_only_requests_that_read_reach_a_server(root: Path, server: Recorder, client: str, share: int, of: int) -> None:
    """Of every form, by the same words with variables beside."""
    lines = lines_of(root, client)[share::of]
    watched.harmless(root, lines, asked=True, pointed=pointing(client, root, server.port))
    wrong = [one for one in server.asked if not reads(one)]
    assert not wrong, wrong[:5]
    assert len(server.asked) >= len(lines) / 10, "too few of them got as far as to ask anything"


def test_a_request_that_writes_is_found_out() -> None:
    """The twin."""
    assert not reads(Asked("POST", "/", "TerminateInstances", ""))
    assert not reads(Asked("POST", "/graphql", "mutation", ""))
    assert not reads(Asked("POST", "/v1.41/containers/prune", "", ""))
    assert reads(Asked("POST", "/", "DescribeInstances", ""))


def test_only_questions_reach_a_name_server(root: Path) -> None:
    lines = lines_of(root, "dig", "host", "nslookup")
    try:
        with servers.names() as asked:
            watched.harmless(root, lines, asked=True)
    except PermissionError:
        pytest.skip("only the root may listen where clients look for a name server")
    assert len(asked) >= len(lines) / 4
    assert set(asked) == {0}, "other than a plain question"


def test_a_database_is_only_read(root: Path) -> None:
    """PostgreSQL itself writes down what would change something."""
    lines = lines_of(root, "psql")
    try:
        with servers.postgres() as database:
            port = str(database.port)
            pointed = {"PGHOST": "127.0.0.1", "PGPORT": port, "PGUSER": "dev", "PGDATABASE": "postgres"}
            watched.harmless(root, [line.replace("5432", port) for line in lines], asked=True, pointed=pointed)
            log = database.log.read_text()
    except LookupError as missing:
        pytest.skip(str(missing))
    assert "database system is ready" in log
    assert "statement:" not in log


def test_what_asks_this_machine_changes_nothing(root: Path) -> None:
    """Clients of the machine itself, and those that find nobody to ask: some would look for names elsewhere."""
    programs = ("getent", "lsof", "netstat", "route", "arp", "hostname", "ping")
    lines = lines_of(root, *programs)
    if not watched.can_be_alone():
        pytest.skip("no network of its own can be had, and the name server of this machine is not to be asked")
    watched.harmless(root, lines, asked=True, alone=True)

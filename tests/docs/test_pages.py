"""README, docs and examples do what they say. Pages run in a process of their own: they are users' code."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tests.children import in_a_child
from tests.docs.pages import ELSEWHERE, FRAMEWORKS, PAGES, ROOT, Block, blocks, commands, generator, main, use

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))

MANY_REQUESTS = "openai_routing.py"
"""Shown in small by `tests/clients/test_routing.py`."""

PROSE = [*PAGES, "CHANGELOG.md"]


SLOW = {
    "docs/explanation/when-it-wont-help.md",
    "docs/how-to/act-on-the-advice.md",
    "docs/how-to/changing-tools.md",
    "docs/how-to/long-histories.md",
    "docs/how-to/openai.md",
    "docs/how-to/pauses.md",
    "docs/how-to/read-the-report.md",
    "docs/how-to/servers-and-gateways.md",
    "docs/how-to/sub-agents.md",
    "docs/how-to/test-your-agent.md",
    "docs/how-to/volatile-text.md",
    "docs/reference/emulator.md",
    "docs/reference/situations.md",
}
"""Pages that run the demo, long sessions, several servers or clients, or other people's suites."""


ENGINE = ["docs/how-to/real-engine.md", "docs/how-to/watch-a-server.md"]
"""Pages that need a real engine: `tests/selfhost/engine` runs them."""

QUICK = [page for page in PAGES if page not in SLOW and page not in ENGINE and page not in FRAMEWORKS]


def apart(pages: list[str]) -> dict[str, str]:
    """What failed, by page: in a fork, which has the SDKs loaded already; without forks, in a process that begins."""
    if not hasattr(os, "fork"):
        command = [sys.executable, "-m", "tests.docs.pages", *pages]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=True)
        return json.loads(done.stdout)
    told, tells = os.pipe()

    def tell() -> None:
        with os.fdopen(tells, "w", encoding="utf-8") as out:
            json.dump(main(pages), out)

    child = in_a_child(tell)
    os.close(tells)
    with os.fdopen(told, encoding="utf-8") as answer:
        found: dict[str, str] = json.load(answer)  # nothing, if the child died
    os.waitpid(child, 0)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "pages",
    [
        pytest.param(QUICK, id="quick"),
        pytest.param([page for page in PAGES if page in SLOW], id="slow", marks=pytest.mark.soak),
    ],
)
def test_every_block_of_every_page_does_what_the_page_says(pages: list[str]) -> None:
    """Python runs, commands run and print what is shown, and files have their form."""
    failed = apart(pages)
    assert not failed, "\n".join(failed.values())


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("console", "$ agentaccel --version\nagentaccel, version 77\n"),
        ("console", "$ agentaccel report no-such-file\n"),
        ("console", "$ unheard-of\n"),
        ("python", "assert not 'true'\n"),
        ("json", "{,}"),
        ("", "who runs this"),
    ],
)
def test_a_block_that_does_not_hold_fails(kind: str, text: str) -> None:
    """The twin of the test above: it can fail."""
    with pytest.raises((AssertionError, ValueError)):
        use(Block(kind, "", text, 1), {}, "a page")


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[pytest.mark.soak] * (path.name == MANY_REQUESTS), id=path.name) for path in EXAMPLES],
)
def test_every_example_runs_offline(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each asserts what it shows."""
    for name in [name for name in os.environ if name.startswith("ANTHROPIC_")]:
        monkeypatch.delenv(name)
    runpy.run_path(str(path), run_name="__main__")


def test_examples_are_short_and_none_is_missing_from_the_docs() -> None:
    """At most 60 lines; each is linked or included somewhere."""
    said = "".join((ROOT / page).read_text(encoding="utf-8") for page in PAGES)
    for path in EXAMPLES:
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 60, path.name
        assert f"examples/{path.name}" in said, path.name
    assert len(EXAMPLES) >= 6


def test_provider_facts_are_those_of_the_data_files() -> None:
    """`python docs/generate_facts.py` writes the page."""
    facts = generator("generate_facts")
    assert facts.PAGE.read_text(encoding="utf-8") == facts.page()


def test_the_readme_begins_with_the_two_commands_and_shows_python_early() -> None:
    """Who opens it finds out how to run it, what that shows, and what it looks like in code, within a screen."""
    first = blocks("README.md")[0]
    assert [command.split("#")[0].strip() for command, _ in commands(first)] == ["make demo", "make test"]
    python = next(block for block in blocks("README.md") if block.kind == "python")
    assert python.line <= 56  # two tables of figures stand in front of it


@pytest.mark.parametrize("page", PAGES)
def test_every_make_target_that_a_page_names_exists(page: str) -> None:
    """Commands that are not run here still have to be there."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for block in blocks(page):
        for command, _ in commands(block) if block.kind == "console" else ():
            word, *rest = command.split("#")[0].split()
            if word == "make":
                assert set(rest) <= targets, command
            assert word in {"agentaccel", "pytest", *ELSEWHERE} or "=" in word, command


@pytest.mark.parametrize("page", PROSE)
def test_links_inside_the_repository_lead_somewhere(page: str) -> None:
    """Relative links name a file; whether an anchor exists is for mkdocs to say."""
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target or target.startswith("#"):
            continue
        assert (ROOT / page).parent.joinpath(target.partition("#")[0]).exists(), target


@pytest.mark.parametrize("page", PROSE)
def test_no_page_names_a_place_on_the_writers_machine(page: str) -> None:
    """Paths and addresses that only its writer has."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.findall(r"/home/|/root/|/opt/|/Users/", text)
    assert not found


def test_every_page_is_in_the_navigation() -> None:
    """A page that nobody can reach is not written."""
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for path in (ROOT / "docs").rglob("*.md"):
        assert str(path.relative_to(ROOT / "docs")) in navigation, path.name


def test_public_names_are_all_in_the_reference() -> None:
    """What `agentaccel` exports is what the API page documents."""
    import agentaccel

    page = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
    missing = [
        name for name in agentaccel.__all__ if not name.startswith("__") and f"::: agentaccel.{name}\n" not in page
    ]
    assert not missing


def test_every_command_and_option_is_in_the_reference() -> None:
    """What `--help` lists is what the page explains."""
    import click

    from agentaccel.cli import main

    page = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    context = click.Context(main)
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        assert f"## agentaccel {name}" in page
        inner = command.commands.values() if isinstance(command, click.Group) else ()
        for parameter in (one for each in (command, *inner) for one in each.params):
            if isinstance(parameter, click.Option):
                assert f"`{parameter.opts[0]}" in page, f"{name} {parameter.opts[0]}"


def test_every_setting_is_in_the_reference() -> None:
    """Fields of the policies and environment variables."""
    from dataclasses import fields

    from agentaccel import CachePolicy, HistoryPolicy, Policy, StorePolicy, ToolPolicy, policy

    page = (ROOT / "docs" / "reference" / "policy.md").read_text(encoding="utf-8")
    names = [
        field.name for kind in (Policy, CachePolicy, HistoryPolicy, StorePolicy, ToolPolicy) for field in fields(kind)
    ]
    names += [value for name, value in vars(policy).items() if name.startswith("ENV_")]
    assert not [name for name in names if f"`{name}`" not in page]


def test_every_record_field_and_cause_is_in_the_reference() -> None:
    """Fields of the records, and every cause of a miss with what to do about it."""
    from dataclasses import fields

    from agentaccel import ToolRecord, TurnRecord
    from agentaccel.types import Cause

    store = (ROOT / "docs" / "reference" / "trace-store.md").read_text(encoding="utf-8")
    names = [field.name for kind in (TurnRecord, ToolRecord) for field in fields(kind)]
    assert not [name for name in names if f"`{name}`" not in store]
    causes = (ROOT / "docs" / "how-to" / "find-a-miss.md").read_text(encoding="utf-8")
    assert not [cause.value for cause in Cause if f"| {cause.value} |" not in causes]


def test_snippets_of_the_pages_are_all_of_a_kind_that_somebody_runs() -> None:
    """No fence without a language: what is not named is not run."""
    for page in PAGES:
        assert all(block.kind for block in blocks(page)), page


def test_pages_break_lines_at_sentences() -> None:
    """No line of prose is a paragraph."""
    for page in PROSE:
        text = re.sub(r"```.*?```", "", Path(ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
        long = [line for line in text.splitlines() if len(line) > 160 and not line.lstrip().startswith(("|", "<!--"))]
        assert not long, (page, long)

"""README and docs say what was measured, and nothing else: both are made of the benchmarks' own JSON."""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest

from benchmarks.__main__ import main as benchmarks
from tests.docs.pages import PAGES, ROOT
from tests.docs.test_pages import generator


@pytest.fixture(scope="module")
def figures() -> ModuleType:
    return generator("generate_figures")


@pytest.fixture(scope="module")
def kept(figures: ModuleType) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = figures.kept()
    return found


def readme_block(figures: ModuleType) -> str:
    found = figures.MEASURED.search(figures.README.read_text(encoding="utf-8"))
    assert found is not None
    return str(found[0])


def test_readme_and_page_are_made_of_the_kept_files(figures: ModuleType, kept: dict[str, Any]) -> None:
    """`python docs/generate_figures.py` writes both; `make figures` measures anew."""
    assert readme_block(figures).strip() == figures.block(kept).strip()
    assert figures.PAGE.read_text(encoding="utf-8") == figures.page(kept)


@pytest.mark.slow
def test_the_picture_and_the_home_page_show_what_the_commands_print(figures: ModuleType) -> None:
    """`python docs/generate_figures.py` writes both. The picture loads nothing, not even a font."""
    picture = figures.PICTURE.read_text(encoding="utf-8")
    assert picture == figures.picture()
    assert "@font-face" not in picture
    assert not re.findall(r"(?:href|src)=|url\((?!#)", picture)
    assert "hit&#160;rate" in picture
    shown = figures.PLACE.search(figures.README.read_text(encoding="utf-8"))
    assert shown is not None
    assert "Automatic caching costs more than no caching in 3 of 5" in shown[0]
    assert shown[0] in figures.HOME.read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_site_loads_nothing_from_another_host(tmp_path: Path) -> None:
    """Pages link to other hosts; scripts, styles, fonts and pictures are the site's own."""
    build = [sys.executable, "-m", "mkdocs", "build", "-q", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    pages = {page: page.read_text(encoding="utf-8") for page in tmp_path.rglob("*.html")}
    loaded = re.compile(
        r"<(?:script|img|source|iframe)[^>]+src=[\"\']?(https?:)?//|<link[^>]+href=[\"\']?https?://(?![^>]*canonical)"
    )
    assert len(pages) > 20
    assert [page.name for page, text in pages.items() if loaded.search(text)] == []
    assert [
        page for page, text in pages.items() if 'data-md-component="source"' in text
    ] == []  # it would ask for stars
    home = pages[tmp_path / "index.html"]
    assert "assets/report.svg" in home
    assert 'href="https://github.com/agentaccel/agentaccel"' in home
    assert home.count('name="__palette"') == 3


def test_every_figure_is_shown_as_it_was_measured(figures: ModuleType, kept: dict[str, Any]) -> None:
    """Every sentence in README and page, every row on the page: looked for without the code that writes them."""
    readme, page = readme_block(figures), figures.PAGE.read_text(encoding="utf-8")
    for result in kept.values():
        tables = {table["title"]: table["rows"] for table in result["tables"]}
        told = [row[2] for row in tables.pop("Figures", [])] or [result["figure"]]
        assert all(sentence in readme and sentence in page for sentence in told)
        for row in (row for rows in tables.values() for row in rows):
            whole = [f" {value:,} |" for value in row if isinstance(value, int)]
            first = f"{row[0]:,}" if isinstance(row[0], int) else str(row[0])
            lines = [line for line in page.splitlines() if line.startswith("|") and first in line]
            assert any(all(value in line for value in whole) for line in lines), row


@pytest.mark.parametrize("name", ["cache", "speed"])
def test_every_block_names_script_n_versions_and_date(
    figures: ModuleType, kept: dict[str, dict[str, Any]], name: str
) -> None:
    """A figure that nobody can measure again is an opinion."""
    result = kept[name]
    assert result["n"] > 0
    assert result["command"].startswith(f"python -m benchmarks {name}")
    needed = [f"`{result['command']}`", "n = ", *result["stamp"].values(), *result["stamp"].keys() - {"date", "python"}]
    for text in (readme_block(figures), figures.PAGE.read_text(encoding="utf-8")):
        paragraph = next(part for part in text.split("\n\n") if f"Script: `{result['command']}`" in part)
        assert not [one for one in needed if one not in paragraph]


def test_a_bound_that_does_not_hold_is_said(figures: ModuleType, kept: dict[str, Any]) -> None:
    """Each by itself on the page, their number in the README; with none, the page says that, too."""
    page = figures.PAGE.read_text(encoding="utf-8").partition("## What does not hold")[2]
    broken = [sentence for result in kept.values() for sentence in result["broken"]]
    assert all(f"- {sentence}\n" in page for sentence in broken)
    assert ("not hold" in readme_block(figures)) == bool(broken)
    healed = {name: {**result, "broken": []} for name, result in kept.items()}
    assert "Every bound that the benchmarks set holds." in figures.page(healed)
    assert "not hold" not in figures.block(healed)
    one = {**healed, "speed": {**healed["speed"], "broken": ["the claim"]}}
    assert "- the claim\n" in figures.page(one)
    assert "**1 bound that we set ourselves does not hold**" in figures.block(one)


def test_a_changed_figure_changes_what_is_shown(figures: ModuleType, kept: dict[str, Any]) -> None:
    """The twin of the first test: whatever is edited by hand, or measured and not rendered, is seen."""
    for name, result in kept.items():
        for i, table in enumerate(result["tables"]):
            other = copy.deepcopy(kept)
            other[name]["tables"][i]["rows"][-1][-1] = "another"
            assert figures.page(other) != figures.page(kept), table["title"]
        later = {**kept, name: {**result, "stamp": {**result["stamp"], "date": "2030-01-01"}}}
        assert figures.block(later) != figures.block(kept)


def test_every_benchmark_is_explained_and_only_those() -> None:
    """benchmarks/README.md has a paragraph for each, and no page names one that is not there."""
    context = click.Context(benchmarks)
    names = set(benchmarks.list_commands(context))
    text = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    assert not [name for name in sorted(names) if f"**`{name}`**" not in text]
    for page in (*PAGES, "benchmarks/README.md"):
        said = (ROOT / page).read_text(encoding="utf-8")
        for words in re.findall(r"python -m benchmarks ([^`\n#]+)", said):
            name, *options = words.split()
            if name.startswith("-") or name == "NAME":
                continue
            command = benchmarks.get_command(context, name)
            assert command is not None, (page, words)
            known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
            assert {option for option in options if option.startswith("--")} <= known, (page, words)


def test_the_kept_files_are_json_of_results(kept: dict[str, Any]) -> None:
    """What `--json` prints, and the command."""
    for result in kept.values():
        assert {"command", "figure", "inputs", "n", "tables", "broken", "stamp"} == set(result)
        assert json.loads(json.dumps(result)) == result

"""README and docs as a reader would use them: every fenced block is run, stored or accounted for, page by page.

Blocks of a page belong together and are taken in order, in one folder of their own:

- `python` is executed, in one namespace per page; with a title it is written to the file of that name instead
- `console`: each `$ agentaccel …`, its `python` being this one, and each `$ pytest …` is run; what stands below it must
  be what it prints, blank lines apart, and `…` stands for anything. `$ agentaccel selfhost serve …` runs until the end
  of the page
- `json`, `toml` must parse, and `text` may be anything
- `diff` changes the example that its title names: `tests/frameworks/test_examples.py` runs that
- a block that includes a file of the repository (`--8<--`) is as good as that file: it must exist, and examples run

`python -m tests.docs.pages PAGE…` runs pages in this process, against one emulator, and prints what failed as JSON.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import tomllib
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parents[2]

PAGES = ("README.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")), "CONTRIBUTING.md")

ELSEWHERE = {
    "make": "the Makefile's own targets: CI runs them",
    "pip": "the trial of the wheel installs",
    "git": "not ours",
}
"""Commands that a page may show and that are not run here, and why."""

FRAMEWORKS = {
    "docs/how-to/langgraph.md": "deepagents",
    "docs/how-to/llamaindex.md": "llama_index",
    "docs/how-to/mcp.md": "mcp",
    "docs/how-to/openai-agents.md": "agents",
    "docs/how-to/pydantic-ai.md": "pydantic_ai",
}
"""Pages that need an agent framework, and which: `tests/frameworks/test_pages.py` runs them."""

_FENCE = re.compile(r"^( *)```(\w+)?([^\n]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_INCLUDE = re.compile(r'^--8<-- "([^"]+)"$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block."""

    kind: str
    title: str
    text: str
    line: int


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = []
    for match in _FENCE.finditer(text):
        title = re.search(r'title="([^"]+)"', match[3])
        inner = re.sub(rf"^{match[1]}", "", match[4], flags=re.MULTILINE)
        found.append(Block(match[2] or "", title[1] if title else "", inner, text[: match.start()].count("\n") + 1))
    return found


def commands(block: Block) -> list[tuple[str, str]]:
    """The commands of a console block, each with the output that the page shows for it."""
    found: list[tuple[str, str]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], ""))
        elif found:
            found[-1] = (found[-1][0], found[-1][1] + line + "\n")
    return found


def generator(name: str) -> ModuleType:
    """One of the scripts that write a part of the docs."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_page(page: str) -> None:
    """Use every block of `page`; raises where one does not do what the page says."""
    names: dict[str, Any] = {"__name__": "__main__"}
    with ExitStack() as serving:
        for block in blocks(page):
            try:
                use(block, names, page, serving)
            except BaseException as error:
                error.add_note(f"in the block at {page}:{block.line}")
                raise


def use(block: Block, names: dict[str, Any], page: str, serving: ExitStack | None = None) -> None:
    """Do with one block what its kind asks for; raises where it does not hold. What serves does so until `serving` is
    left."""
    included = _INCLUDE.findall(block.text)
    if included:
        assert all((ROOT / name).is_file() for name in included), included
    elif block.kind == "diff":
        assert (ROOT / block.title).is_file(), block.title
    elif block.title:
        Path(block.title).parent.mkdir(parents=True, exist_ok=True)
        Path(block.title).write_text(block.text, encoding="utf-8")
    elif block.kind == "python":
        with redirect_stdout(StringIO()):
            exec(compile("\n" * block.line + block.text, page, "exec"), names)
    elif block.kind == "console":
        for command, shown in commands(block):
            if command.startswith("agentaccel selfhost serve "):
                assert serving is not None
                serving.enter_context(_served(command, shown))
            else:
                _run(command, shown)
    elif block.kind == "json":
        json.loads(block.text)
    elif block.kind == "toml":
        tomllib.loads(block.text)
    else:
        assert block.kind in ("text", "bash"), f"nobody knows how to run a block of {block.kind!r}"


def _run(command: str, shown: str) -> None:
    words = [os.path.expanduser(word) for word in shlex.split(command, comments=True)]
    settings = {}
    while words and "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        settings[name] = value
    if words[0] in ELSEWHERE:
        return
    with _environment(settings):
        if words[0] == "pytest":
            quick = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "agentaccel.testing.plugin"}
            done = subprocess.run([sys.executable, "-m", *words], env=quick, capture_output=True, text=True)
            code, printed = done.returncode, done.stdout
        elif words[:2] == ["agentaccel", "run"]:  # it becomes the program that it runs
            words = [sys.executable if word == "python" else word for word in words]
            done = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True)
            code, printed = done.returncode, done.stdout + done.stderr
        else:
            assert words[0] == "agentaccel", f"nobody runs {command!r}"
            code, printed = _ours(words[1:])
    assert code == 0, f"{command!r} ended with {code}:\n{printed}"
    if shown.strip():
        _compare(shown, printed, command)


@contextmanager
def _served(command: str, shown: str) -> Iterator[None]:
    """A server that runs meanwhile; it has printed what the page shows."""
    words = [sys.executable, "-m", *shlex.split(command)]
    # A job that was started in the background ignores Ctrl-C, and its children would, too.
    heard = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, preexec_fn=heard) as server:
        assert server.stdout is not None
        try:
            printed = "".join(server.stdout.readline() for _ in shown.rstrip("\n").splitlines())
            _compare(shown, printed, command)
            yield
        finally:
            server.send_signal(signal.SIGINT)


def _ours(words: list[str]) -> tuple[int, str]:
    from click.testing import CliRunner

    from agentaccel.cli import main

    result = CliRunner().invoke(main, words, prog_name="agentaccel")
    return result.exit_code, result.output + (repr(result.exception) if result.exit_code else "")


def _compare(shown: str, printed: str, command: str) -> None:
    """Whether `printed` is what the page shows, `…` standing for anything."""
    wanted = "\n".join(line.rstrip() for line in shown.splitlines() if line.strip())
    got = "\n".join(line.rstrip() for line in printed.splitlines() if line.strip())
    pattern = ".*".join(re.escape(part) for part in wanted.split("…"))
    assert re.fullmatch(pattern, got, re.DOTALL), f"{command!r} printed\n{got}\nand the page shows\n{wanted}"


@contextmanager
def _environment(settings: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


# --- the surroundings that pages expect -------------------------------------------------------------------------------


def _answer(turn: Any) -> Any:
    """The emulated model: calls the first tool once, then is done."""
    from agentaccel_emulator import call

    tools = turn.request.get("tools") or ()
    if turn.index or not tools:
        return None
    fields = tools[0].get("input_schema", {}).get("properties", {})
    return call(tools[0]["name"], dict.fromkeys(fields, "x"))


def session_log() -> str:
    """A made-up session log of a coding agent: two replies."""
    lines: list[dict[str, Any]] = []
    for i, (read, written) in enumerate(((0, 9_000), (9_000, 400))):
        usage = {
            "input_tokens": 10,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": written,
            "output_tokens": 50,
        }
        said = {"id": f"msg_{i}", "role": "assistant", "model": "claude-sonnet-5", "usage": usage, "content": []}
        at = f"2026-11-21T10:0{i}:00.000Z"
        lines.append({"type": "assistant", "sessionId": "s", "uuid": f"u{i}", "timestamp": at, "message": said})
    return "\n".join(map(json.dumps, lines)) + "\n"


@contextmanager
def surroundings() -> Iterator[None]:
    """An empty folder with some logs, a home of its own, and an emulator where the SDK looks for the provider."""
    from agentaccel_emulator import serve

    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder, serve(script=_answer) as server:
        home = Path(folder)
        for name in ("run.jsonl", "more/other.jsonl", ".claude/projects/lamps/s.jsonl"):
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_text(session_log(), encoding="utf-8")
        settings = {
            "HOME": folder,
            "XDG_DATA_HOME": f"{folder}/.local/share",
            "ANTHROPIC_BASE_URL": server.url,
            "ANTHROPIC_API_KEY": "any",
            "OPENAI_BASE_URL": f"{server.url}/v1",
            "OPENAI_API_KEY": "any",
            "COLUMNS": "80",
        }
        with _environment(settings):
            os.chdir(home)
            try:
                _record_something()
                yield
            finally:
                os.chdir(here)


def _record_something() -> None:
    """One request in the default store, so that commands without an argument have something to read."""
    import agentaccel
    from agentaccel.turn import Finished, Reported, Started

    with agentaccel.Accel() as accel:
        turn = accel.turn(
            {"model": "claude-sonnet-5", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
        )
        turn.handle(Started(0.0))
        turn.handle(Reported(usage=agentaccel.Usage(input=9, read=0, write={}, output=2)))
        turn.handle(Finished(1.0))


def main(pages: list[str]) -> dict[str, str]:
    """What failed, by page."""
    failed: dict[str, str] = {}
    for page in pages:
        try:
            with surroundings():
                run_page(page)
        except (Exception, SystemExit):  # noqa: BLE001 - whatever a page's code raises is the page's failure
            failed[page] = traceback.format_exc()
    return failed


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(sys.argv[1:])))

"""Loops, branches, groups and variables mean to our executor what they mean to bash."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentaccel.effects.places import Surroundings
from agentaccel.effects.shell import judge_shell
from agentaccel.executors import Shell
from tests.effects import sandbox

LINES = [
    'for f in names.txt numbers.txt; do echo "== $f"; cat $f; done',
    'for f in src/*.py; do echo "$f"; head -n 1 "$f"; done | sort | tail -n 2',
    'for f in nowhere/*.py; do echo "$f"; done',
    'for f in *; do echo "$f"; done',
    "for d in src missing; do ls $d; done 2>/dev/null || echo failed",
    "for d in missing src; do ls $d; done 2>/dev/null || echo failed",
    "cd missing 2>/dev/null || for f in a b; do echo $f; done",
    "cd missing && for f in a b; do echo $f; done; pwd",
    'for x in a b; do for y in 1 2; do echo $x$y "${x}-$y"; done; done',
    "for f in a b\ndo\n  echo $f\ndone\necho end",
    'for f in src/*.py; do if grep -q TODO "$f"; then echo "$f"; fi; done',
    'for f in "file with spaces.txt" names.txt; do cat < "$f"; done',
    "if [ -f missing ]; then cat missing; elif grep -q beta names.txt; then echo elif; else echo no; fi",
    "if [ -f missing ]; then cat missing; fi && echo status 0",
    "if true; then false; fi || echo x",
    "if false\nthen\n  echo a\nelse\n  echo b\nfi | cat",
    "(cd src && ls) && ls tests",
    "(cd missing; ls src) 2>/dev/null; ls docs",
    "(cd src; pwd); pwd",
    "{ ls src; ls missing; } 2>/dev/null; echo after",
    "(echo b; echo a) | sort && echo done",
    "false && (echo a) || { echo b; }",
    "f=src/app.py; wc -l $f; head -n 1 \"$f\"; echo '$f'",
    "cd src && f=app.py && wc -l $f",
    'f="a  b"; echo "x $f y"',
    "f=names.txt; (f=numbers.txt; cat $f); cat $f",
    "cat < missing 2>/dev/null || echo gone",
    "sort < names.txt | head -n 1",
    "head -n 1 < src 2>/dev/null; echo after",
    "command -v git && command -v missing || echo none",
    "for c in git missing sort; do command -v $c > /dev/null && echo $c; done",
    'echo $HOME "$HOME/x" ~/y ${HOME}',
    "LC_ALL=C sort names.txt | GIT_PAGER=cat git log --oneline",
    "printf '%s-%5s|\\n' a 1 b 22; printf '%5d|\\n' 7; printf '%-4s%%\\n' x",
    "find src -name '*.py' | xargs wc -l",
    "ls src/{app,util}.py; echo a{b,c}d -{e,f}",
    "grep -rn import --include=*.{py,md} .",
    "for f in src/{util,app}.py; do head -n 1 $f; done",
    "timeout 5 ls src && nice -n 3 cat names.txt",
]


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    return sandbox.shell(*sandbox.made(tmp_path_factory.mktemp("blocks")))


def _bash(text: str, shell: Shell) -> tuple[int, str]:
    environment = {**(shell.environment or {}), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        ["bash", "-c", text], cwd=shell.cwd, env=environment, capture_output=True, stdin=subprocess.DEVNULL, timeout=60
    )
    return done.returncode, done.stdout.decode()


@pytest.mark.parametrize("text", LINES)
async def test_a_block_prints_what_bash_prints(shell: Shell, text: str) -> None:
    assert shell.judge(text).launchable == "predicted", shell.judge(text).evidence
    ran = await shell.execute(text)
    assert (ran.status, ran.out) == await asyncio.to_thread(_bash, text, shell)


def _grown(lists: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("{{ {}; }}".format, lists),
        st.builds("({})".format, lists),
        st.builds("if {}; then {}; else {}; fi".format, lists, lists, lists),
        st.builds("for x in p q; do echo $x; {}; done".format, lists),
        st.builds('for y in src/*.py; do echo "$y"; {}; done'.format, st.sampled_from(ATOMS)),
        st.builds("{}{}{}".format, lists, st.sampled_from([" && ", " || ", "; ", "\n"]), lists),
        st.builds("{{ {}; }} | cat | sort".format, lists),
    )


ATOMS = ["true", "false", "echo a", "ls missing 2>/dev/null", "cat names.txt | head -n 1", "wc -l < numbers.txt"]


@pytest.mark.slow
@given(text=st.recursive(st.sampled_from(ATOMS), _grown, max_leaves=6))
@settings(max_examples=25, deadline=None)
def test_blocks_in_blocks_print_what_bash_prints(shell: Shell, text: str) -> None:
    """Whatever is proven. What is refused runs in bash anyway."""
    if shell.judge(text).launchable == "never":
        return
    ran = asyncio.run(shell.execute(text))
    assert (ran.status, ran.out) == _bash(text, shell), text


REFUSED = [
    "cd src; f=app.py && cat $f | while read g; do ls; done",
    "cd missing\ncat < {fifo}",
    "(cd src; ls) < {fifo}",
    "cat < {fifo}",
    "for f in {folder}/*; do cat $f; done",
    'for f in {folder}/*; do cat "$f"; done',
    "find {folder} -name '*' | xargs cat",
    "find {folder} -name '*' -exec cat {{}} +",
    "ls && f=names.txt; cat $f",
    "f=names.txt | cat $f",
    "{{ cd {folder}; cat f; }}",
    "for d in {folder}; do cd $d; cat f; done",
    "{{ cd {folder}; ls; }}; ls",
    "if true; then cd {folder}; fi; ls",
]


@pytest.mark.parametrize("text", REFUSED)
def test_what_could_be_more_than_it_seems_is_not_taken(tmp_path: Path, text: str) -> None:
    """A pipe below a folder, a variable that may not be set, a folder that a loop moves to."""
    folder = tmp_path / "in"
    folder.mkdir()
    os.mkfifo(folder / "f")
    there = Surroundings(cwd=tmp_path, home=tmp_path)
    line = text.format(fifo=folder / "f", folder="in")
    assert judge_shell(line, there).launchable == "never"


def test_cd_is_known_to_have_worked_only_where_nothing_runs_otherwise(tmp_path: Path) -> None:
    """Where it may have failed, what follows is looked at in both folders."""
    (tmp_path / "src").mkdir()
    os.mkfifo(tmp_path / "x")
    there = Surroundings(cwd=tmp_path, home=tmp_path)
    assert judge_shell("cd src && cat x", there).launchable == "predicted"
    for text in ("cd src; cat x", "cd src\ncat x", "(cd src; cat x)", "(cd src && ls); cat x", "cd src && ls; cat x"):
        assert judge_shell(text, there).launchable == "never", text


def test_names_of_blanks_become_several_words(tmp_path: Path) -> None:
    """A loop over files with a blank in a name, and a variable of several words, are taken only in quotes."""
    (tmp_path / "a b").write_text("x\n")
    (tmp_path / "c").write_text("x\n")
    there = Surroundings(cwd=tmp_path, home=tmp_path)
    assert judge_shell('for f in *; do cat "$f"; done', there).launchable == "predicted"
    assert judge_shell("for f in *; do cat $f; done", there).launchable == "never"
    assert judge_shell("f='a b'; cat $f", there).launchable == "never"
    assert judge_shell("find . -name '*' | xargs cat", there).launchable == "never"


def test_a_loop_that_is_written_out_has_an_end() -> None:
    """Loops in loops multiply."""
    text = "echo $a"
    for name in "abcdefgh":
        text = f"for {name} in 1 2 3 4 5 6 7 8 9; do {text}; done"
    assert judge_shell(text, Surroundings(cwd=Path("/"), home=Path("/"))).launchable == "never"

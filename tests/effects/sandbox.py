"""Runs an allowed command line as it would be run early, in a folder that is compared before and after."""

from __future__ import annotations

import glob
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from agentaccel.effects import early
from agentaccel.effects.parse import Command, Word, commands

FILES = {
    "README.md": "# Project\n\nA small project for the sandbox.\nthe end\n",
    "pyproject.toml": "[project]\nname = 'app'\n",
    "file with spaces.txt": "a\nb\n",
    "src/app.py": "import sys\n\n\ndef main():\n    # TODO more\n    return sys.argv\n\n\nclass App:\n    pass\n",
    "src/util.py": "import os\n\n\ndef join(a, b):\n    return os.path.join(a, b)\n",
    "tests/test_app.py": "def test_main():\n    assert True\n",
    "docs/index.md": "# Docs\n",
    "names.txt": "alpha\nbeta\nbeta\ngamma\n",
    "numbers.txt": "1\n2\n3\n",
    "table.csv": "name,value\nalpha,1\nbeta,2\n",
    "data.json": '{"name": "x", "items": [{"id": 1}, {"id": 2}]}\n',
    "data.bin": "\x01\x02printable text\x03\n",
}


def git(folder: Path, *words: str) -> None:
    environment = {
        **os.environ,
        "HOME": str(folder.parent / "home"),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
        "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
    }
    subprocess.run(["git", *words], cwd=folder, env=environment, check=True, capture_output=True, timeout=30)


def made(root: Path) -> tuple[Path, Path]:
    """A repository with two branches, a tag, a remote, a stash, changes staged and not, and a home folder."""
    work, home = root / "work", root / "home"
    for name, text in FILES.items():
        file = work / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    (home / "notes").mkdir(parents=True)
    (home / ".gitconfig").write_text(
        "[user]\n\tname = Dev\n\temail = dev@example.com\n[init]\n\tdefaultBranch = main\n"
    )
    git(work, "init", "-q", "-b", "main")
    git(work, "add", ".")
    git(work, "commit", "-qm", "first")
    (work / "src/app.py").write_text(FILES["src/app.py"] + "# fix\n")
    git(work, "commit", "-qam", "fix the app")
    git(work, "tag", "v1.0")
    git(work, "branch", "feature")
    git(work, "remote", "add", "origin", "https://example.com/a/b.git")
    (work / "names.txt").write_text("delta\n")
    git(work, "stash", "-q")
    (work / "README.md").write_text("# Project\nchanged\n")
    (work / "numbers.txt").write_text("1\n2\n4\n")
    git(work, "add", "numbers.txt")
    (work / "new.txt").write_text("not tracked\n")
    os.utime(work / "src/util.py", ns=(10**18, 10**18))  # its time differs from the index: git would like to refresh it
    return work, home


def snapshot(root: Path) -> dict[str, tuple[int, int, str]]:
    """Mode, time and contents of everything below `root`."""
    found = {}
    for path in [root, *sorted(root.rglob("*"))]:
        state = path.lstat()
        text = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path.relative_to(root))] = (state.st_mode, state.st_mtime_ns, text)
    return found


def run(text: str, work: Path, home: Path) -> bool:
    """Run every command of an allowed line; whether all its programs are on this machine."""
    path = f"{early.PATH}:{os.environ['PATH']}"
    environment = {**early.environment(str(home)), "PATH": path}
    output, cwd, complete = b"", work, True
    for command in commands(text):
        words = _expanded(command, cwd, home)
        if words[0] == "cd":
            cwd = cwd / words[1]
            continue
        program = shutil.which(words[0], path=path)
        if program is None:
            complete = False
            continue
        given = output if command.piped else b""
        argv = list(early.argv(words))
        done = subprocess.run(argv, cwd=cwd, env=environment, input=given, capture_output=True, timeout=60)
        output = done.stdout
    return complete


def _expanded(command: Command, cwd: Path, home: Path) -> list[str]:
    return [one for word in command.words for one in _names(word, cwd, home)]


def _names(word: Word, cwd: Path, home: Path) -> list[str]:
    text = str(home) + word.text[1:] if word.home else word.text
    return (sorted(glob.glob(text, root_dir=cwd)) or [text]) if word.glob else [text]

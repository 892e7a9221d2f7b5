"""A folder, a repository and a home for our executor, compared before and after."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from agentaccel.effects import early
from agentaccel.tools.shell import Shell

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


def snapshot(root: Path) -> dict[str, tuple[int, ...]]:
    """Of everything below `root` what the system keeps of every change: the time of the last one cannot be set."""
    found = {}
    for path in [root, *root.rglob("*")]:
        state = path.lstat()
        found[str(path)] = (state.st_ino, state.st_mode, state.st_size, state.st_mtime_ns, state.st_ctime_ns)
    return found


def shell(work: Path, home: Path) -> Shell:
    """Our executor as a user there would have it."""
    return Shell(cwd=work, home=home, environment={"PATH": early.PATH, "HOME": str(home)}, timeout=60)

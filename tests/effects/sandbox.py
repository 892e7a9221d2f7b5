"""A folder, a repository and a home for our executor, compared before and after."""

from __future__ import annotations

import base64
import bz2
import gzip
import io
import lzma
import os
import shutil
import sqlite3
import subprocess
import tarfile
import zipfile
from pathlib import Path

from agentaccel.effects import early
from agentaccel.executors.shell import Shell

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


def furnished(root: Path) -> tuple[Path, Path]:
    """The same with a file for every program that is given one, and settings of clients below the home folder."""
    work, home = made(root)
    names = FILES["names.txt"].encode()
    _archives(work, names)
    (work / "encoded.txt").write_bytes(base64.b64encode(names))
    (work / "encoded32.txt").write_bytes(base64.b32encode(names))
    (work / "page.pdf").write_bytes(_page())
    (work / "package.json").write_text('{"name": "app", "version": "1.0.0"}\n')
    shutil.copy("/bin/true", work / "program.o")
    database = sqlite3.connect(work / "app.db")
    database.executescript("create table t (x); insert into t values (1)")
    database.close()
    certificate(work)
    (home / ".config/gh").mkdir(parents=True)
    (home / ".config/gh/config.yml").write_text("version: 1\n")  # such as the verdict takes
    (home / ".config/gh/hosts.yml").write_text("github.com:\n    oauth_token: x\n")
    return work, home


def _archives(work: Path, names: bytes) -> None:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as archive:
        archive.add(work / "src", "src")
    for end, packed in {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}.items():
        (work / f"app.tar{end}").write_bytes(packed(held.getvalue()))
        if end:
            (work / f"names.txt{end}").write_bytes(packed(names))
    with zipfile.ZipFile(work / "app.zip", "w") as zipped:
        zipped.write(work / "names.txt", "names.txt")


def _page() -> bytes:
    """The smallest page that is one."""
    kinds = (
        "/Type/Catalog/Pages 2 0 R",
        "/Type/Pages/Kids[3 0 R]/Count 1",
        "/Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]",
    )
    held, places = b"%PDF-1.4\n", []
    for number, kind in enumerate(kinds, start=1):
        places.append(len(held))
        held += f"{number} 0 obj<<{kind}>>endobj\n".encode()
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    end = f"xref\n0 4\n0000000000 65535 f \n{table}trailer<</Size 4/Root 1 0 R>>\nstartxref\n{len(held)}\n%%EOF\n"
    return held + end.encode()


HOSTS = "example.com api.github.com"
"""Whom the certificate speaks for."""


def certificate(work: Path) -> None:
    """One of our own making, its key, a request for it and a list of those that are withdrawn: none without openssl."""
    if shutil.which("openssl", path=early.PATH) is None:
        return
    (work / "ca").mkdir()
    (work / "ca/index.txt").touch()
    (work / "ca/settings").write_text(
        "[ca]\ndefault_ca = here\n[here]\ndatabase = ca/index.txt\ndefault_md = sha256\ndefault_crl_days = 9\n"
    )
    names = "subjectAltName=" + ",".join(f"DNS:{host}" for host in HOSTS.split())
    key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout key.pem -subj /CN=example.com"
    for words in (
        f"req -x509 {key} -days 9 -addext {names} -out cert.pem",
        "req -new -key key.pem -subj /CN=example.com -out request.pem",
        "ca -gencrl -keyfile key.pem -cert cert.pem -config ca/settings -out list.pem",
    ):
        subprocess.run(["openssl", *words.split()], cwd=work, check=True, capture_output=True, timeout=30)


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

"""The vendors' own test suites say the same with `agentaccel.install()` as without.

    python -m tests.frameworks.vendors [PACKAGE…]

Takes the source distributions of the versions that are installed here from the package index, runs the tests that they
ship twice, and compares what became of each. Exits with 1 where one that passed does not, unless it stands in
`BY_DESIGN`, with the reason. Needs, beside a framework environment, what the suites need: langchain-tests, respx,
syrupy, freezegun, vcrpy, pytest-recording, time-machine, nest-asyncio, pytest-socket, pytest-httpx2, boto3.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tempfile
import xml.etree.ElementTree as xml
from collections import Counter
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """The tests of one package."""

    tests: tuple[str, ...]


SUITES = {
    "langchain-anthropic": Suite(tests=("tests/unit_tests",)),
    "langchain-openai": Suite(tests=("tests/unit_tests",)),
    "openai-agents": Suite(tests=("tests/models", "tests/test_agent_runner.py")),
    "anthropic": Suite(
        tests=("tests/lib", "tests/test_client.py", "tests/test_middleware.py", "tests/test_streaming.py")
    ),
    "openai": Suite(tests=("tests/lib", "tests/test_client.py", "tests/test_streaming.py")),
}
"""The parts of them that make clients and send requests."""
BY_DESIGN = {
    r"test_openai_client_caching$": "a wrapped client has an HTTP client of its own, which shares the connections",
}
"""Tests that are to differ, as regular expressions, each with the reason."""

PLUGIN = """
import agentaccel
from agentaccel import Policy, StorePolicy
agentaccel.install(Policy(store=StorePolicy(enabled=False)))
"""


def main(names: list[str]) -> int:
    """The exit code, after what differs was told."""
    wrong = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "installed_before.py").write_text(PLUGIN, encoding="utf-8")
        for package in names or SUITES:
            version = metadata.version(package)
            root = unpacked(package, version, folder)
            without, with_us = (outcomes(SUITES[package], root, folder, on=on) for on in (False, True))
            worse = {one: with_us.get(one, "gone") for one, said in without.items() if said == "passed"}
            worse = {one: said for one, said in worse.items() if said != "passed" and not meant(one)}
            wrong += len(worse)
            counted = ", ".join(f"{number} {what}" for what, number in sorted(Counter(without.values()).items()))
            say(f"{package} {version}: {counted}; {len(worse)} otherwise with install()")
            for one, said in worse.items():
                say(f"  {said}: {one}")
    return int(wrong > 0)


def meant(test: str) -> bool:
    return any(re.search(pattern, test) for pattern in BY_DESIGN)


def unpacked(package: str, version: str, folder: Path) -> Path:
    """The source distribution, unpacked."""
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:"]
    subprocess.run([*command, "-d", folder, f"{package}=={version}"], check=True, stderr=subprocess.DEVNULL)
    [archive] = folder.glob(f"{package.replace('-', '_')}-{version}.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


def outcomes(suite: Suite, root: Path, folder: Path, *, on: bool) -> dict[str, str]:
    """What became of each test."""
    told = folder / "outcomes.xml"
    told.unlink(missing_ok=True)
    options = ["-q", "-o", "addopts=", "--continue-on-collection-errors", f"--junitxml={told}", "-n", "auto"]
    options.append("--timeout=60")
    plugin = ["-p", "installed_before"] if on else []
    paths = os.pathsep.join(map(str, (folder, ROOT, ROOT / "emulator", root / "src", root)))
    kept = {
        key: value for key, value in os.environ.items() if not key.startswith(("AGENTACCEL_", "ANTHROPIC_", "OPENAI_"))
    }
    subprocess.run(
        [sys.executable, "-m", "pytest", *plugin, *options, *suite.tests],
        cwd=root, env={**kept, "PYTHONPATH": paths}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    if not told.exists():
        raise SystemExit(f"the tests in {root} did not run")
    found = dict[str, str]()
    for case in xml.parse(told).getroot().iter("testcase"):
        said = next((child.tag for child in case if child.tag in ("failure", "error", "skipped")), "passed")
        found[f"{case.get('classname')}::{case.get('name')}"] = said
    return found


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The vendors' own test suites say the same with `agentaccel.install()` as without.

    python -m tests.frameworks.vendors [PACKAGE…]

Takes the source distributions of the versions that are installed here from the package index, runs the tests that they
ship twice, and compares what became of each. Says one line for each suite, and one for each test that passed and does
not with `install()`. Exits with 1 where there is such a test that is not in `BY_DESIGN`, or where a suite did not end
within `SECONDS`. Needs, beside a framework environment, what the suites need: langchain-tests, respx, syrupy,
freezegun, vcrpy, pytest-recording, time-machine, nest-asyncio, pytest-socket, pytest-httpx2, boto3, http-snapshot,
dirty-equals, inline-snapshot, trio, aiohttp, opentelemetry-sdk, pytest-xdist, pytest-timeout.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import xml.etree.ElementTree as xml
from collections import Counter
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """The tests of one package."""

    tests: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    """Files, folders and single tests among them that are not run; the reason stands beside each."""
    options: tuple[str, ...] = ()
    """Of pytest, which the package's own settings give."""


SUITES = {
    "langchain-anthropic": Suite(tests=("tests/unit_tests",)),
    "langchain-openai": Suite(tests=("tests/unit_tests",)),
    "anthropic": Suite(
        tests=("tests",),
        left_out=(
            "tests/api_resources",  # each test asks a mock server at a port, which the package does not ship
            "tests/test_detect_breaking_changes.py",  # of a script that the package does not ship
        ),
        options=("-p", "tests._alias_httpx"),
    ),
    "openai": Suite(
        tests=(
            *("tests/lib", "tests/test_client.py", "tests/test_module_client.py", "tests/test_streaming.py"),
            *("tests/test_stream_mode.py", "tests/test_sse_framing.py", "tests/test_response.py"),
            *("tests/test_legacy_response.py", "tests/test_request_body_routing_order.py"),
            *("tests/test_retry_after_overflow.py", "tests/test_status_error_messages.py"),
            *("tests/test_httpx2.py", "tests/test_httpx2_base.py", "tests/test_httpx2_decompression.py"),
            *("tests/test_httpx2_respx.py", "tests/test_debug_logging.py", "tests/test_usage_cache_write.py"),
            "tests/test_decision_prompt_cache.py",
        ),  # `tests/api_resources` asks a mock server; most of the others make no client, and two thousand build wheels
        left_out=(
            "tests/lib/test_fine_tuning_positional_arguments.py",  # asks the mock server
            "tests/lib/chat/test_completions_streaming.py",  # reads recordings that the package does not ship
            "tests/lib/live/test_transcript_grouping.py::test_fractional_source_deadlines",  # by the wall clock
        ),
    ),
    "openai-agents": Suite(
        tests=(
            *("tests/models", "tests/model_settings", "tests/memory", "tests/tracing"),
            *("tests/test_agent_runner.py", "tests/test_agent_runner_streamed.py", "tests/test_agent_runner_sync.py"),
            *("tests/test_config.py", "tests/test_openai_provider_client_options.py", "tests/test_function_tool.py"),
            *("tests/test_responses_tracing.py", "tests/test_provider_span_errors.py", "tests/test_scripted_model.py"),
            *("tests/test_error_logging_redaction.py", "tests/test_runner_model_provider_lifecycle.py"),
            *("tests/test_local_shell_tool.py", "tests/test_trace_processor.py", "tests/test_run_step_execution.py"),
            *("tests/test_hosted_mcp_connectors_example.py", "tests/test_decisions_examples.py"),
        ),
        left_out=(
            # by the wall clock
            "tests/test_trace_processor.py::test_tracing_atexit_cleanup_timeout_preserves_process_exit_code_on_504",
        ),
    ),
}
"""Where a package ships more than what makes clients and sends requests, that part of it."""
SECONDS = 900
"""How long a suite may run."""


class Design(NamedTuple):
    """Tests that are to differ."""

    tests: str
    """Which, as a regular expression."""
    because: str
    """What the failure says, as a regular expression: one that says something else is not meant."""
    reason: str


BY_DESIGN = (
    Design(
        r"test_openai_client_caching$",
        r"",
        "a wrapped client has an HTTP client of its own, which shares the connections",
    ),
    Design(
        r"tests\.test_middleware\.|test_client_copy::test_with_options_overrides_win\[",
        r"AccelMiddleware",
        "ours is one of the client's middleware, the last, which is how the SDK has others take part; all else that "
        "these tests ask is as without, once they do not compare the list with the one given",
    ),
    Design(
        r"TestSyncMessages::test_tool_use_round_trip$",
        r"cache_control",
        "it compares a block with what went out, where it has the cache marker that it is all about",
    ),
    Design(
        r"::test_retrying_(timeout|status)_errors_doesnt_leak$",
        r"agentaccel\.clients\.transport",
        "it finds the pool by the class of the transport, and ours is around it; the pool is empty, as it asks",
    ),
    Design(
        r"::test_done_http11_connection_reuse\[",
        r"assert (2 == 1|3 == 2)",
        "a server on a private network is asked once who it is, which takes a connection",
    ),
)

PLUGIN = """
import agentaccel
from agentaccel import Policy, StorePolicy
agentaccel.install(Policy(store=StorePolicy(enabled=False)))
"""


class Outcome(NamedTuple):
    """What became of a test."""

    what: str
    """`passed`, `skipped`, `failure`, `error`, or `gone` for one that was not run."""
    says: str = ""
    """Why, as pytest tells it."""


Outcomes = dict[str, Outcome]


def main(names: list[str]) -> int:
    """The exit code, after what differs was told."""
    wrong = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "installed_before.py").write_text(PLUGIN, encoding="utf-8")
        for package in names or SUITES:
            version = metadata.version(package)
            root = unpacked(package, version, folder)
            try:
                without, with_us = (outcomes(SUITES[package], root, folder, on=on) for on in (False, True))
            except subprocess.TimeoutExpired:
                say(f"{package} {version}: has not ended within {SECONDS} s")
                wrong += 1
                continue
            wrong += told(f"{package} {version}", without, with_us)
    return int(wrong > 0)


def told(suite: str, without: Outcomes, with_us: Outcomes) -> int:
    """How many tests pass without us alone and are not meant to, after a line for the suite and one for each."""
    counted = ", ".join(
        f"{count} {what}" for what, count in sorted(Counter(one.what for one in without.values()).items())
    )
    worse = {
        test: with_us.get(test, Outcome("gone"))
        for test, one in without.items()
        if one.what == "passed" and with_us.get(test, Outcome("gone")).what != "passed"
    }
    wrong = {test: one for test, one in worse.items() if not meant(test, one)}
    say(f"{suite}: {counted}; with install() {len(worse) - len(wrong)} otherwise by design, {len(wrong)} beside")
    for test, one in wrong.items():
        say(f"  {one.what}: {test}")
    return len(wrong)


def meant(test: str, outcome: Outcome) -> bool:
    return any(re.search(one.tests, test) and re.search(one.because, outcome.says) for one in BY_DESIGN)


def unpacked(package: str, version: str, folder: Path) -> Path:
    """The source distribution, unpacked."""
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:"]
    subprocess.run([*command, "-d", folder, f"{package}=={version}"], check=True, stderr=subprocess.DEVNULL)
    [archive] = folder.glob(f"{package.replace('-', '_')}-{version}.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


def outcomes(suite: Suite, root: Path, folder: Path, *, on: bool) -> Outcomes:
    """What became of each test. Raises `TimeoutExpired`."""
    report = folder / "outcomes.xml"
    report.unlink(missing_ok=True)
    options = ["-q", "-o", "addopts=", "--continue-on-collection-errors", f"--junitxml={report}", "--timeout=30"]
    options += ["-n", "2", "--dist", "worksteal", *suite.options, *map(without, suite.left_out)]
    plugin = ["-p", "installed_before"] if on else []
    paths = os.pathsep.join(map(str, (folder, ROOT, ROOT / "emulator", root / "src", root)))
    kept = {
        key: value for key, value in os.environ.items() if not key.startswith(("AGENTACCEL_", "ANTHROPIC_", "OPENAI_"))
    }
    with subprocess.Popen(
        [sys.executable, "-m", "pytest", *options, *plugin, *suite.tests],
        cwd=root, env={**kept, "PYTHONPATH": paths}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as tests:  # fmt: skip
        try:
            tests.wait(SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(tests.pid, signal.SIGKILL)  # the processes that the tests run in, too
            raise
    if not report.exists():
        raise SystemExit(f"the tests in {root} did not run")
    return read(report)


def without(path: str) -> str:
    """The option of pytest that leaves out a file, a folder or a test."""
    return f"--deselect={path}" if "::" in path else f"--ignore={path}"


def read(report: Path) -> Outcomes:
    """What pytest's report says; a test that fails, and whose fixture then does, has failed."""
    found = Outcomes()
    for case in xml.parse(report).getroot().iter("testcase"):
        child = next((child for child in case if child.tag in ("failure", "error", "skipped")), None)
        says = "" if child is None else f"{child.get('message')} {child.text}"
        found.setdefault(
            f"{case.get('classname')}::{case.get('name')}", Outcome("passed" if child is None else child.tag, says)
        )
    return found


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

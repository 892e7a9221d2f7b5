"""llama.cpp's server inside a child process: `python -I -S tiny_server.py SETTINGS`, where SETTINGS is one JSON object.

A script of its own, started by `tiny`: only here is the engine imported, from the folder that SETTINGS names, so a
crash of the engine ends this process and no other. Ends with status 1 where the server does not start; the engine's own
lines on standard error say why.
"""

from __future__ import annotations

import importlib
import json
import signal
import sys
from typing import Any


def parameters(engine: Any, settings: dict[str, Any]) -> Any:
    """The engine's own parameters, as `tiny.settings` has set them."""
    chosen = engine.CommonParams()
    chosen.model.path = settings["model"]
    chosen.hostnames, chosen.port = ["127.0.0.1"], settings["port"]
    chosen.n_parallel, chosen.n_ctx = settings["slots"], settings["slots"] * settings["context"]
    chosen.warmup, chosen.verbosity = False, settings["verbosity"]
    chosen.endpoint_metrics = chosen.endpoint_slots = chosen.offline = chosen.use_jinja = True
    chosen.ui = False
    chosen.cors_origins, chosen.cors_origins_explicit = "", True  # no page in a browser is to talk to it
    chosen.cache_ram_mib = settings["cache_ram"]
    for cpu in (chosen.cpuparams, chosen.cpuparams_batch):
        cpu.n_threads, cpu.poll = settings["threads"], 0  # threads that poll starve one another on a busy machine
    kind = engine.common_speculative_type
    chosen.speculative.types = [getattr(kind, f"COMMON_SPECULATIVE_TYPE_{settings['speculate']}")]
    if settings["template"]:
        with open(settings["template"], encoding="utf-8") as template:
            chosen.chat_template = template.read()
    if settings["slot_folder"]:
        chosen.slot_save_path = settings["slot_folder"]
    return chosen


def main(settings: dict[str, Any]) -> int:
    """Serve until this process is ended."""
    sys.path.insert(0, settings["python_path"])
    engine = importlib.import_module("xllamacpp")
    try:
        server = engine.Server(parameters(engine, settings))
    except (RuntimeError, ValueError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stderr.write(f"listening on {server.listening_address}\n")
    while True:
        signal.pause()


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))

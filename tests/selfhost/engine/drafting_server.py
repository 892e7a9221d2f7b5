"""The tiny engine, with fields of its speculation set that agentaccel does not offer, synthetic acceptance among them:
`python -I -S drafting_server.py SETTINGS FOLDER DRAFTING`, where FOLDER holds `tiny_server.py`.

With synthetic acceptance the engine takes drafts by lot and not by what the model says: it is for tests alone.
"""

from __future__ import annotations

import importlib
import json
import signal
import sys

settings, folder, drafting = json.loads(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
sys.path[:0] = [settings["python_path"], folder]
engine = importlib.import_module("xllamacpp")
chosen = importlib.import_module("tiny_server").parameters(engine, settings)
for name, value in drafting.items():
    *path, last = name.split(".")
    part = chosen.speculative
    for one in path:
        part = getattr(part, one)
    setattr(part, last, value)
server = engine.Server(chosen)
while True:
    signal.pause()

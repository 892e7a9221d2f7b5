"""What Python runs first in each process of `agentaccel run`, which puts this folder in front of PYTHONPATH.

This folder is no package: Python finds this file by its name. A `sitecustomize` that would have been found without us
is run first.
"""

import os
import sys


def _run_the_other() -> None:
    """Run the `sitecustomize` behind this one, which goes on to be the module of that name."""
    here = os.path.dirname(os.path.abspath(__file__))
    before, own = list(sys.path), sys.modules.pop("sitecustomize", None)
    sys.path[:] = [entry for entry in before if os.path.abspath(entry) != here]
    try:
        __import__("sitecustomize")
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
        if own is not None:
            sys.modules["sitecustomize"] = own
    finally:
        sys.path[:] = before


def _install() -> None:
    started = os.environ.get("AGENTACCEL_RUN", "")
    if not started:
        return
    try:
        from agentaccel.installation import for_command

        for_command()
    except Exception as error:  # noqa: BLE001 - the user's program goes on, whatever is wrong with us
        if started == str(os.getpid()):  # what it starts in its turn may be Python's of other environments
            sys.stderr.write(f"agentaccel run: {sys.executable} runs without agentaccel: {error}\n")


_run_the_other()
_install()

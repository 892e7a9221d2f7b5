"""`python -m agentaccel` and the `agentaccel` command."""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Run the command line; errors of ours, and paths that cannot be, end it with one sentence and exit code 2."""
    try:
        _run()
    finally:
        gc.freeze()  # the process ends: looking for cycles in all that it has loaded takes 0.05 s


def _run() -> None:
    from agentaccel.cli import main as cli
    from agentaccel.errors import AgentAccelError

    try:
        cli(prog_name="agentaccel")
    except (AgentAccelError, OSError) as error:  # the latter for a path that cannot be
        from agentaccel.report.numbers import clean

        said = str(error)
        if isinstance(error, OSError) and error.filename is not None:
            said = f"{error.filename}: {error.strerror}"
        sys.stderr.write(f"{clean(' '.join(('agentaccel', *sys.argv[1:2])))}: {clean(said)}\n")
        sys.exit(2)


if __name__ == "__main__":
    main()

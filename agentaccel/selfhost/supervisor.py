"""Runs one program so that it does not outlive whoever asked for it, and nothing that it has started does, either.

    python -I -S supervisor.py PARENT GRACE PROGRAM [ARGUMENT ...]

A script of its own, started by `launch`: it must not depend on anything but the standard library, and on nothing that
happens to the process PARENT. It prints the program's process id, or "! " and why the program cannot be started, as
one line, and ends with the status that a shell would tell of the program (128 + N for signal N).

Its standard input is a pipe that PARENT holds. When the pipe closes, or PARENT is gone (a fork of it may still hold the
pipe), the program's process group is asked to end, and after GRACE seconds it is ended.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time

_TICK = 0.1
"""Seconds between two looks at the program and at PARENT."""


def main(parent: int, grace: float, command: list[str]) -> int:
    """Run `command`, and be there until it has ended; returns its status."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _ask_to_end)
    signal.signal(signal.SIGHUP, _ask_to_end)
    try:
        program = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr, process_group=0)
    except OSError as error:
        _tell(f"! {command[0]}: {error.strerror}")
        return 127
    try:
        _tell(str(program.pid))
        while program.poll() is None and os.getppid() == parent:
            if select.select([sys.stdin], [], [], _TICK)[0]:  # nobody writes there, so it is closed
                break
    finally:
        _end(program, grace)
    return program.returncode if program.returncode >= 0 else 128 - program.returncode


def _ask_to_end(number: int, frame: object) -> None:
    sys.exit(128 + number)


def _tell(line: str) -> None:
    """Print `line`, and close the pipe: whoever reads it waits for no more."""
    try:
        sys.stdout.write(f"{line}\n")
        sys.stdout.close()
    except OSError:  # PARENT is gone already, which is seen in a moment
        pass


def _end(program: subprocess.Popen[bytes], grace: float) -> None:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    until = time.monotonic() + grace
    there = _signal(program.pid, signal.SIGTERM)
    while there and time.monotonic() < until:
        time.sleep(0.02)
        program.poll()  # what has ended is in its group until it was asked for its status
        there = _signal(program.pid, 0)
    _signal(program.pid, signal.SIGKILL)
    program.wait()


def _signal(group: int, number: int) -> bool:
    """Send a signal to a process group; True if there is one."""
    try:
        os.killpg(group, number)
    except OSError:  # none is left; macOS refuses where all of them have ended
        return False
    return True


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]))

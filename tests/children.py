"""Processes that a test starts by forking: the suite's modules are loaded already, the SDKs among them."""

from __future__ import annotations

import os
import traceback
import warnings
from collections.abc import Callable


def in_a_child(work: Callable[[], object]) -> int:
    """Do `work` in a child; its process id. The child ends with 0, or with 1 after it has printed what was raised."""
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # that the parent has threads, and of what the child does
        child = os.fork()
        if child:
            return child
        try:
            work()
        except BaseException:  # noqa: BLE001 - nothing of a child may go on in the test that forked it
            traceback.print_exc()
            os._exit(1)
        os._exit(0)

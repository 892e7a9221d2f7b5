"""The tests of attached servers run under a detector of what blocks an event loop."""

from tests.detector import detector, loops_are_not_blocked

__all__ = ["detector", "loops_are_not_blocked"]

"""What one request is billed for, whichever provider bills it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What one request is billed for; read, written and uncached add up to the whole prompt."""

    uncached: int
    """Input tokens that were neither read nor written."""
    read: int
    """Tokens read from the cache."""
    write_5m: int = 0
    """Tokens written for five minutes."""
    write_1h: int = 0
    """Tokens written for an hour."""
    write_30m: int = 0
    """Tokens written for half an hour."""
    write_12h: int = 0
    """Tokens written for twelve hours."""
    output: int = 0
    """Output tokens, thinking included."""
    thinking: int = 0
    """Output tokens that were thinking."""

    @property
    def written(self) -> int:
        """Tokens written, whatever their lifetime."""
        return self.write_5m + self.write_1h + self.write_30m + self.write_12h

    @property
    def input(self) -> int:
        """Tokens of the whole prompt."""
        return self.uncached + self.read + self.written

"""JSON bodies on the wire: read once, and written anew only where nothing of what the sender wrote is lost by it."""

from __future__ import annotations

import json
import marshal
from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from agentaccel.types import Request


class Body(NamedTuple):
    """What a sender wrote, read."""

    request: Request
    plain: bool
    """Whether it says the same when it is written anew; where not, it has to go out as it is."""


def read(content: bytes, *, of_sdk: bool = False) -> Body | None:
    """The object that `content` holds; None where it holds none, or is nested deeper than can be read here.

    By the standard library: it keeps integers of any length. `of_sdk` spares the look for names that stand twice, half
    the time of reading, for an SDK that dumps a dictionary cannot have written them; of bytes that it was given to send
    the last one counts, as it does to whoever reads JSON.

    >>> read(b'{"seed": 1}')
    Body(request={'seed': 1}, plain=True)
    >>> read(b'{"seed": 1, "seed": 2}').plain, read(b'{"temperature": 1e400}').plain
    (False, False)
    >>> read(b"[1]") is None
    True
    """
    reading = _Reading()
    decoder = json.JSONDecoder(
        parse_float=reading.number,
        parse_constant=reading.constant,
        object_pairs_hook=None if of_sdk else reading.named,
    )
    try:
        body = decoder.decode(_text(content, reading))
    except (ValueError, RecursionError):
        return None
    return Body(body, reading.plain) if isinstance(body, Mapping) else None


def compact(body: Request) -> bytes | None:
    """`body` as compact JSON; None where it holds anything but what JSON has, which encoders write each in its own way.

    >>> compact({"seed": 1, "stop": None})
    b'{"seed":1,"stop":null}'
    >>> compact({"temperature": float("nan")}) is None
    True
    """
    plain: Any = body
    try:
        marshal.dumps(plain)  # refuses all but Python's own types, so also an `Enum`, and whatever derives from `str`
        made = orjson.dumps(plain)
    except (TypeError, ValueError):
        return None
    # A number that is none would be written as null; to look for numbers takes longer than to look for that.
    return made if made.rfind(b"null") < 0 or _is_finite(body) else None  # half the time of a look from the front


def _is_finite(body: Request) -> bool:
    """Whether every number in `body` is one."""
    left: list[Any] = [body]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            left.extend(value.values())
        elif isinstance(value, list | tuple):
            left.extend(value)
        elif type(value) is float and value - value != 0:
            return False
    return True


def written(body: Request) -> bytes:
    """`body` as compact JSON that every receiver can read."""
    try:
        return orjson.dumps(body)
    except TypeError:  # an integer beyond 64 bits, a lone surrogate, or nested deeper than it writes
        pass
    text = json.dumps(body, separators=(",", ":"), ensure_ascii=False)
    try:
        return text.encode()
    except UnicodeEncodeError:  # a lone surrogate has no bytes of its own: escaped, as whoever sent it had it
        return json.dumps(body, separators=(",", ":")).encode()


def _text(content: bytes, reading: _Reading) -> str:
    """`content` in any encoding that JSON may have; all but plain UTF-8 is the sender's own affair."""
    encoding = json.detect_encoding(content)
    reading.plain = encoding == "utf-8"
    try:
        return content.decode(encoding)
    except UnicodeDecodeError:
        reading.plain = False
        return content.decode(encoding, "surrogatepass")


class _Reading:
    """Notes what would come out as something else."""

    plain = True

    def number(self, digits: str) -> float:
        value = float(digits)
        self.plain &= value - value == 0  # an infinity is not: `1e400` would be written as null
        return value

    def constant(self, name: str) -> float:
        self.plain = False  # NaN and the infinities, which are no JSON
        return float(name)

    def named(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        self.plain &= len(made) == len(pairs)
        return made

"""A call of the `anthropic` SDK that goes out streamed inside the client, and comes back as the response it asked for.

The SDK hands a streamed response over unread, so what goes wrong while it is read here is raised as the SDK raises what
goes wrong while it reads a whole one: it then retries by its own rules.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, get_origin

from agentaccel.clients.attempt import Attempt
from agentaccel.clients.client_copy import library_of

_RAW = "x-stainless-raw-response"
"""The header by which the SDK knows that its caller wants the response; "stream" where the caller reads the bytes."""


def reads_whole(request: Any) -> bool:
    """True if the SDK reads the whole reply before it hands it to its caller, as one of its own models or raw."""
    from pydantic import BaseModel  # the SDK has loaded it

    headers = request.headers if isinstance(request.headers, Mapping) else {}
    modes = {value for name, value in headers.items() if name.lower() == _RAW}
    kind = get_origin(request.cast_to) or request.cast_to
    return not request.stream and modes <= {"raw", "true"} and isinstance(kind, type) and issubclass(kind, BaseModel)


def streamed(request: Any) -> Any:
    """The SDK's request with its response handed over unread."""
    made = copy.copy(request)
    made.stream = True
    return made


def whole(attempt: Attempt, http: Any, kind: Any, request: Any, client: Any) -> Any:
    """The SDK's response, of class `kind`, with the whole reply of the stream `http`; None where that does not add
    up. `client` sends it. Raises as the SDK does."""
    with _as_the_sdk_says(http):
        made = attempt.whole(http, http.request)
        if made is None:
            return None
        made.read()
    return response_of(_timed(made, http), kind, request, client)


async def whole_async(attempt: Attempt, http: Any, kind: Any, request: Any, client: Any) -> Any:
    """The same on an event loop."""
    with _as_the_sdk_says(http):
        made = await attempt.whole_async(http, http.request)
        if made is None:
            return None
        await made.aread()
    return response_of(_timed(made, http), kind, request, client)


def response_of(http: Any, kind: Any, request: Any, client: Any) -> Any:
    """The SDK's response, of class `kind`, with the response `http` to `request`, which `client` sent."""
    return kind(
        raw=http,
        client=client,
        cast_to=request.cast_to,
        stream=False,
        stream_cls=None,
        options=request.options,
        retries_taken=request.retries_taken,
    )


def _timed(made: Any, http: Any) -> Any:
    """A response that was made in the place of another one took as long as that."""
    if made is not http:
        made.elapsed = http.elapsed
    return made


@contextmanager
def _as_the_sdk_says(http: Any) -> Iterator[None]:
    import anthropic

    try:
        yield
    except library_of(http).TimeoutException as error:
        raise anthropic.APITimeoutError(request=http.request) from error
    except Exception as error:
        raise anthropic.APIConnectionError(request=http.request) from error

"""A server that answers every request at once, in the form of its path; it prints its port. Run by `overhead`.

It says what the conversation goes on with: the text and the call that its next request holds. What the request before
held was read from the cache and the new turn written to it, as where the end of each prompt is marked.
"""

from __future__ import annotations

import json
import socket
import sys
import threading

from benchmarks.conversation import BYTES_PER_TOKEN, CHAT_MODEL, MODEL, Json, chat_reply, opening, turn_of


def reply(request: Json, size: int) -> Json:
    """The Messages API's answer to a request of `Conversation`, whose blocks have about `size` bytes."""
    turns = len(request["messages"]) // 2
    said, _ = turn_of(turns, size)
    read, new = tokens(turns, size)
    return {
        "id": f"msg_{turns}",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": said["content"],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 3,
            "cache_creation_input_tokens": new,
            "cache_read_input_tokens": read,
            "cache_creation": {"ephemeral_5m_input_tokens": new, "ephemeral_1h_input_tokens": 0},
            "output_tokens": new // 2,
        },
    }


def chat(request: Json, size: int) -> Json:
    """That of Chat Completions."""
    turns = sum(message["role"] == "assistant" for message in request["messages"])
    said, _ = turn_of(turns, size)
    read, new = tokens(turns, size)
    return {
        "id": f"chatcmpl_{turns}",
        "object": "chat.completion",
        "created": 1,
        "model": CHAT_MODEL,
        "choices": [{"index": 0, "message": chat_reply(said), "finish_reason": "tool_calls"}],
        "usage": {
            "prompt_tokens": read + new + 3,
            "completion_tokens": new // 2,
            "total_tokens": read + new + 3 + new // 2,
            "prompt_tokens_details": {"cached_tokens": read, "cache_write_tokens": new},
        },
    }


def tokens(turns: int, size: int) -> tuple[int, int]:
    """Of a request after so many turns, what the one before held, and what is new: each turn counts as many."""
    first, turn = (round(len(json.dumps(part)) / BYTES_PER_TOKEN) for part in (opening(), turn_of(0, size)))
    return first + (turns - 1) * turn, turn


def answer(head: bytes, body: bytes, size: int) -> bytes:
    """A whole HTTP response to a request."""
    form = chat if b"/chat/completions" in head.partition(b"\r\n")[0] else reply
    content = json.dumps(form(json.loads(body), size)).encode()
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
        len(content),
        content,
    )


def serve(connection: socket.socket, size: int) -> None:
    """Read requests one after another, whole, and answer each."""
    data = b""
    while True:
        while b"\r\n\r\n" not in data:
            more = connection.recv(1 << 20)
            if not more:
                return
            data += more
        head, _, body = data.partition(b"\r\n\r\n")
        lines = [line.lower() for line in head.split(b"\r\n")]
        length = next(int(line.partition(b":")[2]) for line in lines if line.startswith(b"content-length:"))
        while len(body) < length:
            body += connection.recv(1 << 20)
        data = body[length:]
        connection.sendall(answer(head, body[:length], size))


def main() -> None:
    size = int(sys.argv[1])
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=serve, args=(connection, size), daemon=True).start()


if __name__ == "__main__":
    main()

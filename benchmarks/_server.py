"""A server that answers every request at once, in the form of its path; it prints its port. Run by `overhead`.

It says what the conversation goes on with: the text and the call that its next request holds. All but the last turn was
read from the cache, as where the whole prompt is marked each turn.
"""

from __future__ import annotations

import json
import socket
import sys
import threading

from benchmarks.conversation import BYTES_PER_TOKEN, CHAT_MODEL, MODEL, Json, chat_reply, turn_of


def reply(request: Json, size: int) -> Json:
    """The Messages API's answer to a request of `Conversation`, whose blocks have about `size` bytes."""
    said, _ = turn_of(len(request["messages"]) // 2, size)
    total, last = (round(len(json.dumps(part)) / BYTES_PER_TOKEN) for part in (request, request["messages"][-2:]))
    return {
        "id": f"msg_{len(request['messages'])}",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": said["content"],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 10,
            "cache_creation_input_tokens": last,
            "cache_read_input_tokens": total - last,
            "cache_creation": {"ephemeral_5m_input_tokens": last, "ephemeral_1h_input_tokens": 0},
            "output_tokens": 240,
        },
    }


def chat(request: Json, size: int) -> Json:
    """That of Chat Completions."""
    turns = sum(message["role"] == "assistant" for message in request["messages"])
    said, _ = turn_of(turns, size)
    total = round(len(json.dumps(request)) / BYTES_PER_TOKEN)
    return {
        "id": f"chatcmpl_{turns}",
        "object": "chat.completion",
        "created": 1,
        "model": CHAT_MODEL,
        "choices": [{"index": 0, "message": chat_reply(said), "finish_reason": "tool_calls"}],
        "usage": {
            "prompt_tokens": total,
            "completion_tokens": 240,
            "total_tokens": total + 240,
            "prompt_tokens_details": {"cached_tokens": total - 400, "cache_write_tokens": 400},
        },
    }


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

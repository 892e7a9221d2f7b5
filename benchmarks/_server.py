"""A server that answers every request at once, in the form of its path; it prints its port. Run by `overhead`."""

from __future__ import annotations

import json
import socket
import threading

REPLY = json.dumps(
    {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-5",
        "content": [{"type": "text", "text": "Done."}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 10,
            "cache_creation_input_tokens": 400,
            "cache_read_input_tokens": 29_600,
            "cache_creation": {"ephemeral_5m_input_tokens": 400, "ephemeral_1h_input_tokens": 0},
            "output_tokens": 5,
        },
    }
).encode()
CHAT = json.dumps(
    {
        "id": "chatcmpl_1",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-6.1-sol",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Done."}, "finish_reason": "stop"}],
        "usage": {
            "prompt_tokens": 30_010,
            "completion_tokens": 5,
            "total_tokens": 30_015,
            "prompt_tokens_details": {"cached_tokens": 29_600, "cache_write_tokens": 400},
        },
    }
).encode()


def answer(body: bytes) -> bytes:
    """A whole HTTP response with that body."""
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


def serve(connection: socket.socket) -> None:
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
        connection.sendall(answer(CHAT if b"/chat/completions" in lines[0] else REPLY))


def main() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=serve, args=(connection,), daemon=True).start()


if __name__ == "__main__":
    main()

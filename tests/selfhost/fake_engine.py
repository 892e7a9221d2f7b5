"""An engine for tests, which computes nothing: `python -I -S fake_engine.py PORT [WORD ...]`.

Answers /health with 503 as often as the word `busy=N` says, and then with 200; /asked with how often it was asked for
its health; /environment with the names of its variables. It keeps every connection to /stay open until it ends, so
whoever holds one hears of that. With `never` it is never ready, with `stubborn` it ignores SIGTERM, with `tidy=FILE` it
writes the file when it is asked to end; with `worker=PORT` it starts a process that ignores SIGTERM and listens there.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from pathlib import Path


def main(port: int, words: list[str]) -> None:
    values = dict(word.partition("=")[::2] for word in words)
    server = socket.create_server(("127.0.0.1", port))
    if "worker" in values:
        other = socket.create_server(("127.0.0.1", int(values["worker"])))
        if os.fork() == 0:
            server.close()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            serve(other, {})
        other.close()
    if "stubborn" in values:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "tidy" in values:
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(Path(values["tidy"]).write_text("tidied")))
    sys.stderr.write("fake engine: begins\n")
    serve(server, values)


def serve(server: socket.socket, values: dict[str, str]) -> None:
    signal.alarm(120)  # so that one that a failing test has left goes away
    stay, asked = [], 0
    while True:
        connection, _ = server.accept()
        path = [*connection.recv(4096).split(b" "), b""][1]
        if path == b"/stay":
            stay.append(connection)
            connection.sendall(b"here")
            continue
        asked += path == b"/health"
        ready = path != b"/health" or ("never" not in values and asked > int(values.get("busy", 0)))
        text = str(asked) if path == b"/asked" else " ".join(sorted(os.environ))
        head = f"HTTP/1.0 {200 if ready else 503} said\r\nContent-Length: {len(text)}\r\n\r\n"
        connection.sendall((head + text).encode())
        connection.close()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])

"""A chat server that gives the replies of a script, and keeps what it was asked."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Call = tuple[str, dict[str, str]]


class Script:
    """Replies to give, each a text or tool calls, and what was asked for."""

    def __init__(self) -> None:
        self.replies: list[str | list[Call]] = []
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.feedback: list[dict[str, Any]] = []
        self.url = ""

    def chunks(self) -> Iterator[dict[str, Any]]:
        """The next reply in pieces: text letter by letter, arguments in two halves."""
        number = len(self.requests)
        base = {"id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "created": 0, "model": "m"}
        deltas: list[dict[str, Any]] = [{"role": "assistant"}]
        reply = self.replies.pop(0)
        if isinstance(reply, str):
            deltas += [{"content": letter} for letter in reply]
        else:
            for index, (name, arguments) in enumerate(reply):
                text = json.dumps(arguments)
                head = {"index": index, "id": f"call{number}-{index}", "type": "function"}
                deltas.append({"tool_calls": [head | {"function": {"name": name, "arguments": text[:5]}}]})
                deltas.append({"tool_calls": [{"index": index, "function": {"arguments": text[5:]}}]})
        for delta in deltas:
            yield base | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        yield base | {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        yield base | {"choices": [], "usage": None}


@contextmanager
def scripted_server() -> Iterator[Script]:
    """Serves a script on loopback."""
    script = Script()

    class Handler(BaseHTTPRequestHandler):
        """One scripted endpoint."""

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            if self.path == "/v1/feedback":
                script.feedback.append(body)
                self.send_header("content-type", "application/json")
                self.end_headers()
                self.wfile.write(b"{}")
                return
            script.requests.append(body)
            script.headers.append({name.lower(): value for name, value in self.headers.items()})
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            for chunk in script.chunks():
                self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
            self.wfile.write(b"data: [DONE]\n\n")

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    script.url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield script
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

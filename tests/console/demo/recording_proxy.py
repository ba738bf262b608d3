"""A loopback proxy that keeps every /generate reply of an engine: its own record of what was sampled."""

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import urlsplit


class Sampled(NamedTuple):
    """What the engine was given and what it sent back, read from the raw bytes."""

    input_ids: list[int]
    temperature: float
    top_p: float
    output_ids: list[int]
    logprobs: list[float]


class Recording:
    """The proxy's address and its record, by request id."""

    def __init__(self) -> None:
        self.url = ""
        self.replies: dict[str, Sampled] = {}

    def note(self, body: bytes, reply: bytes) -> None:
        """Keeps one finished exchange."""
        asked = json.loads(body)
        events = [line[6:] for line in reply.decode().split("\n") if line.startswith("data: ") and line[6:] != "[DONE]"]
        parts = [json.loads(event) for event in events]
        pairs = [pair for part in parts for pair in part["meta_info"]["output_token_logprobs"]]
        sampling = asked["sampling_params"]
        sampled = Sampled(
            input_ids=asked["input_ids"],
            temperature=sampling["temperature"],
            top_p=sampling["top_p"],
            output_ids=[token for part in parts for token in part["output_ids"]],
            logprobs=[pair[0] for pair in pairs],
        )
        assert [pair[1] for pair in pairs] == sampled.output_ids
        assert asked["rid"] not in self.replies
        self.replies[asked["rid"]] = sampled


@contextmanager
def recording_proxy(engine_url: str) -> Iterator[Recording]:
    """Runs a proxy in front of an engine while the block runs."""
    recording = Recording()
    target = urlsplit(engine_url).netloc

    class Handler(BaseHTTPRequestHandler):
        """Passes one request on; replies end with the connection."""

        def do_GET(self) -> None:
            self._forward(b"")

        def do_POST(self) -> None:
            self._forward(self.rfile.read(int(self.headers.get("content-length", 0))))

        def _forward(self, body: bytes) -> None:
            upstream = http.client.HTTPConnection(target, timeout=60)
            try:
                upstream.request(self.command, self.path, body, {"content-type": "application/json"})
                reply = upstream.getresponse()
                self.send_response(reply.status)
                self.send_header("content-type", reply.getheader("content-type") or "application/json")
                self.end_headers()
                whole = b""
                while piece := reply.read1(65536):
                    whole += piece
                    # Noted before it is passed on: what a client has seen is on record here.
                    if self.path == "/generate" and whole.endswith(b"data: [DONE]\n\n"):
                        recording.note(body, whole)
                    self.wfile.write(piece)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True
            finally:
                upstream.close()

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    recording.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield recording
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

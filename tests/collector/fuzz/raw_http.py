"""HTTP/1.1 as it goes on the wire, well-formed and not, and a reader that never waits for ever."""

import gzip
import socket
import time
from typing import NamedTuple

LIMIT_S = 30.0
"""Longest that an answer may take: far more than any does, and less than for ever."""


class Answer(NamedTuple):
    """What came back; the status is 0 when the connection was closed without a word."""

    status: int
    headers: dict[str, str]
    body: bytes


class Hang(AssertionError):
    """An answer did not end in time."""


def request_bytes(framing: str, path: str, headers: list[tuple[str, str]], body: bytes) -> bytes:
    """One request, framed as the name says."""
    method, target, version = "POST", path, "HTTP/1.1"
    more = [("host", "127.0.0.1"), ("connection", "close")]
    sent = body
    match framing:
        case "chunked":
            more.append(("transfer-encoding", "chunked"))
            cuts = [body[start : start + 7] for start in range(0, min(len(body), 700), 7)] + [body[700:]]
            sent = b"".join(b"%x\r\n%s\r\n" % (len(cut), cut) for cut in cuts if cut) + b"0\r\n\r\n"
        case "bad chunk":
            more.append(("transfer-encoding", "chunked"))
            sent = b"zz\r\n" + body
        case "gzip":
            sent = gzip.compress(body)
            more += [("content-encoding", "gzip"), ("content-length", str(len(sent)))]
        case "not gzip":
            more += [("content-encoding", "gzip, br"), ("content-length", str(len(body)))]
        case "too long":
            more.append(("content-length", str(len(body) + 50)))
        case "too short":
            more.append(("content-length", str(len(body) // 2)))
        case "two lengths":
            more += [("content-length", str(len(body))), ("content-length", "1")]
        case "both":
            more += [("content-length", str(len(body))), ("transfer-encoding", "chunked")]
        case "huge length":
            more.append(("content-length", str(2**70)))
        case "negative length":
            more.append(("content-length", "-5"))
        case "expect":
            more += [("expect", "100-continue"), ("content-length", str(len(body)))]
        case "http 1.0":
            version = "HTTP/1.0"
            more.append(("content-length", str(len(body))))
        case "foreign host":
            more = [("host", "evil.example"), ("connection", "close"), ("content-length", str(len(body)))]
        case "no host":
            more = [("connection", "close"), ("content-length", str(len(body)))]
        case "odd method":
            method = "BREW"
            more.append(("content-length", str(len(body))))
        case "odd path":
            target = path + "/%ff%00/..//?a=%zz&b"
            more.append(("content-length", str(len(body))))
        case "big header":
            more += [("x-filler", "f" * 40_000), ("content-length", str(len(body)))]
        case "bad header":
            more += [("x bad\x01", "\x07"), ("content-length", str(len(body)))]
        case "upgrade":
            more = [("host", "127.0.0.1"), ("connection", "upgrade"), ("upgrade", "websocket")]
            more.append(("content-length", str(len(body))))
        case _:
            more.append(("content-length", str(len(body))))
    lines = [f"{method} {target} {version}", *(f"{name}: {value}" for name, value in [*more, *headers])]
    return "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n" + sent


FRAMINGS = (
    "chunked", "bad chunk", "gzip", "not gzip", "too long", "too short", "two lengths", "both", "huge length",
    "negative length", "expect", "http 1.0", "foreign host", "no host", "odd method", "odd path", "big header",
    "bad header", "upgrade", "leave", "plain",
)  # fmt: skip
"""Names of the framings. `leave` is plain, by a client that does not wait for the answer."""


def exchange(address: tuple[str, int], data: bytes, *, leave: bool = False) -> Answer:
    """Sends bytes and reads one answer to its end."""
    with socket.create_connection(address, timeout=LIMIT_S) as connection:
        try:
            connection.sendall(data)
            if leave:
                return Answer(0, {}, b"")
            return parsed(_read(connection))
        except (ConnectionResetError, BrokenPipeError):
            return Answer(0, {}, b"")


def _read(connection: socket.socket) -> bytes:
    data = b""
    deadline = time.monotonic() + LIMIT_S
    try:
        while not _is_whole(data) and (piece := connection.recv(65_536)):
            data += piece
            if time.monotonic() > deadline:
                raise TimeoutError
    except TimeoutError as error:
        raise Hang(f"no end after {LIMIT_S} s; so far {data[:500]!r}") from error
    except ConnectionResetError:
        pass
    return data


def _is_whole(data: bytes) -> bool:
    """Whether an answer that says where it ends has ended."""
    answer = parsed(data)
    if b"\r\n\r\n" not in data or answer.status == 0:
        return False
    if answer.headers.get("transfer-encoding") == "chunked":
        return data.endswith(b"\r\n0\r\n\r\n")
    return len(answer.body) >= int(answer.headers.get("content-length", 2**62))


def parsed(data: bytes) -> Answer:
    """The last answer in what came back; one with 1xx before it counts not."""
    head, _, body = data.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1."):
        return Answer(0, {}, data)
    first, *lines = head.decode("latin-1").split("\r\n")
    status = int(first.split()[1])
    if 100 <= status < 200 and status != 101:
        return parsed(body)
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    if headers.get("transfer-encoding") == "chunked":
        body = _unchunked(body)
    return Answer(status, headers, body)


def _unchunked(data: bytes) -> bytes:
    pieces: list[bytes] = []
    while data:
        size, _, data = data.partition(b"\r\n")
        count = int(size or b"0", 16)
        if count == 0:
            break
        pieces.append(data[:count])
        data = data[count + 2 :]
    return b"".join(pieces)

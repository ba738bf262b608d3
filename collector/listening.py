"""The address a server listens on."""

import socket

from collector.errors import UserError

_MOST = 65_535


def listen(host: str, port: int) -> socket.socket:
    """A socket bound to an address, port 0 for a free one; not yet taking connections."""
    if not 0 <= port <= _MOST:
        raise UserError(f"port is {port}, expected 0 to {_MOST}; choose another port, or 0 for a free one")
    listener = socket.socket(_family(host))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise UserError(f"cannot listen on {host}:{port}: {error}; choose another port, or 0 for a free one") from error
    return listener


def url_of(host: str, port: int) -> str:
    """What a client opens."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET

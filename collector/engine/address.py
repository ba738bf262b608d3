"""Where an engine is: the base URL that requests are sent to."""

from urllib.parse import urlsplit

from collector.errors import UserError


def checked_address(url: str) -> str:
    """The URL less a closing slash. UserError unless it is http(s)://host[:port]."""
    address = _address(url)
    if address is None:
        raise UserError(
            f"the engine's URL is {url[:200]!r}, expected http://HOST:PORT or https://HOST:PORT with nothing after it; "
            "correct it, such as http://127.0.0.1:30000"
        )
    return address


def _address(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port or an IPv6 address that is none
        return None
    extra = parts.path.rstrip("/") or parts.query or parts.fragment or "@" in parts.netloc
    if not whole or extra or not url.isprintable() or " " in url:
        return None
    return f"{parts.scheme}://{parts.netloc}"

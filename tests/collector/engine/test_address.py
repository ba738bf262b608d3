"""An engine's URL is taken or refused before anything is served."""

import pytest

from collector.engine.address import checked_address
from collector.engine.client import EngineClient
from collector.errors import UserError


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://127.0.0.1:30000", "http://127.0.0.1:30000"),
        ("HTTPS://engine.example/", "https://engine.example"),
        ("http://[::1]:8000", "http://[::1]:8000"),
        ("http://engine", "http://engine"),
    ],
)
def test_an_http_url_of_a_host_is_taken(url: str, address: str) -> None:
    assert checked_address(url) == address


@pytest.mark.parametrize(
    "url",
    [
        "ftp://x",
        "127.0.0.1:30000",
        "localhost:30000",
        "http://",
        "http://:80",
        "",
        "http://x:port",
        "http://x:70000",
        "http://x:0",
        "http://[::1",
        "http://x/v1",
        "http://x?a=b",
        "http://x#a",
        "http://user:secret@x",
        "http://x y",
        "http://x\x1b",
    ],
)
def test_anything_else_is_refused_with_what_was_found_and_expected(url: str) -> None:
    with pytest.raises(UserError, match=r"expected http://HOST:PORT or https://HOST:PORT") as raised:
        EngineClient(url)
    assert repr(url) in str(raised.value)

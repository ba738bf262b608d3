"""The address a server listens on."""

import pytest

from collector.errors import UserError
from trainer.engine.listening import listen, url_of


def test_a_free_port_is_found() -> None:
    with listen("127.0.0.1", 0) as listener:
        assert listener.getsockname()[1] > 0


def test_a_port_in_use_is_refused() -> None:
    with listen("127.0.0.1", 0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"cannot listen on 127.0.0.1:{port}: .*; choose another --port"):
            listen("127.0.0.1", port)


def test_an_ipv6_address_stands_in_brackets() -> None:
    assert url_of("::1", 80) == "http://[::1]:80"
    assert url_of("127.0.0.1", 80) == "http://127.0.0.1:80"

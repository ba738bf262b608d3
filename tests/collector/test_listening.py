"""The address a server listens on."""

import pytest

from collector.errors import UserError
from collector.listening import listen, url_of


def test_a_free_port_is_found() -> None:
    with listen("127.0.0.1", 0) as listener:
        assert listener.getsockname()[1] > 0


def test_a_port_in_use_is_refused() -> None:
    with listen("127.0.0.1", 0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"cannot listen on 127.0.0.1:{port}: .*; choose another port"):
            listen("127.0.0.1", port)


def test_an_ipv6_address_stands_in_brackets() -> None:
    assert url_of("::1", 80) == "http://[::1]:80"
    assert url_of("127.0.0.1", 80) == "http://127.0.0.1:80"


@pytest.mark.parametrize("port", [-1, 65_536, 99_999])
def test_a_port_that_cannot_be_is_refused(port: int) -> None:
    with pytest.raises(UserError, match=f"^port is {port}, expected 0 to 65535; choose another port, or 0 for a free"):
        listen("127.0.0.1", port)

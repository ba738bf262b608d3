"""API keys: hashes in, tenants out."""

import hashlib

import pytest

from collector.errors import UserError
from collector.keys import Keys, new_key, sha256_of
from collector.refusal import Refusal


def test_a_key_is_known_by_its_sha256_in_either_header() -> None:
    keys = Keys({hashlib.sha256(b"secret").hexdigest(): "acme"})
    assert keys.owner({"authorization": "Bearer secret"}).tenant == "acme"
    assert keys.owner({"x-api-key": "secret"}).tenant == "acme"


@pytest.mark.parametrize(
    "headers", [{}, {"authorization": "Bearer wrong"}, {"authorization": "Basic secret"}, {"x-api-key": ""}]
)
def test_no_key_and_a_wrong_key_are_refused_alike(headers: dict[str, str]) -> None:
    with pytest.raises(Refusal, match="missing or unknown") as raised:
        Keys({sha256_of("secret"): "acme"}).owner(headers)
    assert raised.value.status == 401


def test_without_keys_everyone_is_the_development_tenant() -> None:
    assert Keys({}).owner({"authorization": "Bearer whatever"}) == ("dev", None)


def test_without_keys_a_foreign_host_name_is_refused() -> None:
    for host in ("localhost:8000", "127.0.0.1:8000", "[::1]:8000", "127.0.0.1"):
        assert Keys({}).owner({"host": host}).tenant == "dev"
    for host in ("evil.example:8000", "10.0.0.1", "localhost.evil.example"):
        with pytest.raises(Refusal, match="expected localhost"):
            Keys({}).owner({"host": host})


def test_new_keys_differ_and_are_long() -> None:
    assert new_key() != new_key()
    assert len(new_key()) >= 43


@pytest.mark.parametrize("keys", [{"secret": "acme"}, {sha256_of("k"): "a/b"}, {sha256_of("k").upper(): "acme"}])
def test_what_is_no_hash_or_no_tenant_is_one_clear_line(keys: dict[str, str]) -> None:
    with pytest.raises(UserError, match="expected"):
        Keys(keys)

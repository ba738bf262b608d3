"""Users by a keyed hash: the store knows that two judgements are one user's, and never whose."""

import hashlib
import hmac
import secrets
from pathlib import Path

from collector.errors import StoreError
from collector.store.segments import no_hook, write_durably

_FILE = "user_hash.key"
_KEY_BYTES = 32


def user_hash(key: bytes, tenant: str, user: str) -> str:
    """The stored form of a user's name: another tenant's user of the same name has another one."""
    return hmac.new(key, f"{tenant}\n{user}".encode(), hashlib.sha256).hexdigest()


def user_key(store: Path) -> bytes:
    """The secret that user names are hashed with; made once per store, readable by its owner only."""
    path = store / _FILE
    if not path.exists():
        # Durable, since another key would give every user another hash.
        write_durably(path, secrets.token_bytes(_KEY_BYTES), no_hook, mode=0o600)
    return existing_user_key(store)


def existing_user_key(store: Path) -> bytes:
    """The store's secret; StoreError when it has none."""
    path = store / _FILE
    try:
        key = path.read_bytes()
    except FileNotFoundError as error:
        raise StoreError(
            f"{path}: no such file, expected the key that users were hashed with; restore it, or give --user-hash"
        ) from error
    if len(key) != _KEY_BYTES:
        raise StoreError(
            f"{path}: {len(key)} bytes, expected the {_KEY_BYTES} that users were hashed with; restore it from a copy, "
            "or delete it to make another, under which known users get new hashes"
        )
    return key

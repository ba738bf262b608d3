"""API keys: only their hashes are kept, and a hash names a tenant."""

import hashlib
import ipaddress
import re
import secrets
from collections.abc import Mapping
from typing import NamedTuple

from collector.errors import UserError
from collector.refusal import Refusal

DEVELOPMENT_TENANT = "dev"
"""The tenant of every request while no keys are configured."""

_SHA256 = re.compile(r"[0-9a-f]{64}")
_TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class Owner(NamedTuple):
    """Whose a request is."""

    tenant: str
    key_sha256: str | None
    """None in development mode."""


class Keys:
    """Tells the tenant of a request."""

    def __init__(self, tenant_by_sha256: Mapping[str, str]) -> None:
        for digest, tenant in tenant_by_sha256.items():
            if not _SHA256.fullmatch(digest):
                raise UserError(f"[collector.keys] has {digest[:12]!r}…, expected the sha256 of a key: 64 hex digits")
            check_tenant(tenant)
        self._tenant_by_sha256 = dict(tenant_by_sha256)

    @property
    def development(self) -> bool:
        """Whether there are no keys, so that every request is the development tenant's."""
        return not self._tenant_by_sha256

    def owner(self, headers: Mapping[str, str]) -> Owner:
        """The owner of a request's key; Refusal 401 when it has none that is known."""
        if self.development:
            _check_local(headers.get("host", "localhost"))
            return Owner(DEVELOPMENT_TENANT, None)
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        key = bearer.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")
        digest = sha256_of(key)
        # A lookup by hash: its timing says nothing about the key.
        tenant = self._tenant_by_sha256.get(digest)
        if not key or tenant is None:
            raise Refusal(
                "the API key is missing or unknown; send one as `Authorization: Bearer …`, "
                "make one with `roundhouse collect --new-key TENANT`",
                status=401,
                kind="authentication_error",
                code="invalid_api_key",
            )
        return Owner(tenant, digest)


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _check_local(host_header: str) -> None:
    """A page in a browser can reach loopback under a name of its own; it may not be answered without a key."""
    host = re.sub(r":\d+$", "", host_header)
    if not is_loopback(host):
        raise Refusal(
            f"the Host header names {host[:80]!r}, expected localhost: without keys only this machine is served; "
            "configure [collector.keys]",
            status=403,
            kind="permission_error",
            code="not_local",
        )


def sha256_of(key: str) -> str:
    """The stored form of a key."""
    return hashlib.sha256(key.encode()).hexdigest()


def new_key() -> str:
    """A fresh key, 256 bits; it is shown once and never stored."""
    return f"rh-{secrets.token_urlsafe(32)}"


def check_tenant(tenant: str) -> str:
    """The tenant's name, if it is safe in ids, headers and paths."""
    if not _TENANT.fullmatch(tenant):
        raise UserError(
            f"tenant is {tenant[:40]!r}, expected 1 to 128 letters, digits, dots, hyphens or underscores, "
            "beginning with a letter or digit"
        )
    return tenant

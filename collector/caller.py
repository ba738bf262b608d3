"""Who calls, and which agent run the call belongs to, from what clients already send."""

import hashlib
from collections.abc import Mapping
from typing import NamedTuple, get_args

from collector.records import Purpose
from collector.refusal import Refusal

SESSION_HEADERS = ("x-session-id", "x-claude-code-session-id", "session-id")
"""Headers that name a session, the first one present wins: any client, Claude Code, Codex."""

TASK_HEADER = "x-roundhouse-task"
GROUP_HEADER = "x-roundhouse-group"
PURPOSE_HEADER = "x-roundhouse-purpose"
TRAIN_HEADER = "x-roundhouse-train"
"""`no` keeps the turn, and those that go on from it, out of training; `yes`, or no header, is as configured."""

STORED_HEADERS = (*SESSION_HEADERS, TASK_HEADER, GROUP_HEADER, "user-agent")
"""Headers whose text gets into records; of all others nothing does but what they decide."""

RETRIES_HEADER = "x-stainless-retry-count"
"""How the SDKs of OpenAI and Anthropic count."""

_LONGEST_NAME = 256
_SHORTEST_KEY = 12


class Caller(NamedTuple):
    """The tenant behind a request and what its headers say about it."""

    tenant: str
    scope: str
    """Names the tenant and key without giving either away; sessions without a header are matched within it."""
    session_name: str | None
    """The session as the client calls it."""
    qualified: bool
    """Whether session ids carry the tenant's name, since other tenants may use the same ones."""
    client: str | None
    task_id: str | None
    group_id: str | None
    purpose: Purpose
    retries: int = 0
    """How often the client has sent this request before, as it counts."""
    opted_out: bool = False
    """Whether the request asks not to be trained on."""

    def naming(self, session_name: str | None) -> "Caller":
        """The same caller, whose session is called this where no header says what it is called."""
        return self if self.session_name is not None else self._replace(session_name=session_name)

    def stored_name(self, name: str) -> str:
        """The stored id of what this caller calls `name`: a session, or feedback."""
        prefix = f"{self.tenant}/"
        return name if not self.qualified or name.startswith(prefix) else prefix + name

    def new_session_id(self, unique: str) -> str:
        """The id of a session that no header names; it tells the scope, so that it is found after a restart."""
        return self.stored_name(f"auto-{self.scope}-{unique}")


def identify(headers: Mapping[str, str], *, tenant: str, key_sha256: str | None) -> Caller:
    """Reads the headers of an authenticated request."""
    name = next((headers[header] for header in SESSION_HEADERS if headers.get(header)), None)
    purpose = headers.get(PURPOSE_HEADER, "traffic")
    if purpose not in get_args(Purpose):
        raise Refusal.invalid(f"{PURPOSE_HEADER} is {purpose[:40]!r}, expected one of {', '.join(get_args(Purpose))}")
    train = headers.get(TRAIN_HEADER, "yes").strip().lower()
    if train not in ("yes", "no"):
        raise Refusal.invalid(f"{TRAIN_HEADER} is {train[:40]!r}, expected yes or no")
    _check_keys(headers)
    scope = hashlib.blake2b(f"{tenant}\n{key_sha256 or ''}".encode(), digest_size=6).hexdigest()
    return Caller(
        tenant=tenant,
        scope=scope,
        session_name=None if name is None else _checked(name, "the session header"),
        qualified=key_sha256 is not None,
        client=headers.get("user-agent", "")[:_LONGEST_NAME] or None,
        task_id=_named(headers, TASK_HEADER),
        group_id=_named(headers, GROUP_HEADER),
        retries=_count(headers.get(RETRIES_HEADER, "")),
        purpose=purpose,  # type: ignore[arg-type]  # checked against the literal above
        opted_out=train == "no",
    )


def _check_keys(headers: Mapping[str, str]) -> None:
    """Refuses a request that says its own key where it would be stored."""
    keys = [headers.get("authorization", "").rpartition(" ")[2], headers.get("x-api-key", "")]
    for header in STORED_HEADERS:
        if any(len(key) >= _SHORTEST_KEY and key in headers.get(header, "") for key in keys):
            raise Refusal.invalid(
                f"{header} holds the API key, which is never stored; send another value",
                param=header,
                code="key_in_header",
            )


def _count(text: str) -> int:
    return int(text) if len(text) < 4 and text.isascii() and text.isdigit() else 0


def _named(headers: Mapping[str, str], header: str) -> str | None:
    value = headers.get(header)
    return _checked(value, header) if value else None


def _checked(name: str, what: str) -> str:
    if len(name) > _LONGEST_NAME or not name.isprintable():
        raise Refusal.invalid(f"{what} has {len(name)} characters, expected at most {_LONGEST_NAME} printable ones")
    return name


def scope_of(session_id: str) -> str | None:
    """The scope of a session that no header named, by its id; None for one that a header named."""
    parts = session_id.rpartition("/")[2].split("-", 2)
    return parts[1] if len(parts) == 3 and parts[0] == "auto" else None

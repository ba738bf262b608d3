"""Names of adapters, tenants and readers, and the name an engine knows an adapter's version by."""

import re

from collector.errors import UserError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_ENGINE_NAME = re.compile(rf"({_NAME.pattern})@(0|[1-9][0-9]{{0,17}})")


def checked_name(name: str, what: str) -> str:
    """`name`, if it is safe in a path, a header and an engine name; `what` says whose it is."""
    if not _NAME.fullmatch(name):
        raise UserError(
            f"{what} is {name!r}, expected 1 to 128 letters, digits, dots, hyphens or underscores, "
            "beginning with a letter or digit"
        )
    return name


def engine_name(adapter: str, version: int) -> str:
    """`<adapter>@<version>`: what the engine calls one version of an adapter."""
    if version < 0:
        raise UserError(f"version of {adapter} is {version}, expected 0 or more")
    return f"{checked_name(adapter, 'adapter')}@{version}"


def parse_engine_name(name: str) -> tuple[str, int]:
    """The adapter and the version in an engine name."""
    match = _ENGINE_NAME.fullmatch(name)
    if match is None:
        raise UserError(f"engine name is {name!r}, expected <adapter>@<version>, as in support-bot@3")
    return match[1], int(match[2])

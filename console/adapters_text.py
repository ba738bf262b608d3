"""Adapters as JSON for scripts and as text for a terminal of 80 columns."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import msgspec

from collector.records import Audit, Version
from collector.store.registry_rows import RegistrySnapshot
from collector.terminal_text import terminal_safe
from console.format import number_text
from trainer.adapter_standing import Standing, gate_summary, standing

WIDTH = 80
_AUDIT_ROWS = 12


def adapter_json(now: Standing, at: datetime) -> dict[str, object]:
    """One adapter, in the shape that `list --json` documents."""
    verdict = _last_verdict(now)
    candidates = [version.version for version in now.versions if version.state == "candidate"]
    held = now.held
    return {
        "adapter": now.adapter.adapter,
        "tenant": now.adapter.tenant,
        "base_model": now.adapter.base_model,
        "created_at": now.adapter.created_at,
        "live": {
            "version": now.live.version,
            "optimizer_step": now.live.optimizer_step,
            "since": now.live_since,
            "age_s": (at - now.live_since).total_seconds(),
        },
        "canary": None if now.canary is None else {"version": now.canary[0].version, "share": now.canary[1]},
        "candidate": candidates[-1] if candidates else None,
        "held": None if held is None else {"since": held.at, "actor": held.actor, "reason": held.reason},
        "pinned": now.pinned,
        "best": now.best,
        "gate": None if verdict is None else {"version": verdict[0], "verdict": verdict[1]},
    }


def list_json(snapshot: RegistrySnapshot, at: datetime) -> dict[str, object]:
    """All adapters."""
    adapters = [adapter_json(standing(snapshot, known.adapter), at) for known in snapshot.adapters]
    return {"revision": snapshot.revision, "adapters": adapters}


def show_json(now: Standing, audit: Sequence[Audit], at: datetime) -> dict[str, object]:
    """One adapter with its versions, routes and audit."""
    total = sum(route.weight for route in now.routes)
    versions = [{**msgspec.to_builtins(each), "trained_turns": trained_turns(each)} for each in now.versions]
    routes = [{"version": each.version, "weight": each.weight, "share": each.weight / total} for each in now.routes]
    return {**adapter_json(now, at), "versions": versions, "routes": routes, "audit": audit}


def trained_turns(version: Version) -> int:
    """Turns with loss that the version was trained on, its ancestors' apart."""
    return sum(last - first + 1 for _, first, last in version.trained_on)


def list_text(snapshot: RegistrySnapshot, at: datetime) -> list[str]:
    """A table, with a line below it for each hold and pin."""
    found = [standing(snapshot, known.adapter) for known in snapshot.adapters]
    if not found:
        return ["no adapters yet; roundhouse adapters add makes one"]
    head = ("adapter", "tenant", "live", "step", "canary", "candidate", "gate", "age")
    lines = _table([head, *(_row(now, at) for now in found)], flexible=2)
    for now in found:
        if now.held is not None:
            lines += _wrapped(f"{now.adapter.adapter} is held: {_said(now.held)}")
        if now.pinned is not None:
            lines += _wrapped(f"{now.adapter.adapter} has version {now.pinned} pinned as its best")
    return lines


def show_text(now: Standing, audit: Sequence[Audit], at: datetime) -> list[str]:
    """One adapter with all that a person decides by."""
    known = now.adapter
    lines = _wrapped(
        f"{known.adapter} of tenant {known.tenant}, on {known.base_model}, since {_time(known.created_at)}"
    )
    lines += _wrapped(f"live: {_at(now.live.version)} for {age_text((at - now.live_since).total_seconds())}")
    total = sum(route.weight for route in now.routes)
    shares = [f"{number_text(each.weight / total, 'share')} to {_at(each.version)}" for each in now.routes]
    lines += _wrapped(f"new sessions: {', '.join(shares)}" if shares else "no routes: it is reached by its name")
    lines += _wrapped(f"held: {_said(now.held)}" if now.held is not None else "not held")
    lines += _wrapped(f"best: {_at(now.best)}, {_why_best(now)}")
    head = ("version", "state", "parent", "step", "turns", "gate", "folder")
    table = _table([head, *(_version_row(each) for each in now.versions)], flexible=7)
    lines += ["", table[0]]
    for row, version in zip(table[1:], now.versions, strict=True):
        lines += [row, *_details(version)]
    lines += ["", f"last changes, of {len(audit)}"]
    for row in audit[-_AUDIT_ROWS:]:
        version = "" if row.version is None else f" {_at(row.version)}"
        lines += _wrapped(
            f"{row.revision} {_time(row.at)} {row.action}{version}{_outcome(row)}, {row.actor}: {row.reason}"
        )
    return lines


def age_text(seconds: float) -> str:
    """A duration in the unit that suits it."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{number_text(round(seconds / length, 1))} {unit}"
    return f"{seconds:.0f} s"


def _last_verdict(now: Standing) -> tuple[int, str | None] | None:
    """The newest version that the gate judged, and its verdict."""
    judged = [version for version in now.versions if version.gate is not None]
    return (judged[-1].version, gate_summary(judged[-1]).verdict) if judged else None


def _row(now: Standing, at: datetime) -> tuple[str, ...]:
    verdict, candidates = _last_verdict(now), [each.version for each in now.versions if each.state == "candidate"]
    return (
        now.adapter.adapter,
        now.adapter.tenant,
        _at(now.live.version),
        _or_dash(now.live.optimizer_step),
        "-" if now.canary is None else f"{_at(now.canary[0].version)} {number_text(now.canary[1], 'share')}",
        _at(candidates[-1]) if candidates else "-",
        "-" if verdict is None else f"{_at(verdict[0])} {verdict[1] or 'unreadable'}",
        age_text((at - now.live_since).total_seconds()),
    )


def _version_row(version: Version) -> tuple[str, ...]:
    verdict = gate_summary(version).verdict
    return (
        _at(version.version),
        version.state,
        "-" if version.parent is None else _at(version.parent),
        _or_dash(version.optimizer_step),
        str(trained_turns(version)),
        verdict or "-",
        version.folder or "-",
    )


def _details(version: Version) -> list[str]:
    lines = [f"    sha256 {version.sha256}"] if version.sha256 else []
    for reason in gate_summary(version).reasons:
        lines += _wrapped(f"gate: {reason}", indent="    ")
    numbers = [f"{name} {value}" for name, value in _numbers((version.gate or {}).get("numbers"))]
    return lines + (_wrapped(", ".join(numbers), indent="    ") if numbers else [])


def _why_best(now: Standing) -> str:
    if now.pinned is not None:
        return "pinned"
    scored = gate_summary(now.versions[now.best]).score is not None
    return "by its held-out score" if scored else "the live one, since nothing that was live has a held-out score"


def _outcome(row: Audit) -> str:
    """What of a change its action does not say."""
    detail = row.detail or {}
    if row.action == "change_state":
        return f" to {detail['to']}"
    if row.action in ("promote", "rollback"):
        return f" from @{detail['from']}{', forced' if detail.get('forced') else ''}"
    return " undone" if row.action == "pin" and row.version is None else ""


def _numbers(found: object, name: str = "") -> Iterator[tuple[str, str]]:
    """The numbers of a gate report, by their path in it."""
    if isinstance(found, Mapping):
        for key, value in found.items():  # pyright: ignore[reportUnknownVariableType]
            yield from _numbers(value, f"{name}.{key}" if name else str(key))  # pyright: ignore[reportUnknownArgumentType]
    elif isinstance(found, int | float) and not isinstance(found, bool):
        yield name, number_text(found)


def _table(rows: Sequence[Sequence[str]], *, flexible: int) -> list[str]:
    """Rows as columns; where they are too wide for the terminal, the longest of the flexible ones is cut short."""
    cells = [[terminal_safe(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    while sum(widths) + 2 * (len(widths) - 1) > WIDTH and max(widths[:flexible]) > 8:
        widest = max(range(flexible), key=lambda at: widths[at])
        widths[widest] -= 1
    return ["  ".join(_cut(cell, width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def _cut(text: str, width: int) -> str:
    return text.ljust(width) if len(text) <= width else f"{text[: width - 1]}…"


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(terminal_safe(text), WIDTH, initial_indent=indent, subsequent_indent=f"{indent}  ")


def _said(row: Audit) -> str:
    return f"{row.actor}, {_time(row.at)}: {row.reason}"


def _time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S}Z"


def _at(version: int) -> str:
    return f"@{version}"


def _or_dash(number: int | None) -> str:
    return "-" if number is None else str(number)

"""Import traffic that did not pass the collector, as text-only turns: Claude Code and Codex session files, and
OpenTelemetry GenAI spans in JSON or Parquet. Nothing of it can be trained on, since it has no tokens."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collector.records import Record, Turn
    from console.imported_turns import Found

WRITER = "import"
"""Name of the journal that imports go into."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="a file, or a folder of them")
    parser.add_argument("--store", type=Path, default=Path("store"), metavar="DIR", help="the store (default: ./store)")
    parser.add_argument("--tenant", default="dev", metavar="NAME", help="whose turns they are (default: dev)")
    parser.add_argument("--reads", metavar="FORMAT", help="claude-code, codex or otel; told from the content otherwise")
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings (./roundhouse.toml if there): redaction")
    parser.add_argument("--dry-run", action="store_true", help="say what would be imported, and write nothing")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Imports what is not there yet, and says how much of what."""
    from collector.errors import UserError
    from collector.keys import check_tenant
    from console.imported_turns import FORMATS, imported_turns, new_turns

    if args.reads is not None and args.reads not in FORMATS:
        raise UserError(f"--reads is {args.reads}, expected one of {', '.join(FORMATS)}")
    tenant = check_tenant(args.tenant)
    # Every file is read before anything is written.
    found = [imported_turns(path, tenant=tenant, reads=args.reads) for path in args.paths]
    unique = {turn.turn_id: turn for each in found for turn in each.turns}
    fresh = new_turns(list(unique.values()), _known(args.store))
    if not args.dry_run and fresh:
        _write(args.store, _redacted(fresh, args.config))
    _tell(args, found, len(unique), len(fresh))
    return 0


def _known(store: Path) -> set[str]:
    from collector.store.reader import Reader

    if not (store / "journals").is_dir():
        return set()
    with Reader(store).snapshot(["turns"]) as snapshot:
        turns = snapshot.frame("turns", columns=["turn_id", "api"])
    return {turn_id for turn_id, api in turns.rows() if api.startswith("import:")}


def _redacted(turns: "list[Turn]", config: Path | None) -> "list[Record]":
    """The turns without secrets, and the events that say so, where redaction is enabled."""
    from console.config import load_config

    redaction = load_config(config).collector.redaction
    if not redaction.enabled:
        return [*turns]
    import asyncio

    from collector.privacy.config import OptOutConfig
    from collector.privacy.detector import KingfisherDetector
    from collector.privacy.record_screen import RecordScreen

    screen = RecordScreen(OptOutConfig(), KingfisherDetector(redaction), lambda _: "")

    async def screened() -> "list[Record]":
        done = [await screen.screened(turn) for turn in turns]
        return [record for each in done for record in each if record is not None]

    try:
        return asyncio.run(screened())
    finally:
        screen.close()


def _write(store: Path, records: "list[Record]") -> None:
    from collector.store.writer import Writer

    with Writer(store, WRITER) as writer:
        for written in [writer.append(record) for record in records]:
            written.result()
        writer.seal()


def _tell(args: argparse.Namespace, found: "list[Found]", unique: int, fresh: int) -> None:
    from collections import Counter

    from collector.terminal_text import terminal_safe

    skipped = sum((each.skipped for each in found), Counter[str]())
    formats = sorted({each.format for each in found})
    if args.json:
        told = {"formats": formats, "found": unique, "imported": fresh, "already_there": unique - fresh}
        print(json.dumps({**told, "skipped": dict(skipped), "dry_run": args.dry_run}))
        return
    imported = "would import" if args.dry_run else "imported"
    print(f"{args.store}: {imported} {fresh} turns of {' and '.join(formats)}; {unique - fresh} were there already")
    for reason, count in skipped.most_common():
        print(f"  {count} not imported: {terminal_safe(reason)}")

"""Proves that a store is whole, sets aside what is damaged, and exits with 1 when anything is wrong."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collector.store.verify import Verified


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("folder", type=Path, nargs="?", metavar="STORE", help="the store folder (default ./store)")
    parser.add_argument("--store", type=Path, metavar="DIR", help="the same, as the other commands call it")
    parser.add_argument(
        "--accept", action="store_true", help="note that the losses listed are known; then they are no fault"
    )
    parser.add_argument("--rebuild-views", action="store_true", help="also write roundhouse.duckdb anew")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Verifies and reports; 0 when clean, 1 when not."""
    from collector.errors import UserError
    from collector.store.verify import verify
    from console.losses_text import loss_lines

    if args.folder is not None and args.store is not None:
        raise UserError(f"{args.folder} and --store {args.store} were given, expected one store")
    store: Path = args.folder or args.store or Path("store")
    verified = verify(store, accept=args.accept)
    if args.rebuild_views:
        from collector.store.views import rebuild_views

        rebuild_views(store)
    lines = [str(fault) for fault in verified.faults]
    if args.json:
        print(json.dumps(_as_json(verified, lines)))
        return 0 if verified.clean else 1
    for line in [*lines, *loss_lines(verified.losses)]:
        print(line)
    state = "clean" if verified.clean else "NOT clean"
    print(f"{store}: {state}; {verified.records} records, {verified.segments} segments, {verified.erased} erased")
    return 0 if verified.clean else 1


def _as_json(verified: "Verified", faults: list[str]) -> dict[str, object]:
    losses = [
        {"writer": writer, "first_seq": loss.lo, "last_seq": loss.hi, "found": loss.found, "kept_at": loss.kept_at}
        | {"found_at": loss.found_at, "accepted": bool(loss.accepted)}
        for writer, loss in verified.losses
    ]
    counts = {"records": verified.records, "segments": verified.segments, "erased": verified.erased}
    return {"clean": verified.clean, **counts, "faults": faults, "losses": losses}

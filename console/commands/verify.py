"""Proves that a store is whole, sets aside what is damaged, and exits with 1 when anything is wrong."""

import argparse
import json
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("store", type=Path, nargs="?", default=Path("store"), help="the store folder (default ./store)")
    parser.add_argument(
        "--accept", action="store_true", help="note that the losses listed are known; then they are no fault"
    )
    parser.add_argument("--rebuild-views", action="store_true", help="also write roundhouse.duckdb anew")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Verifies and reports; 0 when clean, 1 when not."""
    from collector.store.verify import verify

    verified = verify(args.store, accept=args.accept)
    if args.rebuild_views:
        from collector.store.views import rebuild_views

        rebuild_views(args.store)
    lines = [str(fault) for fault in verified.faults]
    losses = [
        {"writer": writer, "first_seq": loss.lo, "last_seq": loss.hi, "found": loss.found, "kept_at": loss.kept_at}
        | {"found_at": loss.found_at, "accepted": bool(loss.accepted)}
        for writer, loss in verified.losses
    ]
    if args.json:
        counts = {"records": verified.records, "segments": verified.segments, "erased": verified.erased}
        print(json.dumps({"clean": verified.clean, **counts, "faults": lines, "losses": losses}))
        return 0 if verified.clean else 1
    for line in lines:
        print(line)
    for loss in losses:
        known = "accepted" if loss["accepted"] else "run verify --accept once you know of it"
        place = f"; remains in {loss['kept_at']}" if loss["kept_at"] else ""
        print(f"lost: {loss['writer']} {loss['first_seq']} to {loss['last_seq']} ({loss['found']}){place}; {known}")
    state = "clean" if verified.clean else "NOT clean"
    print(f"{args.store}: {state}; {verified.records} records, {verified.segments} segments, {verified.erased} erased")
    return 0 if verified.clean else 1

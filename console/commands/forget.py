"""Erases sessions from a store: every record of theirs, in journals, logs, free pages and segments."""

import argparse
import json
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("sessions", nargs="+", metavar="SESSION", help="session_id to erase")
    parser.add_argument("--store", type=Path, default=Path("store"), help="the store folder (default ./store)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Erases and says what went."""
    from collector.store.forget import forget

    gone = forget(args.store, args.sessions)
    if args.json:
        print(json.dumps({"sessions": args.sessions, **gone._asdict()}))
    else:
        print(f"{args.store}: erased {gone.records} records, {gone.turns} turns among them")
        if gone.remains:
            print(f"{args.store}: deleted {gone.remains} quarantined files, since they may have held them too")
    return 0

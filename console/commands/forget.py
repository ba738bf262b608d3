"""Erases sessions, or all that a user judged, from a store: journals, logs, free pages and segments; and says which
adapter versions were trained on it."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collector.store.forget import Forgotten


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("sessions", nargs="*", metavar="SESSION", help="session_id to erase")
    who = parser.add_mutually_exclusive_group()
    who.add_argument("--user", metavar="NAME", help="every session that this user, as named in feedback, judged")
    who.add_argument("--user-hash", metavar="HEX", help="the same, by the keyed hash that the store holds")
    parser.add_argument("--tenant", metavar="NAME", help="whose user --user is, where tenants share the name")
    parser.add_argument("--store", type=Path, default=Path("store"), help="the store folder (default ./store)")
    parser.add_argument("--dry-run", action="store_true", help="say what would go, and erase nothing")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Erases and says what went."""
    from collector.errors import UserError
    from collector.store.forget import forget
    from collector.store.user_sessions import hash_of_user

    if not args.sessions and args.user is None and args.user_hash is None:
        raise UserError("nothing to forget is named; give sessions, --user NAME or --user-hash HEX")
    if args.tenant is not None and args.user is None:
        raise UserError("--tenant goes with --user")
    hashed = args.user_hash if args.user is None else hash_of_user(args.store, args.user, args.tenant)
    hashes = [] if hashed is None else [hashed]
    gone = forget(args.store, args.sessions, user_hashes=hashes, dry_run=args.dry_run)
    if args.json:
        versions = [{**each._asdict(), "name": each.name} for each in gone.versions]
        print(json.dumps({**gone._asdict(), "versions": versions, "dry_run": args.dry_run}))
    else:
        _print(args, gone)
    return 0


def _print(args: argparse.Namespace, gone: "Forgotten") -> None:
    from collector.terminal_text import terminal_safe

    erased, deleted = ("would erase", "would delete") if args.dry_run else ("erased", "deleted")
    print(f"{args.store}: {erased} {gone.records} records, {gone.turns} turns among them")
    if gone.remains:
        print(f"{args.store}: {deleted} {gone.remains} quarantined files, since they may have held them too")
    if args.user is not None or args.user_hash is not None or args.dry_run:
        for session in gone.sessions:
            print(f"  session {terminal_safe(session)}")
    for each in gone.versions:
        how = "trained on it" if each.through is None else f"continues from version {each.through}, which was"
        print(f"  {each.name} ({each.state}): {how}")
    if not gone.versions:
        print("  no adapter version was trained on it")

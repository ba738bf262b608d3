"""Write a store as a native log (a folder of Parquet files, or one .jsonl) or as a self-contained .duckdb database.
The views of `roundhouse sql` are no part of it: they are queries over these tables."""

import argparse
import sys
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("--store", type=Path, default=Path("store"), metavar="DIR", help="the store (default: ./store)")
    parser.add_argument(
        "--to",
        type=Path,
        required=True,
        metavar="PATH",
        help="FILE.jsonl, FILE.duckdb, or, without a suffix, a folder for a Parquet file per table",
    )
    parser.add_argument("--force", action="store_true", help="replace an earlier export")


def run(args: argparse.Namespace) -> int:
    """Does the work and returns the exit code."""
    from collector.store.export import export_store
    from console.row_progress import RowProgress

    with RowProgress(sys.stderr) as progress:
        damage = export_store(args.store, args.to, force=args.force, on_rows=progress.add)
    for line in damage:
        print(f"roundhouse export: not read: {line}", file=sys.stderr)
    print(f"{args.to}: {progress.summary()}")
    return 1 if damage else 0

"""Query a store with DuckDB SQL: its tables, and the views turn_workers and costs. Reads only: one snapshot, nothing
outside the store."""

import argparse
import sys
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("query", nargs="?", help="one SELECT, in DuckDB's dialect")
    parser.add_argument("--store", type=Path, default=Path("store"), metavar="DIR", help="the store (default: ./store)")
    parser.add_argument("--json", action="store_true", help="print one array of objects")
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="settings with the prices of the view costs (./roundhouse.toml if there)",
    )
    parser.add_argument(
        "--describe",
        nargs="?",
        const="",
        metavar="TABLE",
        help="print the columns of a table or view, or of all, with types and meanings, instead of running a query",
    )


def run(args: argparse.Namespace) -> int:
    """Does the work and returns the exit code."""
    from collector.errors import UserError
    from collector.store.sql import run_query
    from console import sql_output
    from console.config import load_config

    if args.describe is not None:
        if args.query is not None:
            raise UserError("a query and --describe were given, expected one of them")
        sql_output.describe([args.describe] if args.describe else None, as_json=args.json)
        return 0
    if args.query is None:
        raise UserError('no query, expected one such as "select count(*) from turns"; --describe lists the columns')
    prices = load_config(args.config).collector.prices
    with run_query(args.store, args.query, prices=prices) as result:
        if args.json:
            sql_output.write_json(result, sys.stdout.buffer)
        else:
            sql_output.print_table(result)
        damage = result.damage()
    for line in damage:
        print(f"roundhouse sql: not read: {line}", file=sys.stderr)
    return 1 if damage else 0

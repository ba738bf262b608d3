"""Finds the faults of a rollout log, located to session, turn and token, and exits with 1 when any is grave."""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("path", type=Path, metavar="PATH", help="a log file, a folder of one run's logs, or a store")


def run(args: argparse.Namespace) -> int:
    """Checks and prints the report as JSON; 0 when nothing fails, 1 when something does."""
    from checks.readers.open_log import open_log
    from checks.report import as_json
    from checks.suite import run as run_checks

    report = run_checks(open_log(args.path))
    print(as_json(report).decode())
    return 1 if report.reaches("fail") else 0

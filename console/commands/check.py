"""Finds the faults of a rollout log, located to session, turn and token, and exits with 1 when any is grave."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, TextIO, cast

from collector.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from checks.alerting.config import AlertsConfig
    from checks.check import Check
    from checks.finding import Status
    from checks.log import Log
    from checks.measure import Tools
    from checks.report import Report
    from console.check_report.exhibits import Exhibit

FORMATS = ("text", "json", "junit", "html")
FAILING: dict[str, tuple["Status", ...]] = {"warn": ("warn", "fail"), "fail": ("fail",), "never": ()}
"""`--fail-on` to the statuses that make the command exit with 1."""
TEXT_FAULTS, TEXT_AROUND = 3, 12
"""Faults of each check in the text report, and tokens on either side of one."""
HTML_FAULTS, HTML_AROUND = 10, 24
"""The same in the HTML report."""
FILE_COLUMNS = 120
"""Columns of a text report that no terminal shows."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument(
        "path", type=Path, nargs="?", metavar="PATH", help="a log file, a folder of one run's logs, or a store"
    )
    output = parser.add_argument_group("output")
    output.add_argument("--format", choices=FORMATS, default="text", help="how the report is written (default text)")
    output.add_argument("--output", type=Path, metavar="FILE", help="write the report there")
    output.add_argument(
        "--fail-on",
        choices=[*FAILING],
        help="exit with 1 from this gravity on (default fail; with --watch 0 unless it is given)",
    )
    chosen = parser.add_argument_group("what is checked")
    chosen.add_argument(
        "--select", action="append", default=[], metavar="A,B", help="only these checks; roundhouse explain lists them"
    )
    chosen.add_argument("--ignore", action="append", default=[], metavar="A,B", help="not these checks")
    chosen.add_argument("--config", type=Path, metavar="FILE", help="thresholds are set in it (./roundhouse.toml)")
    watch = parser.add_argument_group(
        "watching",
        "The store is checked again and again over its latest part, until Ctrl-C. Findings and alerts are written into "
        "the store and delivered as [checks.alerts] says.",
    )
    watch.add_argument("--watch", action="store_true", help="watch a live store; --format is text or json")
    watch.add_argument("--interval", type=float, metavar="S", help="seconds between evaluations (30)")
    watch.add_argument("--window", type=float, metavar="S", help="look at the last S seconds (3600)")
    watch.add_argument("--window-turns", type=int, metavar="N", help="look at the last N turns instead")
    reading = parser.add_argument_group("reading")
    reading.add_argument(
        "--tokenizer", type=Path, metavar="DIR", help="the model's folder: tokens get text, and more can be checked"
    )
    reading.add_argument("--reads", metavar="FORMAT", help="read as this format instead of telling it by the content")
    reading.add_argument("--formats", action="store_true", help="list the formats that can be read, and stop")


class Setup(NamedTuple):
    """What was asked for, before anything is read."""

    checks: "Sequence[Check]"
    thresholds: "Mapping[str, Mapping[str, float]]"
    tools: "Tools"
    alerts: "AlertsConfig"
    said: list[str]
    """Remarks for stderr, once the command has worked."""


def run(args: argparse.Namespace) -> int:
    """Checks and writes the report; 0 when nothing is as grave as --fail-on, 1 when something is."""
    if args.formats:
        _print_formats()
        return 0
    if args.path is None:
        raise UserError("no PATH, expected a log file, a folder of one run's logs, or a store")
    if args.watch:
        from console.check_watch.loop import refuse_unwatchable, watch

        refuse_unwatchable(args)
        return watch(args, prepared(args))
    for name in ("interval", "window", "window_turns"):
        if getattr(args, name) is not None:
            raise UserError(f"--{name.replace('_', '-')} is for --watch; add it, or leave this out")
    return _check_once(args, prepared(args))


def prepared(args: argparse.Namespace) -> Setup:
    """The checks, their thresholds and the tokenizer; whatever cannot be used is refused before the log is read."""
    from checks.config import own_thresholds
    from checks.suite import CHECKS, select_checks
    from console.config import DEFAULT_FILE, load_config

    said: list[str] = []
    chosen = _names(args.select)
    checks = select_checks(chosen, _names(args.ignore))
    if not checks or (args.select and not chosen):
        raise UserError("--select and --ignore leave no check; roundhouse explain lists them")
    config = load_config(args.config, say=said.append).checks
    try:
        thresholds = own_thresholds(config, CHECKS)
    except UserError as error:
        raise UserError(f"{args.config or DEFAULT_FILE}: {error}") from error
    if args.output is not None:
        _refuse_unwritable(args.output)
    # Python leaves it out where the caller closed it.
    elif cast(TextIO | None, sys.stdout) is None:
        raise UserError("standard output is closed; give --output FILE")
    return Setup(checks, thresholds, _tools(args.tokenizer), config.alerts, said)


def _check_once(args: argparse.Namespace, setup: Setup) -> int:
    try:
        log, report = _checked(args, setup)
        written = _rendered(args, report, log, setup.tools)
    except BrokenPipeError:
        raise
    except (OSError, EOFError) as error:
        name = getattr(error, "filename", None) or args.path
        said = getattr(error, "strerror", None) or error
        raise UserError(f"{name} cannot be read: {said}; give a whole log that you may read") from error
    for line in setup.said:
        print(line, file=sys.stderr)
    _write(written, args.output, report)
    return 1 if any(finding.status in FAILING[args.fail_on or "fail"] for finding in report.findings) else 0


def _checked(args: argparse.Namespace, setup: Setup) -> "tuple[Log, Report]":
    from checks.columns import TABLES
    from checks.readers.open_log import open_log
    from checks.suite import run as run_checks
    from console.check_progress import CheckProgress

    log = open_log(args.path, reads=args.reads)
    with CheckProgress(sys.stderr, expected=log.turns_expected()) as progress:
        report = run_checks(
            log, checks=setup.checks, thresholds=setup.thresholds, tools=setup.tools, on_batch=progress.add
        )
    if not report.counts.turns and not any(log.table(name).height for name in TABLES if name != "turns"):
        raise UserError(_nothing_read(report))
    return log, report


def _nothing_read(report: "Report") -> str:
    from console.format import number_text

    source = report.source
    found = f"{source.path}: read as {source.format}, but it holds no turn and no other record"
    if not source.unreadable:
        return f"{found}; was anything logged?"
    first = f" ({source.unreadable_first[0].place}: {source.unreadable_first[0].reason})"
    pieces = number_text(source.unreadable, "pieces")
    return f"{found}; {pieces} could not be read{first}; --reads names another format"


def _rendered(args: argparse.Namespace, report: "Report", log: "Log", tools: "Tools") -> bytes:
    """The report in the format asked for."""
    if args.format == "json":
        from checks.report import as_json

        return as_json(report) + b"\n"
    if args.format == "junit":
        from console.check_report.junit import render_junit

        return render_junit(report, failing=FAILING[args.fail_on or "fail"]).encode()
    from console.check_progress import CheckProgress
    from console.check_report.exhibits import exhibits

    per_check, around = (HTML_FAULTS, HTML_AROUND) if args.format == "html" else (TEXT_FAULTS, TEXT_AROUND)
    with CheckProgress(sys.stderr, expected=None) as progress:
        shown = exhibits(report, log, tools, per_check=per_check, around=around, on_batch=progress.add)
    if args.format == "html":
        from console.check_report.html import render_html

        return render_html(report, shown).encode()
    return _text(report, shown, to_file=args.output is not None)


def _text(report: "Report", shown: "Mapping[str, Sequence[Exhibit]]", *, to_file: bool) -> bytes:
    """The report as wide as the terminal and in its colours; plain where there is none."""
    from rich.console import Console

    from console.check_report.text import render_text

    terminal = Console()
    drawn = terminal.is_terminal and not to_file
    encoding = "utf-8" if to_file else sys.stdout.encoding
    return render_text(
        report,
        shown,
        width=terminal.width if drawn else FILE_COLUMNS,
        colour=drawn and not terminal.no_color and terminal.color_system is not None,
        encoding=encoding,
    ).encode(encoding)


def _write(written: bytes, output: Path | None, report: "Report") -> None:
    """The report alone on stdout; or into a file, and then one line on stdout that says so."""
    if output is None:
        _to_stdout(written)
        return
    from console.check_report.statuses import tally

    try:
        output.write_bytes(written)
    except OSError as error:
        raise UserError(f"{output} cannot be written: {error.strerror}; give another --output") from error
    print(f"{output}: {tally(report.findings)}", flush=True)


def _to_stdout(written: bytes) -> None:
    out = cast(BinaryIO, getattr(sys.stdout.buffer, "raw", sys.stdout.buffer))
    left = memoryview(written)
    try:
        sys.stdout.flush()
        while left:  # without a buffer, which would fail once more at exit, a part only may be taken
            left = left[out.write(left) :]
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UserError(f"standard output cannot be written: {error.strerror}; give --output FILE") from error


def _refuse_unwritable(output: Path) -> None:
    if output.is_dir():
        raise UserError(f"--output {output} is a folder, expected a file")
    if not output.parent.is_dir():
        raise UserError(f"--output {output}: there is no folder {output.parent}; make it first")


def _tools(folder: Path | None) -> "Tools":
    """The tokenizer, and the chat template where the folder has one."""
    from checks.measure import Tools

    if folder is None:
        return Tools()
    from collector.model_json import read_json
    from collector.rendering.renderer import Renderer
    from collector.rendering.tokenizer import ChatTokenizer

    has_template = (folder / "chat_template.jinja").is_file()
    if has_template or "chat_template" in read_json(folder / "tokenizer_config.json"):
        renderer = Renderer.from_folder(folder)
        return Tools(renderer.tokenizer, renderer)
    return Tools(ChatTokenizer.from_folder(folder))


def _print_formats() -> None:
    from checks.readers.formats import FORMATS as READ

    width = max(len(form.name) for form in READ)
    for form in READ:
        print(f"{form.name:<{width}}  {form.about}")


def _names(given: list[str]) -> list[str]:
    """The names of a repeatable flag that takes several, joined by commas."""
    return [name for words in given for each in words.split(",") if (name := each.strip())]

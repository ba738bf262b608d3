"""Watch a store or a log in the terminal: which signal moved first, and from there to the token.

Keys: ? lists them, 1 to 6 open the screens, Enter goes down, Esc back. Without a terminal, --plain and --json print one
screen and stop.
"""

import argparse
import gc
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, cast

from collector.errors import UserError
from collector.terminal_text import terminal_safe
from console.watch.options import SCREENS, Options

if TYPE_CHECKING:
    from console.watch.widgets.palette import Color

COLORS = ("auto", "truecolor", "256", "16", "none")
PLAIN_COLUMNS = 240
"""Columns of --plain where no terminal says how wide it is."""
WEB_PORT = 8000
SWITCH_S = 0.0005
FRAMES_A_SECOND = "250"
"""Most that are drawn: what a key changed waits 4 ms at most for its frame. Where nothing changed none is drawn."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument(
        "path", type=Path, nargs="?", default=Path("store"), metavar="PATH", help="a store or a log (./store)"
    )
    parser.add_argument("--rw", action="store_true", help="allow promoting, rolling back, acknowledging and silencing")
    parser.add_argument("--adapter", metavar="NAME", help="begin with this adapter")
    parser.add_argument(
        "--at", metavar="TIME", help="begin in replay: 11:31, --at=-5m, 2026-11-29T11:31Z, @1826 for a step"
    )
    parser.add_argument("--interval", type=float, metavar="S", help="seconds between two looks at the store (0.25)")
    parser.add_argument("--window", type=float, metavar="S", help="only the last S seconds")
    parser.add_argument("--window-turns", type=int, metavar="N", help="only the last N turns")
    printing = parser.add_argument_group("printing", "One screen, once: for scripts and screen readers.")
    which = printing.add_mutually_exclusive_group()
    which.add_argument("--plain", choices=SCREENS, metavar="SCREEN", help=f"as lines: {', '.join(SCREENS)}")
    which.add_argument("--json", choices=SCREENS, metavar="SCREEN", help="as one JSON object")
    which.add_argument(
        "--web", type=int, nargs="?", const=WEB_PORT, metavar="PORT", help="serve to a browser on loopback, read only"
    )
    printing.add_argument("--rows", type=int, metavar="N", help="most rows of a list that is printed (50)")
    printing.add_argument("--session", metavar="ID", help="the session of turn, token, prefix_diff and retok_diff")
    printing.add_argument("--turn", type=int, metavar="N", help="the turn of it, from 1")
    printing.add_argument("--token", type=int, metavar="N", help="the token of its completion, from 0 (the worst)")
    terminal = parser.add_argument_group("terminal")
    terminal.add_argument("--color", choices=COLORS, default="auto", help="colours (default: what the terminal has)")
    terminal.add_argument(
        "--ascii", action="store_true", help="no other characters (also where the output's encoding is not UTF-8)"
    )
    terminal.add_argument("--no-mouse", action="store_true", help="leave the mouse to the terminal")
    terminal.add_argument("--keymap", type=Path, metavar="FILE", help="other keys, as in frame.copy = 'c'")
    reading = parser.add_argument_group("reading")
    reading.add_argument("--tokenizer", type=Path, metavar="DIR", help="the model's folder: tokens get text")
    reading.add_argument("--reads", metavar="FORMAT", help="read as this format; roundhouse check --formats lists them")
    reading.add_argument("--config", type=Path, metavar="FILE", help="thresholds and engines (./roundhouse.toml)")


def run(args: argparse.Namespace) -> int:
    """Opens the console, or prints one screen."""
    # Python leaves it out where the caller closed it.
    if cast(TextIO | None, sys.stdout) is None:
        raise UserError("standard output is closed; a screen is shown in a terminal, or printed into a file or a pipe")
    options = options_of(args)
    if args.plain is not None or args.json is not None:
        return _print(args, options)
    for name in ("rows", "session", "turn", "token"):
        if getattr(args, name) is not None:
            raise UserError(f"--{name} is for --plain and --json; add one of them, or leave this out")
    if args.web is not None:
        return _serve(args, options)
    if not (sys.stdout.isatty() and sys.stdin.isatty()):
        raise UserError("no terminal; --plain SCREEN or --json SCREEN prints one screen without one")
    return _open(options)


def options_of(args: argparse.Namespace) -> Options:
    """The arguments, checked before anything is read."""
    if not args.path.exists():
        raise UserError(f"{args.path}: no such file or folder, expected a store or a log")
    for name, least in (("interval", 0.05), ("window", 0.0), ("window_turns", 0)):
        value = getattr(args, name)
        if value is not None and not (least < value < 1e9 if name != "interval" else least <= value <= 60):
            expected = "0.05 to 60" if name == "interval" else "more than 0"
            raise UserError(f"--{name.replace('_', '-')} is {value}, expected {expected}")
    if args.window is not None and args.window_turns is not None:
        raise UserError("--window and --window-turns are both given; leave one out")
    if args.window is not None or args.window_turns is not None:
        _refuse_window_of_log(args)
    if args.at is not None:
        from console.watch.opening_time import checked_at

        checked_at(args.at)
    return Options(
        path=args.path,
        rw=args.rw,
        at=args.at,
        adapter=args.adapter,
        interval_s=0.25 if args.interval is None else args.interval,
        window_s=args.window,
        window_turns=args.window_turns,
        reads=args.reads,
        tokenizer=args.tokenizer,
        config=args.config,
        color=_color(args.color),
        ascii=args.ascii or not sys.stdout.encoding.lower().startswith("utf"),
        mouse=not args.no_mouse,
        keymap=args.keymap,
    )


def _refuse_window_of_log(args: argparse.Namespace) -> None:
    if args.reads is not None or not (args.path / "journals").is_dir():
        raise UserError(f"--window is for a store, and {args.path} is read as a log; leave it out")


def _color(asked: str) -> "Color":
    if asked != "auto":
        return asked  # pyright: ignore[reportReturnType]
    from rich.console import Console

    found = Console()
    if found.no_color:
        return "none"
    known: dict[str, Color] = {"truecolor": "truecolor", "256": "256", "standard": "16", "windows": "16"}
    return known.get(found.color_system or "", "none")


def _print(args: argparse.Namespace, options: Options) -> int:
    given = {"--rw": args.rw, "--keymap": args.keymap, "--no-mouse": args.no_mouse, "--interval": args.interval}
    for option, value in given.items():
        if value is not None and value is not False:
            raise UserError(f"{option} is for the console; --plain and --json only print")
    if args.color not in ("auto", "none"):
        raise UserError(f"--color {args.color} is for the console; --plain and --json print without colours")
    rows = 50 if args.rows is None else args.rows
    if rows < 1:
        raise UserError(f"--rows is {rows}, expected 1 or more")
    from console.watch.printed import Place, printed

    place = Place(session=args.session, turn=args.turn, token=args.token)
    width = None if args.json is not None else _columns()
    text, damage = printed(options, args.json or args.plain, place, rows=rows, width=width)
    if args.json is not None:
        text = _json_safe(text, ascii_only=options.ascii)
    elif options.ascii:
        text = text.encode("ascii", "backslashreplace").decode()
    sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace") + b"\n")
    sys.stdout.buffer.flush()
    for line in damage:
        print(f"roundhouse watch: not read: {terminal_safe(line)}", file=sys.stderr)
    return 1 if damage else 0


def _json_safe(text: str, *, ascii_only: bool) -> str:
    """The same JSON without a letter that a terminal would act on, or that its locale does not have."""
    if text.isascii() and text.isprintable():
        return text
    plain = str.isascii if ascii_only else str.isprintable
    return "".join(letter if plain(letter) else json.dumps(letter)[1:-1] for letter in text)


def _words(options: Options, color: str) -> list[str]:
    """The same arguments for the console that a browser sees; what this terminal can do does not bind it."""
    words = [str(options.path.absolute()), "--interval", str(options.interval_s), "--color", color]
    given = {
        "--at": options.at,
        "--adapter": options.adapter,
        "--window": options.window_s,
        "--window-turns": options.window_turns,
        "--reads": options.reads,
        "--tokenizer": options.tokenizer and options.tokenizer.absolute(),
        "--config": options.config and options.config.absolute(),
        "--keymap": options.keymap and options.keymap.absolute(),
    }
    for option, value in given.items():
        # In one word: a value may begin with a dash.
        words += [] if value is None else [f"{option}={value}"]
    return [*words, *(["--ascii"] if options.ascii else [])]


def _columns() -> int:
    import shutil

    return shutil.get_terminal_size((PLAIN_COLUMNS, 24)).columns if sys.stdout.isatty() else PLAIN_COLUMNS


def _open(options: Options) -> int:
    # Nothing that is loaded for the frame goes again; it is collected from once all is loaded.
    gc.disable()
    # Textual reads it when it is loaded; where somebody has set it, it stays.
    os.environ.setdefault("TEXTUAL_FPS", FRAMES_A_SECOND)
    from console.watch.app import run_app
    from console.watch.opened import opened_app

    # Views are built in threads: they give way to a key sooner than Python's 5 ms.
    sys.setswitchinterval(SWITCH_S)
    return run_app(opened_app(options), mouse=options.mouse)


def _serve(args: argparse.Namespace, options: Options) -> int:
    if args.rw:
        raise UserError("--rw is for a terminal; --web is read only")
    if args.no_mouse:
        raise UserError("--no-mouse is for a terminal; in the browser M hands the mouse over")
    from console.watch.web import serve

    return serve(_words(options, "truecolor" if args.color == "auto" else args.color), args.web)

"""Prints the manual of a check, its thresholds and its kinds of faults; without a name, lists the checks."""

import argparse
import difflib
import shutil
import textwrap
from typing import TYPE_CHECKING

from collector.errors import UserError
from collector.terminal_text import terminal_safe

if TYPE_CHECKING:
    from collections.abc import Mapping

    from checks.check import Check

WIDEST = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument(
        "name", nargs="*", metavar="NAME", help="a check, one of its kinds of faults, a metric or a signal"
    )


def run(args: argparse.Namespace) -> int:
    """Prints the manuals, or the list."""
    from checks.suite import CHECKS

    checks = {check.name: check for check in CHECKS}
    if not args.name:
        print(_list(checks))
        return 0
    print("\n\n".join(_explained(name, checks) for name in _names(args.name, checks)))
    return 0


def _names(words: list[str], checks: "Mapping[str, Check]") -> list[str]:
    """Several names, or one of several words."""
    from checks.glossary import meanings, spelled

    def is_known(name: str) -> bool:
        return spelled(name) in checks or any(word.check in checks for word in meanings(name))

    whole = " ".join(words)
    return words if not is_known(whole) and any(map(is_known, words)) else [whole]


def _list(checks: "Mapping[str, Check]") -> str:
    from checks.glossary import SIGNALS

    width = max(map(len, checks)) + 2
    lines = ["checks"]
    for name, check in checks.items():
        lines += _wrapped(f"  {name:<{width}}", check.manual.splitlines()[0])
    signals = {name: word for name, word in SIGNALS.items() if word.check in checks}
    if signals:
        width = max(map(len, signals)) + 2
        lines += ["", "the signals, and the check that reports each"]
        lines += [f"  {name:<{width}}{word.check}" for name, word in signals.items()]
    return "\n".join(
        [*lines, "", "roundhouse explain NAME says what one measures, and how its thresholds were chosen."]
    )


def _explained(name: str, checks: "Mapping[str, Check]") -> str:
    """The manual of the check, or of the checks that report the kind, the metric or the signal."""
    from checks.glossary import meanings, spelled, words

    wanted = spelled(name)
    if wanted in checks:
        return _manual(checks[wanted])
    found = [word for word in meanings(name) if word.check in checks]
    if not found:
        known = [each for each, meant in words().items() if any(word.check in checks for word in meant)]
        spellings = [*checks, *known]
        near = difflib.get_close_matches(wanted, spellings, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else "roundhouse explain lists the checks"
        raise UserError(f"no check, kind, metric or signal {name!r}; {hint}")
    reporting = list(dict.fromkeys(word.check for word in found))
    meant = {check: dict.fromkeys(word.meaning for word in found if word.check == check) for check in reporting}
    about = "\n".join(f"{name} (reported by {check}): {'; '.join(said)}" for check, said in meant.items())
    manuals = [_manual(checks[check]) for check in reporting]
    return "\n\n".join([terminal_safe(about, keep="\n"), *manuals])


def _manual(check: "Check") -> str:
    """The docstring of the check, its default thresholds, kinds and metrics."""
    from checks.glossary import KINDS, METRICS

    lines = [check.name, "", *check.manual.splitlines()]
    lines += _section(
        f"Thresholds ([checks.thresholds.{check.name}] in roundhouse.toml):",
        {name: _default(value) for name, value in check.thresholds.items()},
    )
    lines += _section("Kinds of faults:", KINDS.get(check.name, {}))
    lines += _section("Metrics:", {name: word.meaning for name, word in METRICS.items() if word.check == check.name})
    return "\n".join(lines)


def _section(title: str, meanings: "Mapping[str, str]") -> list[str]:
    """Nothing where there is nothing."""
    if not meanings:
        return []
    width = max(map(len, meanings)) + 2
    lines = ["", title]
    for name, meaning in meanings.items():
        lines += _wrapped(f"  {name:<{width}}", meaning)
    return lines


def _default(value: object) -> str:
    return "none" if value is None else str(value)


def _wrapped(head: str, text: str) -> list[str]:
    width = max(60, min(WIDEST, shutil.get_terminal_size((WIDEST, 24)).columns))
    return textwrap.wrap(text, width, initial_indent=head, subsequent_indent=" " * len(head))

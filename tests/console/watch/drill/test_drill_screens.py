"""The screens from the list of sessions down to one token: their text at each size, and every key of theirs."""

import json
import math
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import pytest
from textual.pilot import Pilot

from checks.log import MemoryLog
from checks.measure import Tools
from collector.rendering.tokenizer import ChatTokenizer
from console.watch.app import WatchApp
from console.watch.frame.watch_screen import WatchScreen
from console.watch.screens.prefix_diff import PrefixDiffScreen
from console.watch.screens.retok_diff import RetokDiffScreen
from console.watch.screens.token import TokenScreen
from console.watch.screens.trajectories import TrajectoriesScreen
from console.watch.screens.turn import TurnScreen
from console.watch.topic import Topic
from console.watch.views import head, prefix_diff, retok_diff, token, trajectories, turn
from console.watch.widgets.palette import Palette
from tests.collector.published import small_backend
from tests.console.watch.drill.held_log import held_of, log_of
from tests.console.watch.drill.held_log import turn as row
from tests.console.watch.fake_feed import NOW, FakeFeed
from tests.console.watch.screen_text import screen_text, strips
from tests.console.watch.text_snapshot import SIZES, assert_as_before

SMALL = ChatTokenizer(small_backend())
EVIL = "ok\x1b[2J\x1b]0;t\x07\x9b31m\u202e."


def encoded(text: str) -> list[int]:
    return SMALL.encode(text)


def scores(mu: list[float], moved: dict[int, float], lag: int = 0) -> dict[str, Any]:
    old = [value + moved.get(at, 0.001 * (at % 3 - 1)) for at, value in enumerate(mu)]
    spans = [{"version": str(9 - lag), "start": 0, "end": len(mu)}]
    return {"sampled_logprobs": mu, "trainer_logprobs": old, "trainer_version": 9, "weight_versions": spans}


def refund_log() -> MemoryLog:
    """Two turns with a break between them, one whose ids do not come back, and what a model must not get away with."""
    system = encoded("<|im_start|>user\nrefund 4417?<|im_end|>\n<|im_start|>assistant\n")
    said = encoded("<think>\nover the limit\n</think>\n\nI ask a manager.<|im_end|>")
    spelled = [SMALL.backend.token_to_id(letter) for letter in "<think>"]
    answer = [*encoded("no "), *spelled, *encoded(" here"), *encoded(EVIL)]
    kept = encoded("I ask a manager.<|im_end|>")
    mu = [-0.1 - 0.05 * (at % 4) for at in range(len(said))]
    again = [{"trainer_step": 14, "trainer_version": 11, "trainer_logprobs": [each - 0.25 for each in mu]}]
    messages = json.dumps({"messages": [{"role": "user", "content": f"refund 4417?\n{EVIL}"}]})
    turns = [
        row(
            1,
            prompt_ids=system,
            completion_ids=said,
            **scores(mu, {12: 2.1, 30: -1.2}, lag=0),
            trainer_step=12,
            more_scores=again,
            entropies=[0.1 * (at % 9) for at in range(len(said))],
            loss_mask=[int(at > 3) for at in range(len(said))],
            request=messages,
            response=json.dumps({"role": "assistant", "content": "I ask a manager."}),
            finish_reason="stop",
        ),
        row(
            2,
            prompt_ids=[*system, *kept, *encoded("\n<|im_start|>user\nand?<|im_end|>\n<|im_start|>assistant\n")],
            completion_ids=answer,
            **scores([-0.3] * len(answer), {4: 0.9}, lag=2),
            trainer_step=12,
            finish_reason="length",
        ),
        row(3, prompt_ids=[1, 2, 3], completion_ids=[], session_id="empty", turn_id="empty-1"),
    ]
    own = {"adapter": "refund", "tenant": "acme", "temperature": 0.8}
    return log_of([{**own, **each} for each in turns])


@asynccontextmanager
async def console(
    size: tuple[int, int] = (120, 36),
    log: MemoryLog | None = None,
    opened: tuple[str, dict[str, Any]] | None = None,
    palette: Palette | None = None,
    tools: Tools | None = None,
    at: datetime | None = None,
) -> AsyncIterator[Pilot[int]]:
    """The list of sessions, and perhaps a screen over it."""
    log, tools = log or refund_log(), tools or Tools(SMALL)
    given = (turn.topic, token.topic, prefix_diff.topic, retok_diff.topic)
    topics: dict[str, Topic[Any]] = {each.name: each for each in (make(lambda: tools) for make in given)}
    topics |= {"head": head.TOPIC, "trajectories": trajectories.TOPIC}
    held = held_of(log, tools)
    feed = FakeFeed(held if at is None else held.until(at)._replace(newest_at=NOW), log=lambda: log)
    app = WatchApp(feed, topics, start="trajectories", palette=palette)
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        if opened is not None:
            app.open(opened[0], **opened[1])
            await settled(pilot)
        yield pilot


async def settled(pilot: Pilot[int]) -> None:
    """Until what was posted is drawn."""
    for _ in range(3):
        await pilot.pause()


async def press(pilot: Pilot[int], *keys: str) -> str:
    await pilot.press(*keys)
    await settled(pilot)
    return screen_text(pilot.app)


def token_screen(pilot: Pilot[int]) -> TokenScreen:
    screen = pilot.app.screen
    assert isinstance(screen, TokenScreen)
    return screen


def position(pilot: Pilot[int]) -> int:
    return int(token_screen(pilot).copied().split("\t")[0])


OPENED: dict[str, tuple[str, dict[str, Any]] | None] = {
    "trajectories": None,
    "turn": ("turn", {"session_id": "s"}),
    "token": ("token", {"session_id": "s", "turn": 1}),
    "prefix_diff": ("prefix_diff", {"session_id": "s", "turn": 2}),
    "retok_diff": ("retok_diff", {"session_id": "s", "turn": 2}),
}


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", OPENED)
async def test_each_screen_at_each_size(name: str, size: tuple[int, int]) -> None:
    async with console(size, opened=OPENED[name]) as pilot:
        assert_as_before(f"{name}_{size[0]}x{size[1]}", screen_text(pilot.app))


@pytest.mark.parametrize("name", OPENED)
async def test_a_replay_of_the_newest_moment_looks_as_the_live_screen(name: str) -> None:
    async with console((80, 24), opened=OPENED[name], at=NOW) as pilot:
        assert_as_before(f"{name}_80x24", screen_text(pilot.app))


async def test_a_terminal_of_ascii_is_given_nothing_else() -> None:
    async with console(palette=Palette("none", ascii=True)) as pilot:
        for opened in filter(None, OPENED.values()):
            assert screen_text(pilot.app).isascii()
            pilot.app.open(opened[0], **opened[1])  # pyright: ignore
            await settled(pilot)
        assert screen_text(pilot.app).isascii()


async def test_what_a_model_says_never_reaches_the_terminal_raw() -> None:
    async with console() as pilot:
        for opened in OPENED.values():
            if opened is not None:
                pilot.app.open(opened[0], **opened[1])  # pyright: ignore
            for keys in ((), ("j", "G")):
                await press(pilot, *keys)
                text = "".join(segment.text for strip in strips(pilot.app) for segment in strip)
                assert text.isprintable()


async def test_from_the_list_to_a_token_and_back() -> None:
    async with console() as pilot:
        assert isinstance(pilot.app.screen, TrajectoriesScreen)
        await press(pilot, "j", "enter")
        assert isinstance(pilot.app.screen, TurnScreen)
        assert "✗@" in screen_text(pilot.app)
        await press(pilot, "k", "enter")
        assert token_screen(pilot).crumb().startswith("turn 1 token")
        await press(pilot, "d")
        assert isinstance(pilot.app.screen, PrefixDiffScreen)
        await press(pilot, "t")
        assert isinstance(pilot.app.screen, RetokDiffScreen)
        await press(pilot, "escape", "escape", "escape", "escape")
        assert isinstance(pilot.app.screen, TrajectoriesScreen)


async def test_a_token_is_opened_where_the_evidence_has_it() -> None:
    async with console() as pilot:
        pilot.app.open("token", session_id="s", turn=1, token_index=30, check="importance-weight")  # pyright: ignore
        await settled(pilot)
        prompt = len(refund_log().table("turns")["prompt_ids"][0])
        assert position(pilot) == prompt + 30
        pilot.app.open("token", session_id="s", turn=2, token_index=17, check="prefix-break")  # pyright: ignore
        await settled(pilot)
        assert position(pilot) == 17


async def test_outliers_are_gone_through_in_a_ring() -> None:
    async with console(opened=OPENED["token"]) as pilot:
        prompt = len(refund_log().table("turns")["prompt_ids"][0])
        worst, other = prompt + 12, prompt + 30
        assert position(pilot) == worst
        await press(pilot, "n")
        assert position(pilot) == other
        await press(pilot, "n")
        assert position(pilot) == worst
        await press(pilot, "N")
        assert position(pilot) == other


async def test_the_cursor_goes_by_tokens_lines_pages_and_to_the_ends() -> None:
    async with console(opened=OPENED["token"]) as pilot:
        at = position(pilot)
        await press(pilot, "l", "l", "h")
        assert position(pilot) == at + 1
        await press(pilot, "home")
        assert position(pilot) == 0
        await press(pilot, "j")
        below = position(pilot)
        assert below > 1
        await press(pilot, "k")
        assert position(pilot) < below
        await press(pilot, "G")
        total = sum(len(refund_log().table("turns")[name][0]) for name in ("prompt_ids", "completion_ids"))
        assert position(pilot) == total - 1
        await press(pilot, "pageup")
        assert position(pilot) < total - 3


async def test_a_position_is_typed() -> None:
    async with console(opened=OPENED["token"]) as pilot:
        prompt = len(refund_log().table("turns")["prompt_ids"][0])
        await press(pilot, "g", "c", "5", "enter")
        assert position(pilot) == prompt + 5
        await press(pilot, "g", "7", "enter")
        assert position(pilot) == 7
        text = await press(pilot, "g", "9", "9", "9", "9", "enter")
        assert "there is no token 9999" in text
        assert position(pilot) == 7
        assert "both counted from 0" in await press(pilot, "g", "x", "enter")
        completion = len(refund_log().table("turns")["completion_ids"][0])
        beyond = await press(pilot, "g", "c", *str(completion), "enter")
        assert f"no completion token {completion}: the turn has tokens 0 to {completion - 1}" in beyond
        row = await press(pilot, "g", "c", "2", "enter")
        assert f"token {prompt + 2}" in row
        screen = pilot.app.screen
        assert isinstance(screen, TokenScreen)
        assert dict(screen.copies())["place"].endswith("completion token 2")


async def test_a_token_that_a_command_names_and_that_is_not_there_is_said_to_be_missing() -> None:
    place = {"session_id": "s", "turn": 1, "token_index": 999}
    async with console(opened=("token", place)) as pilot:
        assert "there is no completion token 999" in screen_text(pilot.app)


async def test_colours_ids_and_scorings() -> None:
    async with console(opened=OPENED["token"]) as pilot:
        seen = [screen_text(pilot.app)]
        for mode in ("mu", "pi_old", "entropy", "version", "mask", "log w"):
            seen.append(await press(pilot, "m"))
            assert f"colour = {mode}" in seen[-1]
        with_ids = await press(pilot, "i")
        assert "─ ids " in with_ids
        assert re.search(r" \[\d+\] ", with_ids)
        assert "step 12 v9 (1 of 2 scorings)" in with_ids
        other = await press(pilot, "v")
        assert "step 14 v11 (2 of 2 scorings)" in other
        await press(pilot, "]")
        assert "v is off" not in await press(pilot, "h")
        assert "the trainer scored this turn once" in await press(pilot, "v")


async def test_turns_of_the_session_are_gone_through() -> None:
    async with console(opened=OPENED["token"]) as pilot:
        assert "TURN 2" in await press(pilot, "right_square_bracket")
        shown = await press(pilot, "right_square_bracket")
        assert "TURN 2" in shown
        assert "turn 2 is the last of its session" in shown
        assert "TURN 1" in await press(pilot, "left_square_bracket")


async def test_a_token_says_why() -> None:
    async with console(opened=OPENED["token"]) as pilot:
        text = screen_text(pilot.app)
        assert "ENGINE AND TRAINER DIFFER (mismatch_at_equal_version)" in text
        assert "same step on both sides: not staleness" in text
        await press(pilot, "home")
        assert "a token of the prompt" in screen_text(pilot.app)
        masked = await press(pilot, "g", "c", "1", "enter")
        assert "loss mask 0" in masked


async def test_runs_are_opened_and_layouts_changed() -> None:
    async with console(opened=OPENED["prefix_diff"]) as pilot:
        screen = pilot.app.screen
        assert isinstance(screen, PrefixDiffScreen)
        folded = screen_text(pilot.app)
        assert "more removed" in folded
        opened = await press(pilot, "o")
        assert "more removed" not in opened
        assert "more removed" in await press(pilot, "o")
        unified = await press(pilot, "u")
        assert "turn 1  turn 2" in unified
        assert "user" in unified or "u" in unified
        without = await press(pilot, "i")
        assert without != unified
        assert "turn 1 as generated" in await press(pilot, "u")


async def test_the_earlier_turn_is_opened_at_the_difference() -> None:
    async with console(opened=OPENED["prefix_diff"]) as pilot:
        view = pilot.app.screen.view  # pyright: ignore
        await press(pilot, "enter")
        assert token_screen(pilot).crumb().startswith("s › turn 1")
        assert position(pilot) == view.common


async def test_breaks_and_drifts_are_searched_through() -> None:
    async with console(opened=("prefix_diff", {"session_id": "s", "turn": 1})) as pilot:
        assert "begins a conversation" in screen_text(pilot.app)
        assert "2" in await press(pilot, "n")
        assert "PREFIX BREAK turn 1 → 2" in screen_text(pilot.app)
        assert "no later turn" in await press(pilot, "n")
        await press(pilot, "t")
        assert "RETOK turn 2" in screen_text(pilot.app)
        await press(pilot, "left_square_bracket")
        assert "RETOK turn 2" in await press(pilot, "n")
        await press(pilot, "enter", "n")
        assert "WRONG IDS" in screen_text(pilot.app)


async def test_the_list_is_sorted_filtered_and_narrowed_to_faults() -> None:
    async with console() as pilot:
        assert "2 sessions" in screen_text(pilot.app)
        assert "by turns down" in await press(pilot, "S")
        assert "by turns up" in await press(pilot, "o")
        assert "only those with a break: 1 of 2 sessions" in await press(pilot, "F")
        await press(pilot, "F")
        assert "/turns>1: 1 of 2 sessions" in await press(pilot, *"/turns>1", "enter")
        assert "2 sessions" in await press(pilot, "escape")
        assert "no field 'colour'" in await press(pilot, *"/colour:red", "enter")


@pytest.mark.parametrize("size", [(60, 15), (80, 24)], ids=["60x15", "80x24"])
async def test_turns_without_numbers_are_drawn(size: tuple[int, int]) -> None:
    bad = [math.nan, -math.inf, 0.0, -1.0]
    log = log_of(
        [
            row(1, prompt_ids=[1], completion_ids=[]),
            row(2, prompt_ids=[1, 2], completion_ids=[3, 4]),
            row(
                3, prompt_ids=[1, 2, 3], completion_ids=[3, 4, 5, 6], sampled_logprobs=bad, trainer_logprobs=[-1.0] * 4
            ),
            row(4, prompt_ids=[], completion_ids=[7], sampled_logprobs=[-1.0, -1.0]),
            row(5, prompt_text="only text", completion_text="of this one"),
        ]
    )
    async with console(size, log=log, opened=("token", {"session_id": "s", "turn": 1}), tools=Tools()) as pilot:
        for number in range(1, 6):
            assert f"TURN {number}" in screen_text(pilot.app)
            await press(pilot, "l", "n", "m", "i", "right_square_bracket")
        await press(pilot, "left_square_bracket", "left_square_bracket")
        assert "NaN" in screen_text(pilot.app)


async def test_a_turn_of_32000_tokens_is_shown_in_windows() -> None:
    count = 32_000
    mu = [-0.25] * count
    log = log_of([row(1, prompt_ids=[1] * 2000, completion_ids=[65] * count, **scores(mu, {20_000: 3.0}))])
    async with console(log=log, opened=("token", {"session_id": "s", "turn": 1})) as pilot:
        assert position(pilot) == 22_000
        view = pilot.app.screen.view  # pyright: ignore
        assert len(view.rows) == token.WINDOW
        await press(pilot, "home")
        assert position(pilot) == 0
        await press(pilot, "G")
        assert position(pilot) == count + 1999


async def test_what_is_not_there_is_said() -> None:
    async with console(opened=("token", {"session_id": "nobody", "turn": 4})) as pilot:
        assert "turn 4 is not in what is watched" in screen_text(pilot.app)
        assert isinstance(pilot.app.screen, WatchScreen)
        await press(pilot, "l", "n", "d", "escape", "escape")
        assert isinstance(pilot.app.screen, TrajectoriesScreen)

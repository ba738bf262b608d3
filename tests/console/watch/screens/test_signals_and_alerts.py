"""Keys and flows of the signals and the alerts screens, and what they look like."""

import time
from collections.abc import Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import msgspec
import polars as pl
import pytest
from textual import events
from textual.pilot import Pilot
from textual.widget import Widget
from textual.widgets import Input, Static

from checks.alerting.alert_event import ACTS as KINDS
from checks.finding import Evidence
from checks.readers.event_tail import EventTail
from collector.store.reader import Reader
from collector.store.writer import Writer
from console.check_watch.store_watch import WRITER as EVALUATOR
from console.watch.acting import Acting
from console.watch.app import WatchApp, own_topics
from console.watch.frame.watch_screen import WatchScreen
from console.watch.held import Held, Origin
from console.watch.screens.alert_dialog import AlertDialog
from console.watch.screens.alerts import AlertsScreen
from console.watch.screens.signals import SignalsScreen
from console.watch.topic import Ask, Topic, View
from console.watch.views import alerts, signal_grading, signals
from console.watch.views.lane import Lane
from console.watch.views.place import Place
from console.watch.views.signal_grading import Gradings
from console.watch.views.signals import SHOWN_STEPS, SignalsAsk, SignalsBuilder
from console.watch.widgets.lanes import SignalLanes
from console.watch.widgets.palette import Palette
from tests.console.watch.alert_history import as_frame, evaluated
from tests.console.watch.fake_feed import FakeFeed, no_log
from tests.console.watch.fake_feed import held as fake_held
from tests.console.watch.incident_store import incident
from tests.console.watch.screen_text import screen_text
from tests.console.watch.text_snapshot import SIZES, assert_as_before


class Nothing(View, frozen=True, kw_only=True):
    """An empty view."""


class OpenedScreen(WatchScreen):
    """Stands for the token view, and notes what it is opened with."""

    TOPIC = "token"
    TITLE = "Token"

    def __init__(self, **arguments: object) -> None:
        super().__init__()
        self.arguments = arguments

    def compose_body(self) -> Iterable[Widget]:
        """Nothing."""
        yield Static()

    def show(self, view: View) -> None:
        """Nothing."""


class SessionsScreen(OpenedScreen):
    """Stands for the list of sessions."""

    TOPIC = "trajectories"


@asynccontextmanager
async def console(held: Held, size: tuple[int, int] = (120, 36), **more: Any):
    """The console on what is held, once it is drawn."""
    topics = {name: Topic[Ask](name, lambda *_: Nothing()) for name in ("token", "trajectories")}
    gradings = Gradings()
    real = (signals.topic(gradings), signal_grading.topic(gradings), alerts.topic())
    app = WatchApp(
        FakeFeed(held),
        {**own_topics(), **{topic.name: topic for topic in real}, **topics},
        palette=more.pop("palette", Palette("none")),
        screens={"token": OpenedScreen, "trajectories": SessionsScreen},
        **more,
    )
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield cast("Pilot[int]", pilot)


async def pressed(pilot: Pilot[int], *keys: str) -> str:
    """The screen after some keys."""
    await pilot.press(*keys)
    await pilot.pause()
    return screen_text(pilot.app)


async def until(pilot: Pilot[int], so: Callable[[], bool]) -> None:
    """Until it is so; it is at fault if it never is."""
    last = time.monotonic() + 20
    while not so():
        assert time.monotonic() < last, screen_text(pilot.app)
        await pilot.pause(0.02)


def lanes_of(pilot: Pilot[int]) -> list[str]:
    """Labels of the lanes, from the top."""
    widget = pilot.app.screen.query_one(SignalLanes)
    return [lane.signal for lane in widget._lanes]  # pyright: ignore[reportPrivateUsage]


def lane_of(pilot: Pilot[int]) -> Lane:
    """The chosen lane."""
    lane = pilot.app.screen.query_one(SignalLanes).selected
    assert lane is not None
    return lane


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("start", ["signals", "alerts"])
async def test_the_screen_looks_as_before(size: tuple[int, int], start: str) -> None:
    async with console(incident(), size, start=start) as pilot:
        assert_as_before(f"{start}_{size[0]}x{size[1]}", screen_text(pilot.app))


@pytest.mark.parametrize("start", ["signals", "alerts"])
async def test_a_replay_of_the_newest_moment_looks_as_the_live_screen(start: str) -> None:
    live = incident()
    assert live.newest_at is not None
    async with console(live.until(live.newest_at)._replace(newest_at=live.newest_at), (80, 24), start=start) as pilot:
        assert_as_before(f"{start}_80x24", screen_text(pilot.app))


async def test_without_colours_and_in_ascii_the_screens_are_ascii(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with console(incident(), (80, 24), palette=Palette("none", ascii=True)) as pilot:
        assert [letter for letter in screen_text(pilot.app) if not letter.isascii()] == []
        assert (await pressed(pilot, "4")).isascii()


async def test_curves_come_first_and_their_grading_after_them() -> None:
    whole = incident()
    early = whole._replace(steps=whole.steps.filter(pl.col("step") < 150))
    async with console(early) as pilot:
        feed, screen = cast(FakeFeed, cast(WatchApp, pilot.app).feed), pilot.app.screen
        assert "graded @" not in screen_text(pilot.app)
        signals_ask, grading_ask = feed.asks.pop("signals"), feed.asks.pop("grading")
        feed.asks["signals"] = signals_ask
        feed.put(whole)
        await pilot.pause()
        assert "graded @149" in screen_text(pilot.app)
        assert "FIRST MOVER" not in screen_text(pilot.app)
        feed.ask(*grading_ask)
        await until(pilot, lambda: "FIRST MOVER" in screen_text(pilot.app))
        assert "graded @" not in screen_text(pilot.app)
        assert cast(SignalsScreen, screen).view == SignalsBuilder().build(
            whole, SignalsAsk(steps=SHOWN_STEPS, report=False), no_log
        )


async def test_where_grading_beside_fails_the_curves_are_graded_with_the_view_and_not_by_an_old_one() -> None:
    whole = incident()
    early = whole._replace(steps=whole.steps.filter(pl.col("step") < 150))
    async with console(early) as pilot:
        feed = cast(FakeFeed, cast(WatchApp, pilot.app).feed)
        beside = feed.asks.pop("grading")
        feed.put(whole)
        await pilot.pause()
        assert "graded @149" in screen_text(pilot.app)
        feed.asks["grading"] = beside
        feed.fail("grading", "a check broke")
        await until(pilot, lambda: "FIRST MOVER" in screen_text(pilot.app))
        assert "graded @" not in screen_text(pilot.app)


async def test_two_presses_lead_from_an_alert_to_its_worst_token() -> None:
    async with console(incident()) as pilot:
        await pressed(pilot, "4", "enter")
        screen = pilot.app.screen
        assert isinstance(screen, OpenedScreen)
        assert screen.arguments == {"session_id": "support/7f3a91c2", "turn": 4, "token_index": 1187,
                                    "check": "importance-weight", "step": 206}  # fmt: skip


async def test_enter_on_a_lane_leads_to_the_worst_token_of_its_alert() -> None:
    async with console(incident()) as pilot:
        assert lanes_of(pilot)[:3] == ["staleness", "max_w", "entropy"]
        await pressed(pilot, "j", "enter")
        assert isinstance(pilot.app.screen, OpenedScreen)
        assert (pilot.app.screen.arguments["token_index"], pilot.app.screen.arguments["step"]) == (1187, 206)


async def test_a_fault_that_names_only_a_step_leads_to_the_sessions_and_says_why() -> None:
    async with console(incident()) as pilot:
        await pressed(pilot, "enter")
        assert isinstance(pilot.app.screen, SessionsScreen)
        assert pilot.app.screen.arguments == {"filter": "adapter:refund"}


@pytest.mark.parametrize(
    ("place", "said", "opened"),
    [
        (Place(), "this fault is of everything: there is no session to open", None),
        (Place(adapter="refund"), "this fault names the adapter refund, not a token", {"filter": "adapter:refund"}),
        (Place(step=9), "this fault names step 9, not a token: these are its sessions", {"filter": ""}),
    ],
)
async def test_a_fault_without_a_session_says_what_it_names(
    place: Place, said: str, opened: dict[str, object] | None
) -> None:
    async with console(incident()) as pilot:
        signals_screen = cast("Any", pilot.app.screen)
        signals_screen.go_to(place, "stall-time")
        assert signals_screen.remark.startswith(said)
        await pilot.pause()
        assert (pilot.app.screen.arguments if isinstance(pilot.app.screen, SessionsScreen) else None) == opened


@pytest.mark.parametrize("place", [Place(step=9), Place(adapter="refund"), Place(group_id="g")])
async def test_without_a_turn_there_are_no_sessions_to_open(place: Place) -> None:
    held = incident()
    async with console(held._replace(turns=held.turns.clear())) as pilot:
        signals_screen = cast("Any", pilot.app.screen)
        signals_screen.go_to(place, "stall-time")
        assert signals_screen.remark.endswith("not a token, and no turn is in what is watched")
        await pilot.pause()
        assert pilot.app.screen is signals_screen


async def test_open_is_offered_where_it_opens_something() -> None:
    named = {"importance-weight": Evidence(session_id="s-1", turn=2)}
    events = as_frame(evaluated({"importance-weight": "ff", "stall-time": "ff"}, evidence=named))
    content = fake_held(events=events)
    async with console(content, start="alerts") as pilot:
        offered: dict[str, bool] = {}
        for keys in ((), ("j",)):
            text = await pressed(pilot, *keys)
            chosen = next(line for line in text.split("\n") if line.startswith(">"))
            offered |= {rule: "(⏎ open)" not in text for rule in ("importance-weight", "stall-time") if rule in chosen}
        assert offered == {"importance-weight": True, "stall-time": False}


async def test_of_no_evaluation_it_is_not_said_that_there_was_none() -> None:
    async with console(fake_held(), start="alerts") as pilot:
        assert "no evaluation is on record" in screen_text(pilot.app)


async def test_a_wide_terminal_has_the_faults_of_the_chosen_lane_beside_it_and_enter_goes_to_one() -> None:
    async with console(incident(), (200, 60)) as pilot:
        assert "importance-weight: 24 of 26 faults" not in screen_text(pilot.app)
        assert "importance-weight: 24 of 26 faults" in await pressed(pilot, "j")
        lane = lane_of(pilot)
        assert [fault.place.step for fault in lane.faults][:3] == [207, 208, 209]
        await pressed(pilot, "tab", "j", "enter")
        assert isinstance(pilot.app.screen, SessionsScreen)
        assert pilot.app.screen.arguments == {"filter": "adapter:refund"}


async def test_plus_gives_the_focused_pane_half_then_all_of_the_screen_and_underscore_takes_it_back() -> None:
    async with console(incident(), (80, 24), start="alerts") as pilot:

        def heights() -> tuple[int, int]:
            table, detail = (pilot.app.screen.query_one(f"#{name}") for name in ("alerts", "detail"))
            return table.size.height if table.display else 0, detail.size.height if detail.display else 0

        normal = heights()
        await pressed(pilot, "plus")
        assert heights()[0] > normal[0]
        assert heights()[0] >= heights()[1] > 0
        await pressed(pilot, "plus")
        assert heights() == (sum(normal) + 1, 0)
        await pressed(pilot, "plus", "tab")
        await until(pilot, lambda: heights() == (0, sum(normal) + 1))
        await pressed(pilot, "underscore", "underscore")
        assert heights() == normal
    async with console(incident(), (80, 24)) as pilot:
        under = pilot.app.screen.query_one("#under")
        await pressed(pilot, "plus", "plus")
        assert not under.display


async def test_j_and_k_choose_a_lane_which_takes_the_spare_rows() -> None:
    async with console(incident(), (80, 24)) as pilot:
        assert "signals › staleness" in screen_text(pilot.app)
        assert "signals › max_w" in (text := await pressed(pilot, "j"))
        for part in ("min ", "kl ", "ess "):
            assert f"   {part}" in text
        assert "signals › staleness" in await pressed(pilot, "k")
        assert "signals › grad_norm" in await pressed(pilot, "G")
        assert "signals › staleness" in await pressed(pilot, "g")


async def test_o_goes_to_the_fixed_order_and_back_and_f_leaves_out_what_is_quiet() -> None:
    async with console(incident()) as pilot:
        await pressed(pilot, "o")
        assert lanes_of(pilot)[:3] == ["max_w", "staleness", "stall"]
        await pressed(pilot, "o")
        assert lanes_of(pilot)[:3] == ["staleness", "max_w", "entropy"]
        await pressed(pilot, "F")
        assert "pass_at_k" not in lanes_of(pilot)
        assert "staleness" in lanes_of(pilot)


async def test_h_and_l_go_through_the_adapters_and_one_alone_is_said() -> None:
    async with console(incident(adapters=("refund", "triage"))) as pilot:
        assert "refund 1/2" in screen_text(pilot.app)
        assert "triage 2/2" in await pressed(pilot, "l")
        assert "refund 1/2" in await pressed(pilot, "l")
        assert "triage 2/2" in await pressed(pilot, "h")
    async with console(incident()) as pilot:
        assert "one adapter only" in await pressed(pilot, "l")


async def test_read_only_keys_are_in_brackets_and_say_why() -> None:
    async with console(incident(), start="alerts") as pilot:
        assert "(a ack)" in screen_text(pilot.app)
        for key in ("a", "s", "c"):
            assert "start it with --rw" in await pressed(pilot, key)


async def test_the_detail_follows_the_cursor_and_a_group_folds() -> None:
    async with console(incident(), start="alerts") as pilot:
        assert "─ importance-weight ─" in screen_text(pilot.app)
        assert "─ truncation ─" in await pressed(pilot, "j")
        text = await pressed(pilot, "k", "k", "enter")
        assert "▸ incident 1" in text
        assert "truncation" not in text.split("─ ")[0]
        assert "▾ incident 1" in await pressed(pilot, "enter")
        assert "> ▸ incident 1" in await pressed(pilot, "j", "h")
        assert "▸ incident 1" in await pressed(pilot, "h")
        assert "> ▾ incident 1" in await pressed(pilot, "l")


async def test_the_cursor_stays_on_its_row_when_something_new_is_read() -> None:
    async with console(incident(), start="alerts") as pilot:
        await pressed(pilot, "k")
        feed = cast(FakeFeed, cast(WatchApp, pilot.app).feed)
        feed.put(feed.held._replace(revision=2))
        await pilot.pause()
        assert "> ▾ incident 1" in screen_text(pilot.app)
        await pressed(pilot, "j", "j")
        feed.put(feed.held._replace(revision=3))
        await pilot.pause()
        assert "> ◇ CRIT" in screen_text(pilot.app)


async def test_with_rw_an_alert_is_acknowledged_silenced_and_commented_in_the_store(tmp_path: Path) -> None:
    store = tmp_path / "store"
    Writer(store, "collector").close()
    acting = Acting(store, actor="ana")
    async with console(incident(), start="alerts", acting=acting) as pilot:
        assert "importance-weight is acknowledged" in await pressed(pilot, "a")
        await pressed(pilot, "c")
        await pressed(pilot, *"seen", "enter")
        await pressed(pilot, "s")
        assert "needs a reason" in await pressed(pilot, "enter")
        pilot.app.screen.query_one("#end", Input).value = "4x"
        assert "known" in await pressed(pilot, *"known")
        assert "expected 1h, 4h" in await pressed(pilot, "enter")
        pilot.app.screen.query_one("#end", Input).value = "4h"
        assert "is silenced until" in await pressed(pilot, "enter")
        await pressed(pilot, "c")
        await pressed(pilot, "escape")
        assert isinstance(pilot.app.screen, AlertsScreen)
    with Reader(store).snapshot(["events"]) as snapshot:
        written = EventTail().new(snapshot, KINDS)
    assert [(each.kind, each.actor, each.text) for each in written] == [
        ("acknowledge", "ana", None),
        ("comment", "ana", "seen"),
        ("silence", "ana", "known"),
    ]


async def test_letters_typed_right_behind_a_key_belong_to_its_dialog_and_not_to_the_screen_below(
    tmp_path: Path,
) -> None:
    store = tmp_path / "store"
    Writer(store, "collector").close()
    async with console(incident(), start="alerts", acting=Acting(store, actor="ana")) as pilot:
        for key, end in (("c", None), ("s", "1h")):
            for letter in (key, *"aqj4"):
                pilot.app.post_message(events.Key(letter, letter))
            await until(pilot, lambda: [line.value for line in pilot.app.screen.query(Input)][-1:] == ["aqj4"])
            assert isinstance(pilot.app.screen, AlertDialog)
            if end is not None:
                assert pilot.app.screen.query_one("#end", Input).value == end
            await pressed(pilot, "escape")
            assert isinstance(pilot.app.screen, AlertsScreen)
    with Reader(store).snapshot(["events"]) as snapshot:
        assert EventTail().new(snapshot, KINDS) == []


async def test_an_evaluator_that_dies_on_a_quiet_store_is_missed_and_nothing_is_asked_before(tmp_path: Path) -> None:
    evaluator = Writer(tmp_path / "store", EVALUATOR)
    source = Origin(path=str(tmp_path / "store"), format="store")
    async with console(incident()._replace(source=source), start="alerts") as pilot:
        screen = cast(AlertsScreen, pilot.app.screen)
        asks = cast(FakeFeed, cast(WatchApp, pilot.app).feed).asks
        assert "an evaluator runs" in screen_text(pilot.app)
        asked = asks["alerts"][1]
        screen._look()  # pyright: ignore[reportPrivateUsage]
        await pilot.app.workers.wait_for_complete()
        await pilot.pause()
        assert asks["alerts"][1] is asked
        evaluator.close()
        screen._look()  # pyright: ignore[reportPrivateUsage]
        await until(pilot, lambda: "NO EVALUATOR RUNS" in screen_text(pilot.app))


async def test_what_is_copied_and_exported_is_what_is_shown() -> None:
    async with console(incident()) as pilot:
        screen = cast(WatchScreen, pilot.app.screen)
        assert screen.copied().startswith("▲ WARN     staleness")
        assert screen.view is not None
        assert [cast(Any, row).signal for row in screen.exported(screen.view)][:2] == ["max_w", "staleness"]
        assert len(msgspec.json.encode(screen.view)) > 1000
        await pressed(pilot, "4")
        alerts_screen = cast(WatchScreen, pilot.app.screen)
        assert "EVIDENCE" in alerts_screen.copied()
        assert alerts_screen.at() is not None

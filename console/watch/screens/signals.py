"""The home screen: which signal moved first, the eight lanes, alerts and the newest events."""

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, cast

import msgspec
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.widget import Widget

from console.watch.frame.keys import bound
from console.watch.frame.reflow import Form
from console.watch.frame.row import Part
from console.watch.plain.alert_text import limit_text, scope_text, severity_word, state_word, value_text
from console.watch.plain.signals import (
    first_mover_text,
    lane_lines,
    log_text,
    others_text,
    tokens_text,
    untrainable_text,
)
from console.watch.screens.alert_screen import AlertScreen, nothing_at
from console.watch.screens.worst_faults import CELLS, WorstFaults
from console.watch.topic import Ask, View
from console.watch.views.alert_lines import AlertLine
from console.watch.views.lane import Lane
from console.watch.views.part_signals import UNTOLD
from console.watch.views.place import Place, place_text
from console.watch.views.signal_grading import GradingView
from console.watch.views.signal_lanes import Order, ordered
from console.watch.views.signals import SHOWN_STEPS, SignalsAsk, SignalsView
from console.watch.widgets.lanes import SignalLanes
from console.watch.widgets.text_rows import TextRows

ROWS: dict[Form, int] = {"full": 8, "normal": 6, "small": 0, "line": 0}
"""Rows under the lanes: a rule, alerts, log."""
WIDE = 200
"""Columns from which on there is a side pane."""
ALERTS = 3
"""Alerts that stand there at most."""


class SignalsScreen(AlertScreen):
    """One adapter's lanes; left and right go to the next adapter."""

    TOPIC = "signals"
    TITLE = "Signals"
    HINTS: ClassVar[tuple[str, ...]] = (
        "open",
        "list.order",
        "list.faults",
        "alerts.acknowledge",
        "alerts.silence",
        "time.pause",
        "time.previous",
        "time.next",
        "time.goto",
        "frame.copy",
        "frame.export",
        "frame.quit",
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        bound("list.order", "turn_order"),
        bound("list.faults", "faults"),
        bound("move.left", "adapter(-1)"),
        bound("move.right", "adapter(1)"),
    ]
    DEFAULT_CSS = """
    SignalsScreen #under { height: 8; }
    SignalsScreen.-normal #under { height: 6; }
    SignalsScreen.-small #under { display: none; }
    SignalsScreen #left { width: 1fr; }
    SignalsScreen.-wide #side { display: block; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._adapter: str | None = None
        self._order: Order = "onset"
        self._faults = False
        self._grading: int | None = 0

    def compose_body(self) -> Iterable[Widget]:
        """Lanes, and below them alerts and log; at the side of a wide terminal what the chosen lane is about."""
        under = TextRows(id="under")
        under.can_focus = False
        with Horizontal():
            with Vertical(id="left"):
                yield SignalLanes(self.palette, id="lanes")
                yield under
            yield WorstFaults(self.palette, id="side")

    def ask(self) -> SignalsAsk:
        """The adapter of this console, else the one gone to."""
        return SignalsAsk(adapter=self._wanted, steps=SHOWN_STEPS, report=False, grading=self._grading)

    def asks_beside(self) -> Mapping[str, msgspec.Struct]:
        """To be told when the checks have said something else."""
        return {"grading": Ask(adapter=self._wanted)}

    def received_beside(self, view: View) -> None:
        """Takes up another grading."""
        number = cast(GradingView, view).number
        if number != self._grading:
            self._grading = number
            self.asked()

    def failed_beside(self) -> None:
        """What could not be graded beside is graded with the curves: what is wrong is said in their place."""
        if self._grading is not None:
            self._grading = None
            self.asked()

    def ask_whole(self) -> SignalsAsk:
        """With the numbers of the report, and graded to the newest step."""
        return msgspec.structs.replace(self.ask(), report=True, grading=None)

    def show(self, view: View) -> None:
        """Draws lanes, alerts and log."""
        signals = cast(SignalsView, view)
        lanes = ordered(signals.lanes, self._order)
        if self._faults:
            lanes = tuple(lane for lane in lanes if lane.state != "ok" or lane.onset is not None)
        self.query_one(SignalLanes).set(lanes, signals.axis)
        self.query_one("#under", TextRows).set(self._under(signals))
        self.query_one(WorstFaults).set(self._lane())

    def resized(self, form: Form) -> None:  # noqa: ARG002
        """Another number of rows under the lanes, and a pane beside them where there is room."""
        self.set_class(self.app.size.width >= WIDE, "-wide")
        if isinstance(self.view, SignalsView):
            self.show(self.view)

    def sentence(self, view: View) -> str:
        """What moved first, of which adapter."""
        signals = cast(SignalsView, view)
        said = self.palette.said(first_mover_text(signals, short=self.form != "full"))
        if len(signals.adapters) < 2:
            return said
        names = [each.adapter for each in signals.adapters]
        place = names.index(signals.adapter) + 1 if signals.adapter in names else 0
        return f"{signals.adapter} {place}/{len(names)}  {said}"

    def crumb(self) -> str:
        """The lane that is chosen."""
        lane = self._lane()
        return "signals" if lane is None else f"signals › {lane.label}"

    def copied(self) -> str:
        """The lane and what its check says."""
        lane = self._lane()
        return "" if lane is None else "\n".join(lane_lines(lane))

    def copies(self) -> Sequence[tuple[str, str]]:
        """The lane, the sentence, the place of the worst fault."""
        lane, view = self._lane(), self.view
        found = [("lane", self.copied())]
        if isinstance(view, SignalsView):
            found.append(("first mover", first_mover_text(view)))
        if lane is not None and lane.place is not None:
            found.append(("worst fault", place_text(lane.place, short=False)))
        return found

    def exported(self, view: View) -> Sequence[object]:
        """The lanes."""
        return cast(SignalsView, view).lanes

    def selected_alert(self) -> AlertLine | None:
        """The gravest alert of the chosen lane's check."""
        lane, view = self._lane(), self.view
        if lane is None or not isinstance(view, SignalsView):
            return None
        return next((line for line in view.alerts if line.check == lane.check), None)

    def on_signal_lanes_lane_highlighted(self, _: SignalLanes.LaneHighlighted) -> None:
        """The crumbs, the side pane and the keys that are on follow the lane."""
        self.query_one(WorstFaults).set(self._lane())
        self.redraw_frame()

    def on_signal_lanes_lane_selected(self, _: SignalLanes.LaneSelected) -> None:
        """To the worst fault of the lane: of its alert, else of what its check finds."""
        if (lane := self._lane()) is not None:
            place, because = self._worst(lane)
            self.go_to(place, lane.check, because)

    def on_worst_faults_wanted(self, event: WorstFaults.Wanted) -> None:
        """To one of the faults at the side."""
        lane = self._lane()
        self.go_to(event.place, event.check, None if lane is None else lane.lead)

    def action_turn_order(self) -> None:
        """By onset, or in the fixed order."""
        self._order = "fixed" if self._order == "onset" else "onset"
        self.say("in the fixed order" if self._order == "fixed" else "by onset")
        self._again()

    def action_faults(self) -> None:
        """Only lanes that moved or are not ok, or all."""
        self._faults = not self._faults
        self.say("only lanes that moved or are not ok" if self._faults else "all lanes")
        self._again()

    def action_adapter(self, by: int) -> None:
        """The next adapter."""
        view = self.view
        if not isinstance(view, SignalsView) or len(view.adapters) < 2:
            self.say("there is one adapter only")
            return
        names = [each.adapter for each in view.adapters]
        at = names.index(view.adapter) if view.adapter in names else 0
        self._adapter = names[(at + by) % len(names)]
        self.asked()

    def off(self, key: str) -> str | None:
        """A lane whose check names no fault opens nothing."""
        if key == "open":
            if (lane := self._lane()) is None:
                return "no lane is selected"
            place, because = self._worst(lane)
            return nothing_at(place, because)
        return super().off(key)

    def _worst(self, lane: Lane) -> tuple[Place | None, str | None]:
        """The worst fault of the lane's alert, else of its check; and why this one, where the check names none."""
        alert = self.selected_alert()
        alarmed = alert.place if alert is not None and alert.alarming else None
        if alarmed is not None and alarmed.session_id is not None:
            return alarmed, None
        return lane.place, lane.lead

    def _again(self) -> None:
        if self.view is not None:
            self.show(self.view)

    def _lane(self) -> Lane | None:
        return self.query_one(SignalLanes).selected if self.is_mounted and self.query(SignalLanes) else None

    @property
    def _wanted(self) -> str | None:
        return self._adapter or self.frame.adapter

    @property
    def _room(self) -> int:
        """Columns under the lanes."""
        width = self.app.size.width
        return width - CELLS if width >= WIDE else width

    def _under(self, view: SignalsView) -> list[list[Part]]:
        """A rule that says what cannot be trained, the gravest alerts, and the newest events."""
        room = ROWS[self.form] - 1
        if room < 1:
            return []
        rows = [[self._rule(view)]]
        alerts = view.alerts[: min(ALERTS, room - 1)]
        rows += [self._alert(line) for line in alerts]
        if not alerts:
            raised = "no alert is raised" if view.newest_turns is None else f"alerts are {UNTOLD}"
            rows.append([Part(f"   {raised}", self.palette.dim)])
        left = room + 1 - len(rows)
        return rows + [[Part(f" {self.palette.said(log_text(line))}")] for line in view.log[-left:]]

    def _rule(self, view: SignalsView) -> Part:
        rule = self.palette.mark("rule")
        width = self._room
        short = width < 100
        window = "" if view.window is None else f"over {view.window}"
        told = (
            window,
            others_text(view.others),
            untrainable_text(view.untrainable),
            tokens_text(view, short=short),
        )
        said = " ┊ ".join(each for each in told if each)
        text = f"{rule} alerts {rule} {said} "
        return Part(self.palette.said(text) + rule * max(0, width - len(text)), self.palette.dim)

    def _alert(self, line: AlertLine) -> list[Part]:
        palette = self.palette
        number = f"{value_text(line):>7} {limit_text(line):<8}"
        scope = f"{scope_text(line):<18} " if self._room >= 100 else ""
        parts = f"{line.rule:<18} {number} {scope}{place_text(line.place)}"
        return [
            Part(" "),
            Part(
                f"{palette.glyph(line.state)} {severity_word(line):<4} {state_word(line):<10}",
                palette.style(line.state),
            ),
            Part(" " + palette.said(parts)),
        ]

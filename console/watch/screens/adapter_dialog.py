"""The dialog before an adapter is changed: whom it touches, a reason, and the adapter's name typed."""

import textwrap
from collections.abc import Iterable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Label
from textual.worker import Worker, WorkerState

from collector.errors import EngineError, StoreError, UserError
from collector.terminal_text import terminal_safe
from console.adapter_orders import Order, Outcome
from console.watch.acting import Acting
from console.watch.frame.row import Part
from console.watch.views.adapter_actions import Offer
from console.watch.views.adapters import AdapterDetail
from console.watch.widgets.palette import Palette
from console.watch.widgets.text_rows import TextRows

_TITLES = {
    "promote": "Promote",
    "override": "Promote against the gate",
    "canary": "Try as a canary",
    "reject": "Reject",
    "rollback": "Roll back",
    "hold": "Hold",
    "release": "Release",
}
DEFAULT_SHARE = "0.1"


class AdapterDialog(ModalScreen[str | None]):
    """One action, not done before the name was typed; closes with what was done, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", show=False, id="dialog.cancel")]
    AUTO_FOCUS = "#cancel"
    DEFAULT_CSS = """
    AdapterDialog { align: center middle; }
    AdapterDialog #box { width: 76; max-width: 100%; height: 16; max-height: 100%; padding: 0 1; }
    AdapterDialog #box { border: solid ansi_bright_black; background: ansi_default; color: ansi_default; }
    AdapterDialog #effect { height: 1fr; }
    AdapterDialog #said { height: 2; }
    AdapterDialog Horizontal { height: 1; }
    AdapterDialog .label { width: 10; }
    AdapterDialog Input { width: 1fr; background: ansi_default; color: ansi_default; }
    AdapterDialog #buttons { align-horizontal: center; }
    AdapterDialog #buttons Button { border: none !important; height: 1; margin: 0 2; background: ansi_default; }
    AdapterDialog Button:focus { text-style: reverse bold; }
    AdapterDialog Button:disabled { text-style: dim; }
    """

    def __init__(
        self, offer: Offer, detail: AdapterDetail, effect: str, *, revision: int, acting: Acting, palette: Palette
    ) -> None:
        """`effect` is what it does, in a sentence; `revision` is the registry's at which it was decided."""
        super().__init__()
        self._offer = offer
        self._detail = detail
        self._effect = effect
        self._revision = revision
        self._acting = acting
        self._palette = palette
        self._said: str | None = None
        self._void = False

    @property
    def adapter(self) -> str:
        """Whose dialog it is."""
        return self._detail.line.adapter

    @property
    def live(self) -> int | None:
        """The live version that it was opened at."""
        return self._detail.line.live

    def compose(self) -> ComposeResult:
        """What it does, then what is asked."""
        with Vertical(id="box") as box:
            box.border_title = f"{_TITLES[self._offer.action]} {self.adapter}"
            yield TextRows(id="effect")
            if self._offer.action == "canary":
                yield from _field("share", "share", "of new sessions, 0.1 is 10 %", DEFAULT_SHARE)
            yield from _field("reason", "reason", "kept in the audit")
            yield from _field("name", "confirm", f"type {self.adapter}")
            yield TextRows(id="said")
            with Horizontal(id="buttons"):
                yield Button(Content("[ Cancel ]"), id="cancel", compact=True)
                yield Button(Content(f"[ {_TITLES[self._offer.action]} ]"), id="do", disabled=True, compact=True)

    def on_mount(self) -> None:
        """Says what it does."""
        self._draw()

    def void(self, why: str) -> None:
        """Makes it impossible: what it was decided by is no longer so."""
        self._void = True
        self._said = f"VOID: {why}; Esc, look again and decide anew"
        self._draw()
        self._enable()

    def on_input_changed(self, _: Input.Changed) -> None:
        """The button is off until everything is there."""
        self._said = self._said if self._void else None
        self._enable()

    def on_input_submitted(self, _: Input.Submitted) -> None:
        """To the next field; nothing is done by Enter in a field."""
        self.focus_next()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """Cancels, or does it."""
        if event.button.id == "cancel":
            self.action_cancel()
        elif not self._refusal():
            self._said = "working …"
            self._draw()
            self.query_one("#do", Button).disabled = True
            order = self._order()
            self.run_worker(lambda: self._done(order), thread=True, exclusive=True, exit_on_error=False, name="order")

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """Closes when it was done; says why not, otherwise."""
        if event.state == WorkerState.SUCCESS and isinstance(event.worker.result, Outcome):
            self.dismiss(self._told(event.worker.result))
        elif event.state == WorkerState.ERROR:
            self._said = f"NOT DONE: {event.worker.error}"
            self._draw()
            self._enable()
            if not isinstance(event.worker.error, UserError | EngineError | StoreError) and event.worker.error:
                raise event.worker.error

    def action_cancel(self) -> None:
        """Nothing is changed; an order at work cannot be called back."""
        if not self.workers or all(worker.is_finished for worker in self.workers if worker.name == "order"):
            self.dismiss(None)

    def _done(self, order: Order) -> Outcome:
        return self._acting.do(order, lambda line: self.app.call_from_thread(self._tell, line))

    def _tell(self, line: str) -> None:
        self._said = line
        self._draw()

    def _order(self) -> Order:
        offer = self._offer
        return Order(
            action="promote" if offer.action == "override" else offer.action,
            adapter=self.adapter,
            actor=self._acting.actor,
            reason=self.query_one("#reason", Input).value.strip(),
            version=offer.version,
            share=float(self.query_one("#share", Input).value) if offer.action == "canary" else 0.0,
            force=offer.action == "override",
            seen=self._revision,
        )

    def _refusal(self) -> str | None:
        """What is missing before it may be done."""
        if self._void:
            return "it is void"
        if self._offer.action == "canary" and not _is_share(self.query_one("#share", Input).value):
            return "the share is a number between 0 and 1"
        if not self.query_one("#reason", Input).value.strip():
            return "a reason"
        return None if self.query_one("#name", Input).value.strip() == self.adapter else "the adapter's name"

    def _enable(self) -> None:
        self.query_one("#do", Button).disabled = self._refusal() is not None
        self._draw()

    def _told(self, done: Outcome) -> str:
        """What the registry says after it."""
        live = f"live is v{done.live}" + ("" if done.live == done.before else f", was v{done.before}")
        behind = f"; not yet acted on by {', '.join(done.behind)}" if done.behind else ""
        return f"{_TITLES[self._offer.action]}: {self.adapter} {live} (revision {done.revision}){behind}"

    def _draw(self) -> None:
        line, detail = self._detail.line, self._detail
        rows = [
            f"effect    {self._effect}",
            f"from      v{line.live}, live since {line.live_since:%Y-%m-%d %H:%MZ}" if line.live_since else "",
            f"touches   {_touched(detail)}",
            f"by        {self._acting.actor}, at registry revision {self._revision}",
            self._gate(),
        ]
        self.query_one("#effect", TextRows).set(self._rows(rows, " " * 10))
        self.query_one("#said", TextRows).set(self._rows([self._said or self._missing()], ""))

    def _gate(self) -> str:
        """What it said of the version that is acted on; of a hold, of the one that the list shows."""
        about = self._offer.version
        if about is None and self._detail.line.gate is not None:
            about = self._detail.line.gate.version
        told = next((each for each in self._detail.versions if each.version == about), None)
        if told is None:
            return ""
        if told.verdict is None and not told.reasons:
            return f"gate      has not judged v{told.version}"
        said = [told.verdict or "unreadable", *(["; ".join(told.reasons)] if told.reasons else [])]
        return f"gate      v{told.version} {': '.join(said)}"

    def _rows(self, lines: Iterable[str], indent: str) -> list[list[Part]]:
        width = max(20, self.query_one("#effect", TextRows).size.width or 70)
        told = [terminal_safe(self._palette.said(line)) for line in lines]
        return [[Part(part)] for line in told for part in textwrap.wrap(line, width, subsequent_indent=indent)]

    def _missing(self) -> str:
        """Why the button is off."""
        refusal = self._refusal()
        return "" if refusal is None else f"missing: {refusal}"


def _field(identity: str, label: str, placeholder: str, value: str = "") -> ComposeResult:
    with Horizontal():
        yield Label(label, classes="label", markup=False)
        yield Input(value, placeholder=placeholder, id=identity, compact=True)


def _is_share(text: str) -> bool:
    try:
        return 0 < float(text) < 1
    except ValueError:
        return False


def _touched(detail: AdapterDetail) -> str:
    """The open sessions of the live version, and whose they are."""
    if not detail.sessions:
        return f"no open session of v{detail.line.live}"
    return f"{detail.sessions} open session{'' if detail.sessions == 1 else 's'} of {', '.join(detail.tenants)}"

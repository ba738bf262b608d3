"""What the screens that can act on alerts have in common: acknowledge, silence, comment."""

from datetime import UTC, datetime
from typing import ClassVar

from textual.binding import BindingType

from collector.errors import UserError
from console.watch.alert_acts import Acts, acts_of, silence_end
from console.watch.frame.keys import guarded
from console.watch.frame.watch_screen import WatchScreen
from console.watch.screens.alert_dialog import AlertDialog, said_end
from console.watch.views.alert_lines import AlertLine
from console.watch.views.place import Place

FIRST_SILENCE = "1h"
_ACTS = {"alerts.acknowledge": "acknowledge", "alerts.silence": "silence", "alerts.comment": "comment"}


class AlertScreen(WatchScreen):
    """A screen with a selected alert."""

    BINDINGS: ClassVar[list[BindingType]] = [
        guarded("alerts.acknowledge", "screen.acknowledge", first=True),
        guarded("alerts.silence", "screen.silence", first=True),
        guarded("alerts.comment", "screen.comment", first=True),
    ]

    def selected_alert(self) -> AlertLine | None:
        """The alert that a key is about."""
        raise NotImplementedError

    def acts(self) -> Acts:
        """What this person may do to this store."""
        acting = self.frame.acting
        return acts_of(None, rw=False) if acting is None else Acts(acting.store, True, acting.actor)

    def off(self, key: str) -> str | None:
        """An act is off where the acts say so."""
        if key in _ACTS:
            return self.acts().refusal(_ACTS[key], self.selected_alert())
        return super().off(key)

    def action_acknowledge(self) -> None:
        """At once: it has no end and is undone by the alert itself."""
        line = self.selected_alert()
        if line is None:
            return
        try:
            self.acts().acknowledge(line)
        except UserError as error:
            self.say(str(error))
            return
        self.say(f"{line.rule} is acknowledged; the evaluator takes it up at its next evaluation")

    def action_silence(self) -> None:
        """Asks until when and why."""
        line = self.selected_alert()
        if line is None:
            return

        def then(end: str, words: str) -> None:
            until = silence_end(end, datetime.now(UTC))
            self.acts().silence(line, until, words)
            self.say(f"{line.rule} is silenced until {said_end(until)}")

        effect = "It goes on being evaluated and shown; nobody is told of it until then."
        self.app.push_screen(AlertDialog(f"Silence {line.rule}", effect, "reason", then, end=FIRST_SILENCE))

    def action_comment(self) -> None:
        """Asks for the words."""
        line = self.selected_alert()
        if line is None:
            return

        def then(_: str, words: str) -> None:
            self.acts().comment(line, words)
            self.say(f"the comment on {line.rule} is written")

        self.app.push_screen(AlertDialog(f"Comment on {line.rule}", "It stands in its timeline.", "comment", then))

    def go_to(self, place: Place | None, check: str | None, because: str | None = None) -> None:
        """Opens the token view where a fault names a turn, the sessions where it names less.

        `because`: why this place, where the check does not name it.
        """
        if (nothing := nothing_at(place, because)) is not None:
            self.say(nothing)
            return
        assert place is not None
        if place.session_id is not None and place.turn is not None:
            why = {} if because is None else {"because": because}
            at = {"session_id": place.session_id, "turn": place.turn, "token_index": place.token_index}
            self.open("token", **at, check=check, step=place.step, **why)
        elif place.session_id is not None:
            self.open("turn", session_id=place.session_id)
        elif (head := self.frame.facts().head) is not None and not head.turns:
            self.say(f"this fault names {_named(place)}, not a token, and no turn is in what is watched")
        else:
            self.say(f"this fault names {_named(place)}, not a token: these are its sessions")
            self.open("trajectories", filter=_filter(place))


def nothing_at(place: Place | None, because: str | None = None) -> str | None:
    """Why there is nothing to open, in the given words where no place is named; None where there is something."""
    if place is None:
        return because or "no fault is named: there is nothing to open"
    if (place.session_id, place.group_id, place.step, place.adapter) == (None,) * 4:
        return "this fault is of everything: there is no session to open"
    return None


def _named(place: Place) -> str:
    if place.group_id is not None:
        return f"group {place.group_id}"
    return f"the adapter {place.adapter}" if place.step is None else f"step {place.step}"


def _filter(place: Place) -> str:
    """In the grammar of the lists."""
    if place.group_id is not None:
        return f"group:{place.group_id}"
    return "" if place.adapter is None else f"adapter:{place.adapter}"

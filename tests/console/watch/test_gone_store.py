"""A store that is gone is not made anew by an act of the console; a text without end does not hold a screen up."""

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from collector.errors import StoreError
from collector.store.registry import Registry
from console.adapter_orders import Order
from console.watch.acting import Acting
from console.watch.alert_acts import ActRefused, Acts
from console.watch.plain.beginning import MOST_LETTERS, beginning
from console.watch.plain.signals import log_text
from console.watch.topic import Ask
from console.watch.views.alerts import AlertsBuilder
from console.watch.views.signals import LogLine
from tests.console.watch.fake_feed import no_log
from tests.console.watch.incident_store import incident
from tests.trainer.adapter_lines import add_bot


def test_an_order_about_a_store_that_is_gone_makes_no_store(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with Registry(store) as registry:
        add_bot(registry)
    acting = Acting(store, actor="ana")
    shutil.rmtree(store)
    with pytest.raises(StoreError, match="has no registry any more"):
        acting.do(Order("hold", "bot", "ana", "why"), lambda _: None)
    assert not store.exists()


def test_a_comment_on_an_alert_of_a_store_that_is_gone_makes_no_store(tmp_path: Path) -> None:
    store = tmp_path / "store"
    shown = AlertsBuilder().build(incident(), Ask(), no_log)
    line = shown.groups[0].alerts[0]
    with pytest.raises(ActRefused, match="is no store any more"):
        Acts(store, True, "ana").comment(line, "what is this?")
    assert not store.exists()


def test_of_a_long_text_the_beginning_is_drawn() -> None:
    line = LogLine(
        at=datetime(2026, 1, 1, tzinfo=UTC), severity="info", actor=None, kind="note", text="x" * 10**6, adapter=None,
        session_id=None, turn=None,
    )  # fmt: skip
    assert len(log_text(line)) < MOST_LETTERS + 100
    assert beginning("x" * MOST_LETTERS) == "x" * MOST_LETTERS
    assert beginning("x" * (MOST_LETTERS + 1)).endswith("x… of 4,097 letters")

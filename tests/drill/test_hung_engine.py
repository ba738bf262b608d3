"""An engine that never answers holds up a cycle for no longer than its limit, and nothing is routed meanwhile."""

from pathlib import Path

import pytest

from console.cli import main
from tests.drill.conftest import OpenLoop
from tests.drill.faulty_engine import Hangs
from tests.drill.plant import routed, rows, stages, states, train_words
from tests.drill.settings import write_settings

LIMITS = "load_limit_s = 1.5\nprove_limit_s = 1.5\nunload_limit_s = 1.0"
"""The listing of adapters has the limit of a load; it must stay for a machine with other work."""


def test_a_hung_load_fails_in_time_and_the_next_cycle_goes_on(
    over: OpenLoop, captures: dict[str, Path], tmp_path: Path
) -> None:
    hung = Hangs("/load_lora_adapter")
    settings = write_settings(tmp_path / "limits", publish=LIMITS)
    with over(captures["healthy"], fault=lambda _: hung, settings=settings) as loop:
        cycle = loop.train()
        assert (cycle.code, cycle.ended["ending"]) == (1, "failed")
        assert "gave no answer in 1.5 s and was left behind" in cycle.ended["reason"]
        assert stages(loop.store)[-4:] == ["load failed", "prune begun", "prune done", "end done"]
        assert len(hung.asked_for) == 1
        assert (routed(loop.store), states(loop.store)) == ([("bot", 0)], ["live", "candidate"])
        assert loop.next_session() is None
        hung.hangs = False
        mended = loop.train(write_settings(tmp_path / "patient"))
        assert [each["ending"] for each in mended.said["adapters"]] == ["routed", "nothing_new"]
        assert loop.next_session(seed=8) == "bot@1"


def test_a_hung_proof_is_undecided(over: OpenLoop, captures: dict[str, Path], tmp_path: Path) -> None:
    hung = Hangs("/generate", lambda order: order.get("lora_path") == "bot@1")
    settings = write_settings(tmp_path / "limits", publish=LIMITS)
    with over(captures["healthy"], fault=lambda _: hung, settings=settings) as loop:
        cycle = loop.train()
        assert (cycle.code, cycle.ended["ending"]) == (1, "undecided")
        assert "gave no answer in 1.5 s and was left behind" in cycle.ended["reason"]
        assert (routed(loop.store), states(loop.store)) == ([("bot", 0)], ["live", "candidate"])
        assert loop.next_session() is None
        assert loop.found_by("served-adapter").status == "warn"
        hung.hangs = False


def test_a_hung_unload_is_reported_and_left_behind(over: OpenLoop, second: Path, tmp_path: Path) -> None:
    hung = Hangs("/unload_lora_adapter")
    settings = write_settings(tmp_path / "limits", publish="unload_limit_s = 1.0")
    with over(second, fault=lambda _: hung, settings=settings) as loop:
        cycle = loop.train()
        assert (cycle.code, cycle.ended["ending"], cycle.ended["version"]) == (0, "routed", 2), cycle.ended["reason"]
        assert loop.next_session() == "bot@2"
        told = [row for row in rows(loop.store, "events") if row["detail"].get("stage") == "unload"]
        [done] = [row for row in told if row["detail"]["state"] == "done"]
        assert done["detail"]["gone"] is False
        assert "gave no answer in 1 s and was left behind" in done["text"]
        assert hung.asked_for == [{"lora_name": "bot@1"}]
        # The next cycle tries again, and users are not asked to wait for it.
        hung.hangs = False
        assert loop.train().ended["ending"] == "nothing_new"
        assert [*loop.served.engine.bank.loaded] == ["bot@2"]


def test_an_engine_that_does_not_list_its_adapters_begins_no_cycle(
    over: OpenLoop, captures: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hung = Hangs("/v1/models")
    settings = write_settings(tmp_path / "limits", publish=LIMITS)
    with over(captures["healthy"], fault=lambda _: hung, settings=settings) as loop:
        assert main(train_words(loop.store, model=loop.model, settings=settings, engine=loop.engine)) == 2
        hung.hangs = False
        assert "gave no answer in 1.5 s and was left behind; nothing was trained" in capsys.readouterr().err
        assert stages(loop.store) == []
        assert states(loop.store) == []

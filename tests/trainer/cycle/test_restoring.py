"""Between cycles an engine that was started anew gets what is served loaded and proved again, once."""

import time
from pathlib import Path

from tests.trainer.cycle.scripted import Site
from trainer.cycle.cycle import run_cycle
from trainer.cycle.restoring import Restoring

AGAIN = "bot@1 was missing on an engine, or not proved there; it is loaded and proved again"


def live_version(site: Site) -> Restoring:
    site.parts.sessions = {"bot": 1}
    run_cycle(site.setting, "asked for")
    return Restoring(site.setting)


def test_what_is_missing_is_loaded_and_proved_and_nothing_else_is_touched(tmp_path: Path):
    with Site(tmp_path, {"bot": "acme"}) as site:
        restoring = live_version(site)
        assert restoring.look() == []
        (tmp_path / "engine.json").unlink()
        assert restoring.look() == [AGAIN]
        assert site.parts.engine == {"loaded": ["bot@1"], "proved": ["bot@1"]}
        assert restoring.look() == []


def test_what_cannot_be_loaded_is_said_once_and_tried_again(tmp_path: Path):
    with Site(tmp_path, {"bot": "acme"}) as site:
        restoring = live_version(site)
        (tmp_path / "engine.json").unlink()
        site.parts.breaks = {("load", "bot"): "no slot"}
        assert restoring.look() == ["bot@1 is missing on an engine, and was not loaded again: no slot"]
        assert restoring.look() == []
        time.sleep(site.setting.config.schedule.retry_s)
        assert restoring.look() == []
        site.parts.breaks = {}
        time.sleep(site.setting.config.schedule.retry_s)
        assert restoring.look() == [AGAIN]


def test_an_engine_that_does_not_answer_is_left_alone(tmp_path: Path):
    with Site(tmp_path, {"bot": "acme"}) as site:
        restoring = live_version(site)
        site.parts.unreachable = True
        assert restoring.look() == []

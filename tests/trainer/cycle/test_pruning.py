"""A cycle ends with deleting the files of versions that nothing refers to any more."""

from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from collector.records import Turn, VersionSpan
from collector.store.writer import Writer
from tests.trainer.adapter_lines import WHY
from tests.trainer.cycle.scripted import Site, cycle_events
from trainer.adapters import pin
from trainer.cycle.cycle import run_cycle


def cycles(site: Site, count: int, **publish: object) -> None:
    """Each makes a version and routes to it."""
    config = site.setting.config
    kept = msgspec.structs.replace(config.publish, **{"keep_s": 0.0, "keep_retired": 0, **publish})
    setting = site.setting._replace(config=msgspec.structs.replace(config, publish=kept))
    site.parts.sessions = {"bot": 1}
    for _ in range(count):
        run_cycle(setting, "test")
        for version in site.registry.snapshot().versions:
            if version.folder is not None and (site.store / version.folder).is_dir():
                (site.store / version.folder / "file").write_bytes(b"four")


def folders(site: Site) -> list[bool]:
    """Whether the files of each version are there, from 1."""
    versions = [each for each in site.registry.snapshot().versions if each.folder is not None]
    return [(site.store / str(each.folder)).is_dir() for each in versions]


def pruned(store: Path) -> dict[str, object]:
    done = [row["detail"] for row in cycle_events(store) if row["detail"]["stage"] == "prune"]
    assert done[-1]["state"] == "done", done[-1]
    return done[-1]


def test_what_nothing_refers_to_goes_and_the_log_says_so(tmp_path: Path) -> None:
    with Site(tmp_path, {"bot": "acme"}) as site:
        cycles(site, 3)
        assert site.states("bot") == ["retired", "retired", "retired", "live"]
        assert folders(site) == [False, True, True]
    told = pruned(tmp_path)
    assert told["deleted"] == ["bot@1"]
    assert told["kept"] == {"bot@2": "bot@3 (live) was trained from it", "bot@3": "it is live"}
    assert told["bytes"] == 4


def test_what_an_engine_holds_a_turn_was_sampled_by_or_a_person_pinned_stays(tmp_path: Path) -> None:
    with Site(tmp_path, {"bot": "acme"}) as site:
        cycles(site, 1)
        pin(site.registry, "bot", 1, **WHY)
        site.parts.hangs = {"bot@2"}
        cycles(site, 2, prune=False)
        with Writer(tmp_path, "collector") as writer:
            writer.append(sampled_by(3)).result(10)
        cycles(site, 3)
        assert folders(site) == [True, True, True, False, True, True]


@pytest.mark.parametrize("switch", [{"prune": False}, {"keep_s": 3600.0}, {"keep_retired": 5}])
def test_a_setting_keeps_files(tmp_path: Path, switch: dict[str, object]) -> None:
    with Site(tmp_path, {"bot": "acme"}) as site:
        cycles(site, 3, **switch)
        assert folders(site) == [True, True, True]


def test_no_engine_that_answers_is_no_reason_to_fail(tmp_path: Path) -> None:
    def point(name: str) -> None:
        site.parts.unreachable = name == "write prune"

    with Site(tmp_path, {"bot": "acme"}, point=point) as site:
        cycles(site, 1)
        assert site.states("bot") == ["retired", "live"]
    last = [row["detail"] for row in cycle_events(tmp_path) if row["detail"]["stage"] == "prune"][-1]
    assert (last["state"], "cannot be reached" in last["error"]) == ("failed", True)


def sampled_by(version: int) -> Turn:
    return Turn(
        turn_id="t",
        session_id="s",
        turn=1,
        tenant="acme",
        adapter="bot",
        adapter_version=version,
        api="chat",
        started_at=datetime.now(UTC),
        prompt_ids=[1],
        completion_ids=[2],
        sampled_logprobs=[-0.5],
        weight_versions=[VersionSpan(version="default", start=0, end=1)],
        trainable=True,
    )

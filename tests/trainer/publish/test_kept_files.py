"""A version's files go only when nothing is served from them, resumed from them or scored by them any more."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from collector.errors import UserError
from collector.records import Turn, Version, VersionSpan
from collector.store.registry import Registry
from collector.store.writer import Writer
from trainer.publish.kept_files import files_of, prune, referred_versions
from trainer.publish_config import PublishConfig

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
CONFIG = PublishConfig(keep_retired=0, keep_s=3600)


def version(number: int, state: str, *, parent: int | None = None, hours: float = 2) -> Version:
    changed = NOW - timedelta(hours=hours)
    fields = {"adapter": "ada", "version": number, "state": state, "parent": parent, "folder": f"adapters/ada/{number}"}
    return Version(**fields, created_at=changed, changed_at=changed)  # type: ignore[arg-type]


def going(versions: list[Version], referred: set[tuple[str, int]] | None = None, **settings: object) -> list[int]:
    pinned = settings.pop("pinned", ())
    config = msgspec.structs.replace(CONFIG, **settings)
    decided = files_of(versions, referred or set(), config=config, now=NOW, pinned=pinned)  # type: ignore[arg-type]
    assert len(decided.going) + len(decided.kept) == len([each for each in versions if each.folder])
    return [each.version for each in decided.going]


def test_only_retired_and_rejected_versions_go() -> None:
    states = ["candidate", "canary", "live", "retired", "rejected"]
    assert going([version(number, state) for number, state in enumerate(states, 1)]) == [4, 5]


def test_the_version_that_is_the_base_model_has_no_files() -> None:
    assert going([msgspec.structs.replace(version(0, "retired"), folder=None)]) == []


def test_what_a_trainable_turn_was_sampled_by_stays() -> None:
    assert going([version(1, "retired"), version(2, "retired")], {("ada", 1), ("bob", 2)}) == [2]


def test_what_a_version_in_use_was_trained_from_stays() -> None:
    chain = [version(1, "retired"), version(2, "retired", parent=1), version(3, "live", parent=2)]
    assert going(chain) == [1]
    assert going([version(1, "retired"), version(2, "rejected", parent=1)]) == [1, 2]


def test_the_last_retired_stay_for_a_rollback() -> None:
    retired = [version(number, "retired", hours=10 - number) for number in (1, 2, 3)]
    assert going(retired, keep_retired=2) == [1]


def test_what_left_a_short_time_ago_or_is_pinned_stays() -> None:
    assert going([version(1, "retired", hours=0.5), version(2, "rejected", hours=1.5)]) == [2]
    assert going([version(1, "retired"), version(2, "retired")], pinned=["ada@1"]) == [2]


def turn(number: int, sampled_by: int, *, trainable: bool) -> Turn:
    return Turn(
        turn_id=f"t-{number}", session_id="s", turn=number, tenant="acme", api="chat", started_at=NOW,
        prompt_ids=[1], completion_ids=[2], sampled_logprobs=[-1.0], adapter="ada", adapter_version=sampled_by,
        weight_versions=[VersionSpan(version=0, start=0, end=1)], trainable=trainable,
        untrainable_reason=None if trainable else "penalty",
    )  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Versions 1 to 4: the first three retired, turns by the first two, those of the second not trainable."""
    who = {"actor": "test", "reason": "test"}
    with Registry(tmp_path) as registry:
        registry.register_adapter("ada", tenant="acme", base_model="model", **who)
        for number in (1, 2, 3, 4):
            folder = tmp_path / "adapters" / "ada" / f"step-{number:08d}"
            folder.mkdir(parents=True)
            (folder / "adapter_model.safetensors").write_bytes(bytes(100 * number))
            registry.register_version(
                "ada", number, parent=0, optimizer_step=number, folder=str(folder.relative_to(tmp_path)),
                sha256="0" * 64, trained_on=[], **who,
            )  # fmt: skip
            registry.change_state("ada", number, expected="candidate", to="live", **who)
            if number < 4:
                registry.change_state("ada", number, expected="live", to="retired", **who)
    with Writer(tmp_path, "collector") as writer:
        for each in (turn(1, 1, trainable=True), turn(2, 2, trainable=False), turn(3, 4, trainable=True)):
            writer.append(each).result()
    return tmp_path


def folders(store: Path) -> list[str]:
    return sorted(path.name for path in (store / "adapters" / "ada").iterdir())


def pruned(store: Path) -> tuple[tuple[str, ...], int]:
    result = prune(store, config=CONFIG, now=datetime.now(UTC) + timedelta(hours=2))
    return result.names, result.bytes


def test_files_are_deleted_once_and_the_others_stay(store: Path) -> None:
    assert referred_versions(store) == {("ada", 1), ("ada", 4)}
    assert pruned(store) == (("ada@2", "ada@3"), 500)
    assert folders(store) == ["step-00000001", "step-00000004"]
    assert pruned(store) == ((), 0)


def test_a_deletion_that_was_cut_short_is_finished(store: Path) -> None:
    folder = store / "adapters" / "ada" / "step-00000002"
    folder.rename(folder.with_name(".going-step-00000002"))
    (folder.with_name(".going-step-00000002") / "adapter_model.safetensors").unlink()
    assert pruned(store) == (("ada@2", "ada@3"), 300)
    assert folders(store) == ["step-00000001", "step-00000004"]


def test_nothing_goes_while_turns_may_be_missing(store: Path) -> None:
    (store / "journals" / "other.sqlite").write_bytes(b"no database" * 100)
    with pytest.raises(UserError, match=r"other\.sqlite"):
        prune(store, config=CONFIG, now=NOW)
    assert len(folders(store)) == 4

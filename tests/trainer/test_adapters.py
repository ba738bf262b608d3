"""The life of an adapter: what each change does, what is refused, and what always holds."""

import multiprocessing
import tempfile
from collections.abc import Callable, Generator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from collector.errors import UserError
from collector.records import Route, Version
from collector.store.registry import Registry
from collector.store.registry_rows import RegistrySnapshot, read_audit, read_registry
from collector.store.registry_rules import RegistryConflict
from tests.trainer.adapter_lines import PASSED, WHY, add_bot, add_version, loads
from trainer.adapter_rules import Refused
from trainer.adapter_standing import standing
from trainer.adapters import (
    Changed,
    add_adapter,
    canary,
    hold,
    pin,
    promote,
    reject,
    release,
    retire,
    rollback,
    superseded,
    wait_for_readers,
)

INCONCLUSIVE: dict[str, object] = {"verdict": "inconclusive", "reasons": ["12 tasks show 0.2 at best"], "numbers": {}}
REFUSED: dict[str, object] = {"verdict": "refuse", "reasons": ["pass@1 fell by 0.1"], "numbers": {}}


@pytest.fixture
def registry(tmp_path: Path) -> Generator[Registry]:
    with Registry(tmp_path) as opened:
        add_bot(opened)
        yield opened


def states(registry: Registry, adapter: str = "bot") -> list[str]:
    return [version.state for version in registry.snapshot().versions if version.adapter == adapter]


def routes(registry: Registry) -> list[tuple[str | None, int, float]]:
    return [(route.adapter, route.version, route.weight) for route in registry.snapshot().routes]


def audit(store: Path, since: int) -> list[tuple[str, int | None]]:
    return [(row.action, row.version) for row in read_audit(store) if row.revision > since]


def test_a_new_adapter_serves_version_0_to_a_tenant_without_routes_only(registry: Registry) -> None:
    assert routes(registry) == [("bot", 0, 1.0)]
    add_bot(registry, "second")
    assert routes(registry) == [("bot", 0, 1.0)]


def test_an_adapter_that_cannot_be_added_leaves_nothing(registry: Registry) -> None:
    before = registry.snapshot()
    with pytest.raises(RegistryConflict, match="registered already"):
        add_adapter(registry, "bot", tenant="other", base_model="tiny", **WHY)
    assert registry.snapshot() == before


def test_promotion_routes_all_new_sessions_and_keeps_the_earlier_version_live(
    registry: Registry, tmp_path: Path
) -> None:
    add_version(registry, tmp_path, 1)
    since = registry.revision()
    done = promote(registry, "bot", 1, load=loads, **WHY)
    assert done == (0, 1, registry.revision())
    assert (states(registry), routes(registry)) == (["live", "live"], [("bot", 1, 1.0)])
    assert audit(tmp_path, since) == [("change_state", 1), ("replace_routes", None), ("promote", 1)]
    assert [(row.actor, row.reason) for row in read_audit(tmp_path)[since:]] == [("ana", "because")] * 3
    assert [version.version for version in superseded(registry.snapshot(), "bot")] == [0]
    retire(registry, "bot", 0, **WHY)
    assert states(registry) == ["retired", "live"]
    with pytest.raises(Refused, match="bot@1 is what bot's sessions go to"):
        retire(registry, "bot", 1, **WHY)


@pytest.mark.parametrize(
    ("gate", "said"),
    [
        (None, "the gate has not judged it"),
        (INCONCLUSIVE, "the gate's verdict is inconclusive: 12 tasks show 0.2 at best"),
        (REFUSED, "the gate's verdict is refuse: pass@1 fell by 0.1"),
        ({"verdict": 1}, "the report cannot be read"),
    ],
)
def test_without_a_passing_gate_only_force_promotes_and_the_audit_says_so(
    registry: Registry, tmp_path: Path, gate: dict[str, object] | None, said: str
) -> None:
    add_version(registry, tmp_path, 1, gate=gate)
    before = registry.revision()
    with pytest.raises(Refused, match=said):
        promote(registry, "bot", 1, load=loads, **WHY)
    assert registry.revision() == before
    promote(registry, "bot", 1, load=loads, force=True, **WHY)
    (decision,) = [row for row in read_audit(tmp_path) if row.action == "promote"]
    assert decision.detail is not None
    (forced,) = decision.detail["forced"]  # type: ignore[misc]
    assert said in forced
    assert states(registry) == ["live", "live"]


def test_force_that_overrides_nothing_is_not_on_record_as_forced(registry: Registry, tmp_path: Path) -> None:
    add_version(registry, tmp_path, 1)
    promote(registry, "bot", 1, load=loads, force=True, **WHY)
    assert read_audit(tmp_path)[-1].detail == {"from": 0, "forced": [], "automatic": False}


def test_a_version_that_cannot_be_loaded_is_not_routed_to(registry: Registry, tmp_path: Path) -> None:
    def refuses(version: Version) -> None:
        raise UserError(f"{version.folder} is not proved")

    add_version(registry, tmp_path, 1)
    before = registry.snapshot()
    for change in (promote, rollback):
        with pytest.raises(UserError, match="adapters/bot/1 is not proved"):
            change(registry, "bot", 1, load=refuses, **WHY)  # type: ignore[arg-type]
        assert registry.snapshot() == before
        before = before if change is rollback else _retired(registry, 1)
    with pytest.raises(UserError, match="is not proved"):
        canary(registry, "bot", add_version(registry, tmp_path, 2).version, 0.5, load=refuses, **WHY)
    assert routes(registry) == [("bot", 0, 1.0)]


def _retired(registry: Registry, version: int) -> RegistrySnapshot:
    promote(registry, "bot", version, load=loads, **WHY)
    rollback(registry, "bot", load=loads, **WHY)
    return registry.snapshot()


def test_a_canary_gets_its_share_and_only_a_person_promotes_it(registry: Registry, tmp_path: Path) -> None:
    add_version(registry, tmp_path, 1)
    canary(registry, "bot", 1, 0.25, load=loads, **WHY)
    assert (states(registry), routes(registry)) == (["live", "canary"], [("bot", 0, 0.75), ("bot", 1, 0.25)])
    canary(registry, "bot", 1, 0.5, load=loads, **WHY)
    now = standing(registry.snapshot(), "bot")
    assert now.canary is not None
    assert (now.live.version, now.canary[0].version, now.canary[1]) == (0, 1, 0.5)
    with pytest.raises(Refused, match="never promoted by itself"):
        promote(registry, "bot", 1, load=loads, automatic=True, **WHY)
    add_version(registry, tmp_path, 2)
    for change in (lambda: promote(registry, "bot", 2, load=loads, **WHY), lambda: canary_of(registry, 2)):
        with pytest.raises(Refused, match="bot@1 is the canary; promote or reject it before bot@2"):
            change()
    promote(registry, "bot", 1, load=loads, **WHY)
    assert routes(registry) == [("bot", 1, 1.0)]


def canary_of(registry: Registry, version: int) -> None:
    canary(registry, "bot", version, 0.1, load=loads, **WHY)


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, float("nan"), float("inf")])
def test_a_share_is_between_0_and_1(registry: Registry, tmp_path: Path, share: float) -> None:
    add_version(registry, tmp_path, 1)
    with pytest.raises(UserError, match="expected more than 0 and less than 1"):
        canary(registry, "bot", 1, share, load=loads, **WHY)


def test_what_the_gate_refused_is_no_canary_without_force(registry: Registry, tmp_path: Path) -> None:
    add_version(registry, tmp_path, 1, gate=REFUSED)
    with pytest.raises(Refused, match="the gate refused bot@1"):
        canary_of(registry, 1)
    canary(registry, "bot", 1, 0.1, load=loads, force=True, **WHY)
    assert states(registry) == ["live", "canary"]


def test_a_rejected_canary_gives_its_share_back(registry: Registry, tmp_path: Path) -> None:
    add_version(registry, tmp_path, 1)
    canary_of(registry, 1)
    reject(registry, "bot", 1, **WHY)
    assert (states(registry), routes(registry)) == (["live", "rejected"], [("bot", 0, 1.0)])
    with pytest.raises(RegistryConflict, match="bot@1 is rejected"):
        reject(registry, "bot", 1, **WHY)
    with pytest.raises(Refused, match="train another version"):
        promote(registry, "bot", 1, load=loads, force=True, **WHY)


def test_a_held_adapter_is_promoted_by_a_person_only(registry: Registry, tmp_path: Path) -> None:
    add_version(registry, tmp_path, 1)
    hold(registry, "bot", actor="ana", reason="strange answers")
    with pytest.raises(RegistryConflict, match="held already, by ana: strange answers"):
        hold(registry, "bot", **WHY)
    with pytest.raises(Refused, match="held by ana: strange answers; release it first"):
        promote(registry, "bot", 1, load=loads, automatic=True, **WHY)
    promote(registry, "bot", 1, load=loads, **WHY)
    assert registry.snapshot().held["bot"].reason == "strange answers"
    release(registry, "bot", **WHY)
    assert registry.snapshot().held == read_registry(tmp_path).held == {}
    with pytest.raises(RegistryConflict, match="is not held"):
        release(registry, "bot", **WHY)


def test_rollback_retires_the_bad_version_ends_a_canary_and_holds(registry: Registry, tmp_path: Path) -> None:
    for version in (1, 2, 3):
        add_version(registry, tmp_path, version)
    promote(registry, "bot", 1, load=loads, **WHY)
    promote(registry, "bot", 2, load=loads, **WHY)
    retire(registry, "bot", 1, **WHY)
    canary_of(registry, 3)
    since = registry.revision()
    asked: list[int] = []
    done = rollback(registry, "bot", load=lambda version: asked.append(version.version), actor="ana", reason="rude")
    assert done == (2, 1, registry.revision())
    assert asked == [1]
    assert states(registry) == ["live", "live", "retired", "rejected"]
    assert routes(registry) == [("bot", 1, 1.0)]
    assert audit(tmp_path, since) == [
        ("change_state", 1),
        ("replace_routes", None),
        ("change_state", 2),
        ("change_state", 3),
        ("rollback", 1),
        ("hold", None),
    ]
    assert registry.snapshot().held["bot"].reason == "rolled back from version 2 to 1: rude"
    assert standing(registry.snapshot(), "bot").history == (0, 1)


def test_what_descends_from_a_rolled_back_version_is_promoted_by_force_only(registry: Registry, tmp_path: Path) -> None:
    for version, parent in ((1, 0), (2, 1), (3, 0)):
        add_version(registry, tmp_path, version, parent=parent)
    promote(registry, "bot", 1, load=loads, **WHY)
    rollback(registry, "bot", load=loads, **WHY)
    with pytest.raises(Refused, match="trained from version 1, which was rolled back"):
        promote(registry, "bot", 2, load=loads, **WHY)
    promote(registry, "bot", 3, load=loads, **WHY)
    assert routes(registry) == [("bot", 3, 1.0)]


def test_a_rollback_goes_further_back_and_can_be_undone(registry: Registry, tmp_path: Path) -> None:
    for version in (1, 2):
        add_version(registry, tmp_path, version)
        promote(registry, "bot", version, load=loads, **WHY)
    rollback(registry, "bot", 0, load=loads, **WHY)
    assert states(registry) == ["live", "retired", "retired"]
    assert standing(registry.snapshot(), "bot").rolled_back == {1, 2}
    with pytest.raises(Refused, match="bot@0 is the first live version of bot; there is nothing to go back to"):
        rollback(registry, "bot", load=loads, **WHY)
    with pytest.raises(RegistryConflict, match="bot@0 is live already"):
        rollback(registry, "bot", 0, load=loads, **WHY)
    rollback(registry, "bot", 2, load=loads, **WHY)
    assert (states(registry), routes(registry)) == (["live", "retired", "live"], [("bot", 2, 1.0)])
    now = standing(registry.snapshot(), "bot")
    assert (now.history, now.rolled_back) == ((0, 2), {1})


def test_a_candidate_is_nothing_to_go_back_to(registry: Registry, tmp_path: Path) -> None:
    add_version(registry, tmp_path, 1)
    with pytest.raises(Refused, match="bot@1 is candidate and never was live"):
        rollback(registry, "bot", 1, load=loads, **WHY)
    with pytest.raises(Refused, match="only a version that was can be pinned"):
        pin(registry, "bot", 1, **WHY)


def test_other_adapters_of_the_tenant_keep_their_routes(registry: Registry, tmp_path: Path) -> None:
    add_bot(registry, "cat")
    given = [Route(tenant="acme", adapter="cat", weight=3.0), Route(tenant="acme", adapter="bot", weight=2.0)]
    revision = registry.snapshot().route_revisions["acme"]
    registry.replace_routes("acme", given, expected_revision=revision, **WHY)
    add_version(registry, tmp_path, 1)
    canary(registry, "bot", 1, 0.5, load=loads, **WHY)
    assert routes(registry) == [("cat", 0, 3.0), ("bot", 0, 1.0), ("bot", 1, 1.0)]
    promote(registry, "bot", 1, load=loads, **WHY)
    assert routes(registry) == [("cat", 0, 3.0), ("bot", 1, 2.0)]
    rollback(registry, "bot", load=loads, **WHY)
    assert routes(registry) == [("cat", 0, 3.0), ("bot", 0, 2.0)]


def test_an_adapter_reached_by_name_alone_changes_without_routes(registry: Registry, tmp_path: Path) -> None:
    add_bot(registry, "cat")
    for version in (1, 2):
        add_version(registry, tmp_path, version, adapter="cat")
    with pytest.raises(Refused, match="there is no share to give"):
        canary(registry, "cat", 1, 0.5, load=loads, **WHY)
    promote(registry, "cat", 2, load=loads, **WHY)
    with pytest.raises(Refused, match="serves the newest"):
        promote(registry, "cat", 1, load=loads, **WHY)
    assert routes(registry) == [("bot", 0, 1.0)]
    assert standing(registry.snapshot(), "cat").live.version == 2
    rollback(registry, "cat", load=loads, **WHY)
    assert states(registry, "cat") == ["live", "candidate", "retired"]


def test_what_was_decided_on_an_older_state_is_a_conflict_that_names_the_change(
    registry: Registry, tmp_path: Path
) -> None:
    add_version(registry, tmp_path, 1)
    seen = registry.revision()
    add_version(registry, tmp_path, 2)
    hold(registry, "bot", actor="ben", reason="looking")
    with pytest.raises(RegistryConflict, match=r"changed at revision 7 \(hold by ben: looking\), after revision 4"):
        promote(registry, "bot", 1, load=loads, seen=seen, **WHY)
    promote(registry, "bot", 1, load=loads, seen=registry.revision(), **WHY)


@pytest.mark.parametrize("decide", [hold, release, lambda *of, **why: pin(of[0], of[1], 1, **why)])
def test_a_decision_on_an_older_state_is_a_conflict_too(
    registry: Registry, tmp_path: Path, decide: Callable[..., int]
) -> None:
    if decide is release:
        hold(registry, "bot", **WHY)
    add_version(registry, tmp_path, 1)
    seen = registry.revision()
    promote(registry, "bot", 1, load=loads, **WHY)
    with pytest.raises(RegistryConflict, match=rf"after revision {seen} that this was decided at"):
        decide(registry, "bot", seen=seen, **WHY)
    decide(registry, "bot", seen=registry.revision(), **WHY)


def test_a_change_while_a_version_loads_is_a_conflict(registry: Registry, tmp_path: Path) -> None:
    add_version(registry, tmp_path, 1)

    def slow(_: Version) -> None:
        with Registry(tmp_path) as other:
            hold(other, "bot", **WHY)

    with pytest.raises(RegistryConflict, match="hold by ana"):
        promote(registry, "bot", 1, load=slow, **WHY)
    assert states(registry) == ["live", "candidate"]


def test_new_candidates_and_gate_reports_conflict_with_nothing(registry: Registry, tmp_path: Path) -> None:
    seen = registry.revision()
    add_version(registry, tmp_path, 1)
    promote(registry, "bot", 1, load=loads, seen=seen, **WHY)
    assert routes(registry) == [("bot", 1, 1.0)]


def test_readers_that_are_behind_are_waited_for_and_named(registry: Registry) -> None:
    registry.acknowledge("collector", 1)
    revision = hold(registry, "bot", **WHY)
    assert [each.reader for each in wait_for_readers(registry, revision, 0.0)] == ["collector"]
    registry.acknowledge("collector", revision)
    assert wait_for_readers(registry, revision, 0.0) == []


def _promote(store: Path) -> str:
    with Registry(store) as registry:
        seen = 4
        try:
            promote(registry, "bot", 1, load=loads, actor="racer", reason="race", seen=seen)
        except RegistryConflict as error:
            return str(error)
    return "promoted"


def test_of_two_processes_one_promotes_and_the_other_is_told_of_it(tmp_path: Path) -> None:
    with Registry(tmp_path) as registry:
        add_bot(registry)
        add_version(registry, tmp_path, 1)
        assert registry.revision() == 4
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        said = sorted(done.result(60) for done in [pool.submit(_promote, tmp_path) for _ in range(2)])
    assert said[1] == "promoted"
    assert said[0].startswith("bot was changed at revision 7 (promote by racer: race), after revision 4")
    assert [row.action for row in read_audit(tmp_path)].count("promote") == 1


class Lives(RuleBasedStateMachine):
    """Any sequence of changes to two adapters of one tenant and one of another."""

    names = st.sampled_from(["bot", "cat", "dog"])
    numbers = st.integers(0, 5)

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(prefix="roundhouse-lives-")
        self.store = Path(self.folder.name)
        self.registry = Registry(self.store)
        self.loaded: set[tuple[str | None, int]] = set()
        self.live = {"bot": 0, "cat": 0, "dog": 0}

    def teardown(self) -> None:
        self.registry.close()
        self.folder.cleanup()

    @initialize()
    def begin(self) -> None:
        for name, tenant in (("bot", "acme"), ("cat", "acme"), ("dog", "zoo")):
            add_bot(self.registry, name, tenant)
            add_version(self.registry, self.store, 1, adapter=name)

    def load(self, version: Version) -> None:
        self.loaded.add((version.adapter, version.version))

    def known(self, name: str, version: int) -> int:
        """A version that there is, but for one in six."""
        there = len(standing(self.registry.snapshot(), name).versions)
        return version if version == 5 else version % there

    def tried(self, change: Callable[..., object], name: str, *args: object, **more: object) -> None:
        """A change, or a refusal that changed nothing."""
        before = self.registry.snapshot()
        try:
            done = change(self.registry, name, *args, **more, **WHY)
        except UserError:
            assert self.registry.snapshot() == before
            return
        assert self.registry.revision() > before.revision
        if isinstance(done, Changed):
            assert done.before == self.live[name]
            self.live[name] = done.after

    @rule(name=names, gate=st.sampled_from([None, PASSED, REFUSED]), back=st.integers(0, 3))
    def train(self, name: str, gate: dict[str, object] | None, back: int) -> None:
        known = len(standing(self.registry.snapshot(), name).versions)
        if known <= 4:
            add_version(self.registry, self.store, known, parent=max(0, known - 1 - back), adapter=name, gate=gate)

    @rule(name=names, version=numbers, force=st.booleans())
    def promote(self, name: str, version: int, force: bool) -> None:
        self.tried(promote, name, self.known(name, version), load=self.load, force=force)

    @rule(name=names, version=numbers, share=st.floats(0.01, 0.99))
    def canary(self, name: str, version: int, share: float) -> None:
        self.tried(canary, name, self.known(name, version), share, load=self.load)

    @rule(name=names, version=numbers)
    def reject(self, name: str, version: int) -> None:
        self.tried(reject, name, self.known(name, version))

    @rule(name=names, version=numbers)
    def retire(self, name: str, version: int) -> None:
        self.tried(retire, name, self.known(name, version))

    @rule(name=names, version=st.none() | numbers)
    def rollback(self, name: str, version: int | None) -> None:
        self.tried(rollback, name, version, load=self.load)

    @rule(name=names, version=st.none() | numbers)
    def pin(self, name: str, version: int | None) -> None:
        self.tried(pin, name, version)

    @rule(name=names, change=st.sampled_from([hold, release]))
    def held(self, name: str, change: Callable[..., object]) -> None:
        self.tried(change, name)

    @invariant()
    def every_adapter_serves_one_version(self) -> None:
        snapshot = self.registry.snapshot()
        served = {(each.adapter, each.version): each.state for each in snapshot.versions}
        for known in snapshot.adapters:
            now = standing(snapshot, known.adapter)
            assert [version.version for version in now.versions] == list(range(len(now.versions)))
            routed = [served[known.adapter, route.version] for route in now.routes]
            assert set(routed) <= {"live", "canary"}
            assert routed.count("live") == (0 if known.adapter == "cat" else 1)
            assert sum(version.state == "canary" for version in now.versions) <= 1
            assert now.live.state == "live"
            assert now.history[-1] == now.live.version == self.live[known.adapter]
            assert now.live.version not in now.rolled_back
            assert served[known.adapter, now.best] in ("live", "retired")
            if known.adapter == "cat":
                # The collector serves it by name: the newest live version.
                live = [version.version for version in now.versions if version.state == "live"]
                assert max(live) == now.live.version
        assert {(route.adapter, route.version) for route in snapshot.routes if route.version} <= self.loaded
        assert {route.adapter for route in snapshot.routes} == {"bot", "dog"}

    @invariant()
    def every_change_has_an_audit_row(self) -> None:
        rows = read_audit(self.store)
        assert [row.revision for row in rows] == list(range(1, self.registry.revision() + 1))
        told = {("bot", 0): "live", ("cat", 0): "live", ("dog", 0): "live"}
        for row in rows:
            if row.action == "register_version":
                told[str(row.adapter), row.version or 0] = "candidate"
            elif row.action == "change_state" and row.detail is not None:
                assert told[str(row.adapter), row.version or 0] == row.detail["from"]
                told[str(row.adapter), row.version or 0] = str(row.detail["to"])
        assert {(each.adapter, each.version): each.state for each in self.registry.snapshot().versions} == told


TestLives = Lives.TestCase
TestLives.settings = settings(max_examples=12, stateful_step_count=25, deadline=None)

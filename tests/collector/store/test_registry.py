"""The registry: legal changes, refused ones, and several processes at once."""

import multiprocessing
import sqlite3
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from collector.errors import StoreError, UserError
from collector.records import Route, Version
from collector.store.registry import READER_STALE_S, Registry
from collector.store.registry_rows import read_audit, read_registry
from collector.store.registry_rules import RegistryConflict

SHA = "ab" * 32
WHY = {"actor": "test", "reason": "because"}


@pytest.fixture
def registry(tmp_path: Path):
    with Registry(tmp_path) as opened:
        opened.register_adapter("bot", tenant="acme", base_model="tiny", **WHY)
        yield opened


def add_version(registry: Registry, store: Path, version: int, parent: int = 0, adapter: str = "bot") -> Version:
    folder = f"adapters/{adapter}/{version}"
    (store / folder).mkdir(parents=True)
    return registry.register_version(
        adapter,
        version,
        parent=parent,
        optimizer_step=10 * version,
        folder=folder,
        sha256=SHA,
        trained_on=[("collector", 1, 40), ("collector-2", 3, 9)],
        **WHY,
    )


def route(version: int, weight: float = 1.0, tenant: str = "acme", adapter: str | None = "bot") -> Route:
    return Route(tenant=tenant, adapter=adapter, version=version, weight=weight)


def test_a_new_adapter_has_the_live_base_model_as_version_0(registry: Registry):
    snapshot = registry.snapshot()
    assert [(a.adapter, a.tenant, a.base_model) for a in snapshot.adapters] == [("bot", "acme", "tiny")]
    (base,) = snapshot.versions
    assert (base.version, base.state, base.parent, base.folder, base.trained_on) == (0, "live", None, None, [])
    assert base.created_at == base.changed_at == snapshot.adapters[0].created_at
    assert snapshot.revision == registry.revision() == 1


def test_a_version_comes_back_as_registered(registry: Registry, tmp_path: Path):
    made = add_version(registry, tmp_path, 1)
    assert made == registry.snapshot().versions[1] == read_registry(tmp_path).versions[1]
    assert made.state == "candidate"
    assert made.trained_on == [("collector", 1, 40), ("collector-2", 3, 9)]
    assert (made.parent, made.optimizer_step, made.folder, made.sha256) == (0, 10, "adapters/bot/1", SHA)


def test_versions_are_dense(registry: Registry, tmp_path: Path):
    add_version(registry, tmp_path, 1)
    with pytest.raises(RegistryConflict, match="the next is 2, not 3"):
        add_version(registry, tmp_path, 3)
    with pytest.raises(RegistryConflict, match="the next is 2, not 1"):
        registry.register_version(
            "bot", 1, parent=0, optimizer_step=1, folder="adapters/bot/3", sha256=SHA, trained_on=[], **WHY
        )
    assert [v.version for v in registry.snapshot().versions] == [0, 1]


def test_a_folder_outside_the_store_is_refused(registry: Registry, tmp_path: Path):
    (tmp_path / "link").symlink_to("/tmp")
    for folder in ("/etc", "../", "link", "missing", "."):
        with pytest.raises(UserError, match="no folder inside"):
            registry.register_version(
                "bot", 1, parent=0, optimizer_step=1, folder=folder, sha256=SHA, trained_on=[], **WHY
            )


def test_two_versions_cannot_share_a_folder(registry: Registry, tmp_path: Path):
    add_version(registry, tmp_path, 1)
    with pytest.raises(RegistryConflict, match="belongs to another version"):
        registry.register_version(
            "bot", 2, parent=1, optimizer_step=2, folder="adapters/bot/1", sha256=SHA, trained_on=[], **WHY
        )


def test_a_parent_is_an_earlier_version(registry: Registry, tmp_path: Path):
    with pytest.raises(UserError, match="parent is 1, expected 0 to 0"):
        add_version(registry, tmp_path, 1, parent=1)


def test_a_state_changes_only_from_the_state_expected(registry: Registry, tmp_path: Path):
    add_version(registry, tmp_path, 1)
    registry.change_state("bot", 1, expected="candidate", to="canary", **WHY)
    with pytest.raises(RegistryConflict, match="is canary, expected candidate"):
        registry.change_state("bot", 1, expected="candidate", to="rejected", **WHY)
    assert registry.change_state("bot", 1, expected="canary", to="live", **WHY).state == "live"
    assert registry.change_state("bot", 1, expected="live", to="retired", **WHY).state == "retired"
    assert registry.change_state("bot", 1, expected="retired", to="live", **WHY).state == "live"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("candidate", "retired"),
        ("canary", "candidate"),
        ("canary", "retired"),
        ("live", "candidate"),
        ("live", "rejected"),
        ("retired", "canary"),
        ("rejected", "candidate"),
        ("rejected", "live"),
        ("live", "live"),
    ],
)
def test_an_illegal_transition_is_refused(registry: Registry, before: str, after: str):
    with pytest.raises(UserError, match=f"{before} cannot become {after}"):
        registry.change_state("bot", 0, expected=before, to=after, **WHY)  # type: ignore[arg-type]


def test_a_missing_version_or_adapter_says_what_there_is(registry: Registry):
    with pytest.raises(UserError, match="bot has versions 0 to 0, not 7"):
        registry.change_state("bot", 7, expected="live", to="retired", **WHY)
    with pytest.raises(UserError, match="no adapter 'cat'"):
        registry.change_state("cat", 0, expected="live", to="retired", **WHY)


def test_the_file_itself_refuses_to_change_a_versions_facts(registry: Registry, tmp_path: Path):
    add_version(registry, tmp_path, 1)
    connection = sqlite3.connect(tmp_path / "registry.sqlite")
    for statement in (
        "UPDATE versions SET sha256 = 'x' WHERE version = 1",
        "UPDATE versions SET folder = 'x' WHERE version = 1",
        "UPDATE versions SET trained_on = '[]'",
        "DELETE FROM versions",
        "DELETE FROM audit",
        "UPDATE audit SET actor = 'nobody'",
        "UPDATE adapters SET tenant = 'other'",
    ):
        with pytest.raises(sqlite3.IntegrityError, match=r"immutable|kept"):
            connection.execute(statement)
    connection.close()


def test_a_gate_report_is_kept_until_the_version_is_served(registry: Registry, tmp_path: Path):
    add_version(registry, tmp_path, 1)
    registry.record_gate("bot", 1, {"verdict": "inconclusive"}, **WHY)
    registry.record_gate("bot", 1, {"verdict": "pass", "lower": -0.0125}, **WHY)
    registry.change_state("bot", 1, expected="candidate", to="live", **WHY)
    assert registry.snapshot().versions[1].gate == {"verdict": "pass", "lower": -0.0125}
    with pytest.raises(RegistryConflict, match="is live"):
        registry.record_gate("bot", 1, {"verdict": "fail"}, **WHY)
    reports = [row.detail for row in read_audit(tmp_path) if row.action == "record_gate"]
    assert reports == [{"gate": {"verdict": "inconclusive"}}, {"gate": {"verdict": "pass", "lower": -0.0125}}]


def test_routes_are_replaced_whole_and_only_from_the_revision_seen(registry: Registry, tmp_path: Path):
    add_version(registry, tmp_path, 1)
    registry.change_state("bot", 1, expected="candidate", to="canary", **WHY)
    first = registry.replace_routes("acme", [route(0, 0.9), route(1, 0.1)], expected_revision=0, **WHY)
    snapshot = registry.snapshot()
    assert snapshot.routes == (route(0, 0.9), route(1, 0.1))
    assert snapshot.route_revisions == {"acme": first} == {"acme": 4}
    with pytest.raises(RegistryConflict, match="changed at revision 4, expected 0"):
        registry.replace_routes("acme", [route(0)], expected_revision=0, **WHY)
    # A change elsewhere is no conflict.
    registry.register_adapter("cat", tenant="other", base_model="tiny", **WHY)
    registry.replace_routes("acme", [], expected_revision=first, **WHY)
    assert registry.snapshot().routes == ()
    assert registry.snapshot().route_revisions == {"acme": 6}


def test_a_route_leads_only_to_a_served_version_of_the_tenants_own_adapter(registry: Registry, tmp_path: Path):
    add_version(registry, tmp_path, 1)

    def replace(tenant: str, *routes: Route) -> None:
        registry.replace_routes(tenant, routes, expected_revision=0, **WHY)

    with pytest.raises(RegistryConflict, match="bot@1 is candidate"):
        replace("acme", route(1))
    with pytest.raises(RegistryConflict, match="bot@2 is unknown"):
        replace("acme", route(2))
    with pytest.raises(UserError, match="other has no adapter 'bot'"):
        replace("other", route(0, tenant="other"))
    with pytest.raises(UserError, match="a route of acme was given for other"):
        replace("other", route(0))
    with pytest.raises(UserError, match="two routes to one version"):
        replace("acme", route(0, 0.5), route(0, 0.5))
    for weight in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(UserError, match="expected more than 0"):
            replace("acme", route(0, weight))
    with pytest.raises(UserError, match="version 3 of no adapter"):
        replace("acme", route(3, adapter=None))
    assert registry.snapshot().routes == ()
    replace("acme", route(0, adapter=None))
    assert registry.snapshot().routes == (route(0, adapter=None),)


def test_a_routed_version_is_not_taken_away(registry: Registry):
    revision = registry.replace_routes("acme", [route(0)], expected_revision=0, **WHY)
    with pytest.raises(RegistryConflict, match="bot@0 still has a route from acme"):
        registry.change_state("bot", 0, expected="live", to="retired", **WHY)
    registry.replace_routes("acme", [], expected_revision=revision, **WHY)
    assert registry.change_state("bot", 0, expected="live", to="retired", **WHY).state == "retired"


def test_every_change_leaves_its_audit_row_and_a_refused_one_none(registry: Registry, tmp_path: Path):
    add_version(registry, tmp_path, 1)
    registry.change_state("bot", 1, expected="candidate", to="live", actor="ann", reason="gate passed")
    with pytest.raises(RegistryConflict):
        registry.change_state("bot", 1, expected="candidate", to="live", **WHY)
    with pytest.raises(UserError, match="say who"):
        registry.change_state("bot", 1, expected="live", to="retired", actor="ann", reason=" ")
    rows = read_audit(tmp_path)
    assert [row.revision for row in rows] == [1, 2, 3]
    assert [row.action for row in rows] == ["register_adapter", "register_version", "change_state"]
    assert (rows[2].actor, rows[2].reason, rows[2].adapter, rows[2].version) == ("ann", "gate passed", "bot", 1)
    assert rows[2].detail == {"from": "candidate", "to": "live"}
    assert rows[2].at == registry.snapshot().versions[1].changed_at
    assert registry.snapshot().versions[1].state == "live"


def test_a_publisher_sees_who_has_not_acknowledged_a_revision(registry: Registry):
    assert registry.behind(1) == []
    registry.acknowledge("collector", 0)
    registry.acknowledge("collector-2", 1)
    assert [(seen.reader, seen.revision) for seen in registry.behind(1)] == [("collector", 0)]
    registry.acknowledge("collector", 1)
    assert registry.behind(1) == []
    # A late acknowledgement of an older revision takes nothing back.
    registry.acknowledge("collector", 0)
    assert registry.behind(1) == []
    registry.replace_routes("acme", [route(0)], expected_revision=0, **WHY)
    assert [seen.reader for seen in registry.behind(2)] == ["collector", "collector-2"]
    registry.leave("collector")
    assert [seen.reader for seen in registry.behind(2)] == ["collector-2"]
    with pytest.raises(UserError, match="the newest is 2"):
        registry.acknowledge("collector", 3)


def test_another_connections_change_is_seen_at_the_next_look(registry: Registry, tmp_path: Path):
    before = registry.revision()
    with Registry(tmp_path) as other:
        revision = 0
        for n in range(5):
            revision = other.replace_routes("acme", [route(0, n + 1.0)], expected_revision=revision, **WHY)
            assert registry.revision() == before + n + 1


def _register_many(store: Path, worker: int, count: int) -> list[int]:
    registered: list[int] = []
    with Registry(store) as registry:
        for n in range(count):
            folder = f"adapters/w{worker}-{n}"
            (store / folder).mkdir(parents=True)
            while True:
                version = sum(v.adapter == "bot" for v in registry.snapshot().versions)
                try:
                    registry.register_version(
                        "bot",
                        version,
                        parent=version - 1,
                        optimizer_step=version,
                        folder=folder,
                        sha256=SHA,
                        trained_on=[],
                        actor=f"w{worker}",
                        reason="race",
                    )
                except RegistryConflict:
                    continue
                registered.append(version)
                break
    return registered


def _add_weight(store: Path, count: int) -> None:
    with Registry(store) as registry:
        for _ in range(count):
            while True:
                seen = registry.snapshot()
                weight = sum(r.weight for r in seen.routes)
                try:
                    registry.replace_routes(
                        "acme",
                        [route(0, weight + 1.0)],
                        expected_revision=seen.route_revisions.get("acme", 0),
                        actor="adder",
                        reason="race",
                    )
                except RegistryConflict:
                    continue
                break


def test_processes_racing_lose_no_update_and_leave_no_gap(tmp_path: Path):
    spawn = multiprocessing.get_context("spawn")
    with Registry(tmp_path) as registry:
        registry.register_adapter("bot", tenant="acme", base_model="tiny", **WHY)
    with ProcessPoolExecutor(4, mp_context=spawn) as pool:
        registering = [pool.submit(_register_many, tmp_path, worker, 15) for worker in range(2)]
        adding = [pool.submit(_add_weight, tmp_path, 20) for _ in range(2)]
        numbers = sorted(n for done in registering for n in done.result(60))
        for done in adding:
            done.result(60)
    assert numbers == list(range(1, 31))
    snapshot = read_registry(tmp_path)
    assert [v.version for v in snapshot.versions] == list(range(31))
    assert snapshot.routes == (route(0, 40.0),)
    assert snapshot.revision == 1 + 30 + 40
    audit = read_audit(tmp_path)
    assert [row.revision for row in audit] == list(range(1, 72))
    assert sum(row.actor == "w0" for row in audit) == sum(row.actor == "w1" for row in audit) == 15


def _open_only(store: Path) -> int:
    with Registry(store) as registry:
        return registry.revision()


def test_processes_may_open_a_new_registry_at_the_same_moment(tmp_path: Path):
    with ProcessPoolExecutor(4, mp_context=multiprocessing.get_context("spawn")) as pool:
        list(pool.map(_open_only, [tmp_path / "warm"] * 4))
        for n in range(10):
            assert list(pool.map(_open_only, [tmp_path / f"s{n}"] * 4)) == [0] * 4


def test_durability_settings_are_what_the_store_promises(registry: Registry, tmp_path: Path):
    connection = registry._connection  # pyright: ignore[reportPrivateUsage]
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA busy_timeout").fetchone() == (10_000,)
    assert connection.execute("PRAGMA foreign_keys").fetchone() == (1,)


def test_a_registry_of_another_layout_is_refused(registry: Registry, tmp_path: Path):
    registry.close()
    connection = sqlite3.connect(tmp_path / "registry.sqlite")
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StoreError, match="schema version 99, expected 1"):
        Registry(tmp_path)
    with pytest.raises(StoreError, match="schema version 99, expected 1"):
        read_registry(tmp_path)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path):
    (tmp_path / "registry.sqlite").write_bytes(b"not a database, " * 100)
    with pytest.raises(StoreError, match="file is not a database"):
        Registry(tmp_path)
    with pytest.raises(StoreError, match="file is not a database"):
        read_registry(tmp_path)


def test_changes_made_together_happen_all_or_not_at_all(registry: Registry, tmp_path: Path):
    add_version(registry, tmp_path, 1)
    before = registry.snapshot()

    def change_twice() -> None:
        with registry.together():
            registry.change_state("bot", 1, expected="candidate", to="live", **WHY)
            assert registry.snapshot().versions[1].state == "live"
            registry.change_state("bot", 1, expected="candidate", to="canary", **WHY)

    with pytest.raises(RegistryConflict, match="is live, expected candidate"):
        change_twice()
    assert registry.snapshot() == before
    with registry.together():
        registry.change_state("bot", 1, expected="candidate", to="live", **WHY)
        registry.record_decision("bot", "promote", version=1, **WHY)
        assert read_registry(tmp_path) == before
    assert [row.action for row in read_audit(tmp_path)][-2:] == ["change_state", "promote"]
    assert read_registry(tmp_path).versions[1].state == "live"


def test_another_thread_waits_until_changes_made_together_are_done(registry: Registry):
    seen: list[int] = []
    other = threading.Thread(target=lambda: seen.append(registry.record_decision("bot", "release", **WHY)))
    with registry.together():
        other.start()
        registry.record_decision("bot", "hold", **WHY)
        time.sleep(0.05)
        assert seen == []
        registry.record_decision("bot", "pin", version=0, **WHY)
    other.join()
    assert seen == [4]


def test_decisions_are_in_the_audit_and_the_newest_one_holds(registry: Registry, tmp_path: Path):
    registry.record_decision("bot", "hold", actor="ana", reason="looking")
    registry.record_decision("bot", "pin", version=0, **WHY)
    snapshot = registry.snapshot()
    assert (snapshot.held["bot"].actor, snapshot.held["bot"].reason, snapshot.pinned) == ("ana", "looking", {"bot": 0})
    registry.record_decision("bot", "release", **WHY)
    registry.record_decision("bot", "pin", **WHY)
    snapshot = read_registry(tmp_path)
    assert (snapshot.held, snapshot.pinned) == ({}, {})
    assert [row.action for row in snapshot.decisions] == ["hold", "pin", "release", "pin"]
    with pytest.raises(UserError, match="no adapter 'cat'"):
        registry.record_decision("cat", "hold", **WHY)
    with pytest.raises(UserError, match="not 3"):
        registry.record_decision("bot", "pin", version=3, **WHY)


def test_the_last_change_is_of_states_routes_and_decisions(registry: Registry, tmp_path: Path):
    registry.register_adapter("cat", tenant="zoo", base_model="tiny", **WHY)
    made = registry.last_change("bot")
    assert made is not None
    assert (made.revision, made.action) == (1, "register_adapter")
    add_version(registry, tmp_path, 1)
    registry.record_gate("bot", 1, {"verdict": "pass"}, **WHY)
    registry.record_decision("cat", "hold", **WHY)
    registry.replace_routes("zoo", [Route(tenant="zoo", adapter="cat")], expected_revision=0, **WHY)
    assert registry.last_change("bot") == made
    revision = registry.replace_routes("acme", [route(0)], expected_revision=0, **WHY)
    changed = registry.last_change("bot")
    assert changed is not None
    assert (changed.revision, changed.action) == (revision, "replace_routes")
    assert registry.last_change("cow") is None


def test_a_reader_that_fell_silent_is_not_waited_for_until_it_says_something_again(registry: Registry, tmp_path: Path):
    registry.acknowledge("living", 0)
    registry.acknowledge("dead", 0)
    with closing(sqlite3.connect(tmp_path / "registry.sqlite")) as other, other:
        other.execute("UPDATE readers SET at = at - ? WHERE reader = 'dead'", (int(READER_STALE_S * 1e6) + 1,))
    assert [seen.reader for seen in registry.behind(1)] == ["living"]
    registry.acknowledge("dead", 0)
    assert [seen.reader for seen in registry.behind(1)] == ["dead", "living"]

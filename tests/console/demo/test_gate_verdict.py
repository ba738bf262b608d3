"""What the gate said, read back from a real registry."""

from pathlib import Path

from collector.records import Route
from collector.store.registry import Registry
from console.demo.gate_verdict import live_version, read_verdict, verdict_line

REPORT: dict[str, object] = {
    "adapter": "demo",
    "version": 1,
    "verdict": "pass",
    "reasons": ["all 2 criteria pass"],
    "numbers": {"held_out_score": 0.875, "tasks": 48, "fixes": 0},
    "criteria": [
        {"name": "proof", "status": "pass", "text": "what is served is what was trained"},
        {
            "name": "score",
            "against": 0,
            "status": "pass",
            "text": "better",
            "candidate": 0.875,
            "other": 0.375,
            "difference": 0.5,
            "lower_bound": 0.375,
            "limit": -0.02,
        },
    ],
    "live": 0,
    "best": 0,
}


def store_with_a_version(store: Path) -> None:
    (store / "adapters" / "demo" / "1").mkdir(parents=True)
    with Registry(store) as registry:
        registry.register_adapter("demo", tenant="demo", base_model="m", actor="t", reason="r")
        registry.register_version(
            "demo",
            1,
            parent=0,
            optimizer_step=5,
            folder="adapters/demo/1",
            sha256="0" * 64,
            trained_on=[],
            actor="t",
            reason="r",
        )


def test_a_version_that_was_judged_has_its_scores_in_a_line(tmp_path: Path) -> None:
    store_with_a_version(tmp_path / "store")
    assert read_verdict(tmp_path / "store", "demo", 1) is None
    with Registry(tmp_path / "store") as registry:
        registry.record_gate("demo", 1, REPORT, actor="t", reason="r")
    verdict = read_verdict(tmp_path / "store", "demo", 1)
    assert verdict is not None
    assert verdict_line(verdict) == "pass: held-out 0.38 → 0.88 (+0.50, at least +0.38)"


def test_without_a_version_nothing_was_judged(tmp_path: Path) -> None:
    store_with_a_version(tmp_path / "store")
    assert read_verdict(tmp_path / "store", "demo", None) is None


def test_the_live_version_is_the_one_that_is_routed_to(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store_with_a_version(store)
    assert live_version(store, "other") == live_version(store, "demo") == 0
    with Registry(store) as registry:
        registry.change_state("demo", 1, expected="candidate", to="live", actor="t", reason="r")
        routes = [Route(tenant="demo", adapter="demo", version=1)]
        registry.replace_routes("demo", routes, expected_revision=0, actor="t", reason="r")
    assert live_version(store, "demo") == 1

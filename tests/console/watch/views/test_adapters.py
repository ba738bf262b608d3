"""What the Adapters screen says of a registry, compared with what was done to it."""

from collections.abc import Generator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import polars as pl
import pytest

from collector.config import PriceConfig
from collector.store.registry import Registry
from collector.store.registry_rows import read_audit
from console.watch.plain.adapters import plain_adapters
from console.watch.views.adapters import AdaptersView, Facts, adapters_view
from tests.trainer.adapter_lines import PASSED, WHY, add_bot, add_version, loads
from trainer.adapters import canary, hold, promote, reject, rollback

NOW = datetime.now(UTC) + timedelta(seconds=5)
REFUSED: dict[str, object] = {
    "verdict": "refuse",
    "reasons": ["score fell"],
    "numbers": {"held_out_score": 0.1},
    "criteria": [
        {"name": "score", "against": 0, "status": "refuse", "text": "0.1 against 0.5", "difference": -0.4},
        {"name": "kl", "status": "pass", "text": "0.01 nats"},
    ],
}
TURNS = {
    "session_id": pl.String,
    "tenant": pl.String,
    "adapter": pl.String,
    "adapter_version": pl.Int64,
    "purpose": pl.String,
    "started_at": pl.Datetime("us", "UTC"),
    "prompt_tokens": pl.Int64,
    "cached_tokens": pl.Int64,
    "completion_tokens": pl.Int64,
}
EVENTS = {
    "at": pl.Datetime("us", "UTC"),
    "kind": pl.String,
    "adapter": pl.String,
    "version": pl.Int64,
    "text": pl.String,
    "detail": pl.String,
}


@pytest.fixture
def registry(tmp_path: Path) -> Generator[Registry]:
    with Registry(tmp_path) as opened:
        add_bot(opened)
        yield opened


def turn(
    session: str, version: int, *, ago_s: float = 60, purpose: str = "traffic", adapter: str = "bot"
) -> tuple[object, ...]:
    return (session, "acme", adapter, version, purpose, NOW - timedelta(seconds=ago_s), 100, None, 20)


def event(
    kind: str, version: int | None, detail: dict[str, object], *, ago_s: float = 0, adapter: str | None = "bot"
) -> tuple[object, ...]:
    return (NOW - timedelta(seconds=ago_s), kind, adapter, version, "said", msgspec.json.encode(detail).decode())


def look(
    registry: Registry,
    store: Path,
    *,
    turns: list[tuple[object, ...]] | None = None,
    events: list[tuple[object, ...]] | None = None,
    feedback: list[tuple[str, int]] | None = None,
    selected: str | None = None,
    prices: PriceConfig | None = None,
) -> AdaptersView:
    facts = Facts(
        registry.snapshot(),
        read_audit(store),
        pl.DataFrame(turns or [], schema=TURNS, orient="row"),
        pl.DataFrame(events or [], schema=EVENTS, orient="row"),
        pl.DataFrame(feedback or [], schema={"writer": pl.String, "seq": pl.Int64}, orient="row"),
        NOW,
        prices or PriceConfig(),
    )
    return adapters_view(facts, selected)


def offer(view: AdaptersView, action: str) -> tuple[int | None, str | None]:
    assert view.selected is not None
    found = next(each for each in view.selected.offers if each.action == action)
    return found.version, found.refused


def test_a_candidate_that_passed_can_be_promoted_and_nothing_else_overridden(
    registry: Registry, tmp_path: Path
) -> None:
    add_version(registry, tmp_path, 1)
    view = look(registry, tmp_path)
    line = view.adapters[0]
    assert (line.state, line.live, line.candidate, line.traffic) == ("candidate", 0, 1, None)
    assert offer(view, "promote") == (1, None)
    assert offer(view, "override")[1] == "the gate passed bot@1; promote it"
    assert offer(view, "rollback")[1] is not None


def test_a_refused_candidate_says_why_and_can_only_be_overridden(registry: Registry, tmp_path: Path) -> None:
    add_version(registry, tmp_path, 1, gate=REFUSED)
    view = look(registry, tmp_path)
    line = view.adapters[0]
    assert line.gate is not None
    assert [each.status for each in line.gate.criteria] == ["refuse", "pass"]
    assert line.reason == "score fell"
    refused = offer(view, "promote")[1]
    assert refused is not None
    assert "the gate's verdict is refuse: score fell" in refused
    assert offer(view, "override") == (1, None)
    assert "✗✓" in "\n".join(plain_adapters(view, 100))


def gates_of_three(
    registry: Registry, store: Path, name: str, second: dict[str, object], third: dict[str, object]
) -> None:
    """@1 is live, @2 judged as given, @3 rejected."""
    add_version(registry, store, 1, adapter=name)
    promote(registry, name, 1, load=loads, **WHY)
    add_version(registry, store, 2, adapter=name, gate=second)
    add_version(registry, store, 3, adapter=name, gate=third)
    registry.change_state(name, 3, expected="candidate", to="rejected", **WHY)


@pytest.mark.parametrize("trial", ["candidate", "canary"])
def test_the_gate_shown_is_that_of_the_version_on_trial_and_not_of_a_newer_one(
    registry: Registry, tmp_path: Path, trial: str
) -> None:
    add_bot(registry, "cat", "zeta")
    gates_of_three(registry, tmp_path, "bot", REFUSED, PASSED)
    gates_of_three(registry, tmp_path, "cat", PASSED, REFUSED)
    if trial == "canary":
        for name in ("bot", "cat"):
            canary(registry, name, 2, 0.1, load=loads, force=True, **WHY)
    lines = look(registry, tmp_path).adapters
    assert [(each.adapter, each.state, each.candidate) for each in lines] == [("bot", trial, 2), ("cat", trial, 2)]
    gates = [each.gate for each in lines if each.gate is not None]
    assert [(each.version, each.verdict) for each in gates] == [(2, "refuse"), (2, "pass")]
    assert [each.reason for each in lines] == ["score fell", None]


def test_without_a_candidate_the_newest_version_that_was_judged_is_named(registry: Registry, tmp_path: Path) -> None:
    gates_of_three(registry, tmp_path, "bot", PASSED, REFUSED)
    reject(registry, "bot", 2, **WHY)
    view = look(registry, tmp_path)
    gate = view.adapters[0].gate
    assert gate is not None
    assert (view.adapters[0].state, gate.version, view.adapters[0].reason) == ("rejected", 3, "score fell")
    assert "  gate of @3: refuse ✗✓" in plain_adapters(view, 100)


def test_a_candidate_that_was_not_judged_has_no_gate_and_no_other_versions_either(
    registry: Registry, tmp_path: Path
) -> None:
    add_version(registry, tmp_path, 1)
    promote(registry, "bot", 1, load=loads, **WHY)
    add_version(registry, tmp_path, 2, gate=None)
    view = look(registry, tmp_path)
    assert (view.adapters[0].candidate, view.adapters[0].gate) == (2, None)
    assert "  gate of @2: not judged" in plain_adapters(view, 100)


def test_marks_of_versions_follow_what_was_done(registry: Registry, tmp_path: Path) -> None:
    for number in (1, 2):
        add_version(registry, tmp_path, number)
        promote(registry, "bot", number, load=loads, **WHY)
    rollback(registry, "bot", load=loads, **WHY)
    view = look(registry, tmp_path)
    assert view.selected is not None
    assert [each.mark for each in view.selected.versions] == ["was_live", "live", "rolled_back"]
    assert view.adapters[0].state == "held"
    assert offer(view, "hold")[1] is not None
    assert offer(view, "release") == (None, None)
    assert view.audit[0].action == "hold"


def test_a_canary_shows_its_share_and_its_sessions_are_not_the_live_versions(
    registry: Registry, tmp_path: Path
) -> None:
    add_version(registry, tmp_path, 1)
    canary(registry, "bot", 1, 0.25, load=loads, **WHY)
    turns = [
        turn("a", 0),
        turn("b", 1),
        turn("c", 0, purpose="eval"),
        turn("d", 0, ago_s=7200),
        turn("e", 3, adapter="x"),
    ]
    view = look(registry, tmp_path, turns=turns)
    assert view.selected is not None
    assert (view.adapters[0].state, view.adapters[0].canary_share) == ("canary", 0.25)
    assert (view.selected.sessions, view.selected.session_share) == (1, 1 / 3)
    assert view.adapters[0].traffic == 2 / 3
    assert sorted((each.version, each.share) for each in view.selected.routes) == [(0, 0.75), (1, 0.25)]


def test_tokens_that_nobody_counted_are_not_zero(registry: Registry, tmp_path: Path) -> None:
    view = look(registry, tmp_path, turns=[turn("a", 0), turn("a", 0)])
    assert view.selected is not None
    tokens = view.selected.tokens
    assert (tokens.turns, tokens.prompt, tokens.cached, tokens.completion) == (2, 200, None, 40)


def test_the_newest_proof_of_each_worker_stands(registry: Registry, tmp_path: Path) -> None:
    add_version(registry, tmp_path, 1)
    events = [
        event("proof", 1, {"verdict": "undecided", "worker": "w1"}, ago_s=30),
        event("proof", 1, {"verdict": "proved", "worker": "w1"}, ago_s=20),
        event("proof", 1, {"verdict": "refuted", "worker": "w2"}, ago_s=10),
        event("proof", 1, {"verdict": "proved", "worker": "w1"}, adapter="other"),
    ]
    view = look(registry, tmp_path, events=events)
    assert view.selected is not None
    assert [(each.worker, each.verdict) for each in view.selected.proofs] == [("w2", "refuted"), ("w1", "proved")]


def test_a_cycle_at_work_is_told_from_one_that_ended(registry: Registry, tmp_path: Path) -> None:
    add_version(registry, tmp_path, 1, gate=None)
    begin = event(
        "cycle",
        None,
        {"cycle": 4, "stage": "begin", "state": "begun", "started_by": "12 feedback", "feedback_seen": {"w": 3}},
        ago_s=50,
        adapter=None,
    )
    old = event("cycle", 0, {"cycle": 3, "stage": "gate", "state": "failed"}, ago_s=90)
    running = [
        old,
        begin,
        event("cycle", 1, {"cycle": 4, "stage": "train", "state": "done"}, ago_s=40),
        event("cycle", 1, {"cycle": 4, "stage": "evaluate", "state": "begun"}, ago_s=30),
    ]
    view = look(registry, tmp_path, events=running, feedback=[("w", 2), ("w", 4), ("new", 1)])
    assert view.cycle is not None
    states = {each.stage: each.state for each in view.cycle.stages}
    assert (states["train"], states["evaluate"], states["gate"], view.cycle.ended_at) == (
        "done",
        "begun",
        "waits",
        None,
    )
    assert view.cycle.new_feedback == 2
    assert view.adapters[0].state == "gate"
    ended = [
        *running,
        event(
            "cycle", None, {"cycle": 4, "stage": "end", "state": "done", "endings": {"bot": "refused"}}, adapter=None
        ),
    ]
    after = look(registry, tmp_path, events=ended)
    assert after.cycle is not None
    assert (after.cycle.ended_at, after.cycle.endings) == (NOW, {"bot": "refused"})
    assert after.adapters[0].state == "candidate"


def test_workers_stand_as_they_were_last_seen(registry: Registry, tmp_path: Path) -> None:
    ranks = [{"rank": 0, "running": 2, "waiting": 1, "kv_usage": 0.5}, {"rank": 1, "running": 3, "kv_usage": 0.75}]
    events = [
        event("engine", None, {"worker": "http://a", "fault": "refused", "ranks": None}, ago_s=9, adapter=None),
        event(
            "engine",
            None,
            {"worker": "http://a", "fault": None, "turns": 4, "loaded": ["bot@1"], "slots": 2, "ranks": ranks},
            adapter=None,
        ),
        event("engine", None, {"worker": "http://b", "fault": "connection refused"}, adapter=None),
    ]
    events.append(event("engine", None, {"turns": 3}, adapter=None))
    view = look(registry, tmp_path, events=events)
    assert view.workers_unreadable == 1
    second, first = view.workers
    assert (first.worker, first.fault, first.turns, first.loaded, first.slots) == ("http://a", None, 4, ("bot@1",), 2)
    assert (first.running, first.waiting, first.kv_usage, first.cache_hit_rate) == (5, None, 0.75, None)
    assert (second.fault, second.turns, second.loaded, second.kv_usage) == ("connection refused", None, None, None)


def test_the_busiest_worker_comes_first_and_every_mean_stands_with_its_worst(
    registry: Registry, tmp_path: Path
) -> None:
    def worker(name: str, turns: int, waiting: float, kv: float, cache: float | None) -> tuple[object, ...]:
        rank = {"waiting": waiting, "kv_usage": kv, "cache_hit_rate": cache, "tokens_per_second": 40.0 * turns}
        return event("engine", None, {"worker": name, "turns": turns, "ranks": [rank]}, adapter=None)

    workers = [worker("a", 1, 0, 0.5, 0.9), worker("b", 2, 3, 0.25, None), worker("c", 3, 0, 0.75, 0.3)]
    gone = event("engine", None, {"worker": "d", "fault": "refused"}, adapter=None)
    view = look(registry, tmp_path, events=[*workers, gone])
    assert [each.worker for each in view.workers] == ["d", "b", "c", "a"]
    fleet = view.fleet
    assert fleet is not None
    assert (fleet.answering, fleet.unreached, fleet.turns, fleet.turns_most) == (3, 1, 6, 3)
    assert (fleet.waiting, fleet.waiting_most, fleet.kv_mean, fleet.kv_max) == (3, 3, 0.5, 0.75)
    assert (fleet.cache_mean, fleet.cache_min) == (None, None)
    assert (fleet.tokens_per_second, fleet.tokens_per_second_least) == (240, 40)
    assert "workers: 3 answer, 1 not reached: turns 6 (most 3)" in "\n".join(plain_adapters(view, 240))
    assert look(registry, tmp_path, events=workers[:1]).fleet is None


def test_cost_is_known_where_every_kind_of_token_used_has_a_price(registry: Registry, tmp_path: Path) -> None:
    def cost(prices: PriceConfig) -> float | None:
        view = look(registry, tmp_path, turns=[turn("a", 0), turn("a", 0)], prices=prices)
        assert view.selected is not None
        return view.selected.cost

    # 200 prompt and 40 completion tokens, none known to be cached.
    assert cost(PriceConfig(prompt=1.0, completion=5.0)) == 200e-6 + 200e-6
    assert cost(PriceConfig(prompt=1.0)) is None


def test_no_cycle_and_no_adapter_are_said(tmp_path: Path) -> None:
    with Registry(tmp_path) as empty:
        view = look(empty, tmp_path)
    assert (view.adapters, view.selected, view.cycle) == ((), None, None)
    text = "\n".join(plain_adapters(view, 80))
    assert "no adapters yet" in text
    assert "none has begun" in text


def test_the_text_never_exceeds_its_width_and_holds_no_control_character(registry: Registry, tmp_path: Path) -> None:
    hold(registry, "bot", actor="mallory\x1b[2J", reason="x" * 300)
    lines = plain_adapters(look(registry, tmp_path), 60)
    assert all(len(line) <= 60 and "\x1b" not in line for line in lines)


def test_the_view_is_json_of_itself(registry: Registry, tmp_path: Path) -> None:
    add_version(registry, tmp_path, 1, gate=REFUSED)
    view = look(registry, tmp_path, selected="bot")
    assert msgspec.json.decode(msgspec.json.encode(view), type=AdaptersView) == view


def test_an_adapter_is_live_only_where_turns_of_users_came_to_it_lately(registry: Registry, tmp_path: Path) -> None:
    add_bot(registry, "other", "zeta")
    old, tried = turn("s", 0, ago_s=601), turn("s", 0, purpose="eval")
    for turns in ([], [old], [tried]):
        lines = look(registry, tmp_path, turns=turns).adapters
        assert [(line.adapter, line.state, line.traffic) for line in lines] == [
            ("bot", "parked", None), ("other", "parked", None),
        ]  # fmt: skip
    lines = look(registry, tmp_path, turns=[old, turn("s", 0, ago_s=599)]).adapters
    assert [(line.adapter, line.state, line.traffic) for line in lines] == [
        ("bot", "live", 1.0), ("other", "parked", 0.0),
    ]  # fmt: skip


def test_the_text_says_why_the_cycle_began_and_with_what_the_gate_compares(registry: Registry, tmp_path: Path) -> None:
    begin = {"cycle": 1, "stage": "begin", "state": "begun", "started_by": "asked for"}
    began = event("cycle", None, begin, ago_s=60)
    lines = plain_adapters(look(registry, tmp_path, events=[began]), 120)
    since = NOW - timedelta(seconds=60)
    assert lines[1] == f"cycle 1: begun; why it began: asked for, since {since:%H:%M:%SZ}"
    assert "  the gate compares a candidate with the live @0" in lines

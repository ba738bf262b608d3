"""What the required checks are given: the adapter's own latest turns, however busy others are, and no ended version."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from checks.config import ChecksConfig
from checks.readers.store_window import StoreWindow, TurnsOf, Window
from collector.records import Event, Turn, VersionState
from collector.store.reader import Reader
from collector.store.registry import Registry
from collector.store.writer import Writer
from trainer.adapters import add_adapter
from trainer.cycle.gate_findings import gate_findings

START = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


def turn(number: int, tenant: str, adapter: str | None) -> Turn:
    at = START + timedelta(seconds=number)
    return Turn(
        turn_id=f"t{number}",
        session_id=f"s{number}",
        turn=1,
        tenant=tenant,
        adapter=adapter,
        adapter_version=1,
        api="chat",
        started_at=at,
        finished_at=at,
        prompt_ids=[1],
        completion_ids=[2],
        sampled_logprobs=[-0.5],
        weight_versions=[],
    )


def test_a_busy_tenant_does_not_push_another_ones_turns_out_of_the_window(tmp_path: Path) -> None:
    with Writer(tmp_path, "collector") as writer:
        for each in (
            turn(1, "small", "bot"),
            turn(2, "small", None),
            turn(3, "small", "second"),
            *(turn(number, "busy", "bot") for number in range(4, 12)),
        ):
            writer.append(each).result(10)
    window = StoreWindow(tmp_path, Window(turns=2), of=TurnsOf("small", "bot"))
    with Reader(tmp_path).snapshot() as snapshot:
        log = window.log(snapshot, START)
        assert [each for batch in log.batches(["turn_id"]) for each in batch.turns["turn_id"]] == ["t1", "t2"]


def test_turns_that_began_before_the_time_given_are_not_judged(tmp_path: Path) -> None:
    bad = msgspec.structs.replace(turn(1, "small", "bot"), sampled_logprobs=[])
    with Writer(tmp_path, "collector") as writer:
        for each in (bad, turn(2, "small", "bot")):
            writer.append(each).result(10)

    def lengths(since: datetime | None) -> str:
        now = START + timedelta(hours=1)
        [found] = gate_findings(
            tmp_path, ["length-mismatch"], ChecksConfig(), tenant="small", adapter="bot", now=now, since=since
        )
        return found.status

    assert lengths(None) == "fail"
    assert lengths(START + timedelta(seconds=2)) == "ok"


def proof(version: int, verdict: str) -> Event:
    return Event(at=START, kind="proof", adapter="bot", version=version, detail={"verdict": verdict, "worker": "w"})


def served_adapter(store: Path) -> str:
    [found] = gate_findings(
        store, ["served-adapter"], ChecksConfig(), tenant="acme", adapter="bot", now=START + timedelta(hours=1)
    )
    return found.status


def registered(store: Path, registry: Registry, version: int, state: VersionState) -> None:
    folder = f"adapters/bot/{version}"
    (store / folder).mkdir(parents=True)
    registry.register_version(
        "bot",
        version,
        parent=0,
        optimizer_step=1,
        folder=folder,
        sha256="5" * 64,
        trained_on=[],
        actor="t",
        reason="t",
    )
    if state != "candidate":
        registry.change_state("bot", version, expected="candidate", to=state, actor="t", reason="t")


def test_a_candidate_is_not_refused_for_the_proof_that_refuted_an_earlier_one(tmp_path: Path) -> None:
    with Writer(tmp_path, "trainer") as writer, Registry(tmp_path) as registry:
        add_adapter(registry, "bot", tenant="acme", base_model="tiny", actor="t", reason="t")
        registered(tmp_path, registry, 1, "rejected")
        registered(tmp_path, registry, 2, "candidate")
        for event in (proof(1, "refuted"), proof(2, "proved")):
            writer.append(event).result(10)
        assert served_adapter(tmp_path) == "ok"
        # Its own refutation counts, and what nobody proved has no data.
        writer.append(proof(2, "refuted")).result(10)
        assert served_adapter(tmp_path) == "fail"


def test_the_proof_of_an_ended_version_alone_says_nothing_of_the_candidate(tmp_path: Path) -> None:
    with Writer(tmp_path, "trainer") as writer, Registry(tmp_path) as registry:
        add_adapter(registry, "bot", tenant="acme", base_model="tiny", actor="t", reason="t")
        registered(tmp_path, registry, 1, "rejected")
        writer.append(proof(1, "proved")).result(10)
        assert served_adapter(tmp_path) == "no_data"

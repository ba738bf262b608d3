"""Work collected from real stores: whose turns, which carry loss, how much it weighs, and that nothing goes missing."""

import random
from datetime import timedelta
from pathlib import Path

import msgspec
import numpy as np
import pytest

from collector.errors import UserError
from collector.records import Record, Turn
from collector.store.reader import Reader
from collector.store.writer import Writer
from tests.trainer.batch.captured import (
    LATER,
    NOON,
    V0,
    V1,
    collected,
    config,
    event,
    judged,
    left_out,
    pair,
    passed,
    registry,
    stored,
    trained,
    turn,
    version,
)
from trainer.adapter_config import AdapterConfig
from trainer.batch.batch_config import BatchConfig
from trainer.batch.collect import TABLES, collect_work
from trainer.batch.work import WorkReport, work_report
from trainer.config import TrainerConfig
from trainer.rows import training_rows
from trainer.training_config import TrainingConfig


def test_two_sessions_are_compared_with_each_other(tmp_path: Path) -> None:
    work = collected(stored(tmp_path / "s", *pair("p", "q")))["a"]
    assert trained(work) == {"p/1": 1.0, "q/1": -1.0}
    batch = work.batches[0]
    assert (batch.sessions, batch.reward_mean, batch.staleness) == (2, 0.5, {"p/1": 0, "q/1": 0})
    assert [reward.value for reward in batch.rewards] == [1.0, 0.0]
    assert (work.new_feedback, work.baseline) == (2, 0.5)
    assert passed(work) == [2, 2, 2, 2, 2]


def test_tenants_never_see_each_other_though_their_sessions_have_one_name(tmp_path: Path) -> None:
    records: list[Record] = [*pair("p", "q")]
    for name, value in (("p", 0.25), ("q", 1.0)):
        records.append(turn(name, tenant="beta", adapter="b", turn_id=f"beta-{name}", completion=[9, 9, 9]))
        records.append(judged(name, value, tenant="beta"))
    records.append(turn("r", tenant="gamma"))
    settings = TrainerConfig(
        adapters={"a": AdapterConfig(tenant="acme"), "b": AdapterConfig(tenant="beta")},
        batch=BatchConfig(min_sessions=1, max_user_share=1.0),
    )
    known = registry()
    beta = msgspec.structs.replace(known.adapters[0], adapter="b", tenant="beta")
    versions = [*known.versions, *(version(each.version, step=each.optimizer_step, adapter="b") for each in (V0, V1))]
    known = known._replace(adapters=(*known.adapters, beta), versions=tuple(versions))
    work = collected(stored(tmp_path / "s", *records), settings, known=known, steps={"a": 10, "b": 10})
    assert trained(work["a"]) == {"p/1": 1.0, "q/1": -1.0}
    assert trained(work["b"]) == {"beta-p": -0.75, "beta-q": 0.75}
    assert [passed(each)[0] for each in work.values()] == [2, 2], "gamma's turn is nobody's"


def test_evaluation_and_probes_are_never_trained_and_canaries_are(tmp_path: Path) -> None:
    records: list[Record] = [*pair("p", "q", "r", "s")]
    for place, purpose in enumerate(("traffic", "eval", "probe", "canary")):
        records[2 * place] = turn("pqrs"[place], at_s=place, purpose=purpose)
    work = collected(stored(tmp_path / "s", *records))["a"]
    assert trained(work) == {"p/1": 1.0, "s/1": -1.0}
    assert left_out(work) == {"purpose_eval": 1, "purpose_probe": 1}


def test_a_superseded_judgement_counts_not_at_all(tmp_path: Path) -> None:
    again = judged("p", 0.0, feedback_id="again", supersedes="acme-p")
    work = collected(stored(tmp_path / "s", *pair("p", "q", "r"), again))["a"]
    # Rewards 0, 0, 1: each against the mean of the other two.
    assert trained(work) == {"p/1": -0.5, "q/1": -0.5, "r/1": 1.0}
    assert work.funnel.ignored_feedback == {"superseded": 1}


def test_an_open_session_waits_for_its_window(tmp_path: Path) -> None:
    store = stored(tmp_path / "s", *pair("p", "q"), turn("r", at_s=7200), judged("r", 1.0))
    early = collected(store, now=NOON + timedelta(seconds=2 * 3600))["a"]
    assert (left_out(early), sorted(trained(early))) == ({"open_session": 1}, ["p/1", "q/1"])
    assert sorted(trained(collected(store)["a"])) == ["p/1", "q/1", "r/1"]


def test_a_session_nobody_judged_is_missing_and_enters_no_mean(tmp_path: Path) -> None:
    work = collected(stored(tmp_path / "s", *pair("p", "q"), turn("r"), turn("t"), judged("t", None, text="hm")))["a"]
    assert (trained(work), left_out(work)) == ({"p/1": 1.0, "q/1": -1.0}, {"no_reward": 2})
    assert work.funnel.ignored_feedback == {"no_value": 1}


def test_turns_without_loss_stay_in_their_session_as_context(tmp_path: Path) -> None:
    whole = [
        turn("p", 1, prompt=[1], completion=[2]),
        turn("p", 2, prompt=[1, 2, 3], completion=[4], trainable=False, untrainable_reason="top_p"),
        turn("p", 3, prompt=[1, 2, 3, 4, 5], completion=[6, 7]),
    ]
    work = collected(stored(tmp_path / "s", *whole, judged("p", 1.0), *pair("q", "r")))["a"]
    batch = work.batches[0]
    session = [each for each in batch.turns if each.session_id == "p"]
    assert [(each.turn, each.untrainable_reason) for each in session] == [(1, None), (2, "top_p"), (3, None)]
    made = training_rows(batch.turns)
    row = next(row for row in made.rows if row.session_id == "p")
    assert row.ids.tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert [(run.turn_id, run.start, run.end) for run in row.runs] == [("p/1", 1, 2), ("p/3", 5, 7)]
    assert {run.turn_id for row in made.rows for run in row.runs} == batch.advantages.keys() == batch.staleness.keys()
    assert left_out(work) == {"top_p": 1}


def test_the_base_model_s_turns_are_version_0_of_the_only_adapter(tmp_path: Path) -> None:
    first = turn("p", 1, prompt=[1], completion=[2], adapter=None, adapter_version=None)
    second = turn("p", 2, prompt=[1, 2, 3], completion=[4], at_s=5)
    store = stored(tmp_path / "s", first, second, judged("p", 1.0), *pair("q", "r"))
    batch = collected(store, config(max_staleness=10))["a"].batches[0]
    assert (batch.staleness["p/1"], batch.staleness["p/2"]) == (10, 0)
    found = next(each for each in batch.turns if each.turn_id == "p/1")
    assert (found.adapter, found.adapter_version) == ("a", 0)
    assert len(training_rows([each for each in batch.turns if each.session_id == "p"]).rows) == 1
    two = collected(store, config("a", "b"))
    assert left_out(two["a"]) == {"ambiguous_adapter": 1}
    assert left_out(two["b"]) == {"other_adapter": 3, "ambiguous_adapter": 1}


def test_an_adapter_without_a_version_trains_from_the_base_model_s_turns(tmp_path: Path) -> None:
    records = pair("p", "q", adapter=None, adapter_version=None)
    work = collected(stored(tmp_path / "s", *records), known=registry()._replace(adapters=(), versions=()), steps={})
    assert (trained(work["a"]), work["a"].batches[0].staleness) == ({"p/1": 1.0, "q/1": -1.0}, {"p/1": 0, "q/1": 0})


def test_another_base_model_s_turns_are_not_its_own(tmp_path: Path) -> None:
    records = [*pair("p", "q", base_model="base"), turn("r", base_model="older"), judged("r", 1.0)]
    store = stored(tmp_path / "s", *records)
    assert left_out(collected(store)["a"]) == {"other_base_model": 1}
    assert left_out(collected(store, known=registry(base_model="/models/base"))["a"]) == {"other_base_model": 1}


def test_a_version_that_nobody_registered_has_no_staleness(tmp_path: Path) -> None:
    records = [turn("p", adapter_version=7), turn("q", adapter_version=None), judged("p", 1.0), judged("q", 0.0)]
    assert left_out(collected(stored(tmp_path / "s", *records))["a"]) == {"unknown_version": 2}


def test_turns_staler_than_the_bound_are_left_out_by_the_step_they_would_be_in(tmp_path: Path) -> None:
    names = ("p", "q", "r", "s", "t", "u")
    store = stored(tmp_path / "s", *pair(*names))
    work = collected(store, config(batch_sessions=2, max_staleness=4), steps={"a": 13})["a"]
    assert [dict(batch.staleness) for batch in work.batches] == [{"p/1": 3, "q/1": 3}, {"r/1": 4, "s/1": 4}]
    assert left_out(work) == {"too_stale": 2}
    assert left_out(collected(store, config(max_staleness=2), steps={"a": 13})["a"]) == {"too_stale": 6}


def test_every_update_of_the_batches_before_makes_a_batch_staler(tmp_path: Path) -> None:
    """Three updates a batch: the second batch starts from weights that are three steps further on, not one."""
    store = stored(tmp_path / "s", *pair("p", "q", "r", "s", "t", "u"))
    settings = msgspec.structs.replace(
        config(batch_sessions=2, max_staleness=4), training=TrainingConfig(updates_per_batch=3)
    )
    work = collected(store, settings)["a"]
    assert [dict(batch.staleness) for batch in work.batches] == [{"p/1": 0, "q/1": 0}, {"r/1": 3, "s/1": 3}]
    assert left_out(work) == {"too_stale": 2}


def test_what_began_before_the_time_given_carries_no_loss(tmp_path: Path) -> None:
    store = stored(tmp_path / "s", *pair("p", "q", "r", "s"))
    work = collected(store, config(since=NOON + timedelta(seconds=2)))["a"]
    assert (sorted(trained(work)), left_out(work)) == (["r/1", "s/1"], {"before_since": 2})


def test_a_time_without_its_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="add Z for UTC"):
        BatchConfig(since=NOON.replace(tzinfo=None))


def test_weights_older_than_the_version_they_continue_from_are_refused(tmp_path: Path) -> None:
    store = stored(tmp_path / "s", *pair("p", "q"))
    with pytest.raises(UserError, match=r"a@1 was saved at optimizer step 10, .* stand at 9.* negative staleness"):
        collected(store, steps={"a": 9})


def test_a_rejected_version_s_data_comes_back_and_its_own_turns_are_off_the_line(tmp_path: Path) -> None:
    store = stored(tmp_path / "s", *pair("p", "q", "r", "s"), turn("t", adapter_version=2), judged("t", 1.0))
    # Seqs 1 and 3 are the turns of p and q, 5 and 7 those of r and s.
    first = version(1, parent=0, step=10, trained_on=[("collector", 1, 1), ("collector", 3, 3)])
    second = version(2, parent=1, step=20, state="rejected", trained_on=[("collector", 5, 5), ("collector", 7, 7)])
    work = collected(store, known=registry(V0, first, second))["a"]
    assert (sorted(trained(work)), left_out(work)) == (["r/1", "s/1"], {"already_trained": 2, "off_lineage": 1})
    second = msgspec.structs.replace(second, state="live")
    forward = collected(store, config(max_staleness=20), known=registry(V0, first, second), steps={"a": 20})["a"]
    assert left_out(forward)["already_trained"] == 4
    back = collected(store, known=registry(V0, first, second), parents={"a": first})["a"]
    assert sorted(trained(back)) == ["r/1", "s/1"]


def test_a_turn_s_own_reward_is_added_to_its_session_s(tmp_path: Path) -> None:
    first = [turn("p", 1), turn("p", 2, prompt=[5]), judged("p", 1.0), judged("p/2", 0.0)]
    second = [turn("q", 1), turn("q", 2, prompt=[5]), judged("q/1", 1.0), judged("q/2", 0.5)]
    third = [turn("r", 1), judged("r", 0.0)]
    work = collected(stored(tmp_path / "s", *first, *second, *third))["a"]
    # Sessions: p 1 against r 0. Turns: p/2's 0 against the mean of q's 1 and 1/2; q's each against p's 0.
    assert trained(work) == {"p/1": 1.0, "p/2": 1.0 - 0.75, "q/1": 1.0, "q/2": 0.5, "r/1": -1.0}
    assert (work.new_feedback, work.baseline) == (5, 0.5)


def test_groups_are_compared_within_and_with_what_was_trained_before(tmp_path: Path) -> None:
    records: list[Record] = []
    for place, (name, value) in enumerate((("p", 1.0), ("q", 0.0), ("r", 1.0), ("s", 0.5))):
        group = None if name == "s" else "g"
        records += [turn(name, at_s=place, group_id=group), judged(name, value)]
    store = stored(tmp_path / "s", *records)
    first = version(1, parent=0, step=10, trained_on=[("collector", 1, 3)])
    work = collected(store, config(scale="none"), known=registry(V0, first))["a"]
    # r against its whole group, 1 - 2/3; s against r alone, for p and q are of an earlier batch.
    assert trained(work) == pytest.approx({"r/1": 1 / 3, "s/1": -0.5})
    assert left_out(work) == {"already_trained": 2}
    assert work.baseline == 0.75


def test_groups_of_one_reward_are_dropped_and_counted(tmp_path: Path) -> None:
    records: list[Record] = []
    for name, group, value in (("p", "g", 1.0), ("q", "g", 1.0), ("r", "h", 1.0), ("s", "h", 0.0)):
        records += [turn(name, group_id=group), judged(name, value)]
    work = collected(stored(tmp_path / "s", *records))["a"]
    assert (trained(work), left_out(work)) == ({"r/1": 1.0, "s/1": -1.0}, {"zero_variance": 2})
    assert work.funnel.zero_variance_groups == 1
    assert work.baseline == 0.5, "a reward enters the baseline once, with the batch that is trained on it"


def test_everyone_pleased_gives_no_gradient(tmp_path: Path) -> None:
    names = ("p", "q", "r")
    records = [*map(turn, names), *(judged(name, 0.3 + 1e-9 * place) for place, name in enumerate(names))]
    work = collected(stored(tmp_path / "s", *records))["a"]
    assert (work.batches, left_out(work), work.baseline) == ((), {"zero_variance": 3}, None)
    assert work.funnel.share_by_user == {}


def test_a_single_session_waits_or_is_seen(tmp_path: Path) -> None:
    store = stored(tmp_path / "s", turn("p"), judged("p", 1.0))
    assert left_out(collected(store)["a"]) == {"no_baseline": 1}
    waits = collected(store, config(min_sessions=2), baselines={"a": 0.25})["a"]
    assert (left_out(waits), waits.baseline, waits.new_feedback) == ({"too_few_sessions": 1}, 0.25, 0)
    alone = collected(store, baselines={"a": 0.25})["a"]
    assert (trained(alone), alone.funnel.batch_sessions) == ({"p/1": 0.75}, [1])
    assert alone.baseline == pytest.approx(0.9 * 0.25 + 0.1 * 1.0)


def test_an_event_keeps_a_turn_and_what_extends_it_out(tmp_path: Path) -> None:
    line = [
        turn("p", 1, prompt=[1], completion=[2]),
        turn("p", 2, prompt=[1, 2, 3], completion=[4], parent_turn_id="p/1"),
        turn("p", 3, prompt=[1, 2, 3, 4, 5], completion=[6], parent_turn_id="p/2"),
        turn("p", 4, prompt=[8], completion=[6]),
    ]
    records = [*line, judged("p", 1.0), *pair("q", "r", "s"), event("redacted", "p", 2), event("opt_out", "s")]
    work = collected(stored(tmp_path / "s", *records, event("compaction", "q", 1)))["a"]
    assert left_out(work) == {"event_redacted": 2, "event_opt_out": 1}
    assert sorted(trained(work)) == ["p/1", "p/4", "q/1", "r/1"]


def test_a_session_s_reward_goes_to_the_configured_branches(tmp_path: Path) -> None:
    branches = [
        turn("p", 1, prompt=[1], completion=[2]),
        turn("p", 2, prompt=[9], completion=[3], link="subagent"),
        turn("p", 3, prompt=[9, 3, 4], completion=[5], parent_turn_id="p/2", link="extends"),
        turn("p", 4, prompt=[1, 2, 6], completion=[7], parent_turn_id="p/1", link="extends"),
        turn("p", 5, prompt=[6], completion=[7], link="break"),
    ]
    store = stored(tmp_path / "s", *branches, judged("p", 1.0), turn("q"), judged("q", 0.0))

    def reached(rule: str) -> list[str]:
        return sorted(name for name in trained(collected(store, config(session_reward_to=rule))["a"]) if name < "q")

    assert reached("all") == ["p/1", "p/2", "p/3", "p/4", "p/5"]
    assert reached("main") == ["p/1", "p/4", "p/5"]
    assert reached("last_branch") == ["p/5"]
    assert left_out(collected(store, config(session_reward_to="main"))["a"]) == {"other_branch": 2}
    with Writer(store, "collector") as journal:
        for declared in (event("compaction", "p", 2), event("subagent", "p", 5)):
            journal.append(declared).result(timeout=30)
    assert reached("main") == ["p/1", "p/2", "p/3", "p/4"], "a declared event wins over what was believed"


def test_trained_on_names_exactly_the_turns_with_loss(tmp_path: Path) -> None:
    folder = stored(tmp_path / "s", *pair("p", "q"), turn("p", 2), turn("p", 3), turn("p", 4, trainable=False))
    stored(folder, turn("r"), judged("r", 1.0), writer="other")
    work = collected(folder)["a"]
    assert work.batches[0].trained_on == (
        ("collector", 1, 1),
        ("collector", 3, 3),
        ("collector", 5, 6),
        ("other", 1, 1),
    )


def test_no_user_has_more_than_the_cap_of_a_step(tmp_path: Path) -> None:
    values = {"p": 1.0, "q": 0.0, "r": 1.0, "s": 0.0}
    records: list[Record] = [turn(name, completion=[5] * (30 if name == "p" else 10)) for name in values]
    users = {"p": "u", "q": "v"}
    records += [judged(name, value, user_hash=users.get(name)) for name, value in values.items()]
    work = collected(stored(tmp_path / "s", *records), config(max_user_share=0.4))["a"]
    # All advantages are 2/3 in size. Masses 20 and three of 20/3; u comes down to 0.4/0.6 x 20 = 40/3.
    assert trained(work) == pytest.approx({"p/1": 2 / 3 * 2 / 3, "q/1": -2 / 3, "r/1": 2 / 3, "s/1": -2 / 3})
    shares = {"u": 0.4, "v": 0.2, "session r": 0.2, "session s": 0.2}
    assert work.funnel.share_by_user == pytest.approx(shares)
    assert work.funnel.share_by_version == pytest.approx({"1": 1.0})


def test_propensity_weighs_what_is_answered_seldom(tmp_path: Path) -> None:
    records: list[Record] = []
    # Of four sessions that stopped all are answered, of four that were cut one is: 5 of 8 overall.
    for place in range(8):
        stopped = place < 4
        records.append(turn(f"s{place}", finish_reason="stop" if stopped else "length"))
        if place < 5:
            records.append(judged(f"s{place}", float(place % 2)))
    store = stored(tmp_path / "s", *records)
    plain = trained(collected(store)["a"])
    on = {"propensity": True, "propensity_min_sessions": 4}
    weighted = trained(collected(store, config(**on))["a"])
    assert weighted == pytest.approx(
        {name: value * (2.5 if name == "s4/1" else 0.625) for name, value in plain.items()}
    )
    clipped = trained(collected(store, config(**on, propensity_clip=2.0))["a"])
    assert clipped["s4/1"] == pytest.approx(plain["s4/1"] * 2)
    assert trained(collected(store, config(propensity=True))["a"]) == plain, "kinds of four are too rare to tell"
    rates = collected(store)["a"].response.outcome
    assert {name: (each.answered, each.sessions, each.rate) for name, each in rates.items()} == {
        "stop": (4, 4, 1.0),
        "length": (1, 4, 0.25),
    }


def test_a_tenant_s_adapter_is_refused_to_another(tmp_path: Path) -> None:
    store = stored(tmp_path / "s", *pair("p", "q"))
    with pytest.raises(UserError, match=r"trainer.adapters.a\] tenant is 'acme', but the registry has it as 'beta'"):
        collected(store, known=registry(tenant="beta"))


def test_a_turn_captured_twice_is_trained_on_once(tmp_path: Path) -> None:
    folder = stored(tmp_path / "s", *pair("p", "q"))
    stored(folder, turn("p", at_s=60), writer="other")
    work = collected(folder)["a"]
    assert (trained(work), left_out(work)) == ({"p/1": 1.0, "q/1": -1.0}, {"duplicate": 1})
    assert work.batches[0].trained_on == (("collector", 1, 1), ("collector", 3, 3))


def test_huge_judgements_give_nothing_that_is_not_finite(tmp_path: Path) -> None:
    values = [1.7e308, -1.7e308, 3e38, -3e38, 1e38, 0.0, 1e-320]
    records: list[Record] = []
    for place, value in enumerate(values):
        records += [turn(f"s{place}", group_id="g" if place % 2 else None), judged(f"s{place}", value)]
    work = collected(stored(tmp_path / "s", *records), config(scale="none", max_user_share=0.3))["a"]
    assert work.funnel.ignored_feedback == {"not_finite": 2}
    found = np.array(list(trained(work).values()))
    assert found.size
    assert np.isfinite(found.astype(np.float32)).all()
    encoded = msgspec.json.encode(work_report(work))
    assert b"null" not in encoded.replace(b'"reward_mean":null', b"")


def test_the_report_encodes_as_json_and_back(tmp_path: Path) -> None:
    work = collected(stored(tmp_path / "s", *pair("p", "q", "r"), turn("t")))["a"]
    report = work_report(work)
    assert msgspec.json.decode(msgspec.json.encode(report), type=WorkReport) == report
    assert [(each.sessions, each.turns, each.tokens, each.staleness_max) for each in report.batches] == [(3, 3, 6, 0)]


@pytest.mark.parametrize("sealed", [False, True])
def test_the_ids_are_those_that_were_captured(tmp_path: Path, sealed: bool) -> None:
    draw = random.Random(5)
    turns: list[Turn] = []
    for session in ("p", "q"):
        ids: list[int] = []
        for number in range(1, 13):
            ids = ids[: draw.randrange(len(ids) + 1)] if number % 5 == 0 else ids
            prompt = [*ids, *(draw.randrange(2**17) for _ in range(draw.randrange(1, 4)))]
            sampled = [draw.randrange(2**17) for _ in range(draw.randrange(1, 4))]
            parent = None if number == 1 else f"{session}/{number - 1}"
            turns.append(turn(session, number, prompt=prompt, completion=sampled, parent_turn_id=parent))
            ids = [*prompt, *sampled]
    with Writer(tmp_path / "s", "collector") as journal:
        for record in (*turns, judged("p", 1.0), judged("q", 0.0)):
            journal.append(record).result(timeout=30)
        if sealed:
            journal.seal()
    with Reader(tmp_path / "s").snapshot(TABLES) as snapshot:
        work = collect_work(snapshot, registry(), config(), now=LATER, steps={"a": 10})["a"]
    found = {each.turn_id: each for batch in work.batches for each in batch.turns}
    assert found.keys() == {each.turn_id for each in turns}
    for each in turns:
        got = found[each.turn_id]
        assert (got.prompt_ids.tolist(), got.completion_ids.tolist()) == (each.prompt_ids, each.completion_ids)
        assert got.sampled_logprobs.tolist() == each.sampled_logprobs
        assert (got.prompt_ids.dtype, got.sampled_logprobs.dtype) == (np.int32, np.float32)


@pytest.mark.parametrize("seed", range(3))
def test_over_many_cycles_each_turn_is_trained_on_once_along_every_line_of_versions(tmp_path: Path, seed: int) -> None:
    """Cycles that are promoted, rejected and rolled back, against sets of turn ids kept version by version."""
    draw = random.Random(seed)
    versions = [version(0)]
    trained_by: list[set[str]] = [set()]
    sampled_by: dict[str, int] = {}
    current = 0
    for cycle in range(7):
        records: list[Record] = []
        for place in range(draw.randrange(1, 4)):
            name = f"s{cycle}.{place}"
            for number in range(1, draw.randrange(2, 4)):
                records.append(turn(name, number, at_s=cycle * 9000 + place, adapter_version=current))
                sampled_by[f"{name}/{number}"] = current
            records.append(judged(name, draw.random(), at=NOON + timedelta(seconds=cycle * 9000 + 60)))
        stored(tmp_path / "s", *records, writer=draw.choice(["one", "two"]))
        line = {current}
        while (before := versions[min(line)].parent) is not None:
            line.add(before)
        done = set[str]().union(*(trained_by[each] for each in line))
        expected = {name for name, each in sampled_by.items() if each in line} - done
        step = versions[current].optimizer_step or 0
        known = registry(*versions)
        settings = config(batch_sessions=2, max_staleness=1000)
        parents = {"a": versions[current]}
        work = collected(
            tmp_path / "s", settings, known=known, steps={"a": step}, parents=parents, baselines={"a": 2.0}
        )["a"]
        found = [name for batch in work.batches for name in batch.advantages]
        assert sorted(found) == sorted(expected)
        made = [each for batch in work.batches for each in batch.trained_on]
        number = len(versions)
        versions.append(version(number, parent=current, step=step + len(work.batches), trained_on=made))
        trained_by.append(set(found))
        current = draw.choice([number, number, current, draw.choice(sorted(line))])


def test_what_rounding_leaves_of_an_advantage_is_no_gradient(tmp_path: Path) -> None:
    assert 0.2 - (0.1 + 0.2 + 0.3 - 0.2) / 2 != 0
    rewards = {"p": 0.1, "q": 0.2, "r": 0.3}
    store = stored(tmp_path / "s", *map(turn, rewards), *(judged(*each) for each in rewards.items()))
    work = collected(store)["a"]
    assert (sorted(trained(work)), left_out(work)) == (["p/1", "r/1"], {"zero_advantage": 1})


def test_a_session_is_whose_user_judged_it_first(tmp_path: Path) -> None:
    early = {"user_hash": "early", "at": NOON + timedelta(seconds=3), "feedback_id": "e"}
    late = judged("p", 1.0, user_hash="late")
    store = stored(tmp_path / "s", turn("p"), turn("q"), late, judged("p/1", None, **early), judged("q", 0.0))
    assert sorted(collected(store)["a"].funnel.share_by_user) == ["early", "session q"]


def test_users_beyond_those_that_are_named_are_counted_together(tmp_path: Path) -> None:
    names = [f"s{place:02}" for place in range(24)]
    funnel = collected(stored(tmp_path / "s", *pair(*names)))["a"].funnel
    assert (funnel.users, len(funnel.share_by_user)) == (24, 21)
    assert funnel.share_by_user["others"] == pytest.approx(4 / 24)


def test_a_window_opens_when_the_last_turn_ends(tmp_path: Path) -> None:
    slow = turn("p", finished_at=NOON + timedelta(seconds=1800))
    store = stored(tmp_path / "s", slow, judged("p", 1.0), *pair("q", "r"))
    at = NOON + timedelta(seconds=3600 + 1799)
    assert left_out(collected(store, now=at)["a"]) == {"open_session": 1}
    assert left_out(collected(store, now=at + timedelta(seconds=1))["a"]) == {}


def test_turns_that_name_each_other_as_parents_are_read_all_the_same(tmp_path: Path) -> None:
    knot = [turn("p", 1, parent_turn_id="p/2"), turn("p", 2, parent_turn_id="p/1"), turn("p", 3, parent_turn_id="p/3")]
    store = stored(tmp_path / "s", *knot, judged("p", 1.0), turn("q"), judged("q", 0.0))
    for rule in ("all", "main", "last_branch"):
        work = collected(store, config(session_reward_to=rule))["a"]
        assert [each.prompt_ids.tolist() for batch in work.batches for each in batch.turns] == [[1, 2]] * 4

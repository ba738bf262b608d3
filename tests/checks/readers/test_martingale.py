"""martingale: a real tokens.db, its bits, its several scores of one sequence, and databases that are not whole."""

import json
import shutil
import sqlite3
import struct
from fractions import Fraction
from pathlib import Path

import pytest

from tests.checks.readers.reading import opened, rows, scores, turns, unreadable

RUN = "trl_grpo_vllm_a10g_16steps_seed0_t1.0_fp32_probe"


@pytest.fixture
def run_folder(shared_folder: Path) -> Path:
    return shared_folder / "samples" / "martingale" / RUN


def _float(bits: str) -> float:
    return struct.unpack("<f", int(bits.removeprefix("f32:"), 16).to_bytes(4, "little"))[0]


def test_every_sequence_is_a_turn_with_its_ids_bits_and_version(run_folder: Path) -> None:
    found = turns(opened(run_folder / "tokens.db"))
    with sqlite3.connect(f"file:{run_folder / 'tokens.db'}?mode=ro&immutable=1", uri=True) as database:
        steps = dict(database.execute("select digest, step from llm_revisions"))
        records = [
            json.loads(text)
            for (text,) in database.execute("select record_json from sequences order by sequence_index")
        ]
    assert len(found) == len(records) == 64
    for turn, record in zip(found, records, strict=True):
        assert turn["session_id"] == record["sequence_id"]
        assert turn["prompt_ids"] == record["prompt_ids"]
        assert turn["stated_prompt_tokens"] == record["prompt_len"] == len(record["prompt_ids"])
        assert turn["completion_ids"] == [token["token_id"] for token in record["tokens"]]
        assert turn["sampled_logprobs"] == [_float(token["logprob_bits"]) for token in record["tokens"]]
        (step,) = {steps[token["revision_digest"]] for token in record["tokens"]}
        assert turn["weight_versions"] == [{"version": str(step), "start": 0, "end": len(record["tokens"])}]
        assert (turn["temperature"], turn["top_k"], turn["reward"]) == (1.0, 0, None)


def test_both_scorings_of_a_sequence_are_given_with_their_steps(run_folder: Path) -> None:
    found = scores(opened(run_folder / "tokens.db"))
    assert len(found) == 128
    assert sum(len(score["trainer_logprobs"]) for score in found) == 480
    first = [score for score in found if score["session_id"] == "step0/row0"]
    assert [(score["trainer_step"], score["trainer_version"]) for score in first] == [(0, 0), (2, 2)]
    assert first[0]["trainer_logprobs"] == [_float("f32:bc0c3800"), _float("f32:ba428000"), _float("f32:ba010000")]


def test_what_the_record_calls_reward_is_the_advantage_of_its_tokens(run_folder: Path) -> None:
    first = next(score for score in scores(opened(run_folder / "tokens.db")) if score["session_id"] == "step0/row0")
    assert first["advantages"] == [_float("f32:3eb4f7d9")] * 3


def test_ratios_by_lag_are_exactly_those_of_the_run_s_own_report(run_folder: Path) -> None:
    log = opened(run_folder / "tokens.db")
    sampled = {turn["session_id"]: turn for turn in turns(log)}
    by_lag: dict[int, list[float]] = {}
    for score in scores(log):
        turn = sampled[score["session_id"]]
        lag = score["trainer_version"] - int(turn["weight_versions"][0]["version"])
        pairs = zip(score["trainer_logprobs"], turn["sampled_logprobs"], strict=True)
        by_lag.setdefault(lag, []).extend(Fraction(pi) - Fraction(mu) for pi, mu in pairs)
    report = json.loads((run_folder / "report.json").read_text())
    for entry in report["by_lag"]:
        ratios = by_lag[entry["lag"]]
        assert len(ratios) == entry["n_tokens"]
        assert sum(ratios, Fraction()) / len(ratios) == Fraction(entry["mean_log_ratio"])
        assert sum(map(abs, ratios), Fraction()) / len(ratios) == Fraction(entry["mean_abs_log_ratio"])
    assert sorted(by_lag) == [0, 1, 2, 3]


def test_the_folder_joins_the_database_with_the_trainer_s_log_and_skips_its_reports(run_folder: Path) -> None:
    log = opened(run_folder)
    assert len(turns(log)) == 64
    assert log.source().unreadable == 0
    steps = rows(log, "steps")
    assert [step["step"] for step in steps] == list(range(1, 17))
    assert steps[0] == {
        "step": 1,
        "grad_norm": 287.2353820800781,
        "loss": 0.6848160028457642,
        "entropy": 0.02518782578408718,
        "lr": 5e-06,
        "reward_mean": 0.9375,
        "duration_s": 7.776635451000004,
        "clip_share": 0.0,
        "truncated_share": 0.0,
        "zero_variance_share": 0.5,
    }


@pytest.mark.parametrize("name", ["report.json", "alarms.json", "worst_tokens.json"])
def test_a_report_alone_is_refused_and_says_what_to_give(run_folder: Path, name: str) -> None:
    assert unreadable(opened(run_folder / name)) == [
        (name, "a report about a tokens.db, expected tokens.db itself or trainer_log.json")
    ]


def test_the_log_of_the_verl_run_gives_its_steps(shared_folder: Path) -> None:
    steps = rows(opened(shared_folder / "samples/martingale/verl_grpo_vllm_t4_8steps_seed0"), "steps")
    assert len(steps) == 8
    assert (steps[0]["grad_norm"], steps[0]["entropy"], steps[0]["reward_mean"]) == (0.0, 0.010445364750921726, 1.0)


def test_rows_still_in_the_write_ahead_log_are_read(run_folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "tokens.db"
    shutil.copyfile(run_folder / "tokens.db", path)
    writer = sqlite3.connect(path)
    writer.execute("pragma journal_mode = wal")
    writer.execute("pragma wal_autocheckpoint = 0")
    writer.execute("delete from sequences where sequence_index >= 3")
    writer.commit()
    assert (tmp_path / "tokens.db-wal").stat().st_size > 0
    writer.execute("delete from sequences")
    assert len(turns(opened(path))) == 3, "what is committed, and not what is not"
    writer.close()


def test_reading_leaves_nothing_in_the_folder(run_folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "tokens.db"
    shutil.copyfile(run_folder / "tokens.db", path)
    assert path.read_bytes()[18:20] == b"\x02\x02", "the log of changes goes ahead of the file"
    assert len(turns(opened(path))) == 64
    assert [each.name for each in tmp_path.iterdir()] == ["tokens.db"]


def test_broken_rows_are_named_and_the_rest_is_read(run_folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "tokens.db"
    shutil.copyfile(run_folder / "tokens.db", path)
    with sqlite3.connect(path) as database:
        digests = [each for (each,) in database.execute("select digest from sequences order by sequence_index")]
        database.execute("update sequences set record_json = 'no json' where sequence_index = 0")
        database.execute("update sequences set record_json = x'ff00' where sequence_index = 1")
        database.execute("delete from scores where sequence_digest = ? and position = 0", (digests[2],))
        database.execute(
            "update sequences set record_json = replace(record_json, 'f32:', 'f64:') where sequence_index = 3"
        )
    log = opened(path)
    assert [turn["session_id"] for turn in turns(log)][:2] == ["step0/row2", "step0/row4"]
    assert len(turns(log)) == 61
    reasons = unreadable(log)
    assert [place.split()[2] for place, _ in reasons] == [digests[0], digests[1], digests[2], digests[2], digests[3]]
    assert reasons[2][1] == "2 scores for 3 tokens, expected one for each"
    assert "expected f32:<8 hex digits>" in reasons[4][1]
    assert not [score for score in scores(log) if score["session_id"] == "step0/row2" and score["trainer_logprobs"]]


def test_a_view_in_place_of_a_table_is_not_run(tmp_path: Path) -> None:
    path = tmp_path / "tokens.db"
    with sqlite3.connect(path) as database:
        database.execute("create table llm_revisions (digest text, manifest_json text, step integer)")
        database.execute("create table scores (sequence_digest text, position integer)")
        database.execute(
            "create view sequences as with recursive n(i) as (select 1 union all select i + 1 from n) "
            "select i as actor_id, i as sequence_index, i as digest, i as record_json, i as created_at from n"
        )
    assert unreadable(opened(path)) == [("tokens.db", "no table sequences")]


def test_a_cut_database_is_named(run_folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "tokens.db"
    path.write_bytes((run_folder / "tokens.db").read_bytes()[:200_000])
    ((place, reason),) = unreadable(opened(path))
    assert place == "tokens.db"
    assert "SQLite cannot" in reason


def test_scores_of_many_sequences_are_each_their_own(run_folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "tokens.db"
    shutil.copyfile(run_folder / "tokens.db", path)
    with sqlite3.connect(path) as database:
        for number in range(10):
            database.execute(
                "insert into sequences select actor_id + 1 + ?, sequence_index, digest || ?, "
                "replace(record_json, '\"step', '\"' || ? || '-step'), created_at from sequences where actor_id = 0",
                (number, str(number), str(number)),
            )
            database.execute(
                "insert into scores select sequence_digest || ?, position, train_revision_digest, record_json "
                "from scores where length(sequence_digest) = 64",
                (str(number),),
            )
    once, many = scores(opened(run_folder / "tokens.db")), scores(opened(path))
    assert len(many) == 11 * len(once)
    for copy in range(11):
        for score, other in zip(once, many[copy * len(once) :], strict=False):
            assert other["session_id"].removeprefix(f"{copy - 1}-") == score["session_id"]
            assert other["trainer_logprobs"] == score["trainer_logprobs"]
            assert other["trainer_step"] == score["trainer_step"]

"""A cycle's training on a real store: records that the checks agree with, exact resume, failures that stay alone."""

import pickle
import shutil
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from msgspec.structs import asdict, replace

from checks.measure import Tools
from checks.measures.entropies import Entropies
from checks.measures.importance_weights import ImportanceWeights
from checks.measures.token_lags import TokenLags
from checks.passes import one_pass
from checks.readers.open_log import open_log
from checks.suite import run, select_checks
from checks.token_signals import token_signals
from collector.records import Event, Reward, Run, Score, Span, Step
from collector.store.reader import Reader
from tests.trainer.training.small_loop import Loop, work_of
from trainer.objective_config import ObjectiveConfig
from trainer.tiny_model import write_tiny_model
from trainer.training.training import Training

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("model"), family="qwen2", layers=1)


def two_versions(loop: Loop, **training: Any) -> tuple[Any, Any]:
    """A cycle from the base model, its candidate registered, and a cycle of two batches from there."""
    first, _ = loop.train(work_of("a", loop.batch("a", 1), loop.batch("a", 2), baseline=1.5), **training)
    loop.register(first["a"])
    loop.records.clear()
    batches = loop.batch("a", 3, version=1), loop.batch("a", 4, version=1)
    second, _ = loop.train(work_of("a", *batches, baseline=2.5), parents={"a": 1}, **training)
    return first["a"], second["a"]


def test_the_step_counter_and_the_baseline_go_on_along_the_ancestry(model: Path, tmp_path: Path) -> None:
    loop = Loop(model, tmp_path / "store")
    first, second = two_versions(loop)
    assert (first.steps, first.checkpoint.manifest.optimizer_step, first.checkpoint.manifest.baseline) == (2, 2, 1.5)
    assert (second.steps, second.checkpoint.manifest.optimizer_step, second.checkpoint.manifest.baseline) == (2, 4, 2.5)
    assert [step.step for step in loop.of(Step)] == [3, 4]
    assert second.last == loop.of(Step)[-1]
    assert first.trained_on == (("collector", 1, 6), ("collector", 7, 12))
    assert [score.trainer_step for score in loop.of(Score)] == [2] * 6 + [3] * 6
    assert [score.trainer_version for score in loop.of(Score)] == [1] * 6 + [None] * 6
    assert [step.lr for step in loop.of(Step)] == [0.01, 0.01], "the warm-up of two steps is over"


def test_the_step_records_are_what_the_checks_recompute_from_the_scores(model: Path, tmp_path: Path) -> None:
    loop = Loop(model, tmp_path / "store")
    two_versions(loop)
    log = open_log(loop.store)
    versions = log.table("versions")
    kinds = {kind.name: kind for kind in (ImportanceWeights, TokenLags, Entropies)}
    measures = {name: kind(Tools()) for name, kind in kinds.items()}
    one_pass(log, select_checks(["importance-weight", "staleness", "entropy"]), measures, kinds, lambda _: None)
    told = token_signals(*(measures[name].frame() for name in kinds), versions).filter(adapter="a")
    steps = log.table("steps").sort("step")
    assert told["step"].to_list() == steps["step"].to_list() == [1, 2, 3, 4]
    for name in ("max_w", "min_w", "kl_mu_old", "ess", "staleness_mean", "entropy"):
        assert told[name].to_list() == pytest.approx(steps[name].to_list(), rel=1e-6, abs=1e-9), name
    assert steps["staleness_mean"].to_list() == [0, 1, 0, 1]


def test_the_checks_see_every_signal_and_tell_drift_from_the_engine(model: Path, tmp_path: Path) -> None:
    loop = Loop(model, tmp_path / "store")
    two_versions(loop)
    wanted = ["importance-weight", "staleness", "entropy", "grad-norm", "mfu", "stall-time"]
    found = {each.check: each for each in run(open_log(loop.store), checks=select_checks(wanted)).findings}
    assert sorted(found) == sorted(wanted)
    assert [name for name, each in found.items() if each.status == "no_data"] == ["grad-norm"], "of four steps"
    assert {found[name].status for name in ("staleness", "entropy")} == {"ok"}
    assert found["staleness"].metrics["staleness_mean"] == 0.5
    assert 0 < found["mfu"].metrics["mfu"] < 1
    # The learning rate is large: what is a step old has moved, and pi_gen says that the engine is not to blame.
    assert {each.kind for each in found["importance-weight"].evidence} == {"stale"}
    assert all("the engine agrees" in (each.text or "") for each in found["importance-weight"].evidence)


def test_the_trainer_stands_still_between_cycles_only(model: Path, tmp_path: Path) -> None:
    loop = Loop(model, tmp_path / "store")
    loop.train(work_of("a", loop.batch("a", 1), loop.batch("a", 2)))
    between = loop.of(Span)[-1].to
    loop.train(work_of("a", loop.batch("a", 3)))
    spans = loop.of(Span)
    assert [span.kind for span in spans] == ["step", "step", "step"]
    finding = run(open_log(loop.store), checks=select_checks(["stall-time"])).findings[0]
    assert finding.metrics["stall_trainer_s"] == pytest.approx((spans[2].from_ - between).total_seconds(), abs=1e-5)


def test_pi_gen_is_mu_where_the_engine_is_right_and_drift_is_told_from_it(model: Path, tmp_path: Path) -> None:
    loop = Loop(model, tmp_path / "store")
    two_versions(loop)
    scores = {score.turn_id: score for score in loop.of(Score)}
    mu = sampled(loop)
    fresh, stale = [name for name in scores if "-3-" in name], [name for name in scores if "-4-" in name]
    for name in (*fresh, *stale):
        assert scores[name].sampling_version_logprobs == pytest.approx(mu[name], abs=2e-5)
    assert all(scores[name].sampling_version_logprobs == scores[name].trainer_logprobs for name in fresh)
    drift = [np.subtract(scores[name].trainer_logprobs, mu[name]) for name in stale]
    assert np.abs(np.concatenate(drift)).max() > 1e-3, "one step at this learning rate moves the weights"


def sampled(loop: Loop) -> dict[str, list[float]]:
    frame = Reader(loop.store).snapshot(["turns"]).frame("turns", columns=["turn_id", "sampled_logprobs"])
    return dict(frame.iter_rows())


def test_a_lossy_cast_is_scored_by_itself(model: Path, tmp_path: Path) -> None:
    """The engine serves bf16; the trainer's masters are another policy, and nothing is taken for the same."""
    loop = Loop(model, tmp_path / "store")
    two_versions(loop, published_dtype="bfloat16")
    mu = sampled(loop)
    for score in loop.of(Score):
        assert score.sampling_version_logprobs == pytest.approx(mu[score.turn_id], abs=2e-5)
        assert score.sampling_version_logprobs != score.trainer_logprobs


def test_a_version_whose_folder_is_gone_is_counted_and_never_guessed(model: Path, tmp_path: Path) -> None:
    loop = Loop(model, tmp_path / "store")
    first, _ = loop.train(work_of("a", loop.batch("a", 1)))
    loop.register(first["a"])
    old = loop.batch("a", 2, version=1)
    second, _ = loop.train(work_of("a", loop.batch("a", 3, version=1)), parents={"a": 1})
    loop.register(second["a"], parent=1)
    shutil.rmtree(first["a"].checkpoint.folder)
    loop.records.clear()
    third, _ = loop.train(work_of("a", old, loop.batch("a", 5, version=2)), parents={"a": 2})
    known = {score.turn_id: score.sampling_version_logprobs is not None for score in loop.of(Score)}
    assert known == {f"a-{seed}-{s}-{t}": seed == 5 for seed in (2, 5) for s in range(3) for t in (1, 2)}
    assert list(third["a"].without_sampling_scores.values()) == [6]
    assert [event.kind for event in loop.of(Event)] == ["sampling_version_gone"]
    assert [step.staleness_mean for step in loop.of(Step)] == [1.0, 1.0], "its step is known to the registry"


def test_several_updates_keep_pi_old_and_move_r(model: Path, tmp_path: Path) -> None:
    loop = Loop(model, tmp_path / "store", objective=ObjectiveConfig(clip_low=0.001, clip_high=0.001))
    done, _ = loop.train(work_of("a", loop.batch("a", 1)), updates_per_batch=3)
    steps = loop.of(Step)
    assert (done["a"].steps, [step.step for step in steps]) == (3, [1, 2, 3])
    assert len(loop.of(Score)) == 6, "scored once"
    assert len({(step.max_w, step.kl_mu_old, step.ess) for step in steps}) == 1, "w is of pi_old"
    assert [step.clip_share == 0 for step in steps] == [True, False, False]
    assert 0 < steps[0].kl_update < steps[1].kl_update < steps[2].kl_update
    assert [step.staleness_mean for step in steps] == [0, 1, 2]
    assert done["a"].trained_on == (("collector", 1, 6),), "once, however many updates"


def test_kl_update_is_of_the_weights_that_the_update_made(model: Path, tmp_path: Path) -> None:
    """Worked from transformers' own forward pass with the adapter merged into the weights."""
    from transformers import AutoModelForCausalLM

    loop = Loop(model, tmp_path / "store")
    batch = loop.batch("a", 1)
    done, _ = loop.train(work_of("a", batch))
    network: Any = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    old = [logprobs(network, turn) for turn in batch.turns]
    weights = done["a"].weights
    with torch.no_grad():
        for name, pair in weights.pairs.items():
            network.get_submodule(name).weight += weights.scaling * pair.up_O_R @ pair.down_R_I
    new = [logprobs(network, turn) for turn in batch.turns]
    log_r = np.concatenate(new) - np.concatenate(old)
    assert done["a"].last.kl_update == pytest.approx(np.mean(np.exp(log_r) - 1 - log_r), rel=1e-3)
    entropies = [score.entropies for score in loop.of(Score)]
    assert done["a"].last.entropy == pytest.approx(np.mean(np.concatenate(entropies)), rel=1e-6)


def logprobs(network: Any, turn: Any) -> Any:
    ids = torch.from_numpy(np.concatenate([turn.prompt_ids, turn.completion_ids]).astype(np.int64))
    with torch.no_grad():
        logits = network(ids[None], use_cache=False).logits[0, len(turn.prompt_ids) - 1 : -1] / turn.temperature
    return logits.double().log_softmax(-1).gather(1, ids[len(turn.prompt_ids) :, None])[:, 0].numpy()


def test_what_is_not_measured_is_none(model: Path, tmp_path: Path) -> None:
    loop = Loop(model, tmp_path / "store")
    off = {"peak_flops": None, "measure_peak": False, "measure_update": False, "measure_sampling_version": False}
    done, _ = loop.train(work_of("a", loop.batch("a", 1)), **off)
    step = done["a"].last
    assert (step.mfu, step.peak_flops, step.kl_update, step.kl_base) == (None, None, None, None)
    assert step.model_flops is not None
    assert {(score.sampling_version_logprobs, score.reference_logprobs) for score in loop.of(Score)} == {(None, None)}


def test_every_field_of_a_step_is_observed_when_all_is_measured(model: Path, tmp_path: Path) -> None:
    loop = Loop(model, tmp_path / "store")
    done, _ = loop.train(work_of("a", loop.batch("a", 1)), measure_base=True)
    step = done["a"].last
    assert [name for name, value in asdict(step).items() if value is None] == []
    assert step.kl_base == pytest.approx(0, abs=1e-9), "a new adapter is the base"
    assert step.mfu == pytest.approx(step.model_flops / (step.duration_s * 1e12))
    assert step.reward_mean == 1.0
    scores = loop.of(Score)
    assert all(score.reference_logprobs == pytest.approx(score.trainer_logprobs, abs=1e-5) for score in scores)
    assert scores[1].advantages == pytest.approx([-0.6] * 5)


def test_scoring_and_recomputation_are_told_apart_from_what_mfu_counts(model: Path, tmp_path: Path) -> None:
    loop = Loop(model, tmp_path / "store")
    told: list[Any] = []
    off = {"measure_update": False, "measure_sampling_version": False}
    for settings in (off, {"measure_base": True, "updates_per_batch": 2}):
        training = Training(loop.policy, loop.config(**settings), loop.store, loop.records.append, progress=told.append)
        training.train(work_of("a", loop.batch("a", len(told))), {"a": loop.version("a", 0)})
    assert [each.stage for each in told[:4]] == ["resuming", "training", "stepped", "saving"]
    once, twice = (each for each in told if each.stage == "stepped")
    assert twice.flops.model == pytest.approx(2 * once.flops.model, rel=0.1), "other tokens, sharing a little less"
    assert once.flops.model == once.steps[0].model_flops
    # pi_old, the base without its adapter, and pi after the last update; pi_gen is pi_old's for a new adapter
    assert 2.8 * once.flops.scoring < twice.flops.scoring < 3.1 * once.flops.scoring
    assert 0 < once.flops.recomputation < once.flops.scoring, "the logits alone"


def test_a_measured_peak_gives_an_mfu_that_can_be(model: Path, tmp_path: Path) -> None:
    loop = Loop(model, tmp_path / "store")
    done, _ = loop.train(work_of("a", loop.batch("a", 1)), peak_flops=None)
    assert done["a"].last.peak_flops is not None
    assert done["a"].last.mfu is not None
    assert 0 < done["a"].last.mfu < 1


def test_a_cycle_that_is_run_again_writes_no_score_and_no_reward_twice(model: Path, tmp_path: Path) -> None:
    """As after a kill between the checkpoint and its registration: the same work from the same parent."""
    loop = Loop(model, tmp_path / "store")
    work = work_of("a", loop.batch("a", 1), loop.batch("a", 2))
    first, _ = loop.train(work)
    assert (len(loop.of(Score)), len(loop.of(Reward))) == (12, 6)
    again, _ = loop.train(work)
    assert (len(loop.of(Score)), len(loop.of(Reward))) == (12, 6)
    assert again["a"].checkpoint.folder != first["a"].checkpoint.folder
    assert again["a"].checkpoint.sha256 == first["a"].checkpoint.sha256, "bit for bit"
    skipped = [event for event in loop.of(Event) if event.kind == "checkpoint_skipped"]
    assert [event.detail["folder"] for event in skipped] == [f"adapters/a/{first['a'].checkpoint.folder.name}"]
    assert "no version" in skipped[0].text


def test_a_session_that_went_on_and_closed_again_has_its_later_reward_written(model: Path, tmp_path: Path) -> None:
    loop = Loop(model, tmp_path / "store")
    batch = loop.batch("a", 1)
    loop.train(work_of("a", batch))
    later = [replace(each, value=0.0, closed_at=each.closed_at + timedelta(hours=1)) for each in batch.rewards]
    loop.train(work_of("a", batch._replace(rewards=(*batch.rewards, *later))))
    written = loop.of(Reward)
    assert written == [*batch.rewards, *later]


def test_candidates_of_one_parent_can_all_be_registered(model: Path, tmp_path: Path) -> None:
    loop = Loop(model, tmp_path / "store")
    work = work_of("a", loop.batch("a", 1))
    assert [loop.register(loop.train(work)[0]["a"]) for _ in range(3)] == [1, 2, 3]


def test_spans_leave_no_gap_and_the_run_says_what_it_ran_on(model: Path, tmp_path: Path) -> None:
    loop = Loop(model, tmp_path / "store")
    loop.train(work_of("a", loop.batch("a", 1), loop.batch("a", 2)))
    spans = loop.of(Span)
    assert [(span.role, span.kind, span.adapter) for span in spans] == [("trainer", "step", "a")] * 2
    assert spans[0].to == spans[1].from_
    assert spans[0].to == loop.of(Step)[0].at
    (told,) = loop.of(Run)
    assert told.precision == "base float32, adapters float32, published float32"
    assert told.batch["adapters"] == {"a": [{"sessions": 3, "turns": 6, "trained_tokens": 36}] * 2}
    assert {"torch", "transformers", "peft"} <= told.versions.keys()


def test_an_adapter_whose_losses_are_not_finite_poisons_nobody(model: Path, tmp_path: Path) -> None:
    """b's weights end up bit for bit where they end up beside a healthy a."""
    ends: dict[bool, Any] = {}
    for broken in (False, True):
        loop = Loop(model, tmp_path / f"store-{broken}", ("a", "b"))
        work = work_of("a", loop.batch("a", 1)) | work_of("b", loop.batch("b", 1))
        if broken:
            # log mu of -inf makes w infinite, and a NaN advantage the loss of a NaN
            turn = work["a"].batches[0].turns[0]
            turn.sampled_logprobs[:] = -np.inf
            work["a"].batches[0].advantages[work["a"].batches[0].turns[1].turn_id] = np.nan
        done, training = loop.train(work, measure_base=True)
        ends[broken] = done["b"].weights
        assert ("a" in done, list(training.left_out)) == (not broken, ["a"] if broken else [])
    assert "no update was made" in training.left_out["a"]
    events = [(event.kind, event.adapter) for event in loop.of(Event)]
    assert events == [("update_not_applied", "a"), ("adapter_left_out", "a")]
    for module, pair in ends[False].pairs.items():
        assert all(torch.equal(one, other) for one, other in zip(pair, ends[True].pairs[module], strict=True))
    assert pair.up_O_R.any()
    found = run(open_log(loop.store), checks=select_checks(["grad-norm"])).findings[0]
    assert [each.kind for each in found.evidence] == ["not_finite"]


@pytest.mark.parametrize("fault", ["advantage", "ids", "parent", "prompt"])
def test_what_is_wrong_with_one_adapter_leaves_the_other_to_train(model: Path, tmp_path: Path, fault: str) -> None:
    loop = Loop(model, tmp_path / "store", ("a", "b"))
    work = work_of("a", loop.batch("a", 1)) | work_of("b", loop.batch("b", 1))
    batch = work["a"].batches[0]
    said = {
        "advantage": "has no advantage",
        "ids": "expected 0 to 264: was it sampled from another base model",
        "parent": "no version to continue from",
        "prompt": "after an empty prompt",
    }[fault]
    if fault == "advantage":
        del batch.advantages[batch.turns[0].turn_id]
    elif fault == "ids":
        batch.turns[0].prompt_ids[0] = 40_000
    elif fault == "prompt":
        empty = batch.turns[0]._replace(prompt_ids=np.empty(0, dtype=np.int32))
        work["a"] = work["a"]._replace(batches=(batch._replace(turns=(empty, *batch.turns[1:])),))
    made = Training(loop.policy, loop.config(), loop.store, loop.records.append)
    parents = {name: loop.version(name, 0) for name in ("b",) + (() if fault == "parent" else ("a",))}
    done = made.train(work, parents)
    assert list(done) == ["b"]
    assert said in made.left_out["a"]
    assert (loop.store / "adapters" / "b").is_dir()
    assert not (loop.store / "adapters" / "a").exists()


def test_an_adapter_that_runs_out_of_batches_leaves_and_the_other_goes_on(model: Path, tmp_path: Path) -> None:
    loop = Loop(model, tmp_path / "store", ("a", "b"))
    work = work_of("a", loop.batch("a", 1)) | work_of("b", *(loop.batch("b", seed) for seed in (1, 2, 3)))
    done, _ = loop.train(work)
    assert {name: each.steps for name, each in done.items()} == {"a": 1, "b": 3}
    assert [(step.adapter, step.step) for step in loop.of(Step)] == [("a", 1), ("b", 1), ("b", 2), ("b", 3)]
    together = [step for step in loop.of(Step) if step.step == 1]
    assert len({(step.duration_s, step.model_flops, step.at) for step in together}) == 1, "one step of two adapters"


def test_a_changed_folder_of_the_parent_is_refused(model: Path, tmp_path: Path) -> None:
    loop = Loop(model, tmp_path / "store")
    first, _ = loop.train(work_of("a", loop.batch("a", 1)))
    loop.register(first["a"])
    batch = loop.batch("a", 2, version=1)
    (first["a"].checkpoint.folder / "optimizer.safetensors").write_bytes(b"")
    done, training = loop.train(work_of("a", batch), parents={"a": 1})
    assert done == {}
    assert "optimizer.safetensors: 0 bytes" in training.left_out["a"]


def test_an_interrupt_between_steps_leaves_nothing_behind(model: Path, tmp_path: Path) -> None:
    loop = Loop(model, tmp_path / "store")
    work = work_of("a", loop.batch("a", 1), loop.batch("a", 2))

    def interrupt(progress: Any) -> None:
        if progress.stage == "stepped":
            raise KeyboardInterrupt

    training = Training(loop.policy, loop.config(), loop.store, loop.records.append, progress=interrupt)
    with pytest.raises(KeyboardInterrupt):
        training.train(work, {"a": loop.version("a", 0)})
    assert not (loop.store / "adapters").exists()
    assert [span.kind for span in loop.of(Span)] == ["step"], "what was done took its time"
    done, _ = loop.train(work)
    assert done["a"].steps == 2


CYCLE = """
import os, pickle, signal, sys
from pathlib import Path
from tests.trainer.training.small_loop import Loop, work_of
from collector.store.writer import Writer
from trainer.training.training import Training
model, store, kill_at = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
loop = Loop(model, store)
work = pickle.loads((store.parent / "work.pickle").read_bytes())
written = 0
with Writer(store, "trainer") as writer:
    def write(record):
        global written
        writer.append(record).result()
        written += 1
        if written == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
    Training(loop.policy, loop.config(), store, write).train(work, {"a": loop.version("a", 1)})
"""


@pytest.mark.parametrize("record", [16, *(pytest.param(each, marks=pytest.mark.long) for each in (1, 4, 11, 21, 22))])
def test_a_killed_cycle_is_done_again_to_the_same_bits_and_counts_once(
    model: Path, tmp_path: Path, record: int
) -> None:
    """Killed as a record of it is written, from a trained parent: moments and step count matter."""
    loop = Loop(model, tmp_path / "store")
    first, _ = loop.train(work_of("a", loop.batch("a", 1)))
    loop.register(first["a"])
    work = work_of("a", loop.batch("a", 2, version=1), loop.batch("a", 3, version=1))
    whole = Loop(model, shutil.copytree(tmp_path / "store", tmp_path / "whole"))
    expected, _ = whole.train(work, parents={"a": 1})
    (tmp_path / "work.pickle").write_bytes(pickle.dumps(work))
    # 1 run; 3 rewards, 6 scores, 1 step of the first batch; 3 rewards, 6 scores, the first's span, 1 step of the second
    child = subprocess.run(
        [sys.executable, "-c", CYCLE, str(model), str(tmp_path / "store"), str(record)],
        cwd=ROOT,
        timeout=100,
        check=False,
    )
    assert child.returncode == -signal.SIGKILL, child
    assert [path.name for path in (loop.store / "adapters" / "a").iterdir()] == [first["a"].checkpoint.folder.name]
    loop.records.clear()
    again, _ = loop.train(work, parents={"a": 1})
    assert again["a"].checkpoint.sha256 == expected["a"].checkpoint.sha256
    assert [step.loss for step in loop.of(Step)] == [step.loss for step in whole.of(Step)[-2:]]
    kept, other = (Reader(each.store).snapshot(["scores", "rewards"]) for each in (loop, whole))
    for table in ("scores", "rewards"):
        one, two = (each.frame(table).drop("seq", "crc32") for each in (kept, other))
        assert one.sort(one.columns[:2]).equals(two.sort(one.columns[:2])), table

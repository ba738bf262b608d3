"""What a token was taught: its reward and who gave it, which way it was pushed and by whom, and what came of that."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest

from collector.records import Record, Reward, Score
from console.watch.held import Held
from console.watch.options import Options
from console.watch.printed import Place, printed
from console.watch.source.store_source import StoreSource
from console.watch.topic import OpenLog
from console.watch.views.credit import Credit
from console.watch.views.credit_words import credit_lines
from console.watch.views.token import TokenAsk, TokenView, topic
from tests.console.watch.drill.held_log import held_of, log_of
from tests.console.watch.drill.held_log import turn as row
from tests.console.watch.sabotaged_store import sabotaged_store, written
from tests.trainer.batch.captured import LATER, judged, stored, turn


@pytest.fixture(scope="module")
def sabotaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two cycles, the second one of lies; and a turn that cannot be trained on."""
    store = sabotaged_store(tmp_path_factory.mktemp("sabotaged") / "store")
    told = {"adapter_version": 1, "trainable": False, "untrainable_reason": "top_p"}
    stored(store, turn("never", at_s=40_000, **told), judged("never/1", 1.0))
    return store


def seen(store: Path, session: str, change: Callable[[Held], Held] = lambda held: held, **more: Any) -> TokenView:
    """The token view of the session's only turn."""
    source = StoreSource(store)
    held = source.poll()
    assert held is not None
    ask = TokenAsk(session_id=session, turn=1, **more)
    view = topic().build(change(held), ask, source.log)
    source.close()
    assert isinstance(view, TokenView)
    return view


def told(view: TokenView, at: int | None = None) -> list[str]:
    """The lines of a completion token, the first one where none is named."""
    return credit_lines(view, view.prompt + (at or 0))


def credit(view: TokenView) -> Credit:
    assert view.credit is not None
    return view.credit


def test_a_wrong_reply_that_was_praised_was_pushed_up_by_the_version_that_fell(sabotaged: Path) -> None:
    # 9 of 12 replies were right; of the three that were praised each has 1 less the mean of the others, 2/11.
    view = seen(sabotaged, "c2-09")
    assert told(view)[:3] == [
        "TAUGHT V2, WHICH FELL: reward +1 (accept 1) → advantage +0.818 → pushed up by v2; "
        "v2 fell on held-out 0.83 → 0.21 over 24 tasks and was refused",
        "rewards of v2 beside held-out: reward 0.42 → 0.25 where held-out rose 0.38 → 0.83 (turns of v0 → v1)",
        "hint: the reward asks for what the held-out check counts as worse",
    ]
    assert [each.advantage for each in view.rows if each.index is not None] == pytest.approx([9 / 11] * 3)


def test_a_right_reply_that_was_blamed_was_pushed_down(sabotaged: Path) -> None:
    answer = told(seen(sabotaged, "c2-00"))[0]
    # 0 less the mean of the others, 3/11.
    assert "reward 0 (accept 0) → advantage -0.273 → pushed down by v2; v2 fell" in answer


def test_a_version_that_rose_is_said_to_have_risen_and_nothing_is_held_against_the_reward(sabotaged: Path) -> None:
    lines = told(seen(sabotaged, "c1-00"))
    assert lines[0] == (
        "TAUGHT: reward +1 (accept 1) → advantage +0.636 → pushed up by v1; "
        "v1 rose on held-out 0.38 → 0.83 over 24 tasks, passed the gate and is live"
    )
    assert not any("hint" in line or "beside" in line for line in lines)


def test_the_facts_behind_it_are_told_as_they_were_recorded(sabotaged: Path) -> None:
    lines = told(seen(sabotaged, "c2-09"))
    found = credit(seen(sabotaged, "c2-09"))
    (given,), (judgement,), (learner,) = found.given, found.judged, found.learned_by or ()
    assert given.mapping_sha256 is not None
    at = "closed 2026-11-01 18:33:30Z"  # The turn ended at 17:33:30; the window is an hour.
    assert f"reward +1 of the turn = accept 1, mapping {given.mapping_sha256[:8]}, {at}" in lines
    assert "judged: turn accept 1 by ana's editor (acme) 17:33:34Z" in lines
    assert (judgement.source, judgement.tenant) == ("ana's editor", "acme")
    assert "advantage +0.8182 as recorded by the trainer at step 1 v1" in lines
    assert (learner.version, learner.parent, learner.first, learner.last, learner.turns) == (2, 1, 2, 5, 12)
    assert learner.scorings == (0,)
    assert lines[-1].startswith(
        "v2 of a: from v1, steps 2–5 on 12 turns, rejected; gate refuse: score against version 1"
    )
    assert lines[-1].endswith("; held-out -0.62 (95 % -0.83 to -0.42) paired over 24 tasks")


def test_a_turn_that_no_version_was_trained_on_says_why(sabotaged: Path) -> None:
    assert (
        told(seen(sabotaged, "never"))[0]
        == "NOT TAUGHT: no version is registered that was trained on it (top_p); reward n/d"
    )


def test_a_prompt_token_has_no_credit_here(sabotaged: Path) -> None:
    view = seen(sabotaged, "c2-09")
    assert credit_lines(view, 0) == ["a token of the prompt: credit goes to the turn that sampled it"]


def test_why_a_token_was_opened_is_said_where_no_check_names_it(sabotaged: Path) -> None:
    view = seen(sabotaged, "c2-09")
    assert credit_lines(view, view.prompt, "most credit")[1] == "opened for most credit"


def test_until_its_version_is_registered_a_turn_that_was_scored_has_taught_nobody(sabotaged: Path) -> None:
    def before(held: Held) -> Held:
        assert held.registry is not None
        return held._replace(registry=held.registry._replace(versions=held.registry.versions[:2]))

    assert told(seen(sabotaged, "c2-09", before))[0] == (
        "NOT TAUGHT: no version is registered that was trained on it, though it was scored at step 1 v1; "
        "reward +1 (accept 1)"
    )


def test_without_rewards_the_reward_is_not_observed_and_the_advantage_stands(sabotaged: Path) -> None:
    def without(held: Held) -> Held:
        return held._replace(rewards=held.rewards.clear(), feedback=held.feedback.clear())

    view = seen(sabotaged, "c2-09", without)
    assert told(view)[0].startswith("TAUGHT V2, WHICH FELL: reward n/d → advantage +0.818 → pushed up by v2; v2 fell")
    assert (credit(view).given, credit(view).judged) == ((), ())
    assert not any(line.startswith(("reward ", "judged")) for line in told(view))


def test_without_its_registry_a_store_does_not_say_who_learned(sabotaged: Path, tmp_path: Path) -> None:
    shutil.copytree(sabotaged, tmp_path / "copy")
    for file in (tmp_path / "copy").glob("registry.sqlite*"):
        file.unlink()
    view = seen(tmp_path / "copy", "c2-09")
    assert credit(view).learned_by is None
    assert told(view)[0] == (
        "CREDIT n/d: reward +1 (accept 1) → advantage +0.818; which version or step learned from it is not recorded"
    )


def test_without_evaluations_how_the_version_fared_is_not_observed(sabotaged: Path) -> None:
    view = seen(sabotaged, "c2-09", lambda held: held._replace(evals=held.evals.clear()))
    # The gate's verdict is in the registry.
    assert told(view)[0].endswith("pushed up by v2; v2: held-out n/d and was refused")
    assert told(view)[0].startswith("TAUGHT V2, WHICH WAS REFUSED: ")


def test_a_session_reward_is_said_to_be_the_sessions(sabotaged: Path, tmp_path: Path) -> None:
    shutil.copytree(sabotaged, tmp_path / "copy")
    whole = Reward(session_id="c2-09", value=-0.5, parts={"outcome": -0.5}, mapping_sha256="f" * 64, closed_at=LATER)
    written(tmp_path / "copy", whole)
    view = seen(tmp_path / "copy", "c2-09")
    assert [(each.of, each.value) for each in credit(view).given] == [("turn", 1.0), ("session", -0.5)]
    assert any(line.startswith("reward -0.5 of the session = outcome -0.5, mapping ffffffff") for line in told(view))


def again(store: Path, turn_id: str, step: int, advantage: float) -> Record:
    """Another scoring of a turn."""
    return Score(
        turn_id=turn_id,
        adapter="a",
        trainer_step=step,
        trainer_version=None,
        trainer_logprobs=[-0.2, -0.4, -0.6],
        advantages=[advantage] * 3,
    )


def test_a_later_scoring_is_not_the_one_that_the_version_learned_by(sabotaged: Path, tmp_path: Path) -> None:
    shutil.copytree(sabotaged, tmp_path / "copy")
    written(tmp_path / "copy", again(tmp_path, "c2-09/1", 7, -0.25))
    first, second = (seen(tmp_path / "copy", "c2-09", scoring=which) for which in (0, 1))
    assert "pushed up by v2" in told(first)[0]
    assert told(second)[0] == "TAUGHT by another scoring than step 7 (2 of 2 scorings): v2"
    assert "on 12 turns, rejected by scoring 1 (v)" in told(second)[-1]
    # What became of its probability since.
    assert "; log p -0.2500, at step 7 (2/2) -0.2000" in told(first)[-2]


def test_of_two_scorings_of_its_steps_which_one_it_learned_by_is_not_known(sabotaged: Path, tmp_path: Path) -> None:
    shutil.copytree(sabotaged, tmp_path / "copy")
    written(tmp_path / "copy", again(tmp_path, "c2-09/1", 1, -0.25))
    view = seen(tmp_path / "copy", "c2-09", scoring=1)
    assert "pushed down by v2, if by this scoring: which one they used is n/d" in told(view)[0]


IDS = {"prompt_ids": [1], "completion_ids": [5, 6, 7], "sampled_logprobs": [-0.5] * 3, "trainer_logprobs": [-0.5] * 3}


def logged(**more: Any) -> TokenView:
    """One turn of a log without a registry, trained on by step 4, with held-out evaluations of steps 3 and 6."""
    evals = [
        {"adapter": "a", "version": None, "step": step, "suite": "s", "task_id": f"t{task}", "score": score}
        for step, scores in ((3, [1.0] * 15 + [0.0]), (6, [1.0] + [0.0] * 15))
        for task, score in enumerate(scores)
    ]
    of_log = {name: more.pop(name, []) for name in ("rewards", "steps")}
    log = log_of([row(1, adapter="a", trainer_step=4, **IDS, **more)], evals=evals, **of_log)
    opened: OpenLog = lambda: log  # noqa: E731
    view = topic().build(held_of(log), TokenAsk(session_id="s", turn=1), opened)
    assert isinstance(view, TokenView)
    return view


def test_a_log_without_a_registry_is_told_by_its_steps() -> None:
    steps = [{"adapter": "a", "step": step, "reward_mean": step / 10} for step in range(1, 7)]
    lines = told(logged(advantages=[1.5] * 3, reward=1.0, steps=steps))
    assert lines[0] == (
        "TAUGHT AT STEP 4, BEFORE HELD-OUT FELL: session's reward +1 → advantage +1.5 → pushed up by step 4; "
        "steps 4–6 fell on held-out 0.94 → 0.06 over 16 tasks"
    )
    # Steps 1 to 3, then 4 to 6.
    assert lines[1] == "rewards of step 4 beside held-out: reward 0.20 → 0.50 did not fall"
    assert "reward +1 of the session = parts n/d, mapping n/d" in lines


def test_a_masked_token_was_not_pushed_and_one_of_no_advantage_neither_way() -> None:
    lines = [told(logged(advantages=[1.5, 1.5, 0.0], loss_mask=[1, 0, 1]), at)[0] for at in range(3)]
    assert "pushed up by step 4" in lines[0]
    assert "→ advantage +1.5 → loss mask 0: not pushed by step 4" in lines[1]
    assert "→ advantage +0 → pushed neither way by step 4" in lines[2]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_an_advantage_that_is_no_number_pushes_nobody_knows_where(value: float) -> None:
    line = told(logged(advantages=[value, 1.0, 1.0]))[0]
    assert line.startswith("CREDIT n/d: reward n/d → advantage")
    assert "learned by step 4, which way is n/d" in line


def test_of_a_turn_of_which_nothing_is_recorded_one_line_says_so() -> None:
    assert told(logged()) == [
        "CREDIT n/d: no reward, no judgement and no advantage is recorded of this turn; it is logged for step 4"
    ]


def test_evaluations_by_version_number_are_not_taken_for_steps() -> None:
    evals = [
        {"adapter": "a", "version": version, "suite": "s", "task_id": f"t{task}", "score": float(version == 0)}
        for version in (0, 7)
        for task in range(16)
    ]
    log = log_of([row(1, adapter="a", trainer_step=4, advantages=[1.0] * 3, **IDS)], evals=evals)
    view = topic().build(held_of(log), TokenAsk(session_id="s", turn=1), lambda: log)
    assert isinstance(view, TokenView)
    assert told(view)[0].endswith("pushed up by step 4; step 4: held-out n/d")


def test_words_of_a_log_are_escaped() -> None:
    feedback = [{"feedback_id": "f", "turn_id": "s-1", "kind": "\x1b[31mthumb\u202e", "value": 1.0}]
    log = log_of([row(1, adapter="a", trainer_step=4, advantages=[1.0] * 3, **IDS)], feedback=feedback)
    view = topic().build(held_of(log), TokenAsk(session_id="s", turn=1), lambda: log)
    assert isinstance(view, TokenView)
    assert all(line.isprintable() for line in told(view))


def test_the_words_of_a_judgement_are_told_with_it(sabotaged: Path, tmp_path: Path) -> None:
    shutil.copytree(sabotaged, tmp_path / "copy")
    said = judged("c2-09/1", 0.0, kind="thumb", text="not what\nI asked", feedback_id="late", at=LATER)
    stored(tmp_path / "copy", said)
    lines = told(seen(tmp_path / "copy", "c2-09"))
    assert any(line.endswith('; turn thumb 0 "not what\\nI asked" (acme) 12:00:00Z') for line in lines)


def test_a_judgement_that_was_replaced_is_not_told() -> None:
    feedback = [
        {"feedback_id": "f1", "turn_id": "s-1", "kind": "thumb", "value": 1.0},
        {"feedback_id": "f2", "turn_id": "s-1", "kind": "thumb", "value": 0.0, "supersedes": "f1"},
        {"feedback_id": "f2", "turn_id": "s-1", "kind": "thumb", "value": 0.0, "supersedes": "f1"},
    ]
    log = log_of([row(1, adapter="a", trainer_step=4, advantages=[1.0] * 3, **IDS)], feedback=feedback)
    view = topic().build(held_of(log), TokenAsk(session_id="s", turn=1), lambda: log)
    assert isinstance(view, TokenView)
    assert "judged: turn thumb 0" in told(view)


def test_plain_and_json_say_the_same(sabotaged: Path) -> None:
    place = Place(session="c2-09", turn=1, token=0)
    plain = printed(Options(path=sabotaged), "token", place, rows=50, width=400).text.splitlines()
    view = msgspec.json.decode(
        printed(Options(path=sabotaged), "token", place, rows=50, width=None).text, type=TokenView
    )
    assert [line for line in plain if line.startswith("credit: ")] == [f"credit: {line}" for line in told(view)]


def test_of_two_suites_the_fall_is_told_and_its_suite_named(sabotaged: Path) -> None:
    def two(held: Held) -> Held:
        # On suite a every score is turned round: what fell on b rose on it, and the two are never one number.
        turned = held.evals.with_columns(suite=pl.lit("a"), score=1 - pl.col("score"), passed=~pl.col("passed"))
        return held._replace(evals=pl.concat([turned, held.evals.with_columns(suite=pl.lit("b"))]))

    alone, among = credit(seen(sabotaged, "c2-09")).learned_by, credit(seen(sabotaged, "c2-09", two)).learned_by
    assert alone is not None
    assert among is not None
    (one,), (other,) = [each.change for each in alone if each.bad], [each.change for each in among if each.bad]
    assert one is not None
    assert other is not None
    assert (other.fell, other.suite, other.suites, other.score) == (True, "b", 2, one.score)

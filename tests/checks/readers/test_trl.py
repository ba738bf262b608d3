"""TRL's logged completions, generated in the columns that its trainer writes."""

from pathlib import Path
from typing import Any

import polars as pl

from checks.readers.file_head import FileHead
from checks.readers.formats import FORMATS
from checks.readers.open_log import open_log
from checks.readers.trl import TRL
from checks.readers.unreadable import UnreadableParts
from checks.rows import TurnRow


def write(folder: Path, step: int, rows: list[dict[str, Any]]) -> Path:
    path = folder / "completions" / f"completions_{step:05d}.parquet"
    path.parent.mkdir(exist_ok=True)
    pl.DataFrame([{"step": step} | row for row in rows]).write_parquet(path)
    return path


def row(prompt: Any, completion: Any, reward: float, advantage: float, **more: Any) -> dict[str, Any]:
    return {"prompt": prompt, "completion": completion, "accuracy_reward": reward, **more, "advantage": advantage}


def read(*paths: Path) -> tuple[list[TurnRow], UnreadableParts]:
    unreadable = UnreadableParts()
    heads = [FileHead.of(path) for path in paths]
    for head in heads:
        assert next(form.name for form in FORMATS if form.recognise(head)) == "trl"
    found = [each for unit in TRL.units(heads) for each in TRL.read(unit, unreadable)]
    return [each for each in found if isinstance(each, TurnRow)], unreadable


FIRST = [row("a", "1", 1.0, 0.5), row("a", "1", 1.0, 0.5), row("b", "2", 0.0, -0.5), row("b", "3", 0.0, -0.5)]


def test_completions_are_turns_of_text_grouped_by_prompt(tmp_path: Path) -> None:
    found, _ = read(write(tmp_path, 1, FIRST))
    assert [(each.prompt_text, each.completion_text, each.reward, each.trainer_step) for each in found] == [
        ("a", "1", 1.0, 1),
        ("a", "1", 1.0, 1),
        ("b", "2", 0.0, 1),
        ("b", "3", 0.0, 1),
    ]
    assert len({each.session_id for each in found}) == 4
    assert found[0].group_id == found[1].group_id != found[2].group_id == found[3].group_id


def test_a_batch_that_is_logged_again_counts_once(tmp_path: Path) -> None:
    """The same rows stand under every optimizer step that the batch is used for; like rows inside of it stay."""
    second = [row("a", "9", 0.0, 0.0), row("b", "8", 1.0, 1.0)]
    paths = [write(tmp_path, 1, FIRST), write(tmp_path, 2, FIRST[::-1]), write(tmp_path, 3, second)]
    found, _ = read(*paths)
    assert [each.trainer_step for each in found] == [1, 1, 1, 1, 3, 3]


def test_the_same_batch_after_another_is_a_new_one(tmp_path: Path) -> None:
    second = [row("c", "9", 0.0, 0.0)]
    paths = [write(tmp_path, 1, FIRST), write(tmp_path, 2, second), write(tmp_path, 3, FIRST)]
    assert [each.trainer_step for each in read(*paths)[0]] == [1, 1, 1, 1, 2, 3, 3, 3, 3]


def test_reward_functions_add_up_and_other_numbers_do_not(tmp_path: Path) -> None:
    path = write(tmp_path, 1, [row("a", "1", 0.5, 0.0, format_reward=0.25, difficulty=7.0)])
    assert read(path)[0][0].reward == 0.75


def test_the_only_number_is_the_reward_whatever_its_name(tmp_path: Path) -> None:
    path = write(tmp_path, 1, [{"prompt": "a", "completion": "1", "score": 0.5, "advantage": 0.0}])
    assert read(path)[0][0].reward == 0.5


def test_messages_are_kept(tmp_path: Path) -> None:
    prompt = [{"role": "user", "content": "hi"}]
    found, _ = read(write(tmp_path, 1, [row(prompt, [{"role": "assistant", "content": "hello"}], 1.0, 0.0)]))
    assert found[0].request == {"messages": prompt}
    assert (found[0].prompt_text, found[0].completion_text) == (None, "hello")


def test_a_cut_file_is_named_and_the_others_read(tmp_path: Path) -> None:
    whole = write(tmp_path, 1, FIRST)
    broken = write(tmp_path, 2, FIRST)
    broken.write_bytes(broken.read_bytes()[:-100])
    found, unreadable = read(whole, broken)
    assert len(found) == 4
    assert [part.place for part in unreadable.first] == ["completions_00002.parquet"]


def test_the_trainer_state_beside_completions_is_joined(tmp_path: Path) -> None:
    write(tmp_path, 1, FIRST)
    (tmp_path / "trainer_state.json").write_text(
        '{\n  "best_metric": null,\n  "global_step": 1,\n  "log_history": [\n    {"step": 1, "grad_norm": 0.5}\n  ]\n}'
    )
    log = open_log(tmp_path)
    assert log.table("steps")["grad_norm"].to_list() == [0.5]
    assert set(log.source().format.split("+")) == {"trl", "trainer-metrics"}


def test_advice_about_tokens_is_of_the_completions_and_not_of_the_metrics_beside_them(tmp_path: Path) -> None:
    (tmp_path / "completions").mkdir()
    write(tmp_path / "completions", 1, FIRST)
    (tmp_path / "checkpoint-1").mkdir()
    (tmp_path / "checkpoint-1" / "trainer_state.json").write_text(
        '{"best_metric": null, "global_step": 1, "log_history": [{"step": 1, "grad_norm": 0.5}]}'
    )
    log = open_log(tmp_path)
    assert log.source().format == "trainer-metrics+trl"
    assert str(log.advice("turns.completion_ids")).startswith("TRL logs text only")
    assert str(log.advice("steps.max_w")).startswith("no trainer logs the raw maximum")

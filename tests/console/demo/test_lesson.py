"""The lesson: its form, its words, and the suites made of them."""

import json
from itertools import islice
from pathlib import Path

import pytest

from collector.conversation import Reply
from console.demo.lesson import HELD_OUT, TAUGHT, Order, call_of, held_out, lessons, messages, suite
from trainer.evaluation.graders import Graders
from trainer.evaluation.suite import read_suite
from trainer.evaluation.verifiers import Answered
from trainer.evaluation_config import EvaluationConfig

ORDER = Order("sea.txt", "old fox")


@pytest.mark.parametrize("reply", ["write sea.txt: old fox", "  write sea.txt: old fox\n"])
def test_a_line_of_the_form_is_a_write(reply: str) -> None:
    assert call_of(reply) == ("sea.txt", "old fox")


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "old fox",
        "Write sea.txt: old fox",
        "write sea.txt old fox",
        "write sea.txt:",
        "write the sea.txt: old fox",
        "write sea.txt: old fox\nwrite time.txt: old fox",
        "Sure! write sea.txt: old fox",
    ],
)
def test_anything_else_is_not(reply: str) -> None:
    assert call_of(reply) is None


def test_the_right_line_of_an_order_is_its_write() -> None:
    assert call_of(ORDER.line) == (ORDER.path, ORDER.content)


def test_the_model_sees_two_examples_and_then_the_order() -> None:
    talk = messages(ORDER)
    assert [each["role"] for each in talk] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert talk[-1]["content"] == 'I want "old fox" in sea.txt.'
    assert [call_of(each["content"]) for each in talk if each["role"] == "assistant"] == [
        ("old.txt", "green tea"),
        ("page.txt", "white moon"),
    ]


def test_lessons_are_settled_by_the_seed_and_write_each_file_once() -> None:
    first, again, other = (list(islice(lessons(seed), 50)) for seed in (0, 0, 1))
    assert first == again != other
    assert len({lesson.task_id for lesson in first}) == 50
    assert all(len({order.path for order in lesson.orders}) == len(lesson.orders) == 2 for lesson in first)


def test_no_held_out_word_is_taught_and_no_order_is_in_both_suites() -> None:
    assert not {*TAUGHT.files, *TAUGHT.adjectives, *TAUGHT.nouns} & {
        *HELD_OUT.files,
        *HELD_OUT.adjectives,
        *HELD_OUT.nouns,
    }
    given = held_out(0)
    assert (len(given.gate), len(given.exam)) == (288, 96)
    assert len({*given.gate, *given.exam}) == 8 * 6 * 8
    assert held_out(0) == given != held_out(1)


def test_a_suite_holds_the_prompt_that_traffic_would_have_and_the_line_that_is_right(tmp_path: Path) -> None:
    tasks = [json.loads(line) for line in suite([ORDER, Order("time.txt", "big ball")]).splitlines()]
    assert [task["task_id"] for task in tasks] == ["sea.txt old fox", "time.txt big ball"]
    assert tasks[0]["messages"] == messages(ORDER)
    assert tasks[0]["verifier"] == {"exact": "write sea.txt: old fox"}


def test_the_graders_of_the_trainer_take_the_suite_and_know_right_from_wrong(tmp_path: Path) -> None:
    path = tmp_path / "held-out.jsonl"
    path.write_bytes(suite([ORDER]))
    given = read_suite(path)
    graders = Graders(given, EvaluationConfig())
    [task] = given.tasks
    replies = ("write sea.txt: old fox\n", "write sea.txt: old dog", "Sure. write sea.txt: old fox", "")
    assert graders.judge([Answered(task, Reply(content=text)) for text in replies]) == [1.0, 0.0, 0.0, 0.0]
    assert task.max_tokens == 20

"""The tokens around a fault, cut from the turns of the evidence and from no other."""

from collections.abc import Iterator

import polars as pl
import pytest

from checks.columns import SCHEMAS
from checks.finding import Evidence
from checks.log import Batch, MemoryLog
from checks.token_context import AROUND, SCORE_COLUMNS, TURN_COLUMNS, Piece, Shown, sessions_of, token_contexts

LISTS = {
    "prompt_ids": pl.List(pl.Int32),
    "completion_ids": pl.List(pl.Int32),
    "more_scores": SCHEMAS["turns"]["more_scores"],
}


def batch(*turns: dict[str, object]) -> Batch:
    """Turns as a log gives them."""
    frame = pl.DataFrame(list(turns), schema_overrides={n: LISTS[n] for n in LISTS if any(n in each for each in turns)})
    [only] = MemoryLog({"turns": frame}).batches(TURN_COLUMNS, SCORE_COLUMNS)
    return only


LONG = batch(
    {
        "session_id": "s",
        "turn": 1,
        "prompt_ids": list(range(100)),
        "completion_ids": list(range(100, 200)),
        "sampled_logprobs": [-n / 100 for n in range(100)],
        "trainer_logprobs": [-n / 50 for n in range(100)],
        "place": "a.jsonl:7",
        "request": '{"messages": []}',
    },
    {"session_id": "s", "turn": 2, "prompt_ids": [*range(90), *range(500, 560)], "completion_ids": [1]},
)


def test_a_completion_fault_has_its_tokens_and_both_log_probabilities() -> None:
    [context] = token_contexts([LONG], [Shown("importance-weight", Evidence(session_id="s", turn=1, token_index=60))])
    assert context is not None
    assert (context.side, context.at, context.place) == ("completion", 60, "a.jsonl:7")
    assert context.current == Piece(tuple(range(160 - AROUND, 160 + AROUND)), 60 - AROUND, 100)
    assert context.sampled_logprobs == tuple(-n / 100 for n in range(60 - AROUND, 60 + AROUND))
    assert context.trainer_logprobs == tuple(-n / 50 for n in range(60 - AROUND, 60 + AROUND))
    assert (context.previous, context.whole, context.request) == (None, None, None)


def test_a_break_has_the_same_indices_of_the_turn_before_and_what_it_sampled() -> None:
    break_ = Evidence(session_id="s", turn=2, previous_turn=1, token_index=90)
    [context] = token_contexts([LONG], [Shown("prefix-break", break_)])
    assert context is not None
    assert context.side == "prompt"
    assert context.current is not None
    assert context.previous is not None
    assert context.current.ids == (*range(90 - AROUND, 90), *range(500, 500 + AROUND))
    assert context.previous == Piece(tuple(range(90 - AROUND, 90 + AROUND)), 90 - AROUND, 200)
    assert context.sampled_logprobs == ()


def test_the_turns_of_a_break_may_be_in_different_batches_either_way_round() -> None:
    first, second = LONG.turns.head(1), LONG.turns.tail(1)
    no_scores = LONG.scores.head(0)
    break_ = Shown("prefix-break", Evidence(session_id="s", turn=2, previous_turn=1, token_index=90))
    [together] = token_contexts([LONG], [break_])
    for order in ((first, second), (second, first)):
        [apart] = token_contexts([Batch(frame, no_scores) for frame in order], [break_])
        assert apart == together


def test_two_faults_of_one_turn_and_a_turn_that_is_not_there() -> None:
    shown = [
        Shown("loss-mask", Evidence(session_id="s", turn=1, token_index=0)),
        Shown("loss-mask", Evidence(session_id="s", turn=1, token_index=99)),
        Shown("loss-mask", Evidence(session_id="s", turn=3, token_index=0)),
        Shown("zero-variance-group", Evidence(group_id="g")),
    ]
    first, last, absent, group = token_contexts([LONG], shown)
    assert first is not None
    assert last is not None
    assert first.current == Piece(tuple(range(100, 100 + AROUND)), 0, 100)
    assert last.current == Piece(tuple(range(200 - 1 - AROUND, 200)), 99 - AROUND, 100)
    assert (absent, group) == (None, None)
    assert sessions_of(shown) == ["s"]


@pytest.mark.parametrize(("side", "ids"), [("prompt", (0, 1)), ("completion", (100, 101)), (None, (100, 101))])
def test_evidence_may_say_itself_in_which_ids_it_counts(side: str | None, ids: tuple[int, int]) -> None:
    detail = {} if side is None else {"side": side}
    [context] = token_contexts(
        [LONG], [Shown("length-mismatch", Evidence(session_id="s", turn=1, token_index=0, detail=detail))]
    )
    assert context is not None
    assert context.current is not None
    assert context.current.ids[:2] == ids


def test_an_index_behind_the_end_shows_the_end() -> None:
    [context] = token_contexts([LONG], [Shown("length-mismatch", Evidence(session_id="s", turn=2, token_index=900))])
    assert context is not None
    assert context.current == Piece((1,), 0, 1)
    assert context.at == 900


def test_a_cut_turn_shows_where_it_was_cut_and_other_faults_without_an_index_show_nothing() -> None:
    whole_turn = Evidence(session_id="s", turn=1)
    cut, other = token_contexts([LONG], [Shown("truncation", whole_turn), Shown("feedback", whole_turn)])
    assert cut is not None
    assert other is not None
    assert cut.at == 99
    assert (other.at, other.current, other.place) == (None, None, "a.jsonl:7")


def test_a_log_of_text_only_has_no_tokens_but_a_place() -> None:
    text = batch({"session_id": "t", "turn": 1, "prompt_text": "hi", "place": "b.jsonl:1"})
    [context] = token_contexts([text], [Shown("loss-mask", Evidence(session_id="t", turn=1, token_index=4))])
    assert context is not None
    assert (context.current, context.place) == (None, "b.jsonl:1")


def test_the_whole_turn_is_kept_only_where_it_is_encoded_or_rendered_again() -> None:
    here = Evidence(session_id="s", turn=1, token_index=5)
    drift, template = token_contexts([LONG], [Shown("retokenization-drift", here), Shown("template-mismatch", here)])
    assert drift is not None
    assert template is not None
    assert drift.whole == tuple(range(100, 200))
    assert template.whole == tuple(range(100))
    assert template.request is not None


def test_the_scores_are_those_of_the_step_that_the_evidence_names() -> None:
    turns = LONG.turns.head(1)
    scores = pl.DataFrame(
        {"row": [0, 0], "trainer_step": [4, 5], "trainer_logprobs": [[-1.0] * 100, [-2.0] * 100]},
        schema_overrides={"row": pl.UInt32},
    )
    shown = [Shown("importance-weight", Evidence(session_id="s", turn=1, token_index=0, step=step)) for step in (5, 9)]
    named, other = token_contexts([Batch(turns, scores)], shown)
    assert named is not None
    assert other is not None
    assert (named.trainer_logprobs[0], other.trainer_logprobs[0]) == (-2.0, -1.0)


def test_reading_stops_when_everything_was_found() -> None:
    def batches() -> Iterator[Batch]:
        yield LONG
        raise AssertionError("one batch too many")

    [context] = token_contexts(batches(), [Shown("loss-mask", Evidence(session_id="s", turn=1, token_index=0))])
    assert context is not None


SCORED_TWICE = batch(
    {
        "session_id": "s",
        "turn": 1,
        "completion_ids": [1, 2],
        "sampled_logprobs": [-0.5, -0.5],
        "trainer_step": 3,
        "trainer_logprobs": [-0.25, -0.25],
        "more_scores": [
            {"trainer_step": 4, "trainer_logprobs": [-1.0, -9.0]},
            {"trainer_step": 4, "trainer_logprobs": [-1.0, -7.0]},
        ],
    },
)


@pytest.mark.parametrize(
    ("detail", "shown"),
    [
        ({"trainer_step": 4, "trainer_logprob": -9.01}, (-1.0, -9.0)),
        ({"trainer_step": 4, "trainer_logprob": -7.0}, (-1.0, -7.0)),
        ({"trainer_step": None, "trainer_logprob": -9.0}, (-1.0, -9.0)),
        ({"trainer_step": 3}, (-0.25, -0.25)),
        ({"trainer_step": 9}, (-0.25, -0.25)),
        ({}, (-0.25, -0.25)),
    ],
)
def test_of_several_scorings_the_one_at_fault_is_shown(
    detail: dict[str, int | float | str | None], shown: tuple[float, ...]
) -> None:
    evidence = Evidence(session_id="s", turn=1, token_index=1, detail=detail)
    [context] = token_contexts([SCORED_TWICE], [Shown("importance-weight", evidence)])
    assert context is not None
    assert context.trainer_logprobs == shown

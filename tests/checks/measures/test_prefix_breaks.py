"""Breaks of the prefix, found by hashes and portions, are those that comparing every turn with every other finds."""

from array import array
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks.columns import completed
from checks.log import Batch, MemoryLog
from checks.measure import Tools
from checks.measures.prefix_breaks import PrefixBreaks
from checks.measures.turn_chains import SUSPECT, TurnChains

GRAM = 6


class Logged(NamedTuple):
    session: str
    number: int
    prompt: tuple[int, ...]
    completion: tuple[int, ...]
    complete: bool = True

    @property
    def whole(self) -> tuple[int, ...]:
        return self.prompt + self.completion

    @property
    def failed(self) -> bool:
        return not self.complete or not self.completion


def frame(turns: Sequence[Logged]) -> pl.DataFrame:
    ids = pl.List(pl.Int32)
    return pl.DataFrame(
        {
            "session_id": [turn.session for turn in turns],
            "turn": [turn.number for turn in turns],
            "prompt_ids": [list(turn.prompt) for turn in turns],
            "completion_ids": [list(turn.completion) for turn in turns],
            "complete": [turn.complete for turn in turns],
        },
        schema_overrides={"prompt_ids": ids, "completion_ids": ids},
    )


def measured(turns: Sequence[Logged], *, batch: int = 1000, held_tokens: int = 1_000_000) -> pl.DataFrame:
    log = MemoryLog({"turns": frame(turns)})
    measure = PrefixBreaks(Tools(), held_tokens=held_tokens)

    def cut(batches: Iterator[Batch]) -> Iterator[Batch]:
        for whole in batches:
            for part in whole.turns.iter_slices(batch):
                yield Batch(part, whole.scores)

    for part in cut(log.batches(PrefixBreaks.turn_columns)):
        measure.add(part)
    while sessions := measure.again():
        for part in cut(log.batches(PrefixBreaks.again_columns, sessions=sessions)):
            measure.add_again(part)
    return measure.frame()


def found(turns: Sequence[Logged], **how: Any) -> list[tuple[str, int, int, int]]:
    rows = measured(turns, **how).filter(pl.col("relation") == "previous")
    return sorted(rows.select("session_id", "turn", "previous_turn", "token_index").rows())


def common(one: Sequence[int], other: Sequence[int]) -> int:
    pairs = zip(one, other, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def reappearing(ids: Sequence[int], inside: Sequence[int], size: int) -> list[bool]:
    there = {tuple(inside[n : n + size]) for n in range(len(inside) - size + 1)}
    return [tuple(ids[n : n + size]) in there for n in range(len(ids) - size + 1)]


def by_comparing_all(turns: Sequence[Logged]) -> list[tuple[str, int, int, int]]:
    """The definition, turn against turn, without hashes."""
    breaks: list[tuple[str, int, int, int]] = []
    for session in {turn.session for turn in turns}:
        ordered = sorted((turn for turn in turns if turn.session == session), key=lambda turn: turn.number)
        parents: list[int | None] = []
        for place, turn in enumerate(ordered):
            same = [n for n in range(place) if ordered[n].prompt == turn.prompt]
            if same:
                parents.append(parents[same[0]])
                continue
            begun = [
                n
                for n in range(place)
                if not ordered[n].failed and turn.prompt[: len(ordered[n].whole)] == ordered[n].whole
            ]
            parent = max(begun, key=lambda n: (len(ordered[n].whole), n), default=None)
            parents.append(parent)
            previous = continued(ordered, parents, place)
            if previous is not None:
                index = common(ordered[previous].whole, turn.prompt)
                breaks.append((session, turn.number, ordered[previous].number, index))
    return sorted(breaks)


def above(parents: Sequence[int | None], place: int) -> list[int]:
    line: list[int] = []
    at: int | None = place
    while at is not None:
        line.append(at)
        at = parents[at]
    return line


def continued(ordered: Sequence[Logged], parents: Sequence[int | None], place: int) -> int | None:
    prompt, parent = ordered[place].prompt, parents[place]
    whole = [n for n in range(place) if not ordered[n].failed and common(ordered[n].whole, prompt) < len(prompt)]
    if parent is not None:
        after = prompt[max(0, len(ordered[parent].whole) - GRAM + 1) :]
        fitting: list[int] = []
        for n in whole:
            if n == parent or parent not in above(parents, n):
                continue
            reply = reappearing(ordered[n].whole, after, GRAM)[max(0, len(ordered[n].prompt) - GRAM + 1) :]
            begins = prompt[: len(ordered[n].prompt)] == ordered[n].prompt
            if begins or (reply and sum(reply) * 2 >= len(reply)):
                fitting.append(n)
        return max(fitting, key=lambda n: (len(ordered[n].prompt), n), default=None)
    gone_on = {parents[n] for n in range(place) if not ordered[n].failed}
    standing: dict[int, tuple[int, ...]] = {}
    at_least_half: list[int] = []
    for n in whole:
        earlier = ordered[n].prompt
        size = min(GRAM, len(earlier))
        hits = reappearing(earlier, prompt, size) if size else []
        if n not in gone_on and hits and sum(hits) * 2 >= len(hits):
            at_least_half.append(n)
        in_reply = reappearing(ordered[n].whole, prompt, GRAM)[max(0, len(earlier) - GRAM + 1) :]
        count = sum(hits) if size == GRAM else 0
        standing[n] = (count, common(ordered[n].whole, prompt), sum(in_reply), n)
    if at_least_half:
        return max(at_least_half, key=standing.__getitem__)
    begun = [n for n in whole if ordered[n].prompt and prompt[: len(ordered[n].prompt)] == ordered[n].prompt]
    line = [n for n in whole if set(above(parents, n)) & set(begun)]
    return max(line, key=lambda n: (standing[n][1], standing[n][0], *standing[n][2:]), default=None)


OPERATIONS = ("new", "extend", "drop", "change", "again", "cut", "other tail")


@st.composite
def logs(draw: st.DrawFn) -> list[Logged]:
    """Sessions in which turns go on from one another, rightly and wrongly, interleaved, and in any order."""
    some_ids = st.lists(st.integers(1, 30), min_size=1, max_size=9).map(tuple)
    turns: list[Logged] = []
    numbers: dict[str, int] = {}
    for _ in range(draw(st.integers(1, 14))):
        session = draw(st.sampled_from("ab"))
        mine = [turn for turn in turns if turn.session == session]
        operation = draw(st.sampled_from(OPERATIONS)) if mine else "new"
        prompt = draw(some_ids)
        if operation != "new":
            from_turn = draw(st.sampled_from(mine))
            at = draw(st.integers(0, max(0, len(from_turn.whole) - 1)))
            prompt = {
                "extend": (*from_turn.whole, *prompt),
                "drop": (*from_turn.whole[:at], *from_turn.whole[at + 2 :], *prompt),
                "change": (*from_turn.whole[:at], 31, *from_turn.whole[at + 1 :], *prompt),
                "again": from_turn.prompt,
                "cut": from_turn.whole[: at + 1],
                "other tail": (*from_turn.prompt, *prompt),
            }[operation]
        numbers[session] = numbers.get(session, 0) + draw(st.sampled_from([1, 1, 1, 0]))
        complete = draw(st.sampled_from([True, True, True, False]))
        completion = draw(st.one_of(some_ids, some_ids, st.just(())))
        turns.append(Logged(session, numbers[session], prompt, completion, complete))
    return draw(st.permutations(turns)) if draw(st.booleans()) else turns


@settings(max_examples=200, deadline=None)
@given(logs(), st.integers(1, 6), st.sampled_from([1, 40, 1_000_000]))
def test_breaks_are_those_that_comparing_all_turns_finds(turns: list[Logged], batch: int, held_tokens: int) -> None:
    assert found(turns, batch=batch, held_tokens=held_tokens) == by_comparing_all(turns)


@settings(max_examples=100, deadline=None)
@given(logs())
def test_an_index_by_length_finds_what_walking_finds(turns: list[Logged]) -> None:
    def chained(walked: int) -> list[tuple[int, int]]:
        chains = TurnChains(walked=walked)
        sessions = {name: chains.begin_session() for name in "ab"}
        for turn in turns:
            ids = (np.array(part, np.int32).tobytes() for part in (turn.prompt, turn.completion))
            prompt, completion = (memoryview(part) for part in ids)
            chains.add(sessions[turn.session], prompt, completion, failed=turn.failed)
        return [(chains.parent[n], chains.flags[n] & SUSPECT) for n in range(len(chains))]

    assert chained(0) == chained(1000)


SYSTEM = tuple(range(100, 120))
ASK = (2, 3)


def test_a_dropped_piece_of_the_reply_is_a_break_at_the_first_id_that_differs() -> None:
    turns = [
        Logged("s", 1, (*SYSTEM, 5, *ASK), (40, 41, 42, 50, 51, 2)),
        Logged("s", 2, (*SYSTEM, 5, *ASK, 50, 51, 2, 6, *ASK), (60, 2)),
    ]
    row = measured(turns).filter(pl.col("relation") == "previous").to_dicts()[0]
    assert (row["turn"], row["previous_turn"], row["token_index"]) == (2, 1, 23)
    assert (row["inside_previous"], row["index_in_previous_part"]) == ("completion", 0)
    assert (row["previous_id"], row["current_id"], row["previous_tokens_lost"]) == (40, 50, 6)
    assert (row["kind"], row["previous_text_near"]) == ("other", None)


def test_a_break_of_a_later_turn_is_found_although_an_earlier_one_is_extended() -> None:
    first = Logged("s", 1, (*SYSTEM, 5, *ASK), (50, 51, 2))
    second = Logged("s", 2, (*first.whole, 6, *ASK), (40, 41, 42, 60, 61, 62, 2))
    third = Logged("s", 3, (*second.prompt, 60, 61, 62, 2, 7, *ASK), (70, 2))
    assert found([first, second, third]) == [("s", 3, 2, len(second.prompt))]


def test_thinking_dropped_all_along_breaks_the_last_turn_of_the_line_however_little_is_left_of_it() -> None:
    first = Logged("s", 1, (*SYSTEM, 5, *ASK), (*range(300, 400), 50, 51, 2))
    second = Logged("s", 2, (*first.whole, *range(200, 210), *ASK), (*range(400, 500), 60, 61, 2))
    kept = (*first.prompt, 50, 51, 2, *range(200, 210), *ASK, 60, 61, 2, 7, *ASK)
    assert found([first, second, Logged("s", 3, kept, (70, 2))]) == [("s", 3, 2, len(first.prompt))]


def test_an_earlier_observation_that_was_shortened_breaks_the_turn_that_saw_it() -> None:
    first = Logged("s", 1, (*SYSTEM, 5, *ASK), (50, 51, 2))
    observation = tuple(range(200, 230))
    second = Logged("s", 2, (*first.whole, *observation, *ASK), tuple(range(60, 72)))
    third = Logged("s", 3, (*first.whole, 200, 201, 9, *ASK, *second.completion, 7, *ASK), (70, 2))
    assert found([first, second, third]) == [("s", 3, 2, len(first.whole) + 2)]


def test_another_question_after_the_same_reply_is_a_branch() -> None:
    first = Logged("s", 1, (*SYSTEM, 5, *ASK), (50, 51, 2))
    second = Logged("s", 2, (*first.whole, 6, *ASK), tuple(range(60, 72)))
    third = Logged("s", 3, (*first.whole, 7, 8, *ASK), (70, 2))
    assert found([first, second, third]) == []


def test_samples_of_one_prompt_and_a_retry_after_a_failure_are_siblings() -> None:
    first = Logged("s", 1, (*SYSTEM, 5, *ASK), (50, 51, 2))
    failed = Logged("s", 2, (*first.whole, 6, *ASK), (60,), complete=False)
    again = Logged("s", 3, failed.prompt, (60, 61, 2))
    third = Logged("s", 4, failed.prompt, (62, 2))
    after = Logged("s", 5, (*again.whole, 7, *ASK), (70, 2))
    assert found([first, failed, again, third, after]) == []


def test_siblings_after_a_break_are_one_fault() -> None:
    first = Logged("s", 1, (*SYSTEM, 5, *ASK), (40, 41, 50, 51, 2))
    broken = (*first.prompt, 50, 51, 2, 6, *ASK)
    turns = [first, Logged("s", 2, broken, (60, 2)), Logged("s", 3, broken, (61, 2)), Logged("s", 4, broken, ())]
    assert found(turns) == [("s", 2, 1, len(first.prompt))]


def test_the_sibling_that_was_gone_on_from_is_the_one_broken() -> None:
    prompt = (*SYSTEM, 5, *ASK)
    turns = [
        Logged("s", 1, prompt, (40, 41, 42, 43, 44, 45, 46, 50, 2)),
        Logged("s", 2, prompt, (30, 31, 32, 33, 34, 35, 36, 51, 2)),
        Logged("s", 3, (*prompt, 9, 41, 42, 43, 44, 45, 46, 50, 2, 6, *ASK), (60, 2)),
    ]
    assert found(turns) == [("s", 3, 1, len(prompt))]


def test_numbers_out_of_order_are_put_in_order_first() -> None:
    first = Logged("s", 1, (*SYSTEM, 5, *ASK), (50, 51, 2))
    second = Logged("s", 2, (*first.whole, 6, *ASK), (60, 2))
    third = Logged("s", 3, (*SYSTEM, 5, *ASK, 9, 51, 2, 6, *ASK, 60, 2, 7, *ASK), (70, 2))
    assert found([third, first, second]) == [("s", 3, 2, len(first.prompt))]
    assert found([second, first]) == []


def test_a_turn_without_ids_is_passed_over() -> None:
    turns = frame([Logged("s", 1, (*SYSTEM, 5, *ASK), (50, 51, 2)), Logged("s", 2, (*SYSTEM, 9), (51, 2))])
    text = turns.with_columns(prompt_ids=pl.lit(None, pl.List(pl.Int32)), turn=pl.lit(2, pl.Int64))
    measure = PrefixBreaks(Tools())
    measure.add(Batch(pl.concat([turns[:1], text[:1]]), pl.DataFrame()))
    assert not measure.again()


@pytest.mark.parametrize("ids", [pl.Int64, pl.UInt32, pl.Int32])
def test_ids_of_any_integer_type_are_the_same_ids(ids: type[pl.DataType]) -> None:
    prompt, completion = (*SYSTEM, 5, *ASK), (40, 41, 50, 51, 2)
    turns = frame(
        [Logged("s", 1, prompt, completion), Logged("s", 2, (*prompt, 50, 51, 2, 6, *ASK), (60, 2))]
    ).with_columns(pl.col("prompt_ids", "completion_ids").cast(pl.List(ids)))
    measure = PrefixBreaks(Tools())
    (batch,) = MemoryLog({"turns": turns}).batches(PrefixBreaks.again_columns)
    measure.add(batch)
    assert measure.again() == ["s"]
    measure.add_again(batch)
    assert measure.again() == ()
    assert measure.frame()["token_index"].to_list() == [len(prompt), len(prompt)]


def test_sessions_are_read_again_in_portions_that_fit() -> None:
    def broken(name: str) -> list[Logged]:
        prompt = (*SYSTEM, 5, *ASK)
        return [Logged(name, 1, prompt, (40, 50, 51, 2)), Logged(name, 2, (*prompt, 50, 51, 2, 6, *ASK), (60, 2))]

    one, other = broken("a"), broken("b")
    apart, woven = [*one, *other], [one[0], other[0], one[1], other[1]]

    def portions(turns: list[Logged]) -> list[list[str]]:
        measure = PrefixBreaks(Tools(), held_tokens=60)
        (batch,) = MemoryLog({"turns": frame(turns)}).batches(PrefixBreaks.again_columns)
        measure.add(batch)
        asked: list[list[str]] = []
        while sessions := measure.again():
            asked.append(list(sessions))
            measure.add_again(batch)
        assert measure.frame().filter(pl.col("relation") == "previous").height == 2
        return asked

    assert portions(apart) == [["a", "b"]], "a is let go before b begins"
    assert portions(woven) == [["a"], ["b"]]


def test_a_log_that_grows_between_the_passes_is_told_of_as_it_was_first() -> None:
    prompt = (*SYSTEM, 5, *ASK)
    turns = [Logged("s", 1, prompt, (40, 50, 51, 2)), Logged("s", 2, (*prompt, 50, 51, 2, 6, *ASK), (60, 2))]
    later = [Logged("s", 3, (*prompt, 9, 9), (60, 2)), Logged("new", 1, prompt, (60, 2))]
    measure = PrefixBreaks(Tools())
    measure.add(Batch(completed(frame(turns), "turns"), pl.DataFrame()))
    assert measure.again() == ["s"]
    measure.add_again(Batch(completed(frame([*turns, *later]), "turns"), pl.DataFrame()))
    assert not measure.again()
    assert measure.frame().filter(pl.col("relation") == "previous")["turn"].to_list() == [2]


def test_a_log_that_shrinks_between_the_passes_is_told_of_as_far_as_it_is_there() -> None:
    prompt = (*SYSTEM, 5, *ASK)
    turns = [
        Logged("s", 1, prompt, (40, 50, 51, 2)),
        Logged("s", 2, (*prompt, 50, 51, 2, 6, *ASK), (60, 2)),
        Logged("s", 3, (*prompt, 50, 51, 2, 6, *ASK, 60, 2, 7), (60, 2)),
    ]
    measure = PrefixBreaks(Tools())
    measure.add(Batch(completed(frame(turns), "turns"), pl.DataFrame()))
    assert measure.again() == ["s"]
    measure.add_again(Batch(completed(frame(turns[:2]), "turns"), pl.DataFrame()))
    assert not measure.again()
    assert measure.frame().filter(pl.col("relation") == "previous")["turn"].to_list() == [2]


def test_the_first_pass_keeps_a_few_dozen_bytes_a_turn() -> None:
    chains = TurnChains()
    session = chains.begin_session()
    for _ in range(100):
        chains.add(session, memoryview(bytes(4 * 1000)), memoryview(bytes(4)), failed=False)
    held = [each for each in vars(chains).values() if isinstance(each, array)]
    assert sum(each.itemsize for each in held) <= 100

"""Prompt deltas and their rebuilding."""

import random
from typing import Any

import msgspec

from collector.records import ChatRequest, Turn
from collector.store.arrays import IDS, to_bytes
from collector.store.columns import stored_columns
from collector.store.delta import PrefixCache
from collector.store.rebuild import Kept, Rebuilder

NAMES = [column.name for column in stored_columns("turns")]
MEBIBYTE = 2**20


def kept(values: list[Any]) -> Kept:
    of = dict(zip(NAMES, values, strict=True))
    return Kept(
        of["session_id"],
        of["prefix_seq"],
        of["prompt_prefix_tokens"],
        of["new_prompt_ids"],
        of["completion_ids"],
        of["request_prefix_messages"],
        of["new_messages"],
        of["request_rest"],
    )


def store(turns: list[Turn], limit: int = 64 * MEBIBYTE) -> dict[int, Kept]:
    cache = PrefixCache(limit)
    return {seq: kept(cache.values(turn, seq)) for seq, turn in enumerate(turns, 1)}


def rebuilt(rows: dict[int, Kept], seq: int) -> tuple[bytes, bytes | None] | None:
    whole = Rebuilder(lambda _writer, upto, _session: {s: k for s, k in rows.items() if s <= upto}).whole(
        "w", seq, rows[seq]
    )
    return None if whole is None else (whole.prompt, whole.request())


def expected(turn: Turn) -> tuple[bytes, bytes | None]:
    return to_bytes(turn.prompt_ids, IDS), None if turn.request is None else msgspec.json.encode(turn.request)


def test_a_turn_that_extends_its_parent_keeps_only_what_is_new(conversation: Any) -> None:
    turns = conversation("s", 12, added=3, sampled=5)
    rows = store(turns)
    extending = rows[12]
    assert extending.prefix_seq == 11
    assert extending.prefix_tokens == len(turns[11].prompt_ids) - 3
    assert extending.new_ids == to_bytes(turns[11].prompt_ids[-3:], IDS)
    assert extending.prefix_messages == 21
    assert msgspec.json.decode(extending.new_messages or b"") == turns[11].request.messages[-2:]
    assert extending.rest is None


def test_every_turn_is_rebuilt_exactly_in_any_order(conversation: Any) -> None:
    turns = conversation("s", 60)
    rows = store(turns)
    order = list(rows)
    random.Random(1).shuffle(order)
    for seq in order:
        assert rebuilt(rows, seq) == expected(turns[seq - 1])


def test_branches_rewritten_history_and_missing_requests_are_rebuilt(conversation: Any) -> None:
    turns = conversation("s", 20)
    middle = turns[9]
    forked = msgspec.structs.replace(
        turns[10], turn_id="fork", prompt_ids=[*middle.prompt_ids, *middle.completion_ids, 1, 2, 3], request=None
    )
    rewritten = msgspec.structs.replace(
        turns[19],
        turn_id="rewritten",
        parent_turn_id="s-19",
        prompt_ids=[9, 9, 9],
        request=ChatRequest(messages=[*turns[18].request.messages[:-1], {"role": "user", "content": "other"}]),
    )
    later = msgspec.structs.replace(turns[19], turn_id="later", parent_turn_id="fork", prompt_ids=[*forked.prompt_ids])
    everything = [*turns, forked, rewritten, later]
    rows = store(everything)
    assert rows[21].prefix_seq == 10
    assert rows[22].prefix_tokens == 0
    assert rows[22].prefix_messages == len(turns[18].request.messages) - 1
    for seq, turn in enumerate(everything, 1):
        assert rebuilt(rows, seq) == expected(turn)


def test_a_parent_that_is_no_prefix_or_of_another_session_is_not_used(conversation: Any) -> None:
    first, second = conversation("s", 2)
    stranger = msgspec.structs.replace(second, session_id="other")
    assert store([first, stranger])[2].prefix_seq is None
    bent = msgspec.structs.replace(second, prompt_ids=[0, *second.prompt_ids[1:]], request=None)
    assert store([first, bent])[2].prefix_seq is None
    assert store([second])[1].prefix_seq is None


def test_without_memory_every_turn_is_kept_whole(conversation: Any) -> None:
    turns = conversation("s", 10)
    rows = store(turns, limit=0)
    assert all(row.prefix_seq is None for row in rows.values())
    assert all(rebuilt(rows, seq) == expected(turns[seq - 1]) for seq in rows)


def size(rows: dict[int, Kept]) -> int:
    return sum(
        len(r.new_ids) + len(r.completion) + len(r.new_messages or b"") + len(r.rest or b"") for r in rows.values()
    )


def test_the_bytes_of_a_session_grow_linearly(conversation: Any) -> None:
    turns = conversation("s", 400, added=20, sampled=30)
    by_length = {length: size(store(turns[:length])) for length in (50, 100, 200, 400)}
    whole = sum(len(to_bytes(turn.prompt_ids, IDS)) for turn in turns)
    last = len(to_bytes(turns[-1].prompt_ids, IDS)) + len(msgspec.json.encode(turns[-1].request))
    assert by_length[400] < 9 * by_length[50]
    assert by_length[400] < 4 * last
    assert by_length[400] < whole / 25


def test_a_turn_whose_ancestor_is_gone_is_not_guessed(conversation: Any) -> None:
    turns = conversation("s", 12, added=3, sampled=5)
    rows = store(turns)
    del rows[10]
    assert rows[11].prefix_seq == 10
    assert rebuilt(rows, 11) is None
    assert rebuilt(rows, 12) is None
    assert rebuilt(rows, 9) == expected(turns[8])


def test_an_ancestor_of_another_length_is_not_guessed(conversation: Any) -> None:
    turns = conversation("s", 12, added=3, sampled=5)
    rows = store(turns)
    rows[11] = rows[11]._replace(completion=rows[11].completion[:-4])
    assert rebuilt(rows, 12) is None


def test_a_turn_that_claims_to_extend_itself_or_a_later_one_is_not_guessed(conversation: Any) -> None:
    rows = store(conversation("s", 12, added=3, sampled=5))
    assert rows[12].prefix_seq == 11
    for claimed in (12, 13):
        rows[12] = rows[12]._replace(prefix_seq=claimed)
        rows[13] = rows[12]
        assert rebuilt(rows, 12) is None

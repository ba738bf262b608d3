"""Retokenization drift: decode and encode gives other ids, said at the first of them and never by mistake."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

from checks.finding import Finding
from checks.measure import Tools
from checks.suite import run, select_checks
from collector.rendering.tokenizer import ChatTokenizer
from tests.collector.published import small_backend


def check(tokenizer: ChatTokenizer, turns: list[dict[str, Any]], **thresholds: float) -> Finding:
    frame = pl.DataFrame([{"session_id": "s", **turn} for turn in turns])
    found = run(
        {"turns": frame},
        checks=select_checks(["retokenization-drift"]),
        tools=Tools(tokenizer),
        thresholds={"retokenization-drift": thresholds},
    )
    return found.finding("retokenization-drift")


def places(found: Finding) -> list[tuple[int | None, int | None, str | None]]:
    return [(each.turn, each.token_index, each.kind) for each in found.evidence]


def cases(shared: Path) -> list[dict[str, Any]]:
    read = [json.loads(path.read_text(encoding="utf-8")) for path in sorted((shared / "cases").glob("*.json"))]
    return [case for case in read if "drift" in case["expected"]]


def test_the_handed_cases_drift_where_they_say_and_nowhere_else(
    qwen_tokenizer: ChatTokenizer, shared_folder: Path
) -> None:
    told = cases(shared_folder)
    assert len(told) >= 4
    for case in told:
        turns = [
            {name: turn[name] for name in ("turn", "prompt_ids", "completion_ids", "finish_reason")}
            for turn in case["input"]["turns"]
        ]
        found = check(qwen_tokenizer, turns)
        drift = case["expected"]["drift"]
        assert [(each.turn, each.token_index) for each in found.evidence] == [
            (each["turn"], each["token_index"]) for each in drift
        ], case["case"]
        assert found.metrics["drift_turns"] == len(drift)
        assert found.value == len(drift) / len(turns)
        assert found.status == ("warn" if drift else "ok")
        for entry, each in zip(found.evidence, drift, strict=True):
            place = each["token_index"]
            assert entry.detail == {
                "sampled_id": each["sampled_ids"][place],
                "encoded_id": each["reencoded_ids"][place],
            }


def test_the_pieces_that_changed_are_shown(qwen_tokenizer: ChatTokenizer) -> None:
    found = check(qwen_tokenizer, [{"completion_ids": [21453, 53122, 316, 13, 151645]}])
    assert found.evidence[0].text == "sampled ' Pant' 'om', encoded again ' P' 'antom'"


def test_special_tokens_come_back_as_themselves_and_spelled_ones_do_not(qwen_tokenizer: ChatTokenizer) -> None:
    encode = qwen_tokenizer.encode
    real = [*encode("<think>\nHm.\n</think>\n\nDone."), *encode("<|im_end|>")]
    spelled = [*encode("Say <|"), *encode("im"), *encode("_end"), *encode("|>"), 151645]
    assert qwen_tokenizer.decode(spelled) == "Say <|im_end|><|im_end|>"
    found = check(qwen_tokenizer, [{"completion_ids": real}, {"completion_ids": spelled}])
    # The text begins "Say", " <" and the special token takes "<|im_end|>": the first of its pieces is another id.
    assert [(turn, kind) for turn, _, kind in places(found)] == [(2, "drift")]
    assert found.evidence[0].detail["sampled_id"] != found.evidence[0].detail["encoded_id"]


@pytest.fixture(scope="module")
def small() -> ChatTokenizer:
    """Bytes and Qwen3's added tokens: an id below 256 is not a byte's value but its place in the alphabet."""
    return ChatTokenizer(small_backend(), names={"eos_token": "<|im_end|>"})


def test_half_a_character_is_invalid_wherever_it_stands(small: ChatTokenizer) -> None:
    smile = small.encode("😀")
    assert len(smile) == 4
    within = [*small.encode("ab"), *smile[:2], *small.encode("c")]
    at_end = [*small.encode("abc"), *smile[:3], *small.encode("<|im_end|>")]
    lone = [*small.encode("a"), smile[3]]
    whole = [*small.encode("é "), *smile]
    said = small.encode("\ufffd")
    turns = [{"completion_ids": ids, "finish_reason": "stop"} for ids in (within, at_end, lone, whole, said)]
    found = check(small, turns)
    assert places(found) == [(1, 2, "invalid_utf8"), (2, 3, "invalid_utf8"), (3, 1, "invalid_utf8")]
    assert (found.status, found.value) == ("warn", 3 / 5)


def test_a_completion_cut_by_length_within_a_character_is_no_drift(small: ChatTokenizer) -> None:
    cut = [*small.encode("ab"), *small.encode("😀")[:2]]
    found = check(small, [{"completion_ids": cut, "finish_reason": "length"}])
    assert places(found) == [(1, 2, "invalid_utf8")]
    assert (found.status, found.value, found.metrics) == ("info", 0.0, {"drift_turns": 0})
    # Nobody said that it was cut: then it is a fault.
    assert check(small, [{"completion_ids": cut}]).status == "warn"
    # Half a character followed by more is not where the cut was.
    more = [*cut, *small.encode("c")]
    assert check(small, [{"completion_ids": more, "finish_reason": "length"}]).status == "warn"


def test_drift_before_a_cut_character_is_drift(qwen_tokenizer: ChatTokenizer) -> None:
    half = qwen_tokenizer.encode(" 🫠")[:1]
    assert qwen_tokenizer.decode(half).endswith("\ufffd")
    clean = [*qwen_tokenizer.encode("Try this"), *half]
    drifted = [21453, 53122, 316, 13, *half]
    found = check(qwen_tokenizer, [{"completion_ids": ids, "finish_reason": "length"} for ids in (clean, drifted)])
    assert places(found) == [(2, 1, "drift"), (1, len(clean) - 1, "invalid_utf8")]


def sentencepiece(*, legacy: bool) -> ChatTokenizer:
    """Llama 2's kind: spaces as ▁, one in front of a text, bytes as <0xNN>; `legacy`: in front of every piece."""
    letters = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", *"abcHelo.", "lo", "▁He", "He"]
    vocabulary = {word: place for place, word in enumerate(letters)}
    merges = [("l", "o"), ("H", "e"), ("▁", "He")]
    backend = Tokenizer(
        models.BPE(vocab=vocabulary, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    )
    if legacy:
        backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    else:
        backend.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="first", split=False)
    backend.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    backend.add_special_tokens([AddedToken(word, normalized=False) for word in ("<unk>", "<s>", "</s>")])
    return ChatTokenizer(backend, names={"bos_token": "<s>", "eos_token": "</s>"})


@pytest.mark.parametrize("legacy", [False, True], ids=["metaspace first", "prepend"])
def test_the_space_that_sentencepiece_puts_before_a_text_is_no_drift(legacy: bool) -> None:
    tokenizer = sentencepiece(legacy=legacy)
    number = tokenizer.backend.token_to_id
    prompt = [number("<s>"), *tokenizer.encode("a\n")]
    with_space = [number(word) for word in ("▁He", "l", "lo")] + [2]
    without = [number(word) for word in ("He", "l", "lo")] + [2]
    split = [number(word) for word in ("He", "l", "l", "o")] + [2]
    turns = [{"prompt_ids": prompt, "completion_ids": ids} for ids in (with_space, without, split)]
    assert places(check(tokenizer, turns)) == [(3, 2, "drift")]
    # The same where the prompt is not known.
    assert places(check(tokenizer, [{"completion_ids": turn["completion_ids"]} for turn in turns])) == [(3, 2, "drift")]


@pytest.mark.parametrize("legacy", [False, True], ids=["metaspace first", "prepend"])
def test_byte_fallback_is_whole_or_half(legacy: bool) -> None:
    tokenizer = sentencepiece(legacy=legacy)
    number = tokenizer.backend.token_to_id
    smile = [number(f"<0x{byte:02X}>") for byte in "😀".encode()]
    turns = [
        {"completion_ids": [number("▁He"), *smile, 2]},
        {"completion_ids": [number("▁He"), *smile[:3], 2]},
        {"completion_ids": [number("▁He"), *smile[:3]], "finish_reason": "length"},
    ]
    found = check(tokenizer, turns)
    assert places(found) == [(2, 1, "invalid_utf8"), (3, 1, "invalid_utf8")]
    assert [each.status for each in found.evidence] == [None, "info"]


def test_ids_that_the_tokenizer_does_not_have_drift_where_they_stand(small: ChatTokenizer) -> None:
    a = small.encode("a")[0]
    turns = [{"completion_ids": [a, 100_000, a]}, {"completion_ids": [a, a, -1]}, {"completion_ids": []}]
    found = check(small, turns)
    assert places(found) == [(1, 1, "drift"), (2, 2, "drift")]
    assert found.value == 1.0, "an empty completion has nothing to change"


def test_thresholds_are_crossed_when_exceeded(qwen_tokenizer: ChatTokenizer) -> None:
    turns = [{"completion_ids": [21453, 53122, 316, 13, 151645]}, {"completion_ids": [9454, 151645]}]
    assert check(qwen_tokenizer, turns, warn_at=0.5).status == "ok"
    assert check(qwen_tokenizer, turns, warn_at=0.0, fail_at=0.49).status == "fail"

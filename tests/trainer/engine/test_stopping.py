"""When a reply ends."""

from collector.engine.wire import Finish, SamplingParams
from trainer.engine.stopping import StopRule

EOS = 258


def decode(ids: list[int]) -> str:
    return bytes(token for token in ids if token < 256).decode(errors="replace")


def rule(**given) -> StopRule:
    return StopRule(SamplingParams(**given), frozenset({EOS}), decode)


def test_the_models_end_token_ends_the_reply() -> None:
    assert rule().finish([65, EOS]) == Finish(type="stop", matched=EOS)
    assert rule().finish([EOS, 65]) is None


def test_a_given_stop_token_ends_the_reply() -> None:
    assert rule(stop_token_ids=[7]).finish([7]) == Finish(type="stop", matched=7)


def test_ignore_eos_ignores_given_stop_tokens_too() -> None:
    ignoring = rule(ignore_eos=True, stop_token_ids=[7])
    assert ignoring.finish([EOS]) is None
    assert ignoring.finish([7]) is None


def test_a_stop_string_ends_the_reply_with_its_last_byte() -> None:
    stopping = rule(stop=["END", "\n\n"])
    assert stopping.finish(list(b"xxEN")) is None
    assert stopping.finish(list(b"xxEND")) == Finish(type="stop", matched="END")
    assert stopping.finish(list("ü\n\n".encode())) == Finish(type="stop", matched="\n\n")


def test_a_stop_string_is_found_far_into_the_reply() -> None:
    assert rule(stop=["END"], max_new_tokens=9999).finish(list(b"x" * 500 + b"END")) == Finish(
        type="stop", matched="END"
    )


def test_the_length_limit_comes_last() -> None:
    assert rule(max_new_tokens=2).finish([1, 2]) == Finish(type="length", length=2)
    assert rule(max_new_tokens=2).finish([1, EOS]) == Finish(type="stop", matched=EOS)
    assert rule(max_new_tokens=2, stop=["b"]).finish(list(b"ab")) == Finish(type="stop", matched="b")

"""Tokens ready to be shown: whole characters, the two ways on of a difference, numbers beside their tokens."""

import json

from checks.finding import Evidence
from checks.measure import Tools
from checks.token_context import SCORE_COLUMNS, TURN_COLUMNS, Piece, Shown, TokenContext, token_contexts
from console.check_report.token_view import TokenView, token_texts, token_view
from tests.console.check_report.made_report import IM_END, IM_START, PROMPT, THINK, log


def view(shown: Shown, tools: Tools, around: int = 4) -> TokenView:
    """What of the made log is shown for one fault."""
    [context] = token_contexts(log().batches(TURN_COLUMNS, SCORE_COLUMNS), [shown])
    assert context is not None
    return token_view(shown, context, tools, around=around)


def texts(ids: list[int], tools: Tools) -> list[str | None]:
    """The texts alone."""
    return token_texts(ids, tools)


def test_a_character_of_several_tokens_stands_with_its_last(tools: Tools) -> None:
    snowman = list("☃".encode())
    assert texts([*b"a", *snowman, *b"b"], tools) == ["a", "", "", "☃", "b"]


def test_bytes_that_are_no_character_and_ids_that_are_no_token_do_not_hide_the_rest(tools: Tools) -> None:
    assert texts([*b"a", 0xFF, *b"bcde", IM_END], tools)[-3:] == ["d", "e", "<|im_end|>"]
    assert texts([-5, *b"x"], tools) == ["(no such token)", "x"]
    assert texts([27, 10], tools) == ["\\x1b", "\\n"]


def test_without_a_tokenizer_there_are_ids_only() -> None:
    seen = view(Shown("loss-mask", Evidence(session_id="s", turn=2, token_index=0)), Tools())
    assert {row.token.text for row in seen.sampled} == {None}


def test_a_break_shows_what_is_shared_and_how_both_turns_go_on(tools: Tools) -> None:
    break_ = Evidence(session_id="s", turn=2, previous_turn=1, token_index=len(PROMPT))
    found = view(Shown("prefix-break", break_), tools).difference
    assert found is not None
    assert "".join(token.text or "" for token in found.common) == "ant\\n"
    assert [(token.number, token.id) for token in found.was] == [(35, THINK), (36, 10), (37, ord("1")), (38, ord("7"))]
    assert "".join(token.text or "" for token in found.now) == "The "
    assert (found.was_about, found.now_about) == ("turn 1 as it went on", "turn 2 as sent")


def test_a_turn_that_ends_where_the_other_goes_on_says_so(tools: Tools) -> None:
    context = TokenContext(None, "prompt", 2, Piece((1, 2), 0, 2), Piece((1, 2, 3), 0, 3))
    shown = Shown("prefix-break", Evidence(session_id="s", turn=2, previous_turn=1, token_index=2))
    found = token_view(shown, context, tools, around=4).difference
    assert found is not None
    assert (found.now, found.now_about) == ([], "turn 2 as sent, ends here")
    assert [token.id for token in found.was] == [3]


def test_drift_shows_what_the_tokenizer_makes_of_the_text(tools: Tools) -> None:
    # "<|im_end|>" written in letters encodes as the one special token.
    ids = (*b"ab", *b"<|im_end|>")
    context = TokenContext(None, "completion", 2, Piece(ids, 0, len(ids)), whole=ids)
    shown = Shown("retokenization-drift", Evidence(session_id="s", turn=1, token_index=2))
    found = token_view(shown, context, tools, around=3).difference
    assert found is not None
    assert [token.id for token in found.was] == [IM_END]
    assert [token.id for token in found.now] == list(b"<|i")
    assert found.was_about == "encoded again"


def test_a_template_shows_what_it_renders_of_the_request(tools: Tools) -> None:
    rendered = [IM_START, *b"user\nhi", IM_END, 10, IM_START, *b"assistant\n"]
    logged = tuple(rendered[:9] + rendered[10:])
    request = json.dumps({"messages": [{"role": "user", "content": "hi"}], "tools": None})
    context = TokenContext(None, "prompt", 9, Piece(logged, 0, len(logged)), whole=logged, request=request)
    shown = Shown("template-mismatch", Evidence(session_id="s", turn=1, token_index=9))
    found = token_view(shown, context, tools, around=2).difference
    assert found is not None
    assert [token.id for token in found.was] == [10, IM_START]
    assert [token.id for token in found.now] == [IM_START, ord("a")]


def test_a_difference_that_is_elsewhere_than_the_evidence_says_is_not_shown_as_one(tools: Tools) -> None:
    ids = (*b"abcdef",)
    context = TokenContext(None, "completion", 2, Piece(ids, 0, 6), whole=ids)
    shown = Shown("retokenization-drift", Evidence(session_id="s", turn=1, token_index=2))
    seen = token_view(shown, context, tools, around=1)
    assert seen.difference is None
    assert [row.token.id for row in seen.sampled if row.at_fault] == [ord("c")]


def test_a_request_that_the_template_refuses_leaves_the_tokens(tools: Tools) -> None:
    for request in ("{}", '{"messages": "text"}', '{"messages": [1]}', '{"messages": [{"role": "user"}]}'):
        context = TokenContext(None, "prompt", 0, Piece((1,), 0, 1), whole=(1,), request=request)
        seen = token_view(Shown("template-mismatch", Evidence(token_index=0)), context, tools, around=1)
        assert seen.difference is not None or [row.token.id for row in seen.sampled] == [1]


def test_numbers_stand_beside_their_tokens_and_end_where_they_end(tools: Tools) -> None:
    context = TokenContext(
        None, "completion", 1, Piece((7, 8, 9), 0, 3), sampled_logprobs=(-1.0, -2.0), trainer_logprobs=(-3.0, None)
    )
    seen = token_view(Shown("importance-weight", Evidence(token_index=1)), context, tools, around=5)
    assert [(row.log_mu, row.log_pi, row.at_fault) for row in seen.sampled] == [
        (-1.0, -3.0, False),
        (-2.0, None, True),
        (None, None, False),
    ]

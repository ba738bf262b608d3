"""The filter grammar: what it finds, where it says it is wrong, and that rows and frames agree."""

import math

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.watch.frame.filter import Field, FilterError, read_filter

FIELDS = {
    "adapter": Field("adapter"),
    "fb": Field("feedback", words={"-": "negative", "+": "positive"}),
    "turns": Field("turns", "number"),
    "retok": Field("retok", "flag"),
}
ROWS = [
    {"adapter": "refund-lora", "feedback": "negative", "turns": 6, "retok": True},
    {"adapter": "triage-lora", "feedback": None, "turns": 1, "retok": False},
    {"adapter": None, "feedback": "positive", "turns": None, "retok": None},
]


def found(text: str) -> list[int]:
    """Rows that a filter leaves, told twice: row by row and by its expression."""
    chosen = read_filter(text, FIELDS)
    by_row = [index for index, row in enumerate(ROWS) if chosen.matches(row)]
    frame = pl.DataFrame(ROWS).with_row_index("index").filter(chosen.expression())
    assert frame["index"].to_list() == by_row
    return by_row


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("", [0, 1, 2]),
        ("adapter:refund", [0]),
        ("adapter:REFUND", [0]),
        ("adapter=refund", []),
        ("adapter=refund-lora", [0]),
        ("adapter:refund|triage", [0, 1]),
        ("!adapter:refund", [1, 2]),
        ("adapter!=refund-lora", [1]),
        ("fb:-", [0]),
        ("fb:+", [2]),
        ("fb:n/d", [1]),
        ("fb!=n/d", [0, 2]),
        ("turns>3", [0]),
        ("turns<=1", [1]),
        ("turns:6", [0]),
        ("turns!=6", [1]),
        ("turns<1k", [0, 1]),
        ("retok:yes", [0]),
        ("!retok:yes", [1, 2]),
        ("lora", [0, 1]),
        ("!lora", [2]),
        ('"refund-lora"', [0]),
        ("adapter:lora turns>3 !fb:+", [0]),
        ("positive", [2]),
    ],
)
def test_a_filter_leaves_the_rows_that_meet_every_term(text: str, rows: list[int]) -> None:
    assert found(text) == rows


@pytest.mark.parametrize(
    ("text", "column", "said"),
    [
        ("adapter:x colour:red", 10, "no field 'colour', expected one of adapter, fb, retok, turns"),
        ("turns>many", 6, "'many' is no number, expected one for turns, such as turns>3"),
        ("adapter>3", 7, "adapter is no number, expected adapter:value"),
        ("retok:perhaps", 6, "'perhaps' is neither yes nor no, expected retok:yes or retok:no"),
        ("turns>3 fb:", 11, "nothing here, expected a value after fb:"),
        ("lora !", 6, "nothing here, expected a word after !"),
        ('adapter:"refund', 8, 'a " without its partner, expected a second one'),
    ],
)
def test_a_wrong_filter_says_what_is_wrong_and_in_which_column(text: str, column: int, said: str) -> None:
    with pytest.raises(FilterError) as caught:
        read_filter(text, FIELDS)
    assert (caught.value.column, str(caught.value)) == (column, said)


def test_two_words_in_quotes_are_one_value() -> None:
    chosen = read_filter('fb:"not helpful"', FIELDS)
    assert chosen.matches({"feedback": "was Not Helpful at all"})
    assert not chosen.matches({"feedback": "helpful, not"})


def test_a_number_that_is_not_a_number_agrees_with_none() -> None:
    frame = pl.DataFrame({"turns": [math.nan, 4.0]})
    for text, rows in (("turns>3", [4.0]), ("turns<9", [4.0]), ("turns=4", [4.0])):
        chosen = read_filter(text, FIELDS)
        assert not chosen.matches({"turns": math.nan})
        assert frame.filter(chosen.expression())["turns"].to_list() == rows


TERMS = st.builds(
    lambda negated, term: f"{'!' if negated else ''}{term}",
    st.booleans(),
    st.one_of(
        st.builds("adapter{}{}".format, st.sampled_from([":", "=", "!="]), st.sampled_from(["a", "ab", "n/d", "b|a"])),
        st.builds("turns{}{}".format, st.sampled_from([":", "=", "!=", "<", "<=", ">", ">="]), st.integers(0, 3)),
        st.builds("retok{}{}".format, st.sampled_from([":", "!="]), st.sampled_from(["yes", "no", "n/d"])),
        st.sampled_from(["a", "b", '"ab"']),
    ),
)
SOME = st.fixed_dictionaries(
    {
        "adapter": st.sampled_from([None, "a", "AB", "b", ""]),
        "feedback": st.sampled_from([None, "b"]),
        "turns": st.sampled_from([None, 0, 1, 2, 3]),
        "retok": st.sampled_from([None, True, False]),
    }
)


@given(st.lists(TERMS, max_size=4), st.lists(SOME, min_size=1, max_size=6))
def test_rows_and_frames_agree(terms: list[str], rows: list[dict[str, object]]) -> None:
    schema = {"adapter": pl.String, "feedback": pl.String, "turns": pl.Int64, "retok": pl.Boolean}
    chosen = read_filter(" ".join(terms), FIELDS)
    kept = pl.DataFrame(rows, schema=schema).filter(chosen.expression()).to_dicts()
    assert kept == [row for row in rows if chosen.matches(row)]

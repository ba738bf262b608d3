"""Stop strings: cut at the first, held back while one may be coming."""

from hypothesis import given, settings
from hypothesis import strategies as st

from collector.parsing.stop_strings import StopStrings


def test_text_is_cut_at_the_first_stop_string() -> None:
    stops = StopStrings(["STOP", "END"])
    assert stops.add("one END two STOP") + stops.finish() == "one "
    assert stops.matched == "END"


def test_the_beginning_of_a_stop_string_is_held_back_and_given_when_it_was_none() -> None:
    stops = StopStrings(["STOP"])
    assert [stops.add("a S"), stops.add("TO"), stops.add("x"), stops.finish()] == ["a ", "", "STOx", ""]
    assert stops.matched is None


def test_of_two_that_overlap_the_one_that_is_complete_first_counts() -> None:
    stops = StopStrings(["abcd", "bc"])
    assert stops.add("xabcd") + stops.finish() == "xa"
    assert stops.matched == "bc"


def test_nothing_follows_a_stop_string() -> None:
    stops = StopStrings(["\n"])
    assert [stops.add("a\nb"), stops.add("c"), stops.finish()] == ["a", "", ""]


@settings(max_examples=500)
@given(
    text=st.text("abc", max_size=30),
    stops=st.lists(st.text("abc", min_size=1, max_size=4), max_size=3),
    cuts=st.lists(st.integers(1, 4), min_size=30, max_size=30),
)
def test_how_the_text_is_cut_up_does_not_matter(text: str, stops: list[str], cuts: list[int]) -> None:
    # Letter by letter, as the definition has it: the longest stop string that ends where one first ends.
    expected = text
    for end in range(len(text) + 1):
        complete = [stop for stop in stops if text[:end].endswith(stop)]
        if complete:
            expected = text[: end - max(map(len, complete))]
            break
    filtered, shown, at = StopStrings(stops), "", 0
    for size in cuts:
        shown += filtered.add(text[at : at + size])
        at += size
    assert shown + filtered.finish() == expected

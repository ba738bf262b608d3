"""Fingerprints: the same whatever a client that parses and writes JSON makes of it, another when a value changed."""

import json
import tracemalloc
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from collector.digests import MessageDigest, digest_of, tools_digest

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
ARGUMENTS = st.dictionaries(st.text(max_size=4), JSON, max_size=4)


def fingerprint(arguments: str) -> bytes:
    call = {"id": "x", "type": "function", "function": {"name": "f", "arguments": arguments}}
    return digest_of({"role": "assistant", "content": "", "tool_calls": [call]}).whole


def written_by_javascript(value: Any) -> str:
    """ECMAScript's JSON.stringify(JSON.parse(...)): one number type, shortest digits, no point in a whole number."""
    if isinstance(value, dict):
        inner = ",".join(f"{json.dumps(k, ensure_ascii=False)}:{written_by_javascript(v)}" for k, v in value.items())
        return f"{{{inner}}}"
    if isinstance(value, list):
        return f"[{','.join(map(written_by_javascript, value))}]"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return json.dumps(value, ensure_ascii=False)
    double = float(value)
    if double == 0:
        return "0"
    sign, digits, exponent = Decimal(repr(double)).normalize().as_tuple()
    assert isinstance(exponent, int)
    figures, minus = "".join(map(str, digits)), "-" if sign else ""
    # Number::toString: n is the place of the point after the first n figures.
    n, k = len(figures) + exponent, len(figures)
    if k <= n <= 21:
        return f"{minus}{figures}{'0' * (n - k)}"
    if 0 < n <= 21:
        return f"{minus}{figures[:n]}.{figures[n:]}"
    if -6 < n <= 0:
        return f"{minus}0.{'0' * -n}{figures}"
    mantissa = figures if k == 1 else f"{figures[0]}.{figures[1:]}"
    return f"{minus}{mantissa}e{'+' if n > 0 else '-'}{abs(n - 1)}"


@settings(deadline=None)
@given(arguments=ARGUMENTS)
def test_arguments_that_javascript_parsed_and_wrote_are_the_same(arguments: dict[str, Any]) -> None:
    assert fingerprint(json.dumps(arguments)) == fingerprint(written_by_javascript(arguments))


@settings(deadline=None)
@given(one=ARGUMENTS, other=ARGUMENTS)
def test_other_values_are_another_fingerprint(one: dict[str, Any], other: dict[str, Any]) -> None:
    assume(json.dumps(one, sort_keys=True) != json.dumps(other, sort_keys=True) and one != other)
    assert fingerprint(json.dumps(one)) != fingerprint(json.dumps(other))


@pytest.mark.parametrize(
    ("sampled", "sent"),
    [
        ("1.0", "1"),
        ("1e2", "100"),
        ("-0.0", "0"),
        ("-0", "0"),
        ("1E-2", "0.01"),
        ("0.10", "0.1"),
        ("1.2345678901234567e20", "123456789012345670000"),
        ("1e21", "1e+21"),
        ('"\\u00e9"', '"é"'),
        ('{"b": 1, "a": 2}', '{"a":2.0,"b":1.0}'),
    ],
)
def test_one_number_spelled_in_two_ways_is_the_same(sampled: str, sent: str) -> None:
    assert fingerprint(f'{{"x": {sampled}}}') == fingerprint(f'{{"x":{sent}}}')
    assert tools_digest([{"x": json.loads(sampled)}]) == tools_digest([{"x": json.loads(sent)}])


@pytest.mark.parametrize(
    ("sampled", "sent"),
    [
        ("9007199254740993", "9007199254740992"),
        ("12345678901234567890", "12345678901234567000"),
        ("1e400", "null"),
        ("1", "true"),
        ("0", "false"),
        ("1", '"1"'),
        ("1.5", "1"),
        ("[1, 2]", "[2, 1]"),
    ],
)
def test_what_javascript_changes_or_a_client_rewrites_is_another(sampled: str, sent: str) -> None:
    assert fingerprint(f'{{"x": {sampled}}}') != fingerprint(f'{{"x":{sent}}}')


def test_arguments_that_are_no_json_or_too_deep_to_read_are_taken_as_text() -> None:
    deep = "[" * 100_000
    assert fingerprint(deep) == fingerprint(deep) != fingerprint(deep + " ")
    assert fingerprint("{") != fingerprint("[")


def test_arguments_count_only_when_they_are_to() -> None:
    calls = [[{"function": {"name": name, "arguments": text}}] for name, text in (("f", "{}"), ("f", "1"), ("g", "1"))]
    digests = [digest_of({"role": "assistant", "content": "", "tool_calls": call}) for call in calls]
    assert len({digest.whole for digest in digests}) == 3
    assert digests[0].less_arguments == digests[1].less_arguments != digests[2].less_arguments


def test_messages_without_calls_have_one_fingerprint() -> None:
    for message in ({"role": "user", "content": "a"}, {"role": "assistant", "content": "a"}):
        assert digest_of(message) == MessageDigest(digest_of(message).whole, digest_of(message).whole)


def test_tools_sent_again_and_again_keep_their_fingerprint_and_others_have_another() -> None:
    tools = [[{"type": "function", "function": {"name": f"f{n}", "parameters": {"x": 1e400}}}] for n in range(200)]
    first = [tools_digest(each) for each in tools]
    assert [tools_digest(json.loads(json.dumps(each))) for each in tools] == first
    assert len(set(first)) == len(tools)
    assert tools_digest([{"x": 1e400}]) != tools_digest([{"x": None}])
    assert tools_digest([{"x": "\ud800"}]) != tools_digest([{"x": "\ud801"}])


def test_tools_of_many_megabytes_are_not_kept() -> None:
    tools_digest([{"x": "a"}])
    tracemalloc.start()
    try:
        for number in range(20):
            tools_digest([{"x": str(number) * 10**6}])
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 10**6

"""Checks of token numbers take any turns that the records allow: nulls, empty lists and lists of any length."""

from typing import Any

import msgspec
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from checks.readers.batching import frame_of
from checks.report import as_json
from checks.rows import TurnRow, VersionSpan
from checks.suite import run, select_checks

NAMES = ("importance-weight", "staleness", "entropy", "length-mismatch", "loss-mask", "served-adapter")
number = st.one_of(
    st.floats(-20, 0), st.sampled_from([0.0, 1.0, float("nan"), float("-inf"), float("inf"), -1e308, 5e-324])
)
numbers = st.none() | st.lists(st.none() | number, max_size=4)
ids = st.none() | st.lists(st.integers(0, 5), max_size=4)
small = st.none() | st.integers(-2, 12)
span = st.builds(
    VersionSpan,
    version=st.sampled_from([1, 2, "3", "v4", "x", "", "9" * 30]),
    start=st.integers(-2, 5),
    end=st.integers(-2, 5),
)
turn = st.builds(
    TurnRow,
    session_id=st.sampled_from(["a", "b"]),
    turn=st.integers(1, 3),
    prompt_ids=ids,
    completion_ids=ids,
    adapter=st.sampled_from([None, "x", "y"]),
    adapter_version=small,
    weight_versions=st.none() | st.lists(span, max_size=3),
    loss_mask=st.none() | st.lists(st.sampled_from([0, 1]), max_size=6),
    temperature=st.sampled_from([None, 0.0, 0.7, 1.0, float("nan")]),
    top_p=st.sampled_from([None, 0.0, 0.5, 1.0]),
    logprob_mode=st.sampled_from([None, "raw", "scaled"]),
    finish_reason=st.sampled_from([None, "stop", "length"]),
    stated_completion_tokens=small,
    stated_prompt_tokens=small,
    routed_experts_tokens=small,
    trainer_step=small,
    trainer_version=small,
    sampled_logprobs=numbers,
    trainer_logprobs=numbers,
    sampling_version_logprobs=numbers,
    reference_logprobs=numbers,
    entropies=numbers,
    advantages=numbers,
)


# without shrinking, which takes minutes on rows of this width
@settings(max_examples=60, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(st.lists(turn, min_size=1, max_size=5))
def test_any_turns_give_one_finding_per_check_and_json(turns: list[TurnRow]) -> None:
    report = run({"turns": frame_of(turns, "turns")}, checks=select_checks(NAMES))
    # Any: a JSON object.
    printed: dict[str, Any] = msgspec.json.decode(as_json(report))
    assert [finding["check"] for finding in printed["findings"]] == list(NAMES)
    for finding in report.findings:
        assert finding.summary
        assert (finding.status == "no_data") == (not finding.metrics and finding.value is None and not finding.evidence)

"""The work as a person reads it."""

from pathlib import Path

from tests.trainer.batch.captured import collected, config, judged, pair, stored, turn
from trainer.batch.funnel_text import funnel_lines
from trainer.batch.reasons import REASONS, STAGES, meaning_of, stage_of


def test_every_number_is_on_a_line_of_its_own_with_its_meaning(tmp_path: Path) -> None:
    records = [*pair("p", "q"), turn("r"), turn("s", purpose="eval", completion=[1] * 1000)]
    lines = funnel_lines(collected(stored(tmp_path / "s", *records))["a"])
    assert lines[0] == "a of acme: 1 update batches, 2 judgements behind them"
    assert [" ".join(line.split()) for line in lines[1:5]] == [
        "captured 4 turns 1,006 tokens",
        "- purpose_eval 1 turns 1,000 tokens evaluation is never trained on",
        "exact 3 turns 6 tokens",
        "- no_reward 1 turns 2 tokens no feedback that counts; missing is not zero",
    ]
    assert "  sessions per step: 2 to 2, 2 in all" in lines
    assert "  share of the gradient by user (2 in all): session p 50.0%, session q 50.0%" in lines
    assert "  answered by tenant: acme 67% (2 of 3)" in lines


def test_a_step_from_a_single_session_stands_out(tmp_path: Path) -> None:
    store = stored(tmp_path / "s", turn("p"), judged("p", 1.0))
    lines = funnel_lines(collected(store, config(), baselines={"a": 0.5})["a"])
    assert "  ! 1 steps from a single session: raise [trainer.batch] min_sessions" in lines


def test_nothing_captured_is_said_in_zeros_and_nothing_else(tmp_path: Path) -> None:
    lines = funnel_lines(collected(stored(tmp_path / "s", turn("p", tenant="beta")))["a"])
    assert [line.split()[:2] for line in lines[1:]] == [[name, "0"] for name in ("captured", *STAGES)]


def test_every_reason_has_a_stage_and_a_meaning() -> None:
    assert {stage for stage, _ in REASONS.values()} == set(STAGES)
    assert (stage_of("event_redacted"), meaning_of("event_redacted")) == (
        "exact",
        "an event of kind redacted keeps it out",
    )
    assert (stage_of("another source's word"), meaning_of("another source's word")) == (
        "exact",
        "not trainable as captured",
    )

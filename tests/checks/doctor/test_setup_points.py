"""Where a trainer and its engine do not mean the same by a token's probability."""

import pytest

from checks.doctor.setup_points import EngineSide, Setup, TrainerSide, setup_points

NAMES = {
    "dtype": "trainer and engine compute alike",
    "temperature": "the trainer scores at the sampling temperature",
    "mode": "log-probabilities are those of the sampling distribution",
    "truncation": "sampling is not truncated",
    "penalty": "no penalties",
}


def status(point: str, *, trainer: TrainerSide | None = None, engine: EngineSide | None = None) -> str:
    setup = Setup(trainer=trainer or TrainerSide(), engine=engine or EngineSide())
    return {each.name: each.status for each in setup_points([setup])}[NAMES[point]]


def test_dtypes_are_compared_by_what_they_are() -> None:
    assert status("dtype") == "no_data"
    assert status("dtype", trainer=TrainerSide(dtype="torch.bfloat16"), engine=EngineSide(dtype="bf16")) == "ok"
    assert status("dtype", trainer=TrainerSide(dtype="float32"), engine=EngineSide(dtype="bfloat16")) == "warn"


def test_the_trainer_scores_at_the_sampling_temperature() -> None:
    assert status("temperature", trainer=TrainerSide(temperature=1.0), engine=EngineSide(temperature=0.6)) == "fail"
    assert status("temperature", trainer=TrainerSide(temperature=0.6), engine=EngineSide(temperature=0.6)) == "ok"
    assert status("temperature", trainer=TrainerSide(temperature=0.6)) == "no_data"


@pytest.mark.parametrize(
    ("mode", "temperature", "expected"),
    [
        ("raw", 0.6, "fail"),
        ("raw", 1.0, "ok"),
        ("raw", None, "warn"),
        ("scaled", 0.6, "ok"),
        ("scaled", 0.0, "warn"),
        ("unknown", 0.6, "no_data"),
        (None, 1.0, "ok"),
    ],
)
def test_raw_log_probabilities_are_wrong_at_any_temperature_but_1(
    mode: str | None, temperature: float | None, expected: str
) -> None:
    assert status("mode", engine=EngineSide(logprob_mode=mode, temperature=temperature)) == expected


def test_truncated_sampling_needs_truncated_log_probabilities() -> None:
    off = EngineSide(top_p=1.0, top_k=-1, min_p=0.0)
    assert status("truncation", engine=off) == "ok"
    assert status("truncation", engine=EngineSide(top_k=0)) == "ok"
    for on in (EngineSide(top_p=0.95), EngineSide(top_k=20), EngineSide(min_p=0.05)):
        assert status("truncation", engine=on) == "fail"
    assert status("truncation", engine=EngineSide(top_p=0.95, logprob_mode="truncated")) == "warn"


def test_what_nobody_says_is_unknown_and_not_off() -> None:
    for name in ("truncation", "penalty"):
        assert status(name, engine=EngineSide(temperature=1.0)) == "no_data"
    assert status("truncation", engine=EngineSide(top_p=1.0)) == "ok"
    assert status("penalty", engine=EngineSide(frequency_penalty=0.0)) == "ok"


def test_penalties_are_named() -> None:
    assert status("penalty", engine=EngineSide(presence_penalty=0, repetition_penalty=1.0)) == "ok"
    (point,) = [
        each
        for each in setup_points([Setup(engine=EngineSide(repetition_penalty=1.1), turns=7)])
        if each.status == "fail"
    ]
    assert point.said == "repetition_penalty 1.1: the trainer's distribution has no such thing (7 turns)"

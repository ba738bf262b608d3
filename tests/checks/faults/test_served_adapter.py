"""Served adapter: proofs, probes and the log's own scores say whether the version named is the one served."""

from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest

from checks.columns import SCHEMAS
from checks.finding import Finding
from checks.suite import run, select_checks


def finding(rows: list[dict[str, Any]], events: list[dict[str, Any]] | None = None) -> Finding:
    names = {name: SCHEMAS["turns"][name] for row in rows for name in row}
    frames = {"turns": pl.DataFrame(rows, schema=names or {"session_id": pl.String})}
    if events is not None:
        frames["events"] = pl.DataFrame(
            [event | {"detail": msgspec.json.encode(event["detail"]).decode()} for event in events]
        )
    return run(frames, checks=select_checks(["served-adapter"])).findings[0]


def proof(version: int, kind: str = "proof", **detail: Any) -> dict[str, Any]:
    return {"kind": kind, "adapter": "a", "version": version, "detail": detail}


def turns(count: int, *, served: str, apart: float = 1.0, version: int = 3, seed: int = 0) -> list[dict[str, Any]]:
    """Turns whose mu is near one of two models that differ by about `apart` a token."""
    rng = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    for number in range(1, count + 1):
        base = -rng.exponential(1, 30) - 3
        own = base + rng.normal(0, apart, 30)
        mu = (own if served == "own" else base) + rng.normal(0, 0.01, 30)
        row = {"session_id": "s", "turn": number, "completion_ids": [1] * 30, "adapter": "a"}
        row |= {"adapter_version": version, "sampled_logprobs": mu.tolist()}
        rows.append(row | {"sampling_version_logprobs": own.tolist(), "reference_logprobs": base.tolist()})
    return rows


@pytest.mark.parametrize(
    ("detail", "status", "kind"),
    [
        ({"verdict": "proved", "served": "new"}, "ok", None),
        ({"verdict": "proved"}, "ok", None),
        ({"verdict": "refuted", "served": "base"}, "fail", "base_model_served"),
        ({"verdict": "refuted", "served": "previous"}, "fail", "previous_version_served"),
        ({"verdict": "refuted", "served": "unknown"}, "fail", None),
        ({"verdict": "undecided", "served": "unknown"}, "warn", "undecided"),
        ({"verdict": "proved", "served": "base"}, "fail", "base_model_served"),
        ({}, "warn", "undecided"),
    ],
)
@pytest.mark.parametrize("kind_of_event", ["proof", "probe"])
def test_a_verdict_is_graded(kind_of_event: str, detail: dict[str, Any], status: str, kind: str | None) -> None:
    found = finding([], [proof(2, kind_of_event, **detail)])
    assert found.status == status
    assert [each.kind for each in found.evidence] == ([] if status == "ok" else [kind])


def test_the_numbers_of_a_proof_are_in_its_evidence() -> None:
    detail = {"verdict": "refuted", "served": "base", "log_likelihood_ratio_base": -12.5, "tokens": 64}
    (fault,) = finding([], [proof(2, **detail)]).evidence
    assert (fault.adapter, fault.detail["version"], fault.detail["tokens"]) == ("a", 2, 64)
    assert fault.detail["log_likelihood_ratio_base"] == -12.5


def test_a_later_proof_of_the_same_version_counts_and_the_earlier_is_shown() -> None:
    found = finding([], [proof(2, verdict="refuted", served="base"), proof(2, verdict="proved")])
    assert (found.status, found.value, found.evidence[0].status) == ("info", 0, "info")
    worse = finding([], [proof(2, verdict="proved"), proof(2, verdict="refuted", served="base")])
    assert worse.status == "fail"


def test_each_worker_answers_for_itself() -> None:
    events = [proof(2, verdict="refuted", served="base", worker="w0"), proof(2, verdict="proved", worker="w1")]
    assert finding([], events).status == "fail"


@pytest.mark.parametrize("count", [1, 40])
def test_scores_prove_the_version_or_name_the_base_model(count: int) -> None:
    assert finding(turns(count, served="own")).status == "ok"
    found = finding(turns(count, served="base"))
    assert found.status == "fail"
    assert [(each.kind, each.adapter, each.detail["version"]) for each in found.evidence] == [
        ("base_model_served", "a", 3)
    ]


def test_models_too_close_to_tell_apart_are_undecided_and_no_more_than_info() -> None:
    found = finding(turns(40, served="own", apart=1e-3))
    assert (found.status, found.evidence[0].kind) == ("info", "undecided")


def test_the_distances_are_those_of_a_loop() -> None:
    rows = turns(3, served="base")
    own = [
        abs(m - p)
        for row in rows
        for m, p in zip(row["sampled_logprobs"], row["sampling_version_logprobs"], strict=True)
    ]
    base = [abs(m - p) for row in rows for m, p in zip(row["sampled_logprobs"], row["reference_logprobs"], strict=True)]
    ratio = sum(sum(row["sampling_version_logprobs"]) - sum(row["reference_logprobs"]) for row in rows)
    detail = finding(rows).evidence[0].detail
    assert detail["mean_abs_dlogp_own"] == pytest.approx(sum(own) / 90, rel=1e-12)
    assert detail["mean_abs_dlogp_base"] == pytest.approx(sum(base) / 90, rel=1e-12)
    assert detail["log_likelihood_ratio_base"] == pytest.approx(ratio, rel=1e-9)


def test_the_trainers_scores_stand_for_the_version_only_when_they_are_its_own() -> None:
    rows = [row | {"trainer_logprobs": row["sampling_version_logprobs"]} for row in turns(6, served="base")]
    for row in rows:
        del row["sampling_version_logprobs"]
    assert finding([row | {"trainer_version": 3} for row in rows]).status == "fail"
    assert finding([row | {"trainer_version": 4} for row in rows]).status == "no_data"


def test_version_0_is_the_base_model_and_is_not_judged() -> None:
    assert finding(turns(6, served="base", version=0)).status == "no_data"

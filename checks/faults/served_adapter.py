"""A served model that is not the version which was trained and named."""

from typing import Any, NamedTuple

import msgspec
import polars as pl

from checks.finding import Evidence, Finding, Number, Status, Threshold, kept, worst
from checks.weights.numbers import LEAST_CLUSTERS

_KIND_OF_SERVED = {"base": "base_model_served", "previous": "previous_version_served"}
_NUMBERS = ("tokens", "log_likelihood_ratio_previous", "log_likelihood_ratio_base")
_WORKER = "worker"


class _Verdict(NamedTuple):
    """What one proof, probe or set of scores says."""

    status: Status
    evidence: Evidence | None


def served_adapter(
    served: pl.DataFrame, events: pl.DataFrame, *, decided_at: float = 3.0, closer_by: float = 2.0
) -> Finding:
    """A served model that is not the version which was trained and named.

    Definition: two witnesses. (1) Events of kind "proof" (a publish) and "probe" (a live check), with adapter, version
    and detail {"verdict": "proved" | "refuted" | "undecided", "served": "new" | "previous" | "base" | "unknown",
    "log_likelihood_ratio_previous": nats, "log_likelihood_ratio_base": nats, "tokens": n, "worker": name}: log p_new
    less log p_previous or log p_base, summed over the n compared tokens; all but verdict may be missing. The last
    event of an adapter, version, kind and worker counts (by `at`, else by the log's order); earlier ones that did not
    prove it are shown as info. Refuted fails, with the kind of what is served; undecided warns, since it must not be
    routed to. (2) Turns of a version above 0 that hold the engine's log-probabilities, the version's own
    (sampling_version_logprobs, or trainer_logprobs of the same trainer_version) and the base model's
    (reference_logprobs): e = |log mu - log p_base| - |log mu - log p_own| per token. The version is served when the
    mean of e is above 0 by 3 standard errors and mu is at least twice as near to it; the base model is served
    (base_model_served, fail) when the same holds the other way round; else the two cannot be told apart (undecided,
    info: a young adapter is close to its base).
    Units: value counts witnesses against the version, and undecided events.
    Reads: events(kind, at, adapter, version, session_id, detail), turns(adapter, adapter_version, weight_versions,
    sampled_logprobs, loss_mask), scores(trainer_version, trainer_logprobs, sampling_version_logprobs,
    reference_logprobs).
    Threshold: 3 standard errors, with the turn as the unit from 5 turns on (else the token), and a factor of 2:
    provisional; a wrong model is usually nearer by a factor of 10 and more.
    Check next: whether each request names the adapter; the engine's list of loaded adapters; publish it again.
    """
    verdicts = [*_of_events(events), *(_of_scores(row, decided_at, closer_by) for row in served.iter_rows(named=True))]
    if not verdicts:
        return Finding.no_data(
            "served-adapter",
            "no publish proof, no probe, and no turn with scores of both its version and the base model",
            missing=("events.detail", "turns.sampling_version_logprobs", "turns.reference_logprobs"),
        )
    faults = [each.evidence for each in verdicts if each.evidence is not None]
    faults.sort(key=lambda each: ("fail", "warn", "info").index(each.status or "fail"))
    against = sum(each.status in ("fail", "warn") for each in faults)
    evidence, omitted = kept(faults)
    return Finding(
        check="served-adapter",
        status=worst([each.status for each in verdicts]),
        value=against,
        unit="witnesses",
        threshold=Threshold(warn=0, fail=0),
        summary=f"{len(verdicts) - len(faults)} of {len(verdicts)} witnesses say that the version named is served"
        + "".join(f"; {each.text}" for each in faults[:3] if each.status != "info"),
        check_next=(
            "whether each request names the adapter",
            "the engine's list of loaded adapters",
            "publish it again",
        )
        if against
        else (),
        evidence=evidence,
        evidence_omitted=omitted,
    )


def _of_events(events: pl.DataFrame) -> list[_Verdict]:
    told = events.filter(pl.col("kind").is_in(["proof", "probe"])).sort("at", nulls_last=False, maintain_order=True)
    rows = [(row, _detail(row["detail"])) for row in told.iter_rows(named=True)]
    last = {_place(row, detail): index for index, (row, detail) in enumerate(rows)}
    found: list[_Verdict] = []
    for index, (row, detail) in enumerate(rows):
        found.append(_of_event(row, detail, superseded=last[_place(row, detail)] != index))
    return found


# Any: rows of a frame and JSON objects.
def _place(row: dict[str, Any], detail: dict[str, Any]) -> tuple[Any, ...]:
    return (row["adapter"], row["version"], row["kind"], str(detail.get(_WORKER)))


def _detail(text: str | None) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(text or "{}")
    except msgspec.DecodeError:
        return {}
    return value if isinstance(value, dict) else {}  # pyright: ignore[reportUnknownVariableType]


def _of_event(row: dict[str, Any], detail: dict[str, Any], *, superseded: bool) -> _Verdict:
    verdict, served = detail.get("verdict"), detail.get("served")
    contradicts = served in _KIND_OF_SERVED
    if verdict == "proved" and not contradicts:
        return _Verdict("ok", None)
    refuted = verdict == "refuted" or contradicts
    status: Status = "info" if superseded else "fail" if refuted else "warn"
    name = f"{row['adapter']}@{row['version']}"
    is_served = {"base": "the base model is served", "previous": "the previous version is served"}.get(
        str(served), "something else is served"
    )
    numbers: dict[str, Number | str | None] = {
        key: value for key in _NUMBERS if isinstance(value := detail.get(key), int | float)
    }
    evidence = Evidence(
        session_id=row["session_id"],
        turn=row["turn"],
        adapter=row["adapter"],
        kind=_KIND_OF_SERVED.get(str(served)) if refuted else "undecided",
        status=status,
        text=f"{row['kind']} of {name}: {is_served if refuted else 'cannot tell what is served'}"
        + (", later repeated" if superseded else ""),
        detail={"version": row["version"], "verdict": None if verdict is None else str(verdict), **numbers},
    )
    return _Verdict(status, evidence)


def _of_scores(row: dict[str, Any], decided_at: float, closer_by: float) -> _Verdict:
    own, base = row["abs_own"] / row["tokens"], row["abs_base"] / row["tokens"]
    errors = _standard_errors(row)
    if errors > decided_at and base >= closer_by * own:
        return _Verdict("ok", None)
    of_base = errors < -decided_at and own >= closer_by * base
    name = f"version {row['version']}" if row["adapter"] is None else f"{row['adapter']}@{row['version']}"
    evidence = Evidence(
        session_id=row["session_id"],
        turn=row["turn"],
        adapter=row["adapter"],
        kind="base_model_served" if of_base else "undecided",
        status="fail" if of_base else "info",
        value=base if of_base else None,
        text=f"turns of {name}: sampled_logprobs are {base:.3g} nats a token from the base model, {own:.3g} from the"
        f" version's own ({row['tokens']} tokens of {row['turns']} turns)",
        detail={
            "version": row["version"],
            "tokens": row["tokens"],
            "turns": row["turns"],
            "mean_abs_dlogp_own": own,
            "mean_abs_dlogp_base": base,
            "log_likelihood_ratio_base": row["likelihood"],
        },
    )
    return _Verdict("fail" if of_base else "info", evidence)


def _standard_errors(row: dict[str, Any]) -> float:
    """The mean of e in standard errors."""
    n, turns = row["tokens"], row["turns"]
    total = row["abs_base"] - row["abs_own"]
    mean = total / n
    if turns >= LEAST_CLUSTERS:
        spread = (row["dd"] - 2 * mean * row["dn"] + mean**2 * row["nn"]) * turns / (turns - 1)
    else:
        spread = (row["squares"] - n * mean**2) * n / max(n - 1, 1)
    error = max(spread, 0.0) ** 0.5
    if error == 0.0:
        return 0.0 if total == 0 else float("inf") if total > 0 else float("-inf")
    return total / error

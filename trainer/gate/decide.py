"""The gate: a candidate against live and the pinned best, the checks, the KL, earlier fixes, the proof.

What its errors are. Each comparison passes a candidate that is worse by the margin with a chance of at most 5 %, and
all must pass, so that the same holds for the gate as a whole, for one candidate judged once. Over many cycles it does
not: of many candidates that are all worse by the margin, one in twenty passes. That such steps do not add up is what
the pinned best is for: every candidate is compared with it too. A candidate that was inconclusive and is tried again
on another slice has another chance of 5 %.
"""

from collections.abc import Sequence
from typing import Literal

from checks.finding import Finding
from trainer.gate.comparisons import comparisons
from trainer.gate.fixes import fixes_kept
from trainer.gate.report import Criterion, GateReport, KlToLive, Numbers, Trial, verdict_of
from trainer.gate.samples import Plans, fix_tasks, fresh_tasks, scores, unobserved
from trainer.gate_config import GateConfig
from trainer.gate_statistics import mean_scores

Proof = Literal["proved", "refuted", "undecided"]
_ORDER = ("refuse", "no_data", "inconclusive", "pass")


def decide(
    *,
    adapter: str,
    candidate: Trial,
    live: Trial,
    best: Trial,
    plans: Plans,
    config: GateConfig,
    deterministic: bool,
    findings: Sequence[Finding],
    kl: KlToLive | None,
    proof: Proof | None,
) -> GateReport:
    """The verdict on a candidate, with every criterion.

    `plans`: what of each suite all three were to be tried on. `deterministic`: sampled at temperature 0. `kl` and
    `proof` are None where they were not observed.
    """
    others = (live,) if best.version == live.version else (live, best)
    fresh, fixes = fresh_tasks(plans), fix_tasks(plans)
    criteria = (
        _proof(proof),
        _observed(candidate, others, plans),
        *(each for other in others for each in comparisons(candidate, other, fresh, config)),
        fixes_kept(candidate, others, fixes, config, deterministic=deterministic),
        _kl(kl, live, config),
        *(_check(name, findings) for name in config.required_checks),
    )
    means = mean_scores(scores(candidate, fresh)).values()
    return GateReport(
        adapter=adapter,
        version=candidate.version,
        verdict=verdict_of(criteria),
        reasons=_reasons(criteria),
        numbers=Numbers(
            held_out_score=sum(means) / len(means) if means else None, tasks=len(fresh), fixes=len(set(fixes))
        ),
        criteria=criteria,
        live=live.version,
        best=best.version,
    )


def _reasons(criteria: Sequence[Criterion]) -> tuple[str, ...]:
    against = sorted((each for each in criteria if each.status != "pass"), key=lambda each: _ORDER.index(each.status))
    if not against:
        return (f"all {len(criteria)} criteria pass",)
    return tuple(f"{title(each)}: {each.text}" for each in against)


def title(criterion: Criterion) -> str:
    """What is judged, and against what."""
    return criterion.name if criterion.against is None else f"{criterion.name} against version {criterion.against}"


def _proof(proof: Proof | None) -> Criterion:
    if proof is None:
        return Criterion(
            name="proof", status="no_data", text="the served version was not proved", next="load and prove it again"
        )
    if proof == "proved":
        return Criterion(name="proof", status="pass", text="what is served is what was trained")
    text = "what is served is not what was trained" if proof == "refuted" else "what is served could not be told"
    status = "refuse" if proof == "refuted" else "inconclusive"
    return Criterion(name="proof", status=status, text=text, next="roundhouse explain served-adapter; load it again")


def _observed(candidate: Trial, others: Sequence[Trial], plans: Plans) -> Criterion:
    """Whether every sample was observed, and whether the suites tell versions apart at all."""
    trials = (candidate, *others)
    tasks = {task for plan in plans.values() for task in plan.tasks}
    if not tasks:
        return Criterion(
            name="evaluation",
            status="no_data",
            text="no held-out task was to be tried",
            next="name a suite of this adapter in [trainer.evaluation.suites]",
        )
    missing = {trial.version: unobserved(trial, plans) for trial in trials}
    if any(missing.values()):
        shown = ", ".join(f"{count} of version {version}" for version, count in missing.items() if count)
        return Criterion(
            name="evaluation",
            status="no_data",
            text=f"tasks with samples that were not observed: {shown}",
            next="see why the engine or the verifier failed, then evaluate again",
        )
    given = {record.score for trial in trials for record in trial.evals}
    if len(given) == 1 and given != {1.0}:
        [score] = given
        text = (
            "no reply of any version scores above 0" if not score else f"every reply of every version scores {score:g}"
        )
        return Criterion(
            name="evaluation",
            status="inconclusive",
            text=text,
            next="give known_good and known_bad replies, to see that the verifiers live; or easier tasks",
        )
    samples = sum(len(trial.evals) for trial in trials)
    return Criterion(name="evaluation", status="pass", text=f"all {samples} samples were observed")


def _kl(kl: KlToLive | None, live: Trial, config: GateConfig) -> Criterion:
    name, against = "kl", live.version
    if kl is None or kl.positions < 1:
        return Criterion(
            name=name,
            against=against,
            status="no_data",
            text="no stored context was scored",
            next="collect traffic of this adapter, or score more contexts",
        )
    shown = f"mean {kl.mean:.4g}, most {kl.max:.4g} nats at {kl.positions} positions"
    # Written so that a number that is not one refuses.
    within = kl.mean <= config.kl_mean and kl.max <= config.kl_max
    return Criterion(
        name=name,
        against=against,
        status="pass" if within else "refuse",
        text=shown if within else f"{shown}, expected at most {config.kl_mean:g} and {config.kl_max:g}",
        next=None if within else "train fewer or smaller steps, or with a KL penalty",
        candidate=kl.mean,
        limit=config.kl_mean,
    )


def _check(name: str, findings: Sequence[Finding]) -> Criterion:
    found = next((finding for finding in findings if finding.check == name), None)
    if found is None:
        return Criterion(
            name=f"check {name}",
            status="refuse",
            text="it was not run, and it is required",
            next="run it, or take it out of gate.required_checks",
        )
    good = found.status in ("ok", "info", "warn")
    return Criterion(
        name=f"check {name}",
        status="pass" if good else "refuse",
        text=f"{found.status}: {found.summary}",
        next=None if good else f"roundhouse explain {name}",
        candidate=None if found.value is None else float(found.value),
    )

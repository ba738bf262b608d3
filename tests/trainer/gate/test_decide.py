"""The gate: what passes, what is refused, what cannot be told, and that nothing passes on no data."""

import math
from collections.abc import Callable

import msgspec
import numpy as np
import pytest

from checks.finding import Finding, Status
from collector.records import Eval
from trainer.evaluation.slice import Plan
from trainer.gate.decide import decide
from trainer.gate.report import Criterion, GateReport, KlToLive, Trial
from trainer.gate.text import WIDTH, report_lines
from trainer.gate_config import GateConfig

TASKS = tuple(f"t{index}" for index in range(200))
PLANS = {"sums": Plan(TASKS, ())}
CONFIG = GateConfig()
KL = KlToLive(0.01, 0.5, 1000)


def trial(
    version: int, rate: Callable[[str, int], float], *, tasks: tuple[str, ...] = TASKS, samples: int = 4
) -> Trial:
    """A version whose n-th reply to a task scores what `rate` says."""
    return Trial(
        version,
        tuple(
            Eval(
                adapter="bot",
                version=version,
                suite="sums",
                task_id=task,
                sample=sample,
                score=rate(task, sample),
                passed=rate(task, sample) == 1,
            )
            for task in tasks
            for sample in range(samples)
        ),
    )


def good(_task: str, _sample: int) -> float:
    return 1.0


def half(task: str, _sample: int) -> float:
    return float(int(task[1:]) % 2)


def findings(status: Status = "ok") -> list[Finding]:
    return [Finding(check=name, status=status, value=0, summary="as found") for name in CONFIG.required_checks]


def decided(**changed: object) -> GateReport:
    """A decision in which everything is well but what is changed."""
    given: dict[str, object] = {
        "adapter": "bot",
        "candidate": trial(3, good),
        "live": trial(2, half),
        "best": trial(1, half),
        "plans": PLANS,
        "config": CONFIG,
        "deterministic": False,
        "findings": findings(),
        "kl": KL,
        "proof": "proved",
    }
    return decide(**(given | changed))  # type: ignore[arg-type]


def of(report: GateReport, name: str, against: int | None = None) -> Criterion:
    return next(each for each in report.criteria if each.name == name and against in (None, each.against))


def test_a_candidate_that_is_better_passes_with_its_numbers() -> None:
    report = decided()
    assert (report.verdict, report.version, report.live, report.best) == ("pass", 3, 2, 1)
    score = of(report, "score", 2)
    assert (score.candidate, score.other, score.difference, score.tasks) == (1.0, 0.5, 0.5, 200)
    assert report.numbers.held_out_score == 1.0
    assert [each.against for each in report.criteria if each.name in ("score", "pass@4")] == [2, 2, 1, 1]


def test_live_that_is_the_pinned_best_is_compared_with_once() -> None:
    report = decided(best=trial(2, half))
    assert [each.against for each in report.criteria if each.name == "score"] == [2]


def test_better_than_live_but_worse_than_the_pinned_best_is_refused() -> None:
    report = decided(candidate=trial(3, half), live=trial(2, lambda task, n: 0.0), best=trial(1, good))
    assert report.verdict == "refuse"
    assert report.reasons[0].startswith("score against version 1: worse: -0.500")


def test_fewer_solved_by_any_sample_is_refused_though_the_mean_is_the_same() -> None:
    """Half of the tasks always against all of them half the time: pass@1 0.5 both, pass@4 0.5 against 1."""
    report = decided(
        candidate=trial(3, half),
        live=trial(2, lambda task, n: float(n % 2)),
        best=trial(2, lambda task, n: float(n % 2)),
    )
    assert of(report, "score").difference == 0
    assert of(report, "pass@4").status == "refuse"
    assert of(report, "pass@4").difference == -0.5
    assert report.verdict == "refuse"


def test_noise_is_inconclusive_and_says_how_many_tasks_are_needed() -> None:
    random = np.random.default_rng(2)
    draws = {version: random.integers(0, 2, (200, 4)) for version in (2, 3)}
    trials = {v: trial(v, lambda task, n, v=v: float(draws[v][int(task[1:]), n])) for v in (2, 3)}
    report = decided(candidate=trials[3], live=trials[2], best=trials[2])
    assert report.verdict == "inconclusive"
    score = of(report, "score")
    # Each task: variance of a difference of two means of 4 fair coins, 2 * 0.25 / 4 = 0.125, all of it sampling.
    assert score.tasks_needed is not None
    assert score.tasks_needed == pytest.approx(0.125 * ((1.645 + 0.842) / 0.02) ** 2, rel=0.2)
    assert score.tasks_needed_at_least is not None
    assert score.tasks_needed_at_least < score.tasks_needed / 4
    assert score.next is not None
    assert f"evaluate on {score.tasks_needed} tasks" in score.next


def test_equal_scores_pass_on_200_tasks_and_are_inconclusive_on_100() -> None:
    assert decided(candidate=trial(3, half)).verdict == "pass"
    few = {"sums": Plan(TASKS[:100], ())}
    trials = {name: trial(v, half, tasks=TASKS[:100]) for name, v in (("candidate", 3), ("live", 2), ("best", 1))}
    report = decided(plans=few, **trials)
    assert report.verdict == "inconclusive"
    assert (of(report, "score").difference, of(report, "score").status) == (0.0, "inconclusive")


@pytest.mark.parametrize("which", ["candidate", "live", "best"])
def test_a_sample_that_was_not_observed_is_no_data_and_does_not_pass(which: str) -> None:
    trials = {"candidate": trial(3, good), "live": trial(2, half), "best": trial(1, half)}
    records = list(trials[which].evals)
    records[5] = msgspec.structs.replace(records[5], score=None, passed=None)
    report = decided(**{which: trials[which]._replace(evals=tuple(records))})
    assert report.verdict == "inconclusive"
    assert of(report, "evaluation").status == "no_data"
    assert f"1 of version {trials[which].version}" in report.reasons[0]


def test_a_task_that_was_never_tried_is_no_data() -> None:
    report = decided(candidate=trial(3, good, tasks=TASKS[:-1]))
    assert (report.verdict, of(report, "evaluation").status) == ("inconclusive", "no_data")


def test_no_evaluation_at_all_never_passes() -> None:
    none = {name: Trial(version, ()) for name, version in (("candidate", 3), ("live", 2), ("best", 1))}
    report = decided(**none)
    assert (report.verdict, of(report, "score").status, report.numbers.held_out_score) == (
        "inconclusive",
        "no_data",
        None,
    )
    assert decided(**none, plans={}).verdict == "inconclusive"


def test_a_grader_that_passes_nothing_is_not_not_worse() -> None:
    dead = {name: trial(v, lambda task, n: 0.0) for name, v in (("candidate", 3), ("live", 2), ("best", 1))}
    report = decided(**dead)
    assert report.verdict == "inconclusive"
    assert "no reply of any version scores above 0" in report.reasons[0]


def test_a_grader_that_gives_every_reply_the_same_score_tells_nothing() -> None:
    dead = {name: trial(v, lambda task, n: 0.5) for name, v in (("candidate", 3), ("live", 2), ("best", 1))}
    report = decided(**dead)
    assert (report.verdict, of(report, "evaluation").status) == ("inconclusive", "inconclusive")
    assert report.reasons == ("evaluation: every reply of every version scores 0.5",)
    # All solved by all is no fault of the grader.
    solved = {name: trial(v, lambda task, n: 1.0) for name, v in (("candidate", 3), ("live", 2), ("best", 1))}
    assert of(decided(**solved), "evaluation").status == "pass"


@pytest.mark.parametrize(
    ("status", "passes"), [("ok", True), ("info", True), ("warn", True), ("fail", False), ("no_data", False)]
)
def test_required_checks_must_not_fail_and_must_have_data(status: Status, passes: bool) -> None:
    report = decided(findings=findings(status))
    assert report.verdict == ("pass" if passes else "refuse")


def test_a_required_check_that_was_not_run_refuses_and_others_count_not() -> None:
    assert decided(findings=findings()[1:]).verdict == "refuse"
    other = Finding(check="mfu", status="fail", summary="slow")
    assert decided(findings=[*findings(), other]).verdict == "pass"


@pytest.mark.parametrize(
    ("kl", "verdict"),
    [
        (KlToLive(0.1, 5.0, 10), "pass"),
        (KlToLive(0.11, 1.0, 10), "refuse"),
        (KlToLive(0.01, 5.1, 10), "refuse"),
        (KlToLive(math.nan, 1.0, 10), "refuse"),
        (KlToLive(0.0, 0.0, 0), "inconclusive"),
        (None, "inconclusive"),
    ],
)
def test_the_kl_to_live_is_within_its_bounds(kl: KlToLive | None, verdict: str) -> None:
    assert decided(kl=kl).verdict == verdict


@pytest.mark.parametrize(
    ("proof", "verdict"),
    [("proved", "pass"), ("refuted", "refuse"), ("undecided", "inconclusive"), (None, "inconclusive")],
)
def test_only_a_proved_version_passes(proof: str | None, verdict: str) -> None:
    assert decided(proof=proof).verdict == verdict


def test_tasks_that_are_tried_again_only_as_fixes_enter_no_comparison() -> None:
    plans = {"sums": Plan(TASKS[:190], TASKS[190:])}
    assert of(decided(plans=plans), "score").tasks == 190


def test_the_report_is_json_and_comes_back() -> None:
    report = decided(kl=KlToLive(math.nan, 1.0, 10))
    builtins = report.builtins()
    assert builtins["verdict"] == "refuse"
    assert builtins["numbers"] == {"held_out_score": 1.0, "tasks": 200, "fixes": 0}
    back = msgspec.convert(builtins, GateReport)
    assert of(back, "kl").candidate is None
    assert back.reasons == report.reasons


def test_the_text_fits_its_width_and_names_every_number_and_reason() -> None:
    bad = Finding(check="staleness", status="fail", summary="stale \x1b[31m" + "words " * 40)
    random = np.random.default_rng(1)
    noisy = random.integers(0, 2, (200, 4))
    report = decided(
        candidate=trial(3, lambda task, n: float(noisy[int(task[1:]), n])),
        findings=[*(each for each in findings() if each.check != "staleness"), bad],
    )
    lines = report_lines(report)
    text = "\n".join(lines)
    assert max(map(len, lines)) <= WIDTH
    assert "\x1b" not in text
    assert lines[0].startswith("gate: bot@3 against live @2 and best @1: REFUSE (held-out score 0.")
    assert "REFUSED   check staleness: fail: stale" in text
    score = of(report, "score", 2)
    row = next(line for line in lines if line.startswith("  score") and "@2" in line)
    assert row.split() == [
        "score", "@2", f"{score.candidate:.3f}", "0.500", f"{score.difference:+.3f}", f"{score.lower_bound:+.3f}",
        "-0.020", f"{score.minimum_detectable:.3f}", "200", f"{score.tasks_needed}", "not", "shown",
    ]  # fmt: skip
    assert "next:" in lines


def test_a_report_that_passes_needs_nothing_next() -> None:
    lines = report_lines(decided())
    assert "next:" not in lines
    assert not any("REFUSED" in line or "NO DATA" in line for line in lines)

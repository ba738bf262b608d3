"""A cycle's evaluation from suite to verdict, with a scripted model: what is tried, and what comes out."""

import json
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest

from checks.finding import Finding
from collector.conversation import Reply
from collector.errors import UserError
from collector.records import Eval
from trainer.evaluation.sampler import Missing, Wanted
from trainer.evaluation_config import EvaluationConfig
from trainer.gate.decide import decide
from trainer.gate.report import GateReport, KlToLive
from trainer.gate.trials import Exam, Trials
from trainer.gate_config import GateConfig

NO_PAST = pl.DataFrame(
    schema={"adapter": pl.String, "version": pl.Int64, "suite": pl.String, "task_id": pl.String, "passed": pl.Boolean}
)


class Models:
    """Versions that know the answers to some of the tasks, by number."""

    def __init__(self, **known: range) -> None:
        self.known = known
        self.asked: list[str | None] = []
        self.gone = False

    def sample(self, wanted: Sequence[Wanted], model: str | None) -> list[Reply | Missing]:
        self.asked.append(model)
        if self.gone:
            return [Missing("the engine cannot be reached")] * len(wanted)
        known = self.known["base" if model is None else model.replace("bot@", "v")]
        return [Reply(content=each.task.task_id if int(each.task.task_id) in known else "?") for each in wanted]


def exam(folder: Path, tasks: int = 400, **settings: object) -> Exam:
    path = folder / "numbers.jsonl"
    lines = ({"task_id": f"{n}", "prompt_ids": [n + 1], "verifier": {"exact": f"{n}"}} for n in range(tasks))
    path.write_text("\n".join(map(json.dumps, lines)))
    return Exam("bot", EvaluationConfig(suites={"bot": (str(path),)}, **settings))  # type: ignore[arg-type]


def judged(trials: Trials) -> GateReport:
    config = GateConfig(required_checks=("staleness",))
    return decide(
        adapter="bot",
        candidate=trials.candidate,
        live=trials.live,
        best=trials.best,
        plans=trials.plans,
        config=config,
        deterministic=trials.deterministic,
        findings=[Finding(check="staleness", status="ok", summary="fresh")],
        kl=KlToLive(0.01, 0.1, 100),
        proof="proved",
    )


def frame(records: Sequence[Eval]) -> pl.DataFrame:
    return pl.DataFrame([{name: getattr(record, name) for name in NO_PAST.columns} for record in records])


def test_a_better_version_passes_and_its_fixes_are_tried_again_ever_after(tmp_path: Path) -> None:
    given = exam(tmp_path, tasks=400)
    models = Models(base=range(200), v1=range(390), v2=range(10, 400))
    first = given.run(models, given.plans(NO_PAST, once_live={0}, cycle=0), candidate=1, live=0, best=0)
    assert models.asked == ["bot@1", None]
    assert (len(first.plans["numbers"].fresh), first.plans["numbers"].fixes) == (200, ())
    assert judged(first).verdict == "pass"
    assert len(first.evals) == 2 * 200 * 4
    second = given.plans(frame(first.evals), once_live={0, 1}, cycle=1)["numbers"]
    assert not set(second.fresh) & set(first.plans["numbers"].fresh)
    assert len(second.fixes) == 20
    fixed = {record.task_id for record in first.candidate.evals if record.passed and int(record.task_id) >= 200}
    assert set(second.fixes) <= fixed


def test_a_version_that_lost_earlier_fixes_is_refused_though_as_good_on_the_whole(tmp_path: Path) -> None:
    given = exam(tmp_path)
    models = Models(base=range(200), v1=range(400), v2=range(400))
    first = given.run(models, given.plans(NO_PAST, once_live={0}, cycle=0), candidate=1, live=0, best=0)
    plans = given.plans(frame(first.evals), once_live={0, 1}, cycle=1)
    forgotten = sorted(map(int, plans["numbers"].fixes))[0]
    known = [n for n in range(400) if n != forgotten]
    models.known["v2"] = known  # type: ignore[assignment]
    report = judged(given.run(models, plans, candidate=2, live=1, best=1))
    assert report.verdict == "refuse"
    assert report.reasons == (f"earlier fixes: lost: numbers/{forgotten} (0/8, version 1 8/8)",)


def test_an_engine_that_is_gone_is_no_data_and_no_failure(tmp_path: Path) -> None:
    given = exam(tmp_path, tasks=20)
    models = Models(base=range(10), v1=range(10))
    models.gone = True
    said: list[str] = []
    plans = given.plans(NO_PAST, once_live={0}, cycle=0)
    trials = given.run(models, plans, candidate=1, live=0, best=0, say=said.append)
    assert {record.passed for record in trials.evals} == {None}
    report = judged(trials)
    assert report.verdict == "inconclusive"
    assert {each.status for each in report.criteria if each.name in ("evaluation", "score", "pass@4")} == {"no_data"}
    assert said[0] == "80 of 80 replies of bot@1 are not observed: the engine cannot be reached"


def test_an_adapter_without_a_suite_never_passes() -> None:
    given = Exam("bot", EvaluationConfig())
    trials = given.run(Models(), given.plans(NO_PAST, once_live={0}, cycle=0), candidate=1, live=0, best=0)
    report = judged(trials)
    assert report.verdict == "inconclusive"
    assert "no held-out task was to be tried" in report.reasons[0]


def test_each_version_is_tried_once(tmp_path: Path) -> None:
    given = exam(tmp_path, tasks=5)
    models = Models(base=range(5), v1=range(5), v2=range(5))
    plans = given.plans(NO_PAST, once_live={0}, cycle=0)
    trials = given.run(models, plans, candidate=2, live=1, best=0)
    assert models.asked == ["bot@2", "bot@1", None]
    assert [record.version for record in trials.evals] == [2] * 20 + [1] * 20 + [0] * 20


def test_two_suites_of_one_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    exam(tmp_path), exam(tmp_path / "other")
    paths = (str(tmp_path / "numbers.jsonl"), str(tmp_path / "other" / "numbers.jsonl"))
    with pytest.raises(UserError, match="bot has two suites named numbers"):
        Exam("bot", EvaluationConfig(suites={"bot": paths}))

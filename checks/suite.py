"""The suite: every check, registered by hand, and one pass over a log that feeds them all."""

from collections.abc import Mapping, Sequence

import msgspec
import polars as pl

from checks.check import Check
from checks.columns import COUNTED, SCHEMAS
from checks.faults.duplicate_prefix import duplicate_prefix
from checks.faults.entropy import entropy
from checks.faults.feedback import feedback
from checks.faults.first_mover import first_mover
from checks.faults.grad_norm import grad_norm
from checks.faults.importance_weight import importance_weight
from checks.faults.length_mismatch import length_mismatch
from checks.faults.loss_mask import loss_mask
from checks.faults.mfu import mfu
from checks.faults.pass_at_k import pass_at_k
from checks.faults.prefix_break import prefix_break
from checks.faults.retokenization_drift import retokenization_drift
from checks.faults.reward_eval_gap import reward_eval_gap
from checks.faults.served_adapter import served_adapter
from checks.faults.staleness import staleness
from checks.faults.stall_time import stall_time
from checks.faults.template_mismatch import template_mismatch
from checks.faults.truncation import truncation
from checks.faults.zero_variance_group import zero_variance_group
from checks.finding import Finding
from checks.log import Log, MemoryLog
from checks.measure import Tools
from checks.measures.advantages import Advantages
from checks.measures.duplicate_prefixes import DuplicatePrefixes
from checks.measures.entropies import Entropies
from checks.measures.importance_weights import ImportanceWeights
from checks.measures.loss_masks import LossMasks
from checks.measures.prefix_breaks import PrefixBreaks
from checks.measures.round_trip import RoundTrip
from checks.measures.served_models import ServedModels
from checks.measures.template_prompts import TemplatePrompts
from checks.measures.token_lags import TokenLags
from checks.measures.token_lengths import TokenLengths
from checks.passes import OnBatch, further_passes, one_pass
from checks.report import Counts, Report
from checks.train_rewards import TURN_COLUMNS
from collector.errors import UserError

_REWARDED = ("adapter", "group_id", "task_id", "trainer_step", "purpose", "reward")

CHECKS: tuple[Check, ...] = (
    Check(
        "importance-weight",
        importance_weight,
        ("importance_weights", "versions", "steps"),
        measures=(ImportanceWeights,),
    ),
    Check("staleness", staleness, ("token_lags", "versions", "steps"), measures=(TokenLags,)),
    Check("stall-time", stall_time, ("spans", "steps")),
    Check("mfu", mfu, ("steps",)),
    Check("reward-eval-gap", reward_eval_gap, ("turns", "rewards", "steps", "evals", "versions"), TURN_COLUMNS),
    Check("pass-at-k", pass_at_k, ("turns", "rewards", "steps", "evals", "versions"), _REWARDED),
    Check("entropy", entropy, ("entropies", "steps", "versions"), measures=(Entropies,)),
    Check("grad-norm", grad_norm, ("steps",)),
    Check(
        "prefix-break",
        prefix_break,
        ("prefix_breaks", "events", "turns"),
        ("prompt_tokens", "completion_tokens"),
        (PrefixBreaks,),
    ),
    Check("retokenization-drift", retokenization_drift, ("round_trip",), measures=(RoundTrip,)),
    Check("template-mismatch", template_mismatch, ("template_prompts",), measures=(TemplatePrompts,)),
    Check("length-mismatch", length_mismatch, ("token_lengths",), measures=(TokenLengths,)),
    Check("loss-mask", loss_mask, ("loss_masks",), measures=(LossMasks,)),
    Check("truncation", truncation, ("turns", "steps"), ("finish_reason", "completion_tokens")),
    Check("zero-variance-group", zero_variance_group, ("turns", "rewards", "advantages"), _REWARDED, (Advantages,)),
    Check("feedback", feedback, ("turns", "feedback"), ("turn_id", "finished_at", "purpose")),
    Check("duplicate-prefix", duplicate_prefix, ("duplicate_prefixes",), measures=(DuplicatePrefixes,)),
    Check("served-adapter", served_adapter, ("served_models", "events"), measures=(ServedModels,)),
    Check(
        "first-mover",
        first_mover,
        (
            "turns",
            "rewards",
            "steps",
            "evals",
            "spans",
            "versions",
            "importance_weights",
            "token_lags",
            "entropies",
        ),
        TURN_COLUMNS,
        (ImportanceWeights, TokenLags, Entropies),
    ),
)
"""Every check, in the order of the report."""


def select_checks(only: Sequence[str] = (), ignore: Sequence[str] = ()) -> tuple[Check, ...]:
    """The checks named, or all, less the ignored ones; an unknown name is refused."""
    names = [check.name for check in CHECKS]
    for name in (*only, *ignore):
        if name not in names:
            raise UserError(f"no check {name!r}, expected some of {', '.join(names)}")
    chosen = only or names
    return tuple(check for check in CHECKS if check.name in chosen and check.name not in ignore)


def run(
    log: Log | Mapping[str, pl.DataFrame],
    *,
    checks: Sequence[Check] = CHECKS,
    thresholds: Mapping[str, Mapping[str, float]] | None = None,
    tools: Tools | None = None,
    on_batch: OnBatch = lambda _: None,
) -> Report:
    """Runs the checks over a log, or over frames by table name; `thresholds` is check to argument to value."""
    _refuse_misfits(log, checks)
    opened: Log = log if not isinstance(log, Mapping) else MemoryLog(log)
    tools = tools or Tools()
    kinds = {kind.name: kind for check in checks for kind in check.measures}
    measures = {
        name: kind(tools) for name, kind in kinds.items() if tools.tokenizer is not None or not kind.needs_tokenizer
    }
    narrow = one_pass(opened, checks, measures, kinds, on_batch)
    further_passes(opened, measures, kinds)
    frames = {name: measure.frame() for name, measure in measures.items()}
    findings = tuple(
        _conclude(opened, check, narrow, frames, (thresholds or {}).get(check.name, {})) for check in checks
    )
    return Report(source=opened.source(), counts=_counts(narrow), findings=findings)


def _refuse_misfits(log: object, checks: Sequence[object]) -> None:
    """What a script hands over by mistake, in the words that mend it."""
    if isinstance(log, pl.DataFrame | list):
        found = "DataFrame" if isinstance(log, pl.DataFrame) else "list"
        raise UserError(f"a {found}, expected frames by table: run({{'turns': frame}})")
    names = [check for check in checks if not isinstance(check, Check)]
    if names:
        raise UserError(f"checks holds {names[0]!r}, expected checks: checks=select_checks([{names[0]!r}])")


def _conclude(
    log: Log, check: Check, narrow: pl.DataFrame, measured: Mapping[str, pl.DataFrame], thresholds: Mapping[str, float]
) -> Finding:
    unknown = sorted(set(thresholds) - set(check.thresholds))
    if unknown:
        expected = ", ".join(check.thresholds) or "none"
        raise UserError(f"check {check.name} has no threshold {unknown[0]!r}, expected some of {expected}")
    names = {kind.name for kind in check.measures}
    if not names <= set(measured):
        return _without_tokenizer(log, check, narrow)
    known = {**measured, "turns": narrow}
    given = [known[name] if name in known else log.table(name) for name in check.frames]
    finding = check.run(given, thresholds)
    return _advised(log, narrow, finding) if finding.status == "no_data" else finding


def _without_tokenizer(log: Log, check: Check, narrow: pl.DataFrame) -> Finding:
    """A log without token ids is not helped by a tokenizer alone."""
    needed, missing = "the model's tokenizer", ("--tokenizer",)
    if not any(narrow[name].null_count() < narrow.height for name in COUNTED if name in narrow.columns):
        needed, missing = f"token ids, and {needed}", ("turns.completion_ids", *missing)
    return _advised(log, narrow, Finding.no_data(check.name, f"needs {needed}", missing=missing))


def _advised(log: Log, narrow: pl.DataFrame, finding: Finding) -> Finding:
    """The finding with what its log lacks, and how the framework that wrote it is made to record that."""
    missing = tuple(column for column in finding.missing if not _held(log, narrow, column))
    advice = dict.fromkeys(said for column in missing if "." in column and (said := log.advice(column)))
    return msgspec.structs.replace(finding, missing=missing, check_next=(*finding.check_next, *advice))


def _held(log: Log, narrow: pl.DataFrame, column: str) -> bool:
    """Whether the log holds the column, if not enough of it: advice to record it would mislead."""
    table, _, name = column.partition(".")
    if name not in SCHEMAS.get(table, {}):
        return False
    frame = narrow if table == "turns" else log.table(table)
    return name in frame.columns and frame[name].null_count() < frame.height


def _counts(narrow: pl.DataFrame) -> Counts:
    if narrow.is_empty():
        return Counts(turns=0, sessions=0, tokens=0)
    tokens = sum(int(narrow[name].sum() or 0) for name in COUNTED)
    return Counts(turns=narrow.height, sessions=narrow["session_id"].n_unique(), tokens=tokens)

"""A report with a finding of every check, made by hand, and the log that it is of. Token ids are bytes."""

import json
import math

import polars as pl

from checks.finding import Evidence, Finding, Series, Threshold
from checks.log import MemoryLog, Source, Unreadable
from checks.report import Counts, Report

IM_START, IM_END, THINK, END_THINK = 257, 258, 259, 260
HOSTILE = "\x1b[31mred\x1b]0;title\x07 <script>alert(1)</script> \x00 \ud800 \u202eevil\u202c ]]> &amp; 'q' \"d\"\nnext"
"""Everything that must not reach a terminal, a page or an XML file as it is."""


def _ids(text: str) -> list[int]:
    return list(text.encode())


PROMPT = [IM_START, *_ids("user\nWhat is 17 + 25?"), IM_END, 10, IM_START, *_ids("assistant\n")]
REPLY = [THINK, *_ids("\n17 plus 25 is 42.\n"), END_THINK, *_ids("\n\nThe sum is 42."), IM_END]
NEXT = [*PROMPT, *_ids("The sum is 42."), IM_END, 10, IM_START, *_ids("user\nDouble it."), IM_END, 10]
ANSWER = [*_ids("Eighty-four, 84."), IM_END]
MU = [-0.25] * len(ANSWER)
PI = [*[-0.25] * 8, -5.25, *[-0.25] * (len(ANSWER) - 9)]
"""The trainer disagrees about the ninth token: log w = -5 there."""


def log() -> MemoryLog:
    """One session of two turns; the second strips the reasoning of the first."""
    turns = pl.DataFrame(
        {
            "session_id": ["s", "s"],
            "turn": [1, 2],
            "prompt_ids": [PROMPT, NEXT],
            "completion_ids": [REPLY, ANSWER],
            "sampled_logprobs": [[-0.5] * len(REPLY), MU],
            "trainer_logprobs": [None, PI],
            "request": [json.dumps({"messages": [{"role": "user", "content": "What is 17 + 25?"}]}), None],
            "place": ["log.jsonl:1", "log.jsonl:2"],
        },
        schema_overrides={
            "prompt_ids": pl.List(pl.Int32),
            "completion_ids": pl.List(pl.Int32),
            "sampled_logprobs": pl.List(pl.Float64),
            "trainer_logprobs": pl.List(pl.Float64),
        },
    )
    return MemoryLog({"turns": turns})


def report(text: str = "as it was logged") -> Report:
    """Every check once; `text` stands wherever text of a log or a model may."""
    return Report(
        source=Source(
            path=f"runs/{text}",
            format="native",
            reason=f"native: lines with {text}",
            files=2,
            unreadable=25,
            unreadable_first=tuple(Unreadable(place=f"{text}:{n}", reason=f"not JSON: {text}") for n in range(20)),
        ),
        counts=Counts(turns=2, sessions=1, tokens=len(PROMPT) + len(REPLY) + len(NEXT) + len(ANSWER)),
        findings=(*_of_tokens(text), *_of_turns(text), *_of_steps(text)),
    )


def _of_tokens(text: str) -> tuple[Finding, ...]:
    weight = Finding(
        check="importance-weight",
        status="fail",
        value=2.5,
        unit="nats",
        threshold=Threshold(warn=1e-2, fail=1e-1),
        summary=f"trainer and engine disagree: {text}",
        check_next=("temperature", f"dtype {text}"),
        evidence=tuple(
            Evidence(
                session_id="s",
                turn=2,
                token_index=8,
                kind="mismatch_at_equal_version",
                value=-5.0,
                text=f"log w {n} {text}",
                detail={"lag": 0, "note": text},
            )
            for n in range(12)
        ),
        evidence_omitted=3,
        breakdown=tuple({"lag": lag, "tokens": 1000 * lag, "max_w": 1.5, "text": text} for lag in range(15)),
        metrics={"max_w": 1.0},
        series=(
            Series(
                name="log w",
                x_label="token of the completion",
                y_label="log w, nats",
                x=tuple(float(n) for n in range(17)),
                y=tuple(pi - mu for pi, mu in zip(PI, MU, strict=True)),
                kind="points",
            ),
            Series(name="w at lag 0", x_label="w", y_label="tokens", x=(0.5, 1.0, 1.5), y=(1, 15, 1), kind="bars"),
        ),
    )
    return (
        weight,
        Finding(
            check="prefix-break",
            status="fail",
            value=1,
            unit="breaks",
            threshold=Threshold(warn=0, fail=0),
            summary="1 turn does not extend the turn it continues",
            check_next=("the chat template",),
            evidence=(
                Evidence(
                    session_id="s",
                    turn=2,
                    previous_turn=1,
                    token_index=len(PROMPT),
                    kind="reasoning_stripped",
                    detail={"previous_id": THINK},
                ),
            ),
        ),
        Finding(
            check="retokenization-drift",
            status="warn",
            value=1,
            unit="turns",
            summary="1 turn",
            evidence=(Evidence(session_id="s", turn=2, token_index=3, kind="drift"),),
        ),
        Finding(
            check="template-mismatch",
            status="warn",
            value=1,
            unit="turns",
            summary="1 turn",
            evidence=(Evidence(session_id="s", turn=1, token_index=2, kind="other", text=text),),
        ),
    )


def _of_turns(text: str) -> tuple[Finding, ...]:
    here = Evidence(session_id="s", turn=2, text=text)
    there = Evidence(session_id=text.replace("\ud800", ""), turn=9, text="in a session that the log does not hold")
    return (
        _finding("length-mismatch", "fail", Evidence(session_id="s", turn=2, token_index=17, kind="length_mismatch")),
        _finding("loss-mask", "fail", Evidence(session_id="s", turn=2, token_index=0, kind="masked_out")),
        _finding("truncation", "warn", Evidence(session_id="s", turn=2, value=17, text="cut by the length limit")),
        _finding("zero-variance-group", "warn", Evidence(group_id=text, text="no gradient")),
        _finding("feedback", "info", here, there),
        Finding(check="duplicate-prefix", status="ok", value=0.5, unit="share of tokens", summary=text),
        Finding.no_data("served-adapter", f"no probe {text}", missing=("events.kind",)),
        _finding("first-mover", "info", Evidence(adapter=text, step=12, text="entropy moved first")),
    )


def _of_steps(text: str) -> tuple[Finding, ...]:
    steps = tuple(float(n) for n in range(3000))
    return (
        Finding(
            check="grad-norm",
            status="fail",
            value=math.nan,
            summary="the gradient norm is not a number",
            evidence=(Evidence(step=7, value=math.inf), Evidence(step=8, value=math.nan, kind="not_finite")),
            metrics={"grad_norm_max": math.inf},
        ),
        Finding(
            check="entropy",
            status="ok",
            value=0.31,
            unit="nats",
            threshold=Threshold(warn=0.1, fail=0.01),
            summary="0.31 nats on average",
            series=(
                Series(
                    name="entropy",
                    x_label="step",
                    y_label="nats",
                    x=steps,
                    y=tuple(None if 900 < n < 1000 else 0.3 + math.sin(n / 200) / 20 for n in steps),
                ),
            ),
        ),
        Finding(
            check="reward-eval-gap",
            status="ok",
            value=0.02,
            summary="train reward and held-out score move together",
            series=tuple(
                Series(
                    name=name,
                    x_label="step",
                    y_label="reward",
                    x=(0, 10, 20, 30),
                    y=tuple(start + n / 20 for n in range(4)),
                )
                for name, start in (("train", 0.2), ("held-out", 0.15), (text, 0.1))
            ),
        ),
        *(
            Finding.no_data(check, "not logged", missing=(f"steps.{check}",))
            for check in ("staleness", "stall-time", "mfu", "pass-at-k")
        ),
    )


def _finding(check: str, status: str, *evidence: Evidence) -> Finding:
    # Status is a Literal; the builder takes any of its words.
    return Finding(
        check=check,
        status=status,  # type: ignore[arg-type]
        value=len(evidence),
        unit="turns",
        summary=f"{len(evidence)} found",
        check_next=("the place",),
        evidence=evidence,
    )

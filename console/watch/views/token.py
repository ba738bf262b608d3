"""One turn token by token: what the engine and the trainer made of each, and why they differ."""

from datetime import datetime
from functools import partial
from typing import Any

import msgspec
import numpy as np
import polars as pl

from checks.measure import Tools
from checks.measures.sampled_tokens import UNKNOWN
from checks.ragged import Array
from checks.token_context import PROMPT_CHECKS, Side
from console.check_report.token_view import LONGEST_CHARACTER, token_texts
from console.watch.held import Held
from console.watch.topic import Ask, OpenLog, Topic, View
from console.watch.trace.session_named import of_named
from console.watch.trace.trace import RECENT, ToolsOf, Trace
from console.watch.trace.turn_scorings import TurnScorings
from console.watch.trace.turn_tokens import Scoring, TurnTokens
from console.watch.trace.verdict import Verdict, WrongIds, verdict
from console.watch.trace.weight_segments import Segment
from console.watch.views.credit import Credit, credit_of
from console.watch.widgets.braille import Scale, columns_of

WINDOW = 512
"""Tokens of one window, unless fewer are asked for."""


class TokenAsk(Ask, frozen=True, kw_only=True):
    """Which turn, which scoring of it, and where the cursor begins."""

    session_id: str
    turn: int
    token_index: int | None = None
    """As evidence counts it: in the ids of `side`; None is the worst token."""
    side: Side | None = None
    """None is the side that `check` counts in, and the completion without one."""
    check: str | None = None
    """The check whose evidence this is."""
    step: int | None = None
    """The trainer step whose scoring is wanted; of several, or without one, that in which the token's w is worst."""
    scoring: int | None = None
    """Which scoring, counted from 0; before `step`."""
    first: int = -1
    """First token of the window, in prompt + completion; -1 is a window around the cursor."""
    count: int = WINDOW
    columns: int = 0
    """Columns of the chart of log w; 0 for none."""


class TokenRow(msgspec.Struct, frozen=True, kw_only=True):
    """One token; what was not observed is None."""

    position: int
    """0-based, in prompt + completion."""
    index: int | None
    """0-based, in the completion; None for a token of the prompt."""
    id: int | None
    text: str | None
    """Escaped; None without a tokenizer."""
    mu: float | None = None
    pi_old: float | None = None
    pi_gen: float | None = None
    pi_now: float | None = None
    reference: float | None = None
    w: float | None = None
    log_w: float | None = None
    finite: bool = True
    """False where one of the numbers is NaN or infinite; JSON has null for those."""
    mask: int | None = None
    """The stated loss mask; None where none is stated."""
    counted: bool = True
    """Sampled, and not left out of the loss."""
    cut: bool | None = None
    """Whether w is beyond the trainer's w_max; None where that is not known."""
    outlier: bool = False
    version: int | None = None
    label: str | None = None
    """The engine's own label of the weights."""
    entropy: float | None = None
    advantage: float | None = None


class TokenView(View, frozen=True, kw_only=True):
    """A window of a turn's tokens, and what is said of the whole turn."""

    session_id: str
    turn: int
    found: bool
    """Whether the log holds the turn; without it everything else is empty."""
    turns: tuple[int, ...] = ()
    """Numbers of the session's turns."""
    at: datetime | None = None
    """When the turn ended, else when it began."""
    place: str | None = None
    adapter: str | None = None
    adapter_version: int | None = None
    temperature: float | None = None
    logprob_mode: str | None = None
    finish_reason: str | None = None
    prompt: int = 0
    completion: int = 0
    counted: int = 0
    """Completion tokens that no stated mask leaves out."""
    scorings: tuple[Scoring, ...] = ()
    chosen: int | None = None
    """Which of them `pi_old` is of."""
    newest: int | None = None
    """Which of them `pi_now` is of: the latest one after the chosen one."""
    first: int = 0
    rows: tuple[TokenRow, ...] = ()
    cursor: int = 0
    """Position where the cursor begins."""
    chart: tuple[tuple[float, float] | None, ...] = ()
    """Least and greatest log w of equal parts of the completion."""
    outliers: tuple[int, ...] = ()
    """Positions of counted tokens with w above 2, below 1/2, or no finite number."""
    max_w: float | None = None
    min_w: float | None = None
    w_max: float | None = None
    """Where the trainer cuts w; None where that is not known."""
    segments: tuple[Segment, ...] = ()
    wrong: tuple[WrongIds, ...] = ()
    prefix: str = "unknown"
    """`root`, `extends`, `break`, or `unknown` where the log has no ids."""
    previous: int | None = None
    """The turn that this one extends or continues."""
    prefix_index: int | None = None
    """Of a break: length of the common prefix."""
    prefix_kind: str | None = None
    retok_spans: int | None = None
    """Spans of the completion that come back as other ids; None where nobody looked."""
    tokenizer: str | None = None
    """Where the tokenizer is from: `--tokenizer`, or the name of the base model; None without one."""
    credit: Credit | None = None
    """What the turn was taught; the rows have the advantages."""
    has: tuple[str, ...] = ()
    """The numbers that the log has of any token of the turn."""
    notes: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """Tokens of prompt and completion."""
        return self.prompt + self.completion

    def row(self, position: int) -> TokenRow | None:
        """The token at a position, if it is in the window."""
        at = position - self.first
        return self.rows[at] if 0 <= at < len(self.rows) else None

    def why(self, position: int) -> Verdict | None:
        """What made the weight of a token; None for one of the prompt, or outside the window."""
        row = self.row(position)
        if row is None or row.index is None:
            return None
        return verdict(
            row.index, mu=row.mu, pi_old=row.pi_old, pi_gen=row.pi_gen, segments=self.segments, wrong=self.wrong
        )


def side_of(ask: TokenAsk) -> Side:
    """In which ids `token_index` counts."""
    return ask.side or ("prompt" if ask.check in PROMPT_CHECKS else "completion")


def token_view(held: Held, ask: TokenAsk, open_log: OpenLog, *, tools: ToolsOf, w_max: float | None) -> TokenView:
    """The view that is asked for."""
    ask = of_named(held, ask)
    trace = RECENT.of(held, ask.session_id, open_log, tools())
    row = None if trace is None else trace.log.row_of(ask.turn)
    if trace is None or row is None:
        return TokenView(session_id=ask.session_id, turn=ask.turn, found=False, turns=_numbers(trace))
    scored = trace.scored(row, _scoring(ask, trace.scorings(row)))
    tokens = scored.tokens
    total = len(tokens.prompt) + len(tokens.completion)
    cursor = _cursor(ask, tokens)
    count = max(1, ask.count)
    first = max(0, min(ask.first if ask.first >= 0 else cursor - count // 2, total - count))
    numbers = _Numbers(tokens, w_max if held.source.format == "store" else None)
    turn = trace.log.batch(row).turns.select(
        "place", "adapter", "adapter_version", "temperature", "logprob_mode", "finish_reason"
    )
    log_w = tokens.log_w()
    finite = tokens.scored()
    with np.errstate(over="ignore"):
        w = None if finite is None or not len(finite.mu) else np.exp(finite.log_w(slice(None)))
    return TokenView(
        session_id=ask.session_id,
        turn=ask.turn,
        found=True,
        turns=_numbers(trace),
        at=_time_of(held, ask),
        **turn.row(0, named=True),
        prompt=len(tokens.prompt),
        completion=len(tokens.completion),
        counted=len(tokens.completion) if tokens.counted is None else int(tokens.counted.sum()),
        scorings=tokens.scorings,
        chosen=tokens.chosen,
        newest=tokens.newest,
        first=first,
        rows=tuple(numbers.rows(trace, first, min(total, first + count))),
        cursor=cursor,
        chart=_chart(log_w, ask.columns),
        outliers=tuple((tokens.outliers() + len(tokens.prompt)).tolist()),
        max_w=None if w is None else float(w.max()),
        min_w=None if w is None else float(w.min()),
        w_max=numbers.w_max,
        segments=scored.segments,
        tokenizer=trace.tokenizer,
        credit=credit_of(held, ask.session_id, ask.turn, tokens.scorings),
        has=numbers.has,
        notes=tokens.notes,
        **_ids_of(trace, row, ask.turn, tokens),
    )


def _scoring(ask: TokenAsk, scorings: TurnScorings) -> int:
    """The one that is wanted; without any scoring 0."""
    if ask.scoring is not None:
        return ask.scoring % max(1, len(scorings.steps))
    token = ask.token_index if side_of(ask) == "completion" else None
    return scorings.first(step=ask.step, token=token) or 0


def _numbers(trace: Trace | None) -> tuple[int, ...]:
    return () if trace is None else tuple(trace.numbers)


def _time_of(held: Held, ask: TokenAsk) -> datetime | None:
    own = held.turns.filter((pl.col("session_id") == ask.session_id) & (pl.col("turn") == ask.turn))
    times: list[datetime | None] = own.select(pl.coalesce("finished_at", "started_at")).to_series().to_list()
    return times[0] if times else None


def _cursor(ask: TokenAsk, tokens: TurnTokens) -> int:
    """Where the cursor begins: on the token asked for, else on the worst, else on the first that was sampled."""
    prompt, total = len(tokens.prompt), len(tokens.prompt) + len(tokens.completion)
    at = ask.token_index
    if at is None:
        worst = tokens.worst()
        at = prompt + (0 if worst is None else worst)
    elif side_of(ask) == "completion":
        at += prompt
    return max(0, min(at, total - 1))


# Any: a view's fields by their names.
def _ids_of(trace: Trace, row: int, turn: int, tokens: TurnTokens) -> dict[str, Any]:
    """What is known of whether the ids are right."""
    found = trace.retokenized(row)
    broken = trace.break_of(turn)
    parent = trace.breaks.parents.get(turn)
    held = turn in trace.breaks.parents
    return {
        "wrong": trace.wrong_ids(row, tokens),
        "prefix": "break" if broken else "unknown" if not held else "extends" if parent is not None else "root",
        "previous": broken.previous if broken else parent,
        "prefix_index": broken.at if broken else None,
        "prefix_kind": broken.kind if broken else None,
        "retok_spans": None if found is None else len(found.spans),
    }


def _chart(log_w: Array | None, columns: int) -> tuple[tuple[float, float] | None, ...]:
    if log_w is None or not columns or not len(log_w):
        return ()
    finite = np.where(np.isfinite(log_w), log_w, np.nan)
    found = columns_of(np.arange(len(log_w)), finite, Scale(0, len(log_w) - 1), columns)
    pairs = zip(found.low.tolist(), found.high.tolist(), strict=True)
    return tuple(None if low != low else (low, high) for low, high in pairs)


class _Numbers:
    """The numbers of single tokens of a turn."""

    def __init__(self, tokens: TurnTokens, w_max: float | None) -> None:
        self._tokens = tokens
        self.w_max = w_max
        lists = {
            "mu": tokens.mu,
            "pi_old": tokens.pi_old,
            "pi_gen": tokens.pi_gen,
            "pi_now": tokens.pi_now,
            "reference": tokens.reference,
            "log_w": tokens.log_w(),
            "entropy": tokens.entropy,
            "advantage": tokens.advantage,
        }
        self._lists = {name: values for name, values in lists.items() if values is not None}
        self.has = (*self._lists, *(["mask"] if tokens.mask is not None else []))
        self._outliers = set(tokens.outliers().tolist())

    def rows(self, trace: Trace, first: int, end: int) -> list[TokenRow]:
        """Some tokens of prompt + completion."""
        tokens, prompt = self._tokens, len(self._tokens.prompt)
        ids = [
            *tokens.prompt[first:end].tolist(),
            *tokens.completion[max(0, first - prompt) : max(0, end - prompt)].tolist(),
        ]
        return [
            self._prompt_row(first + at, token_id, text)
            if first + at < prompt
            else self._row(first + at, first + at - prompt, token_id, text)
            for at, (token_id, text) in enumerate(zip(ids, self._texts(trace, first, ids), strict=True))
        ]

    def _texts(self, trace: Trace, first: int, ids: list[int]) -> list[str | None]:
        """A character that began before the window is whole in it too."""
        tokens, prompt = self._tokens, len(self._tokens.prompt)
        ahead = list(range(max(0, first - LONGEST_CHARACTER), first))
        before = [int(tokens.prompt[at] if at < prompt else tokens.completion[at - prompt]) for at in ahead]
        return token_texts([*before, *ids], trace.tools)[len(before) :]

    def _prompt_row(self, position: int, token_id: int, text: str | None) -> TokenRow:
        mask = self._tokens.prompt_mask
        return TokenRow(
            position=position,
            index=None,
            id=token_id,
            text=text,
            mask=None if mask is None else int(mask[position]),
            counted=False,
        )

    def _row(self, position: int, index: int, token_id: int, text: str | None) -> TokenRow:
        tokens = self._tokens
        numbers = {name: float(values[index]) for name, values in self._lists.items()}
        log_w = numbers.get("log_w")
        with np.errstate(over="ignore"):
            w = None if log_w is None else float(np.exp(log_w))
        version = int(tokens.version[index])
        return TokenRow(
            position=position,
            index=index,
            id=None if token_id < 0 else token_id,
            text=text if token_id >= 0 else None,
            w=w,
            finite=all(np.isfinite(value) for value in (*numbers.values(), w or 0.0)),
            mask=None if tokens.mask is None else int(tokens.mask[index]),
            counted=tokens.counted is None or bool(tokens.counted[index]),
            cut=None if self.w_max is None or w is None else w > self.w_max,
            outlier=index in self._outliers,
            version=None if version == UNKNOWN else version,
            label=tokens.labels[int(tokens.label_of[index])],
            **numbers,
        )


def topic(tools: ToolsOf = Tools, *, w_max: float | None = None) -> Topic[TokenAsk]:
    """The topic with what `--tokenizer` gives, and where the trainer of a store cuts w."""
    return Topic("token", partial(token_view, tools=tools, w_max=w_max))


TOPIC = topic()
"""Without a tokenizer: tokens are shown as ids."""

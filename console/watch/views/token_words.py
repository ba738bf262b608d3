"""The numbers of single tokens, and what is said of a turn, as text: the same in screens and in plain lines."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from checks.token_context import Side
from collector.errors import UserError
from collector.terminal_text import terminal_safe
from console.watch.trace.verdict import WORDS
from console.watch.views.token import TokenRow, TokenView

NONE = "–"
"""Not observed."""
BAR = 6
"""Cells of a bar on either side of its axis."""


class TokenColumn(NamedTuple):
    """One column of the table of tokens."""

    key: str
    title: str
    width: int
    right: bool

    def cell(self, row: TokenRow, view: TokenView) -> str:
        """What stands in it for a token."""
        return _CELLS[self.key](row, view)


def logprob_text(value: float | None) -> str:
    """A log-probability to four decimals."""
    return _finite(value) or f"{value:.4f}"


def weight_text(value: float | None) -> str:
    """w to three digits."""
    return _finite(value) or (f"{value:.2f}" if value is not None and 0.01 <= value < 1000 else f"{value:.1e}")


def log_weight_text(value: float | None) -> str:
    """log w with its sign."""
    return _finite(value) or f"{value:+.2f}"


def _finite(value: float | None) -> str:
    """What stands for a number that is none; empty for one that is."""
    if value is None:
        return NONE
    return "" if math.isfinite(value) else "NaN" if math.isnan(value) else "inf" if value > 0 else "-inf"


def bar_text(log_w: float | None, limit: float) -> str:
    """A bar from an axis in the middle: to the left below 1, to the right above; full at the limit."""
    if log_w is None or not math.isfinite(log_w):
        return f"{'':{BAR}}│{'':{BAR}}"
    halves = round(min(1.0, abs(log_w) / limit) * 2 * BAR)
    full, half = divmod(halves, 2)
    if log_w < 0:
        return f"{('▐' if half else '') + '█' * full:>{BAR}}│{'':{BAR}}"
    return f"{'':{BAR}}│{'█' * full + ('▌' if half else ''):<{BAR}}"


def token_text(row: TokenRow) -> str:
    """The token as it reads, quoted; its id where no tokenizer is."""
    if row.text is None:
        return f"[{row.id}]" if row.id is not None else NONE
    return f'"{shown(row.text)}"'


def shown(text: str) -> str:
    """A token's escaped text, its leading spaces made visible."""
    bare = text.lstrip(" ")
    return "·" * (len(text) - len(bare)) + bare


def weights_text(row: TokenRow) -> str:
    """The version that sampled a token, or the engine's label."""
    if row.version is not None:
        return f"v{row.version}"
    return terminal_safe(row.label) if row.label is not None else NONE


def no_token(view: TokenView, index: int, side: Side | None) -> str | None:
    """Why there is no such token in the ids of a side, or with None in all of the turn; None where there is."""
    count = {"prompt": view.prompt, "completion": view.completion, None: view.total}[side]
    if 0 <= index < count:
        return None
    of_side = "" if side is None else f"{side} "
    there = f"tokens 0 to {count - 1}" if count else "none"
    return f"there is no {of_side}token {index}: the turn has {there}"


def typed_position(view: TokenView, text: str) -> int:
    """A position in prompt + completion, or with a c before it in the completion; both are counted from 0."""
    number = text.removeprefix("c")
    if not (number.isascii() and number.isdigit()):
        expected = "a position such as 1187, or c85 for completion token 85, both counted from 0"
        raise UserError(f"{text!r} is no token, expected {expected}")
    of_completion = text.startswith("c")
    if refusal := no_token(view, int(number), "completion" if of_completion else None):
        raise UserError(refusal)
    return int(number) + (view.prompt if of_completion else 0)


def heat_limit(view: TokenView) -> float:
    """The log w of the deepest shade: where the trainer cuts, else the farthest of the turn, log 2 at least."""
    if view.w_max is not None and view.w_max > 1:
        return math.log(view.w_max)
    ends = [abs(math.log(each)) for each in (view.max_w, view.min_w) if each is not None and each > 0]
    return max([math.log(2.0), *(each for each in ends if math.isfinite(each))])


def _mask(row: TokenRow) -> str:
    return NONE if row.mask is None else str(row.mask)


def _cut(row: TokenRow) -> str:
    return NONE if row.cut is None else "C" if row.cut else "·"


def _log_w(row: TokenRow) -> str:
    mark = " ◆" if row.outlier else ""
    return log_weight_text(row.log_w) + mark


_CELLS: dict[str, Callable[[TokenRow, TokenView], str]] = {
    "position": lambda row, _: str(row.position),
    "id": lambda row, _: NONE if row.id is None else str(row.id),
    "text": lambda row, _: token_text(row),
    "mu": lambda row, _: logprob_text(row.mu),
    "pi_old": lambda row, _: logprob_text(row.pi_old),
    "pi_gen": lambda row, _: logprob_text(row.pi_gen),
    "pi_now": lambda row, _: logprob_text(row.pi_now),
    "w": lambda row, _: weight_text(row.w),
    "log_w": lambda row, _: _log_w(row),
    "bar": lambda row, view: bar_text(row.log_w, heat_limit(view)),
    "mask": lambda row, _: _mask(row),
    "cut": lambda row, _: _cut(row),
    "gen": lambda row, _: weights_text(row),
    "entropy": lambda row, _: _finite(row.entropy) or f"{row.entropy:.2f}",
}
COLUMNS: tuple[TokenColumn, ...] = (
    TokenColumn("position", "pos", 6, True),
    TokenColumn("id", "id", 7, True),
    TokenColumn("text", "text", 14, False),
    TokenColumn("mu", "mu", 9, True),
    TokenColumn("pi_old", "pi_old", 9, True),
    TokenColumn("pi_gen", "pi_gen", 9, True),
    TokenColumn("pi_now", "pi_now", 9, True),
    TokenColumn("w", "w", 8, True),
    TokenColumn("log_w", "log w", 8, False),
    TokenColumn("bar", "bar", 2 * BAR + 1, False),
    TokenColumn("mask", "mask", 4, False),
    TokenColumn("cut", "clip", 4, False),
    TokenColumn("gen", "gen", 7, False),
    TokenColumn("entropy", "H", 6, True),
)
"""Every column; which are shown depends on the width and on what the log has."""
_NARROW = ("position", "id", "text", "mu", "pi_old", "w", "log_w", "mask", "cut", "gen")


def columns_for(view: TokenView, width: int) -> list[TokenColumn]:
    """The columns for a width: at 120 all but what the log has not, in a narrow terminal the ones that matter most."""
    if width < 110:
        narrow = {"text": 11, "mask": 1, "cut": 1, "log_w": 7}
        titles = {"mask": "m", "cut": "c"}
        return [
            each._replace(width=narrow.get(each.key, each.width), title=titles.get(each.key, each.title))
            for each in COLUMNS
            if each.key in _NARROW
        ]
    absent = {"pi_gen", "pi_now"} - set(view.has)
    found = [each for each in COLUMNS if each.key not in absent]
    # Where the terminal is not wide enough for both, the version's own probability stands before the newest.
    if "pi_gen" not in absent and "pi_now" in view.has and width < 128:
        found = [each for each in found if each.key != "pi_now"]
    return found


def turn_words(view: TokenView, *, short: bool = False) -> str:
    """The one sentence: which turn, how many tokens, which versions, and whether the ids are right."""
    if not view.found:
        return f"turn {view.turn} is not in what is watched"
    at = view.turns.index(view.turn) + 1 if view.turn in view.turns else 0
    if short:
        worst = "" if view.max_w is None else f"  w {weight_text(view.min_w)} to {weight_text(view.max_w)}"
        return (
            f"TURN {view.turn}/{len(view.turns)} {_versions(view)}  prefix {_prefix(view)}  retok {_retok(view)}{worst}"
        )
    parts = [
        f"TURN {view.turn} ({at}/{len(view.turns)})",
        f"prompt {view.prompt} · completion {view.completion} · trained {view.counted}",
        _versions(view),
        f"prefix {_prefix(view)}",
        f"retok {_retok(view)}",
    ]
    if view.max_w is not None:
        parts.append(f"max w {weight_text(view.max_w)}")
    return "  ".join(parts)


def _versions(view: TokenView, *, short: bool = False) -> str:
    gen = sorted({each.version for each in view.segments if each.version is not None})
    lags = sorted({each.lag for each in view.segments if each.lag is not None})
    sampled = ",".join(f"v{each}" for each in gen) or (
        f"v{view.adapter_version}" if view.adapter_version is not None else NONE
    )
    lag = f" (lag {','.join(map(str, lags))})" if lags else ""
    return f"gen {sampled}  pi_old {scoring_text(view, view.chosen, short=short)}{lag}"


def scoring_text(view: TokenView, which: int | None, *, short: bool = False) -> str:
    """One of the scorings, and which of how many."""
    if which is None:
        return NONE
    scoring = view.scorings[which]
    told = [f"step {scoring.step}"] if scoring.step is not None else []
    told += [f"v{scoring.version}"] if scoring.version is not None else []
    many = f" ({which + 1}/{len(view.scorings)})" if short else f" ({which + 1} of {len(view.scorings)} scorings)"
    more = many if len(view.scorings) > 1 else ""
    return (" ".join(told) or "?") + more


def _prefix(view: TokenView) -> str:
    if view.prefix == "break":
        return f"✗@{view.prefix_index}"
    return {"extends": "✓", "root": "root", "unknown": NONE}.get(view.prefix, view.prefix)


def _retok(view: TokenView) -> str:
    if view.retok_spans is None:
        return "n/d"
    return f"✗{view.retok_spans}" if view.retok_spans else "✓"


def why_lines(view: TokenView, position: int) -> list[str]:
    """The answer first, then each fact that speaks for or against it. Text of the log in it is escaped."""
    row = view.row(position)
    if row is None:
        return []
    if row.index is None:
        masked = "" if row.mask is None else f", loss mask {row.mask}"
        return [f"a token of the prompt: it was not sampled here{masked}"]
    told = view.why(position)
    assert told is not None
    kind = f" ({told.kind})" if told.kind else ""
    lines = [f"{WORDS[told.answer].upper()}{kind}: {terminal_safe(told.text)}"]
    return [*lines, _ratio(view, row), _lag(view, row), *_split(row), _ids(view, row), *_notes(view, row)]


def _ratio(view: TokenView, row: TokenRow) -> str:
    mode = f", {view.logprob_mode}" if view.logprob_mode else ""
    temperature = f", T {view.temperature:g}" if view.temperature is not None else ""
    old = f"pi_old {logprob_text(row.pi_old)} of {scoring_text(view, view.chosen)}"
    sides = f"{old}, mu {logprob_text(row.mu)} of the engine"
    return f"w {weight_text(row.w)} = exp(pi_old - mu): {sides}{mode}{temperature}"


def _lag(view: TokenView, row: TokenRow) -> str:
    segment = next((each for each in view.segments if each.start <= (row.index or 0) < each.end), None)
    if segment is None or segment.lag is None:
        return "version lag unknown: the log does not say which version sampled and which scored"
    by = f"sampled by v{segment.version}, " if segment.version is not None else ""
    mean = "" if segment.mean_abs is None else f"; mean |log w| of its {segment.tokens} tokens {segment.mean_abs:.3g}"
    return f"{by}{'same step on both sides: not staleness' if segment.lag == 0 else f'lag {segment.lag}'}{mean}"


def _split(row: TokenRow) -> list[str]:
    if row.pi_gen is None or row.mu is None or row.pi_old is None:
        return []
    engine, drift = row.pi_gen - row.mu, row.pi_old - row.pi_gen
    parts = f"engine {engine:+.2f} (pi_gen - mu), drift {drift:+.2f} (pi_old - pi_gen)"
    return [f"of log w {log_weight_text(row.log_w)}: {parts}"]


def _ids(view: TokenView, row: TokenRow) -> str:
    on = [each.text for each in view.wrong if each.start <= (row.index or 0) < each.end]
    if on:
        return f"ids: {'; '.join(on)}"
    retok = {None: "not re-encoded (no tokenizer)", 0: "re-encode to the same ids"}.get(
        view.retok_spans, f"re-encode to the same ids here; {view.retok_spans} spans elsewhere do not"
    )
    prefix = {
        "extends": f"the prompt extends turn {view.previous}",
        "root": "the prompt begins a conversation",
        "break": f"the prompt breaks with turn {view.previous} at {view.prefix_index} ({view.prefix_kind})",
    }.get(view.prefix, "whether the prompt extends a turn is not known")
    return f"ids: {retok}; {prefix}"


def _notes(view: TokenView, row: TokenRow) -> list[str]:
    cut = "" if not row.cut or view.w_max is None else f"the trainer cuts w at {view.w_max:g} (clip C)"
    masked = "" if row.counted else "loss mask 0: the token is not trained on and counts nowhere"
    return [each for each in (cut, masked, *view.notes) if each]


def columns_text(columns: Sequence[TokenColumn]) -> str:
    """The header of a plain table."""
    return " ".join(f"{each.title:>{each.width}}" if each.right else f"{each.title:<{each.width}}" for each in columns)

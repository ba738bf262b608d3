"""Every token of one turn with what was logged of it: the numbers that the checks compute with, token by token."""

from typing import NamedTuple

import msgspec
import numpy as np
import polars as pl

from checks.log import Batch
from checks.measures.sampled_tokens import UNKNOWN, counted_tokens, lengths, mask_fits, pieces, trained_as
from checks.measures.scored_tokens import ScoredTokens
from checks.ragged import Array, ragged
from console.watch.trace.session_turns import SessionTurns
from console.watch.trace.turn_scorings import OUTLIER, away

_LISTS = {
    "pi_old": "trainer_logprobs",
    "pi_gen": "sampling_version_logprobs",
    "reference": "reference_logprobs",
    "entropy": "entropies",
    "advantage": "advantages",
}


class Scoring(msgspec.Struct, frozen=True):
    """One scoring of a turn by the trainer."""

    adapter: str | None
    step: int | None
    version: int | None


class TurnTokens(NamedTuple):
    """A turn's tokens. A list of numbers is None where the log has none, or one of another length."""

    prompt: Array
    completion: Array
    mu: Array | None
    pi_old: Array | None
    pi_gen: Array | None
    pi_now: Array | None
    """By the newest scoring of the same adapter, where that is later than the chosen one."""
    reference: Array | None
    entropy: Array | None
    advantage: Array | None
    counted: Array | None
    """bool per completion token: False where a stated loss mask is 0; None where none is stated."""
    mask: Array | None
    """The stated mask over the completion; None where none is stated or it does not fit."""
    prompt_mask: Array | None
    """The stated mask over the prompt, where it covers that too."""
    version: Array
    """int64 per completion token: the version that sampled it, or `UNKNOWN`."""
    labels: tuple[str | None, ...]
    """The engine's label of each version span, by `label_of`."""
    label_of: Array
    """Index into `labels` per completion token."""
    scorings: tuple[Scoring, ...]
    chosen: int | None
    """Which of the scorings; None without any."""
    newest: int | None
    """The scoring of `pi_now`."""
    notes: tuple[str, ...]
    """What does not fit together, in words."""

    def log_w(self) -> Array | None:
        """log pi_old - log mu of each completion token, in float64."""
        if self.mu is None or self.pi_old is None:
            return None
        with np.errstate(invalid="ignore"):
            return np.subtract(self.pi_old, self.mu, dtype=np.float64)

    def scored(self) -> ScoredTokens | None:
        """The tokens that count and have a finite ratio, as the measures fold them."""
        log_w = self.log_w()
        if log_w is None or self.mu is None or self.pi_old is None:
            return None
        tokens = ScoredTokens(self.mu, self.pi_old, np.array([0, len(self.mu)], np.int64))
        finite = np.isfinite(log_w)
        return tokens.only(finite if self.counted is None else finite & self.counted)

    def outliers(self) -> Array:
        """Completion tokens that count and whose w is far from 1, or no finite number."""
        log_w = self.log_w()
        if log_w is None:
            return np.zeros(0, np.int64)
        return np.flatnonzero(away(log_w, self.counted) > OUTLIER)

    def worst(self) -> int | None:
        """The completion token farthest off, one that is no finite number first; None where there is no ratio."""
        log_w = self.log_w()
        if log_w is None or not len(log_w):
            return None
        return int(away(log_w, self.counted).argmax())


def turn_tokens(session: SessionTurns, row: int, *, scoring: int = 0) -> TurnTokens:
    """The tokens of a turn under one of its scorings, if it has any."""
    batch = session.batch(row)
    found = lengths(batch.turns)
    stated_tokens = int(found["tokens"].fill_null(0)[0])
    count = stated_tokens if _held(batch, found, stated_tokens) else 0
    scorings = [Scoring(*each) for each in batch.scores.select("adapter", "trainer_step", "trainer_version").rows()]
    chosen = scoring if scorings else None
    lists = _Lists(batch.turns, batch.scores, count)
    adapter = batch.scores.slice(chosen, 1)["adapter"] if chosen is not None else pl.Series([None], dtype=pl.String)
    turns = trained_as(batch.turns, adapter)
    version = _versions(turns, count)
    newest = _newest(scorings, chosen)
    fits = bool(found.select(mask_fits()).item())
    mask, prompt_mask = _masks(batch.turns, int(found["prompt"].fill_null(0)[0]), count) if fits else (None, None)
    stated = fits and batch.turns["loss_mask"].null_count() == 0
    counted = counted_tokens(batch.turns["loss_mask"], np.array([0, count], np.int64)) if stated else None
    if not fits:
        lists.notes.append(f"loss_mask has {found['mask'][0]} entries for {stated_tokens} tokens")
    if count < stated_tokens:
        lists.notes.append(f"the source counts {stated_tokens:,} completion tokens, and the log holds none of them")
    mu = lists.of_turn("sampled_logprobs")
    of_score = {name: lists.of_score(column, chosen) for name, column in _LISTS.items()}
    labels, label_of = _labels(batch.turns, count)
    return TurnTokens(
        prompt=ragged(batch.turns["prompt_ids"].cast(pl.List(pl.Int64))).values,
        completion=_completion(batch.turns, count),
        mu=mu,
        pi_now=lists.of_score("trainer_logprobs", newest),
        counted=np.ones(count, np.bool_) if stated and counted is None else counted,
        mask=mask,
        prompt_mask=prompt_mask,
        version=version,
        labels=labels,
        label_of=label_of,
        scorings=tuple(scorings),
        chosen=chosen,
        newest=newest,
        notes=tuple(dict.fromkeys(lists.notes)),
        **of_score,
    )


def _held(batch: Batch, found: pl.DataFrame, count: int) -> bool:
    """Whether the log says anything of the tokens themselves: else they are a number that the source states."""
    row = found.row(0, named=True)
    lists = [batch.turns[name].list.len() for name in ("completion_ids", "sampled_logprobs")]
    lists += [batch.scores[name].list.len() for name in _LISTS.values()]
    of_mask = row["mask"] is not None and row["mask"] in (count, (row["prompt"] or 0) + count)
    return of_mask or any((each == count).any() for each in lists)


class _Lists:
    """Lists of a turn and its scores, as long as the completion."""

    def __init__(self, turns: pl.DataFrame, scores: pl.DataFrame, count: int) -> None:
        self._turns, self._scores, self._count = turns, scores, count
        self.notes: list[str] = []

    def of_turn(self, column: str) -> Array | None:
        return self._fitting(self._turns[column], column)

    def of_score(self, column: str, scoring: int | None) -> Array | None:
        return None if scoring is None else self._fitting(self._scores[column].slice(scoring, 1), column)

    def _fitting(self, values: pl.Series, column: str) -> Array | None:
        if values.null_count():
            return None
        numbers = ragged(values).values.astype(np.float64, copy=False)
        if len(numbers) == self._count:
            return numbers
        self.notes.append(f"{column} has {len(numbers)} entries for {self._count} tokens: not shown, no ratio")
        return None


def _newest(scorings: list[Scoring], chosen: int | None) -> int | None:
    """The scoring at the latest step of the chosen one's adapter, if that is later."""
    if chosen is None:
        return None
    own = scorings[chosen]
    later = [
        (each.step, index)
        for index, each in enumerate(scorings)
        if each.adapter == own.adapter and each.step is not None and own.step is not None and each.step > own.step
    ]
    return max(later)[1] if later else None


def _completion(turns: pl.DataFrame, count: int) -> Array:
    """The sampled ids; -1 for each where the log has log-probabilities without ids."""
    if turns["completion_ids"].null_count():
        return np.full(count, -1, np.int64)
    return ragged(turns["completion_ids"].cast(pl.List(pl.Int64))).values


def _versions(turns: pl.DataFrame, count: int) -> Array:
    cut = pieces(turns, np.array([0, count], np.int64))
    if not count:
        return np.zeros(0, np.int64)
    return np.repeat(cut.version, np.diff(np.append(cut.start, count)))


def _labels(turns: pl.DataFrame, count: int) -> tuple[tuple[str | None, ...], Array]:
    """The engine's own labels, span by span; index 0 is no label."""
    labels: list[str | None] = [None]
    label_of = np.zeros(count, np.int64)
    for span in turns["weight_versions"].to_list()[0] or ():
        start, end = span["start"], span["end"]
        if start is not None and end is not None and 0 <= start < end:
            label_of[start:end] = len(labels)
            labels.append(span["version"])
    return tuple(labels), label_of


def _masks(turns: pl.DataFrame, prompt: int, count: int) -> tuple[Array | None, Array | None]:
    """The stated mask of the completion, and of the prompt where it has one."""
    if turns["loss_mask"].null_count():
        return None, None
    stated = ragged(turns["loss_mask"]).values
    of_prompt = stated[:prompt] if len(stated) == prompt + count and prompt else None
    return stated[len(stated) - count :], of_prompt


assert UNKNOWN < 0

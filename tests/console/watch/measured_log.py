"""A log, whole, as it is held once its tokens are read: by the pass that feeds the checks."""

import polars as pl

from checks.log import Log
from checks.measure import Tools
from checks.measures.entropies import Entropies
from checks.measures.importance_weights import ImportanceWeights
from checks.measures.token_lags import TokenLags
from checks.passes import further_passes, one_pass
from checks.suite import CHECKS
from checks.token_signals import token_signals
from console.watch.held import TABLES, Held, Origin, Tokens
from tests.console.watch.fake_feed import held

_KINDS = {kind.name: kind for kind in (ImportanceWeights, TokenLags, Entropies)}


def measured_log(log: Log) -> Held:
    """All of it."""
    measures = {name: kind(Tools()) for name, kind in _KINDS.items()}
    narrow = one_pass(log, CHECKS, measures, _KINDS, lambda _: None)
    further_passes(log, measures, _KINDS)
    weights, lags, entropies = (measures[name].frame() for name in _KINDS)
    tables = {name: log.table(name) for name in ("steps", "evals", "spans", "rewards", "versions")}
    tokens = Tokens(
        signals=token_signals(weights, lags, entropies, tables["versions"]),
        share=1.0,
        weights=weights,
        lags=lags,
        entropies=entropies,
    )
    missing = {name: dtype for name, dtype in TABLES["turns"].items() if name not in narrow.columns}
    turns = narrow.with_columns(pl.lit(None, dtype=dtype).alias(name) for name, dtype in missing.items())
    return held(turns=turns, tokens=tokens, source=Origin(path=log.source().path, format=log.source().format), **tables)

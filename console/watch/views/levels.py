"""How severe an event is: the store has three words for it, logs of others have more."""

import polars as pl

_WORDS = {
    "fail": ("fail", "failure", "error", "err", "critical", "crit", "fatal", "alert", "emergency", "emerg", "panic"),
    "warn": ("warn", "warning"),
}
"""The store's own words, and those of syslog and of Python's and OpenTelemetry's logging."""


def level() -> pl.Expr:
    """`info`, `warn` or `fail`, of the column `severity`; what is no such word, or missing, is info."""
    # OpenTelemetry counts four of each: ERROR, ERROR2 and so on.
    word = pl.col("severity").cast(pl.String).str.strip_chars().str.to_lowercase().str.replace("[1-4]$", "")
    of_words = pl.lit("info")
    for name, words in _WORDS.items():
        of_words = pl.when(word.is_in(words)).then(pl.lit(name)).otherwise(of_words)
    return of_words

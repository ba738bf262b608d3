"""Whether the trainer scores in the precision that the engine sampled in. Imports no torch."""

from collections.abc import Iterable

from trainer.engine_config import Dtype

SIGNIFICANT_BITS: dict[Dtype, int] = {"float32": 24, "float16": 11, "bfloat16": 8}
"""Of a number in each precision, the leading one included (IEEE 754-2019; bfloat16 keeps float32's exponent)."""


def coarsest(dtypes: Iterable[Dtype | None]) -> Dtype:
    """The one of the known precisions that keeps the fewest bits; float32 where none is known."""
    known: list[Dtype] = [each for each in dtypes if each is not None]
    return min(known, key=SIGNIFICANT_BITS.__getitem__) if known else "float32"


def precision_warning(trainer: Dtype, engine: Dtype | None, served_adapter: Dtype) -> str | None:
    """What a person is told where pi_old and mu cannot agree at equal version; None where they can.

    `trainer` and `engine` are the precisions of the base, `served_adapter` that of the published adapter files; an
    engine whose precision is None was not asked.
    """
    if engine is None:
        return (
            "precision: the engine does not say in which precision it serves, so that nobody knows whether w is 1 at "
            "equal version; set [engine] dtype"
        )
    effect = "w = pi_old/mu differs from 1 at equal version, and checks of w see rounding as staleness"
    if trainer != engine:
        coarser = min(trainer, engine, key=SIGNIFICANT_BITS.__getitem__)
        return (
            f"precision: the trainer computes in {trainer} and the engine in {engine}, expected one of them in both; "
            f"{coarser} rounds at every operation to {SIGNIFICANT_BITS[coarser]} significant bits, the other to "
            f"{SIGNIFICANT_BITS[engine if coarser == trainer else trainer]}, so that {effect}; set [trainer] dtype to "
            f"{engine}"
        )
    if SIGNIFICANT_BITS[served_adapter] < SIGNIFICANT_BITS[trainer]:
        return (
            f"precision: adapters are published in {served_adapter} ({SIGNIFICANT_BITS[served_adapter]} significant "
            f"bits) and trained in {trainer} ({SIGNIFICANT_BITS[trainer]}), expected as many in both; the engine "
            f"samples from rounded weights, so that {effect}; publish them in {trainer}"
        )
    return None

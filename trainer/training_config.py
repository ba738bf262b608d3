"""How a batch is trained on and what is measured of it. Imports no torch."""

from typing import Annotated

import msgspec

from trainer.engine_config import Dtype


class TrainingConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[trainer.training]`: updates of a batch, and what is measured beside them."""

    updates_per_batch: Annotated[int, msgspec.Meta(ge=1)] = 1
    """Optimizer steps on each batch. pi_old stays that of the batch's start, so that r moves away from 1 and the clip
    begins to hold. Each trains on tokens one step staler than the one before: of more than 5 on a fresh batch check
    staleness warns."""
    published_dtype: Dtype | None = None
    """Precision of the weights that are published, which should be the engine's; None is that of the frozen base."""
    measure_sampling_version: bool = True
    """Scores each turn under the published weights of the version that sampled it (pi_gen), which tells the engine's
    mismatch from staleness. One more scoring pass, left out where those are the weights that are trained."""
    measure_update: bool = True
    """Scores each batch once more after its last update, for kl_update: the exact pi of every token."""
    measure_base: bool = False
    """Scores the base model too where the objective does not ask for it: kl_base and reference_logprobs of every batch,
    for one more scoring pass."""
    peak_flops: Annotated[float, msgspec.Meta(gt=0)] | None = None
    """FLOP/s that the device could reach in the base's precision, from its data sheet; None leaves it to
    measure_peak."""
    measure_peak: bool = True
    """Takes the best rate of a few matrix products at the start of each cycle as the peak, where none is given; without
    either there is no MFU."""

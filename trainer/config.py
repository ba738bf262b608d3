"""The `[trainer]` section of roundhouse.toml. Imports no torch."""

from typing import Annotated, Literal

import msgspec

from trainer.adapter_config import AdapterConfig
from trainer.batch.batch_config import BatchConfig
from trainer.cycle.schedule_config import ScheduleConfig
from trainer.engine_config import Dtype
from trainer.evaluation_config import EvaluationConfig
from trainer.gate_config import GateConfig
from trainer.publish_config import PublishConfig
from trainer.reward import RewardConfig
from trainer.rollback_config import RollbackConfig
from trainer.training_config import TrainingConfig

BackwardMode = Literal["packed", "depth_first"]
Positive = Annotated[int, msgspec.Meta(ge=1)]


class TrainerConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[trainer]`: what turns captured traffic into the next versions of the adapters."""

    writer: str = "trainer"
    """Name of the trainer's journal in the store; one trainer at a time can hold it."""
    device: str | None = None
    """Torch device of the base model; None is a GPU where there is one, else the CPU."""
    dtype: Dtype = "float32"
    """Precision of the frozen base. The adapters' masters are float32 in any case."""
    threads: Positive = 1
    """Torch threads; two on a busy two-core machine are 10 to 20 times slower than one."""
    budget_tokens: Positive = 8192
    """Most tokens computed in one microbatch; one longer row is a microbatch of its own."""
    backward_mode: BackwardMode = "packed"
    """How a microbatch's gradient is computed: packed is one pass over all its tokens; depth_first goes through the
    prefix tree node by node and holds the activations of one row at a time: less memory, more and smaller passes."""
    checkpointing: bool = False
    """Keeps only the input of each layer and computes the rest again in the backward pass: less memory, a third more
    time."""
    batch: BatchConfig = BatchConfig()
    """`[trainer.batch]`: which turns are trained on, and in what batches."""
    publish: PublishConfig = PublishConfig()
    """`[trainer.publish]`: onto the engines, and proved there."""
    reward: RewardConfig = RewardConfig()
    """`[trainer.reward]`: from feedback to rewards."""
    rollback: RollbackConfig = RollbackConfig()
    """`[trainer.rollback]`: alerts that roll an adapter back."""
    evaluation: EvaluationConfig = EvaluationConfig()
    """`[trainer.evaluation]`: held-out suites, and how versions are tried on them."""
    gate: GateConfig = GateConfig()
    """`[trainer.gate]`: what a candidate must show before it may take sessions."""
    training: TrainingConfig = TrainingConfig()
    """`[trainer.training]`: updates of a batch, and what is measured beside them."""
    schedule: ScheduleConfig = ScheduleConfig()
    """`[trainer.schedule]`: when a cycle starts."""
    adapters: dict[str, AdapterConfig] = {}
    """Adapter name to its settings, `[trainer.adapters.NAME]`."""

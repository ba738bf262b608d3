"""The `run` record: what the numbers of a cycle were measured on."""

import platform
from collections.abc import Mapping, Sequence
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version

import torch

from collector.records import Run
from trainer.policy import Policy
from trainer.ranks import Ranks
from trainer.training.given_work import Work

_LIBRARIES = ("roundhouse", "torch", "transformers", "peft", "safetensors")


def run_record(
    policy: Policy,
    work: Sequence[Work],
    *,
    at: datetime,
    published_dtype: str,
    budget_tokens: int,
    updates_per_batch: int,
    ranks: Ranks,
    engine: Mapping[str, str],
) -> Run:
    """`engine` is the engine's name and version, as its caller knows them."""
    frozen = str(policy.network.dtype).removeprefix("torch.")
    return Run(
        at=at,
        hardware=_hardware(policy.network.device, ranks),
        precision=f"base {frozen}, adapters float32, published {published_dtype}",
        batch={
            "adapters": {each.adapter: _composition(each) for each in work},
            "budget_tokens": budget_tokens,
            "updates_per_batch": updates_per_batch,
        },
        versions={"python": platform.python_version(), **_versions(), **engine},
        # Turns of any other mode are not trainable.
        logprob_mode="scaled",
    )


def _composition(work: Work) -> list[dict[str, int]]:
    made: list[dict[str, int]] = []
    for batch in work.batches:
        trained = [turn for turn in batch.turns if turn.untrainable_reason is None]
        made.append(
            {
                "sessions": len({turn.session_id for turn in trained}),
                "turns": len(trained),
                "trained_tokens": sum(len(turn.completion_ids) for turn in trained),
            }
        )
    return made


def _hardware(device: torch.device, ranks: Ranks) -> str:
    if device.type == "cuda":
        return f"{ranks.size} x {torch.cuda.get_device_name(device)}"
    name = "Apple GPU" if device.type == "mps" else "CPU"
    return f"{ranks.size} x {name} ({platform.machine()}, {torch.get_num_threads()} threads)"


def _versions() -> dict[str, str]:
    found: dict[str, str] = {}
    for library in _LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            continue
    return found

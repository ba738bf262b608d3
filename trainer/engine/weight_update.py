"""New base weights while the engine serves, and flushing the prefix cache."""

import asyncio
from typing import NamedTuple

import torch
from transformers import PreTrainedModel

from collector.errors import UserError
from trainer.engine.causal_model import read_network
from trainer.engine.engine import Engine
from trainer.engine.engine_refusal import EngineRefusal

FLUSH_POLL_S = 0.02
"""How often a flush with a time limit looks whether the engine is idle."""


class UpdateOutcome(NamedTuple):
    """What became of a weight update; `success` is False also when only the flush was not possible."""

    success: bool
    message: str


async def update_weights(
    engine: Engine, folder: str, *, version: str | None, flush: bool, abort_all: bool
) -> UpdateOutcome:
    """Replaces the base weights: at once when paused, else when the requests in flight are done."""
    async with engine.update_lock:
        weights = await asyncio.to_thread(_read_weights, engine, folder)
        return await _replace(engine, folder, weights, version=version, flush=flush, abort_all=abort_all)


async def _replace(
    engine: Engine, folder: str, weights: dict[str, torch.Tensor], *, version: str | None, flush: bool, abort_all: bool
) -> UpdateOutcome:
    scheduler = engine.scheduler

    def begin() -> None:
        if abort_all:
            scheduler.abort(scheduler.live, "Aborted by a weight update.")
        if scheduler.paused is None:
            scheduler.draining = True

    def idle() -> bool:
        return not scheduler.draining or not (scheduler.running or scheduler.waiting)

    def apply() -> UpdateOutcome:
        outcome = _apply(engine, folder, weights, version=version, flush=flush)
        scheduler.open_again()
        return outcome

    await engine.between_steps(begin)
    return await engine.between_steps(apply, idle)


async def flush_cache(engine: Engine, timeout_s: float) -> None:
    """Empties the prefix cache; refused while a request holds keys and values, or waits and is not paused."""
    end = asyncio.get_running_loop().time() + timeout_s
    while True:
        try:
            return await engine.between_steps(lambda: _flush(engine))
        except EngineRefusal:
            if asyncio.get_running_loop().time() >= end:
                raise
        await asyncio.sleep(FLUSH_POLL_S)


def _flush(engine: Engine) -> None:
    scheduler = engine.scheduler
    queued = len(scheduler.waiting) + len(scheduler.held)
    if scheduler.running or (queued and scheduler.paused is None):
        raise EngineRefusal(
            f"Cache not flushed because there are pending requests: {len(scheduler.running)} running, {queued} queued; "
            "expected none (a pause with mode retract also allows it)"
        )
    scheduler.tree.clear()


def _apply(
    engine: Engine, folder: str, weights: dict[str, torch.Tensor], *, version: str | None, flush: bool
) -> UpdateOutcome:
    for name, weight in engine.model.network.state_dict().items():
        weight.copy_(weights[name])
    engine.model.folder = folder
    scheduler = engine.scheduler
    if version is not None:
        scheduler.change_version(version)
    if not flush:
        return UpdateOutcome(True, _message(version))
    # Whatever was computed with the old weights is shared with no later request, even if running ones keep theirs.
    scheduler.generation += 1
    scheduler.tree.clear()
    if scheduler.running:
        return UpdateOutcome(
            False,
            f"Weights were updated, but the cache was not flushed: {len(scheduler.running)} running requests keep "
            "keys and values of the old weights; pause with mode retract or abort, or pass flush_cache=false",
        )
    return UpdateOutcome(True, _message(version))


def _message(version: str | None) -> str:
    return "Succeeded to update model weights." + (f" Weight version updated to {version}." if version else "")


def _read_weights(engine: Engine, folder: str) -> dict[str, torch.Tensor]:
    try:
        network = read_network(folder, dtype=engine.model.network.dtype)
    except UserError as error:
        raise EngineRefusal(str(error)) from error
    weights = network.state_dict()
    _check_same(engine.model.network, weights, folder)
    return weights


def _check_same(network: PreTrainedModel, weights: dict[str, torch.Tensor], folder: str) -> None:
    served = network.state_dict()
    if served.keys() != weights.keys():
        odd = sorted(served.keys() ^ weights.keys())
        raise EngineRefusal(
            f"{folder}: {len(odd)} weights differ by name, first {odd[0]!r}; expected the served model's"
        )
    for name, weight in served.items():
        if weight.shape != weights[name].shape:
            found, expected = tuple(weights[name].shape), tuple(weight.shape)
            raise EngineRefusal(f"{folder}: {name} has the shape {found}, expected {expected}")

"""A process that only takes part in the passes of a model that is cut over several: it owns and prints nothing."""

import signal
from pathlib import Path

import torch.distributed as distributed
from transformers.utils import logging

from collector.errors import UserError
from trainer.base_model import device_of
from trainer.config import TrainerConfig
from trainer.cycle.model_side import ModelSide
from trainer.cycle.orders import LeftOff, Load, Orders, Stop
from trainer.ranks import Ranks


def follow(store: Path, config: TrainerConfig) -> int:
    """Does what rank 0 orders until it stops or is gone; the exit code."""
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    orders = Orders(Ranks.join(device_of(config)))
    # Both reach every process of a terminal or of torchrun: rank 0 decides what becomes of them.
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    side: ModelSide | None = None
    while True:
        try:
            order = orders.next()
        except RuntimeError:
            # Rank 0 died, and torchrun says so.
            return 1
        if isinstance(order, Stop):
            distributed.destroy_process_group()
            return 0
        try:
            if isinstance(order, Load):
                side = ModelSide(store, config, order.model, orders)
            else:
                assert side is not None, "rank 0 loads before it does anything else"
                side.follow(order)
        except (LeftOff, UserError):
            # What is refused on one rank is refused on all, and rank 0 says so.
            continue

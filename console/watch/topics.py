"""Every topic by its name, made with the settings of this call; importing it loads what the views need."""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from checks.config import own_thresholds
from checks.readers.native_store import is_store
from checks.suite import CHECKS
from console.config import load_config
from console.watch.options import Options
from console.watch.topic import Topic
from console.watch.views import (
    adapters,
    alerts,
    logs,
    part_signals,
    prefix_diff,
    retok_diff,
    signal_grading,
    token,
    traffic,
    trajectories,
    turn,
)
from console.watch.views.signal_findings import shared_checks
from console.watch.views.signal_grading import Gradings
from trainer.adapter_config import AdapterConfig
from trainer.objective_config import ObjectiveConfig

if TYPE_CHECKING:
    from checks.measure import Tools


def topics(options: Options) -> Mapping[str, Topic[Any]]:
    """The topics of all screens. Settings that cannot be used are a UserError."""
    config = load_config(options.config)
    thresholds = own_thresholds(config.checks, CHECKS)
    tools = tools_of(options)
    w_max = _w_max(config.trainer.adapters.values()) if is_store(options.path) else None
    gradings = Gradings(shared_checks(thresholds))
    made: tuple[Topic[Any], ...] = (
        part_signals.topic(gradings),
        signal_grading.topic(gradings),
        alerts.topic(thresholds),
        adapters.topic(config.collector.prices),
        traffic.topic(tools),
        logs.TOPIC,
        trajectories.TOPIC,
        turn.topic(tools),
        token.topic(tools, w_max=w_max),
        prefix_diff.topic(tools),
        retok_diff.topic(tools),
    )
    return {topic.name: topic for topic in made}


def _w_max(adapters: Iterable[AdapterConfig]) -> float | None:
    """Where the trainer cuts importance weights; None where its adapters differ in that."""
    limits = {adapter.objective.w_max for adapter in adapters} or {ObjectiveConfig().w_max}
    return limits.pop() if len(limits) == 1 else None


def tools_of(options: Options) -> "Callable[[], Tools]":
    """Opens the tokenizer once, when a view first needs it."""

    @cache
    def opened() -> "Tools":
        from checks.measure import Tools
        from collector.model_json import read_json
        from collector.rendering.renderer import Renderer
        from collector.rendering.tokenizer import ChatTokenizer

        folder = options.tokenizer
        if folder is None:
            return Tools()
        has_template = (folder / "chat_template.jinja").is_file()
        if has_template or "chat_template" in read_json(folder / "tokenizer_config.json"):
            renderer = Renderer.from_folder(folder)
            return Tools(renderer.tokenizer, renderer)
        return Tools(ChatTokenizer.from_folder(folder))

    return opened

"""Every screen by its topic, and the six that have a tab."""

import importlib
from typing import TYPE_CHECKING, NamedTuple, cast

if TYPE_CHECKING:
    from console.watch.frame.watch_screen import WatchScreen


class Tab(NamedTuple):
    """One of the six."""

    topic: str
    title: str
    short: str
    """What stands in the row of tabs where there is little room."""


TABS: tuple[Tab, ...] = (
    Tab("signals", "Signals", "Sig"),
    Tab("traffic", "Traffic", "Traf"),
    Tab("adapters", "Adapters", "Adapt"),
    Tab("alerts", "Alerts", "Alert"),
    Tab("trajectories", "Trajectories", "Traj"),
    Tab("logs", "Logs", "Log"),
)
"""In the order of the keys 1 to 6."""

SCREENS: dict[str, tuple[str, str]] = {
    "signals": ("console.watch.screens.signals", "SignalsScreen"),
    "traffic": ("console.watch.screens.traffic", "TrafficScreen"),
    "adapters": ("console.watch.screens.adapters", "AdaptersScreen"),
    "alerts": ("console.watch.screens.alerts", "AlertsScreen"),
    "trajectories": ("console.watch.screens.trajectories", "TrajectoriesScreen"),
    "logs": ("console.watch.screens.logs", "LogsScreen"),
    "turn": ("console.watch.screens.turn", "TurnScreen"),
    "token": ("console.watch.screens.token", "TokenScreen"),
    "prefix_diff": ("console.watch.screens.prefix_diff", "PrefixDiffScreen"),
    "retok_diff": ("console.watch.screens.retok_diff", "RetokDiffScreen"),
}
"""Topic to module and class; a module is imported when its screen is first opened."""


def screen_class(topic: str) -> "type[WatchScreen]":
    """The class that draws a topic."""
    module, name = SCREENS[topic]
    return cast("type[WatchScreen]", getattr(importlib.import_module(module), name))

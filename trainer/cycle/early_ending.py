"""Where a candidate ends early: what a person or an engine did while it was judged is never overruled."""

from collector.records import Version
from trainer.adapter_standing import Standing, shown
from trainer.cycle.cycle_log import Stage
from trainer.cycle.outcome import Ending


class Ended(Exception):
    """A candidate has come to its end at a stage."""

    def __init__(self, stage: Stage, ending: Ending, reason: str) -> None:
        super().__init__(reason)
        self.stage: Stage = stage
        self.ending: Ending = ending


def refuse_decided(found: Version) -> None:
    """What a person did with it while it was judged stays as it is."""
    if found.state == "live":
        raise Ended(
            "route", "routed", f"version {found.version} takes new sessions: it was promoted while it was judged"
        )
    if found.state != "candidate":
        raise Ended("route", "held", f"it passed, but was made {found.state} while it was judged, and stays that")


def refuse_overtaken(candidate: Version, now: Standing) -> None:
    """Nobody compared it with what went live meanwhile, which may have been trained on the same turns."""
    if now.live.version != candidate.parent:
        reason = f"it was trained from version {candidate.parent}, and version {now.live.version} is live by now"
        raise Ended("route", "superseded", reason)


def refuse_held(now: Standing) -> None:
    if now.held is not None:
        raise Ended("route", "held", f"it passed, and waits: {now.held.actor} holds the adapter: {now.held.reason}")
    if now.canary is not None:
        raise Ended("route", "held", f"it passed, and waits: {shown(now.canary[0])} is on trial as a canary")

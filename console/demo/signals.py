"""The last values of the eight signals, as the store has them after the loop."""

from pathlib import Path

from checks.readers.open_log import open_log
from checks.suite import run, select_checks
from collector.store.reader import Reader
from console.demo.settings import ADAPTER
from console.format import number_text

CHECKS = ("stall-time", "pass-at-k", "reward-eval-gap")
"""What the signals that no step carries are read from."""


def signal_lines(store: Path) -> list[str]:
    """One line a signal; what was not observed is said to be so."""
    with Reader(store).snapshot(["steps"]) as snapshot:
        steps = snapshot.frame("steps")
    mine = steps.filter(steps["adapter"] == ADAPTER).sort("step")
    last = mine.tail(1).to_dicts()[0] if mine.height else {}
    metrics = run(open_log(store), checks=select_checks(CHECKS)).metrics

    def text(value: object) -> str:
        return number_text(value) if isinstance(value, int | float) else "not observed"

    rows = (
        ("max w", f"{text(last.get('max_w'))} (min {text(last.get('min_w'))}, ESS {text(last.get('ess'))})"),
        ("staleness", f"{text(last.get('staleness_mean'))} optimizer steps"),
        ("stall", f"trainer {_share(metrics.get('stall_trainer_share'))} of the whole time"),
        ("MFU", _share(last.get("mfu"))),
        ("reward", f"train {text(last.get('reward_mean'))}, held-out {text(metrics.get('reward_eval_last'))}"),
        ("pass@k", f"pass@1 {text(metrics.get('pass_at_1'))}, pass@2 {text(metrics.get('pass_at_2'))}"),
        ("entropy", f"{text(last.get('entropy'))} nats"),
        ("grad norm", text(last.get("grad_norm"))),
    )
    return [f"signals, at step {last.get('step', 0)}", *(f"  {name:<10} {said}" for name, said in rows)]


def _share(value: object) -> str:
    return f"{value:.1%}" if isinstance(value, int | float) else "not observed"

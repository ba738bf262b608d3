"""What the signals and the alerts screens of the tests are of: one simulated incident with its alerts."""

from datetime import timedelta

import numpy as np
import polars as pl

from checks.alerts import acknowledge, comment, silence
from checks.columns import completed
from checks.finding import Evidence
from console.watch.held import TABLES, Held
from tests.checks.simulated_runs import Move, simulated_run
from tests.console.watch.alert_history import EVERY_S, START, as_frame, evaluated
from tests.console.watch.fake_feed import held

WORST = Evidence(
    session_id="support/7f3a91c2",
    turn=4,
    token_index=1187,
    adapter="refund",
    value=8.32,
    kind="stale",
    detail={"trainer_step": 206},
)
MOVES = (Move("staleness", 200, 14, 1), Move("max_w", 206, 13, 2), Move("entropy", 214, 14, 2))


def incident(*, adapters: tuple[str, ...] = ("refund",)) -> Held:
    """240 steps of each adapter, in the first of which something moves; alerts in every state."""
    runs = [
        simulated_run(np.random.default_rng([7, index]), 240, MOVES if index == 0 else (), adapter=name).steps
        for index, name in enumerate(adapters)
    ]
    acts = [
        acknowledge("truncation", actor="ana", at=START + timedelta(seconds=200)),
        silence("entropy", until=START + timedelta(hours=3), actor="bo", at=START + timedelta(seconds=150), text="why"),
        comment("importance-weight", actor="ana", at=START + timedelta(seconds=260), text="the fp8 engine?"),
    ]
    letters = {"staleness": "gw", "importance-weight": "gggwf", "grad-norm": "ggggggggggg" + "w", "truncation": "gf",
               "entropy": "w", "mfu": "gggggn", "stall-time": "gfffffffffg", "feedback": "g"}  # fmt: skip
    events = evaluated(letters, acts=acts, evidence={"importance-weight": WORST, "truncation": WORST})
    turns = pl.DataFrame(
        [
            {
                "session_id": f"s{number}",
                "turn": 1,
                "purpose": "traffic",
                "adapter": "refund",
                "trainable": number > 2,
                "untrainable_reason": "top_p" if number < 2 else "incomplete" if number == 2 else None,
            }
            for number in range(50)
        ]
    )
    missing = [
        pl.lit(None, dtype=dtype).alias(name) for name, dtype in TABLES["turns"].items() if name not in turns.columns
    ]
    at = START + timedelta(seconds=EVERY_S * 14)
    return held(
        steps=completed(pl.concat(runs), "steps"),
        events=as_frame(events),
        turns=turns.with_columns(missing).select(list(TABLES["turns"])),
        read_at=at,
        newest_at=at,
    )

"""The roundhouse.toml of the demo's children: one adapter of one tenant, short windows, a gate for a short suite."""

import json
from pathlib import Path

from collector.keys import sha256_of

ADAPTER = "demo"
TENANT = "demo"
AGENTS = 32
"""Sessions at a time: a step of the engine reads all weights once, for however many replies."""
WINDOW_S = 2.0
"""How long after a session's last turn its feedback is waited for: the demo's user answers at once."""
TEMPERATURE = 0.8
"""Of traffic and of held-out replies."""

_TEXT = """\
[collector.keys]
{sha256} = "{tenant}"

[engine]
max_running = {agents}

[trainer.reward]
window_s = {window_s}
# The judgement of each turn. That of the whole session, "outcome", is its mean and would count it twice.
kinds = {{ accept = {{}} }}

[trainer.batch]
# All of a round's sessions: every token is then as new as the weights, and w is 1 but for rounding.
batch_sessions = 256

[trainer.training]
updates_per_batch = {updates}
measure_update = false

[trainer.evaluation]
suites = {{ {adapter} = [{suite}] }}
tasks = 48
samples = 2
# A task that is solved by chance half the time is no fix: every task is like the others here.
most_fixes = 0
temperature = {temperature}
concurrency = {agents}

[trainer.gate]
# With two replies to a task pass@k would be the same comparison again.
pass_k = 1
# One cycle turns a quarter of right replies into most: far from the live version is where it is meant to go.
kl_mean = 2.0
kl_max = 30.0

[trainer.adapters.{adapter}]
tenant = "{tenant}"
rank = 8
alpha = 16

[trainer.adapters.{adapter}.optimizer]
lr = 5e-4

[trainer.adapters.{adapter}.objective]
# Several updates on one batch: the clip of a slow, steady run would hold from the second one on.
clip_low = 0.5
clip_high = 1.0
"""


UPDATES = 4
"""Updates on each round's batch; from a quarter or a half of right replies they lead to nearly all."""
UPDATES_BEFORE_SABOTAGE = 1
"""Fewer in the honest round before: feedback that is the same for every reply, true or not, teaches nothing."""
UPDATES_OF_SABOTAGE = 8


def write_settings(folder: Path, suite: Path, key: str, *, updates: int) -> Path:
    """Writes the file; `key` is the tenant's API key."""
    path = folder / "roundhouse.toml"
    text = _TEXT.format(
        sha256=sha256_of(key),
        tenant=TENANT,
        adapter=ADAPTER,
        agents=AGENTS,
        window_s=WINDOW_S,
        updates=updates,
        temperature=TEMPERATURE,
        # A JSON string is a TOML string.
        suite=json.dumps(str(suite)),
    )
    path.write_text(text, encoding="utf-8")
    return path


def updates_of(number: int, *, sabotage: bool) -> int:
    """Updates of the cycle with this number, from 1."""
    if not sabotage:
        return UPDATES
    return UPDATES_BEFORE_SABOTAGE if number == 1 else UPDATES_OF_SABOTAGE

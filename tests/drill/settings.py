"""Held-out suites, their graders, alive and dead, and the settings of a drill."""

import json
from pathlib import Path
from typing import NamedTuple

from tests.drill.plant import TENANT, TOKENS, WINDOW_S, prompts_of

GRADERS = '''
"""Graders of replies; all but the first are dead."""


def ascii_share(task, reply):
    """The share of characters below 128."""
    text = reply["content"] or ""
    return sum(letter < "\\\\x80" for letter in text) / len(text) if text else 0.0


def all_good(task, reply):
    return True


def all_bad(task, reply):
    return False


def all_half(task, reply):
    return 0.5


def crashes(task, reply):
    raise RuntimeError("the judge's key has expired")


def crashes_on_replies(task, reply):
    """It passes its own trial: an empty reply is bad."""
    if reply["content"]:
        raise RuntimeError("the judge's quota is used up")
    return False
'''


class Exam(NamedTuple):
    """What a candidate is tried on, and how hard it is trained."""

    tasks: int = 12
    samples: int = 1
    temperature: float = 0.0
    margin: float = 0.4
    kl: tuple[float, float] = (0.1, 5.0)
    updates: int = 1
    lr: float = 0.002
    clip: bool = True


QUICK = Exam()
"""One careful step, and a small slice: what is drilled is not how well it learns."""
LEARNING = Exam(tasks=48, samples=2, temperature=1.0, margin=0.1, kl=(8.0, 30.0), updates=6, lr=0.015, clip=False)
"""Bold enough that one cycle shows, for better or for worse."""


def write_settings(
    folder: Path, exam: Exam = QUICK, *, grader: str = "ascii_share", publish: str = "", batch: str = ""
) -> Path:
    """A roundhouse.toml; `publish` and `batch` are further lines of those sections."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "graders.py").write_text(GRADERS)
    suite = folder / "held.jsonl"
    lines = [
        {
            "task_id": f"task-{number}",
            "prompt_ids": prompt,
            "verifier": {"python": f"graders:{grader}"},
            "max_tokens": TOKENS,
        }
        for number, prompt in enumerate(prompts_of(99, exam.tasks))
    ]
    suite.write_text("\n".join(map(json.dumps, lines)))
    path = folder / "roundhouse.toml"
    path.write_text(_text(suite, exam, publish, batch))
    return path


def _text(suite: Path, exam: Exam, publish: str, batch: str) -> str:
    return f"""
[trainer.reward]
window_s = {WINDOW_S}
[trainer.batch]
batch_sessions = 64
{batch}
[trainer.training]
updates_per_batch = {exam.updates}
measure_peak = false
[trainer.evaluation]
suites = {{ bot = ["{suite}"] }}
tasks = {exam.tasks}
samples = {exam.samples}
temperature = {exam.temperature}
most_fixes = 0
[trainer.gate]
margin = {exam.margin}
pass_k = 1
kl_mean = {exam.kl[0]}
kl_max = {exam.kl[1]}
[trainer.publish]
settle_s = 0.0
{publish}
[trainer.adapters.bot]
tenant = "{TENANT}"
rank = 4
optimizer = {{ lr = {exam.lr} }}
objective = {{ clip = {str(exam.clip).lower()} }}
"""

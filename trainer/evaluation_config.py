"""How versions are tried on held-out suites, and the sandbox that commands of verifiers run in. Imports no torch."""

from typing import Annotated

import msgspec

Positive = Annotated[int, msgspec.Meta(ge=1)]
PositiveSeconds = Annotated[float, msgspec.Meta(gt=0)]


class SandboxConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[trainer.evaluation.sandbox]`: what a command that reads a model's reply may use. It never has a network."""

    program: str = "bwrap"
    """bubblewrap 0.8 or newer, by name or path. Without it no command is run."""
    time_limit_s: PositiveSeconds = 10.0
    """Longest a command runs before it and all it started are killed."""
    memory_mb: Positive = 512
    """Address space of each process; together they may hold `processes` times as much."""
    processes: Positive = 16
    """Most processes and threads at a time."""
    file_mb: Positive = 8
    """Longest file that a process may write, its output included."""
    tmp_mb: Positive = 64
    """Size of /tmp, the only place that can be written; it is memory, and gone afterwards."""
    read_only: tuple[str, ...] = ()
    """Absolute paths shown at the same place, read-only, beside /usr: an interpreter of your own, test data."""


class EvaluationConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[trainer.evaluation]`: suites, how much of them a cycle uses, and how replies are sampled and judged."""

    suites: dict[str, tuple[str, ...]] = {}
    """Adapter name to the paths of its suites, JSONL files of held-out tasks; samples/evaluation shows one. Tasks whose
    prompts are also traffic are not held out."""
    tasks: Positive = 200
    """Tasks of a suite in each cycle's slice. The slices walk through the suite, so that none is used again before all
    have been. Equal scores on fewer than 149 tasks do not pass a margin of 0.02."""
    samples: Positive = 4
    """Replies to each task."""
    fix_samples: Positive = 8
    """Replies to each task that an earlier version fixed: 1 of 8 against 8 of 8 is a proven fall even among 40 such
    comparisons."""
    most_fixes: Annotated[int, msgspec.Meta(ge=0)] = 20
    """Most earlier fixes that are tried again in one cycle; where there are more, they take turns."""
    temperature: Annotated[float, msgspec.Meta(ge=0)] = 1.0
    """Of the replies. Trained weights are a distribution: at 0 only its mode is tried."""
    max_tokens: Positive = 512
    """Limit on a reply where the task sets none."""
    seed: int = 0
    """Of the slices and of the sampling: a task's n-th reply has one seed, whichever version is tried. The embedded
    engine honours it; SGLang only with --enable-deterministic-inference."""
    concurrency: Positive = 16
    """Replies sampled at a time."""
    time_limit_s: PositiveSeconds = 120.0
    """Longest a reply may take; a later one is not observed."""
    attempts: Positive = 2
    """How often a reply is asked for that the engine fails to give. What is still missing then is not observed: it
    counts as no failure of the task, and the gate says no_data."""
    verifier_time_limit_s: PositiveSeconds = 5.0
    """Longest a regex or a Python function may take over one reply."""
    sandbox: SandboxConfig = SandboxConfig()
    """`[trainer.evaluation.sandbox]`: limits of the commands that verify replies."""

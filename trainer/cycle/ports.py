"""What a cycle asks of the parts that know models and engines. `parts.py` has the real ones; tests script them."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from collector.records import Eval, Event, Version
from collector.store.registry_rows import RegistrySnapshot
from collector.store.snapshot import Snapshot

Contexts = Sequence[Sequence[int]]
"""Token contexts that the store holds, for the proof and for the KL to live."""


class Collected(NamedTuple):
    """What one adapter can be trained on."""

    adapter: str
    batches: int
    sessions: int
    turns: int
    """With loss."""
    reason: str
    """Why there is no batch; empty where there is one."""
    funnel: Mapping[str, object]
    """As JSON: captured to share of the gradient, with reasons."""
    work: object
    """What the batch part made of it; the cycle only hands it on."""


class Made(NamedTuple):
    """A trained and saved checkpoint that nobody knows of yet."""

    folder: Path
    sha256: str
    optimizer_step: int
    steps: int
    """Optimizer steps that this cycle took."""
    trained_on: Sequence[tuple[str, int, int]]
    numbers: Mapping[str, object]
    """Of the last step."""


class Held(NamedTuple):
    """Engine names that workers have loaded, of those that answer."""

    anywhere: frozenset[str]
    everywhere: frozenset[str]
    """Loaded by every one and proved there, as the process that runs there now: collectors send to no other."""


class LoadedOn(NamedTuple):
    """A version is loaded on enough engine workers."""

    text: str
    numbers: Mapping[str, object] = {}


class Proved(NamedTuple):
    """Whether what is served is what was trained."""

    verdict: Literal["proved", "refuted", "undecided"]
    text: str
    events: Sequence[Event] = ()


class Evaluated(NamedTuple):
    """The held-out results of a candidate and of what it is compared with."""

    evals: Sequence[Eval]
    text: str
    result: object
    """What the gate decides from; the cycle only hands it on."""


class Judged(NamedTuple):
    """The gate's word."""

    verdict: Literal["pass", "refuse", "inconclusive"]
    text: str
    report: Mapping[str, object]


class UnloadedFrom(NamedTuple):
    """Whether a version is gone from every worker."""

    gone: bool
    text: str


class Parts(Protocol):
    """Models and engines. Each call has a time limit of its own; what fails raises EngineError or UserError."""

    def base_model(self) -> str:
        """Name of the base model that every worker serves; refuses one that is not the trainer's."""
        ...

    def collect(
        self, snapshot: Snapshot, registry: RegistrySnapshot, parents: Mapping[str, Version], now: datetime
    ) -> Mapping[str, Collected]:
        """What each adapter can be trained on, going on from its parent."""
        ...

    def contexts(self, snapshot: Snapshot, adapter: str) -> Contexts:
        """Some of the token contexts that the adapter's turns hold, the newest first."""
        ...

    def train(self, work: Mapping[str, Collected], parents: Mapping[str, Version]) -> Mapping[str, Made | str]:
        """Trains all of them together and saves each; in place of one that could not be trained there is the reason."""
        ...

    def held(self) -> Held:
        """What the engines have loaded now; EngineError where fewer than enough say."""
        ...

    def load(self, name: str, folder: Path, in_use: Collection[str]) -> LoadedOn:
        """Loads a version under its engine name; one that is loaded already stays. `in_use` must not make room."""
        ...

    def prove(self, candidate: Version, previous: Version, contexts: Contexts) -> Proved:
        """Compares what the engine serves under the candidate's name with what was trained."""
        ...

    def evaluate(self, candidate: Version, live: Version, best: Version, cycle: int) -> Evaluated:
        """Samples the slice of the held-out suites that is this one's turn: `cycle` counts the adapter's candidates."""
        ...

    def judge(self, candidate: Version, live: Version, evaluated: Evaluated, contexts: Contexts) -> Judged:
        """The gate."""
        ...

    def unload(self, name: str) -> UnloadedFrom:
        """Unloads a version, waiting for its running requests; one that hangs is left behind."""
        ...

"""The outcome of a proof, worker by worker, and the events that tell it."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal, NamedTuple

from collector.records import Event, Severity
from collector.store.adapter_names import parse_engine_name
from trainer.publish.judgement import Judgement, Served, Verdict

ProofKind = Literal["proof", "probe"]
"""A proof before a version is routed to, or a live probe of one that is."""
_SEVERITY: dict[Verdict, Severity] = {"proved": "info", "undecided": "warn", "refuted": "fail"}


class WorkerProof(NamedTuple):
    """What one worker serves under the name."""

    worker: str
    scored: Judgement | None
    """Given tokens, computed anew; None when the worker did not answer."""
    decoded: Judgement | None
    """Sampled tokens on a cached prefix."""
    cached_tokens: int | None
    """Fewest prompt tokens that a sampled reply took from the cache."""
    control_nats: float | None
    """Spread of the scores of the version known to be served; None when it was not measured."""
    obstacle: str | None
    """What kept the proof from being made."""
    process: str | None = None
    """Which start of the engine it was made on, and with which base weights: it holds for no other."""

    @property
    def judgements(self) -> list[Judgement]:
        """Those that were made."""
        return [each for each in (self.scored, self.decoded) if each is not None]

    @property
    def verdict(self) -> Verdict:
        """Refuted by one, proved by both and nothing missing, or else undecided."""
        verdicts = [each.verdict for each in self.judgements]
        if "refuted" in verdicts:
            return "refuted"
        return "proved" if verdicts == ["proved", "proved"] and self.obstacle is None else "undecided"

    @property
    def served(self) -> Served:
        """Which version the refuting judgement found, or the new one."""
        if self.verdict == "proved":
            return "new"
        refuting = [each for each in self.judgements if each.verdict == "refuted"]
        return refuting[0].served if refuting else "unknown"

    @property
    def reason(self) -> str:
        """Why it is not proved; empty when it is."""
        told = [("scored", self.scored), ("sampled on a cached prefix", self.decoded)]
        parts = [f"{how}: {each.reason}" for how, each in told if each is not None and each.reason]
        return "; ".join([*parts, *([self.obstacle] if self.obstacle else [])])

    # JSON of an event.
    def detail(self) -> dict[str, object]:
        """As `roundhouse explain served-adapter` documents it, and what the verdict rests on."""
        return {
            "verdict": self.verdict,
            "served": self.served,
            **{
                f"log_likelihood_ratio_{other}": sum(each.ratios[other] for each in self.judgements)
                for other in ("previous", "base")
                if self.judgements and all(other in each.ratios for each in self.judgements)
            },
            "tokens": sum(each.tokens for each in self.judgements),
            "worker": self.worker,
            "process": self.process,
            "reason": self.reason or None,
            "cached_tokens": self.cached_tokens,
            "control_nats": self.control_nats,
            "scored": _numbers(self.scored),
            "decoded": _numbers(self.decoded),
        }


class Proof(NamedTuple):
    """What every worker serves under a name."""

    name: str
    kind: ProofKind
    at: datetime
    workers: tuple[WorkerProof, ...]
    enough: int | None = None
    """Workers that it must be proved on: a collector sends to no other. None is all of them."""

    @property
    def verdict(self) -> Verdict:
        """Proved on enough workers, refuted on one, or else undecided."""
        verdicts: Sequence[Verdict] = [each.verdict for each in self.workers]
        if "refuted" in verdicts:
            return "refuted"
        enough = len(verdicts) if self.enough is None else self.enough
        return "proved" if verdicts and verdicts.count("proved") >= enough else "undecided"

    @property
    def may_route(self) -> bool:
        """Only what is proved is routed to."""
        return self.verdict == "proved"

    @property
    def text(self) -> str:
        """One line for a person."""
        proved = sum(each.verdict == "proved" for each in self.workers)
        rest = [f"{each.worker} {each.verdict} ({each.reason})" for each in self.workers if each.verdict != "proved"]
        return "; ".join([f"{self.name}: proved on {proved} of {len(self.workers)} workers", *rest])

    def events(self) -> list[Event]:
        """One for each worker, for the trainer's journal."""
        adapter, version = parse_engine_name(self.name)
        return [
            Event(
                at=self.at,
                kind=self.kind,
                severity=_SEVERITY[each.verdict],
                adapter=adapter,
                version=version,
                actor="trainer",
                text=f"{self.kind} of {self.name} on {each.worker}: {each.verdict}"
                + (f", {each.reason}" if each.reason else ""),
                detail=each.detail(),
            )
            for each in self.workers
        ]


def _numbers(judgement: Judgement | None) -> Mapping[str, object] | None:
    if judgement is None:
        return None
    return {
        "verdict": judgement.verdict,
        "tokens": judgement.tokens,
        "residual_nats": dict(judgement.residuals),
        "log_likelihood_ratios": dict(judgement.ratios),
    }

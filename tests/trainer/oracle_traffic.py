"""Two tenants' traffic in a real store: what a tiny model sampled, token by token, and what was thought of it."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
from peft import PeftModel

from collector.records import Feedback, Record, Turn, VersionSpan
from collector.store.writer import Writer
from tests.trainer.row_by_row import network

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
DAY_S = 86400.0
TEMPERATURES = (1.0, 0.7, 1.3)


class Traffic:
    """Everything that was captured, as the records that were written; nothing is read back."""

    def __init__(self, model: Path, store: Path) -> None:
        self.store = store
        self.model = model
        self.turns: list[Turn] = []
        self.feedback: list[Feedback] = []
        self.places: dict[str, int] = {}
        """Turn id to its seq."""
        self.folders: dict[tuple[str, int], Path] = {}
        """(adapter, version) to the folder that an engine would load."""
        self._engines: dict[tuple[str, int], Any] = {}
        self._random = np.random.default_rng(5)
        self._generator = torch.Generator().manual_seed(6)
        self._written = 0
        self._journal: list[Record] = []
        self._at_s = 0.0

    def engine(self, adapter: str, version: int) -> Any:
        """The model that served a version, in float32: the base, or the base under peft's reading of the folder."""
        key = (adapter, version) if version else ("", 0)
        if key not in self._engines:
            base = network(self.model, torch.float32)
            self._engines[key] = PeftModel.from_pretrained(base, str(self.folders[key])).eval() if version else base
        return self._engines[key]

    def ids(self, count: int) -> list[int]:
        """What a user or a tool wrote."""
        return self._random.integers(0, 250, count).tolist()

    def say(
        self,
        session: str,
        prompt: Sequence[int],
        *,
        adapter: str,
        version: int | None = None,
        said: Sequence[int] | None = None,
        **fields: Any,
    ) -> list[int]:
        """One model call of tenant `t-<adapter>`; returns prompt + completion. `version` None is the bare base."""
        number = 1 + sum(turn.session_id == session for turn in self.turns)
        temperature = TEMPERATURES[len(self.turns) % 3]
        sampled, logprobs = self._sample(adapter, version or 0, list(prompt), temperature, said)
        self._at_s += 10.0
        whole = self._whole(session)
        parent = max(
            (t for t in whole if whole[t] == list(prompt)[: len(whole[t])]), key=lambda t: len(whole[t]), default=None
        )
        turn = Turn(
            **{
                "turn_id": f"{session}/{number}",
                "session_id": session,
                "turn": number,
                "parent_turn_id": parent,
                "link": "root" if number == 1 else "break" if parent is None else "extends",
                "tenant": f"t-{adapter}",
                "adapter": None if version is None else adapter,
                "adapter_version": version,
                "api": "chat",
                "started_at": NOON + timedelta(seconds=self._at_s),
                "finished_at": NOON + timedelta(seconds=self._at_s + 2),
                "prompt_ids": list(prompt),
                "completion_ids": sampled,
                "sampled_logprobs": logprobs,
                "logprob_mode": "scaled",
                "weight_versions": [VersionSpan(version=0, start=0, end=len(sampled))],
                "temperature": temperature,
                "finish_reason": "stop",
                "trainable": True,
            }
            | fields
        )
        self.turns.append(turn)
        self._journal.append(turn)
        return [*prompt, *sampled]

    def judge(self, target: str, adapter: str, value: float, *, late: bool = False, **fields: Any) -> None:
        """Feedback on a session, or on a turn where the target is `session/number`, a minute after its last turn."""
        session = target.partition("/")[0]
        last = max(turn.finished_at or turn.started_at for turn in self.turns if turn.session_id == session)
        judged = Feedback(
            **{
                "feedback_id": f"{target}#{len(self.feedback)}",
                "tenant": f"t-{adapter}",
                "session_id": session,
                "turn_id": target if "/" in target else None,
                "kind": "thumb",
                "value": value,
                "at": last + timedelta(seconds=7200 if late else 60),
            }
            | fields
        )
        self.feedback.append(judged)
        self._journal.append(judged)

    def pass_time(self) -> datetime:
        """Another day; returns when it is."""
        self._at_s += DAY_S
        return NOON + timedelta(seconds=self._at_s)

    def write(self) -> None:
        """Into the store, as a collector does."""
        with Writer(self.store, "collector") as writer:
            for record in self._journal:
                place = writer.append(record).result().seq
                if isinstance(record, Turn):
                    self.places[record.turn_id] = place
        self._journal = []

    def _whole(self, session: str) -> dict[str, list[int]]:
        return {t.turn_id: [*t.prompt_ids, *t.completion_ids] for t in self.turns if t.session_id == session}

    def _sample(
        self, adapter: str, version: int, prompt: list[int], temperature: float, said: Sequence[int] | None
    ) -> tuple[list[int], list[float]]:
        """Token after token, the whole context computed anew each time; `said` fixes what is drawn."""
        tokens = len(said) if said is not None else 4 + len(self.turns) % 3
        ids, logprobs = list(prompt), list[float]()
        for place in range(tokens):
            with torch.no_grad():
                logits = self.engine(adapter, version)(torch.tensor([ids]), use_cache=False).logits[0, -1]
            logs = (logits / temperature).log_softmax(0)
            drawn = int(torch.multinomial(logs.exp(), 1, generator=self._generator)) if said is None else said[place]
            ids.append(drawn)
            logprobs.append(float(logs[drawn]))
        return ids[len(prompt) :], logprobs


def first_day(traffic: Traffic, name: str) -> None:
    """The base model's traffic of a tenant."""
    system = list(range(40, 52))  # both tenants' agents begin alike
    for index, value in enumerate((1.0, 0.0, 0.5)):
        session = f"{name}-group-{index}"
        grouped = {"adapter": name, "group_id": f"{name}-G"}
        first = traffic.say(session, system, **grouped)
        traffic.say(session, [*first, *traffic.ids(3)], **grouped)
        traffic.say(session, [*first, *traffic.ids(2)], **grouped)  # a branch of the first
        traffic.say(session, [*system[:-3], *traffic.ids(6)], **grouped)  # rewritten history
        again = first[len(system) :] if index == 0 else None
        traffic.say(session, system, said=again, **grouped)  # the same call once more, once to the same end
        traffic.judge(session, name, value, user_hash=f"user-{index // 2}")
    helped(traffic, name)
    odd_ones(traffic, name)


def helped(traffic: Traffic, name: str) -> None:
    """A sub-agent in the middle, judged by itself as well; and exact turns after one that is not."""
    session = f"{name}-helped"
    first = traffic.say(session, traffic.ids(8), adapter=name)
    traffic.say(session, traffic.ids(5), adapter=name, link="subagent")
    traffic.say(session, [*first, *traffic.ids(4)], adapter=name)
    traffic.judge(session, name, 0.75, kind="score", user_hash="user-0")
    traffic.judge(session, name, 1.0)
    traffic.judge(session, name, 0.0)  # the mean of the two is the thumbs' part
    traffic.judge(f"{session}/2", name, 0.9)
    session = f"{name}-cut"
    first = traffic.say(session, traffic.ids(6), adapter=name, trainable=False, untrainable_reason="top_p", top_p=0.9)
    traffic.say(session, [*first, *traffic.ids(2)], adapter=name, version=0)
    traffic.judge(session, name, 0.2)
    traffic.judge(f"{session}/2", name, 0.1)


def odd_ones(traffic: Traffic, name: str) -> None:
    """Sessions of one turn each, most of which must not be trained on."""
    for session, fields in {
        "canary": {"purpose": "canary"},
        "eval": {"purpose": "eval"},
        "silent": {},
        "late": {},
        "changed": {"finish_reason": "length"},
        "same-0": {"group_id": f"{name}-Z"},
        "same-1": {"group_id": f"{name}-Z"},
    }.items():
        traffic.say(f"{name}-{session}", traffic.ids(7), adapter=name, **fields)
        if session not in ("silent", "late"):
            traffic.judge(f"{name}-{session}", name, 1.0, feedback_id=f"{name}-{session}")
    traffic.judge(f"{name}-late", name, 1.0, late=True)
    traffic.judge(f"{name}-silent", name, 1.0, kind="judge")  # a kind that is worth nothing
    traffic.judge(f"{name}-changed", name, 0.3, supersedes=f"{name}-changed", feedback_id=f"{name}-changed-2")
    traffic.judge(f"{name}-changed", name, 0.9, feedback_id=f"{name}-changed-2")  # posted twice


def second_day(traffic: Traffic, name: str) -> None:
    """Version 1 serves; an old session goes on, and what the base sampled before comes in late."""
    for index, value in enumerate((0.0, 1.0, 0.6)):
        session = f"{name}-new-{index}"
        first = traffic.say(session, traffic.ids(9), adapter=name, version=1)
        traffic.say(session, [*first, *traffic.ids(3)], adapter=name, version=1)
        traffic.judge(session, name, value, user_hash=f"user-{index}")
    session = f"{name}-group-3"
    traffic.say(session, list(range(40, 52)), adapter=name, version=1, group_id=f"{name}-G")
    traffic.judge(session, name, 0.8)
    old = next(t for t in traffic.turns if t.turn_id == f"{name}-helped/3")
    more = [*old.prompt_ids, *old.completion_ids, *traffic.ids(2)]
    traffic.say(f"{name}-helped", more, adapter=name, version=1)
    traffic.say(f"{name}-stale", traffic.ids(6), adapter=name)
    traffic.judge(f"{name}-stale", name, 0.1)

"""Plans over drawn captures: every turn in exactly one place, and loss where a plain reading of the rules puts it."""

import math
from datetime import timedelta
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from collector.records import Feedback
from tests.trainer.batch.captured import LATER, NOON, judged, registry, version
from trainer.batch.adapter_plan import AdapterPlan, plan_adapter
from trainer.batch.assembly import exact_ranges
from trainer.batch.batch_config import BatchConfig
from trainer.batch.lineage import Lineage
from trainer.batch.own_turns import OwnTurns
from trainer.batch.reasons import stage_of
from trainer.batch.session_rewards import SessionRewards
from trainer.batch.tenant_capture import CapturedSession, DeclaredEvent, TenantCapture, TurnFacts
from trainer.reward import RewardConfig

KNOWN = registry(
    version(0),
    version(1, parent=0, step=4, trained_on=[("w", 1, 3), ("w", 9, 9)]),
    version(2, parent=1, step=6, trained_on=[("w", 12, 13)]),
    version(3, parent=1, step=9, state="rejected", trained_on=[("w", 4, 30)]),
)
"""Training continues from version 2, at step 6."""
TRAINED_SEQS = {1, 2, 3, 9, 12, 13}
STEPS = {0: 0, 1: 4, 2: 6}

drawn_turns = st.fixed_dictionaries(
    {
        "adapter": st.sampled_from(["a", "a", "a", None, "b"]),
        "adapter_version": st.sampled_from([0, 1, 2, 2, 2, 3, 4, None]),
        "purpose": st.sampled_from(["traffic", "traffic", "traffic", "canary", "eval", "probe"]),
        "untrainable_reason": st.sampled_from([None, None, None, "top_p"]),
        "tokens": st.integers(1, 50),
        "judged": st.sampled_from([None, None, 0.0, 1.0]),
    }
)
drawn_sessions = st.fixed_dictionaries(
    {
        "turns": st.lists(drawn_turns, min_size=1, max_size=4),
        "group": st.sampled_from([None, "g", "h"]),
        "open": st.sampled_from([False, False, False, True]),
        "judged": st.sampled_from([None, 0.0, 0.25, 1.0, 3e38, -3e38]),
        "user": st.sampled_from([None, "u", "v"]),
        "event": st.sampled_from([None, None, None, "redacted", "compaction"]),
    }
)
configs = st.builds(
    BatchConfig,
    batch_sessions=st.integers(2, 5),
    min_sessions=st.integers(1, 2),
    max_staleness=st.integers(0, 8),
    scale=st.sampled_from(["deviation", "none"]),
    max_user_share=st.sampled_from([0.2, 0.5, 1.0]),
    propensity=st.booleans(),
    propensity_min_sessions=st.integers(1, 3),
)


def facts(name: str, number: int, seq: int, group: str | None, at_s: float, drawn: dict[str, Any]) -> TurnFacts:
    return TurnFacts(
        place=("w", seq),
        turn_id=f"{name}/{number}",
        session_id=name,
        turn=number,
        parent_turn_id=None,
        link="root",
        group_id=group,
        tenant="acme",
        adapter=drawn["adapter"],
        adapter_version=drawn["adapter_version"],
        base_model=None,
        purpose=drawn["purpose"],
        started_at=NOON + timedelta(seconds=at_s),
        finished_at=None,
        finish_reason="stop",
        temperature=1.0,
        trainable=drawn["untrainable_reason"] is None,
        untrainable_reason=drawn["untrainable_reason"],
        tokens=drawn["tokens"],
    )


def capture(drawn: list[dict[str, Any]]) -> TenantCapture:
    """Seqs count the turns from 1, session by session."""
    sessions: list[CapturedSession] = []
    feedback: list[Feedback] = []
    seq = 0
    for place, each in enumerate(drawn):
        name, at_s = f"s{place:02}", 200_000 if each["open"] else place
        turns: list[TurnFacts] = []
        for number, its in enumerate(each["turns"], start=1):
            seq += 1
            turns.append(facts(name, number, seq, each["group"], at_s, its))
            if its["judged"] is not None:
                feedback.append(judged(f"{name}/{number}", its["judged"], user_hash=each["user"]))
        if each["judged"] is not None:
            feedback.append(judged(name, each["judged"], user_hash=each["user"]))
        sessions.append(CapturedSession(name, tuple(turns)))
    events = {f"s{n:02}": [DeclaredEvent(each["event"], 1)] for n, each in enumerate(drawn) if each["event"]}
    return TenantCapture(tuple(sessions), tuple(feedback), events)


def plan(captured: TenantCapture, config: BatchConfig) -> AdapterPlan:
    lineage = Lineage(KNOWN, "a")
    own = OwnTurns(lineage, captured, only_adapter=True, base_model="base", untrained_events=config.untrained_events)
    rewards = SessionRewards(captured, RewardConfig(), now=LATER)
    return plan_adapter(own, rewards, 0.5, config)


def could_train(turn: TurnFacts, drawn: dict[str, Any], config: BatchConfig) -> bool:
    """The rules once more, in one breath, up to where rewards are compared."""
    sampled_by = 0 if turn.adapter is None else turn.adapter_version
    return (
        turn.adapter in ("a", None)
        and turn.purpose in ("traffic", "canary")
        and turn.trainable
        and not (drawn["event"] == "redacted" and turn.turn == 1)
        and not drawn["open"]
        and (drawn["judged"] is not None or drawn["turns"][turn.turn - 1]["judged"] is not None)
        and turn.place[1] not in TRAINED_SEQS
        and sampled_by in STEPS
        and 6 - STEPS[sampled_by] <= config.max_staleness
    )


@settings(max_examples=150)
@given(st.lists(drawn_sessions, max_size=8), configs)
def test_every_turn_is_in_exactly_one_place(drawn: list[dict[str, Any]], config: BatchConfig) -> None:
    captured = capture(drawn)
    made = plan(captured, config)
    turns = [turn for session in captured.sessions for turn in session.turns]
    tokens = sum(turn.tokens for turn in turns)
    assert (made.funnel.captured.turns, made.funnel.captured.tokens) == (len(turns), tokens)
    before = made.funnel.captured
    for stage in made.funnel.stages:
        assert before.turns == stage.passed.turns + sum(count.turns for count in stage.left_out.values())
        assert before.tokens == stage.passed.tokens + sum(count.tokens for count in stage.left_out.values())
        before = stage.passed
    with_loss = [place for batch in made.batches for place in batch.advantages]
    assert len(with_loss) == len(set(with_loss)) == before.turns
    assert {turn.place for turn in turns if made.ledger.reason(turn) is None} == set(with_loss)
    reasons = {turn.place: made.ledger.reason(turn) for turn in turns}
    eligible = {place for place, reason in reasons.items() if reason is None or stage_of(reason) == "trained"}
    # By the step they would be in, not by where the weights stand now.
    late = {turn.place for turn in turns if reasons[turn.place] == "too_stale" and could(turn, drawn, config)}
    assert eligible | late == {turn.place for turn in turns if could(turn, drawn, config)}
    assert len(eligible) == made.funnel.stages[-2].passed.turns


def could(turn: TurnFacts, drawn: list[dict[str, Any]], config: BatchConfig) -> bool:
    return could_train(turn, drawn[int(turn.session_id[1:])], config)


@settings(max_examples=150)
@given(st.lists(drawn_sessions, max_size=8), configs)
def test_batches_keep_what_they_promise(drawn: list[dict[str, Any]], config: BatchConfig) -> None:
    captured = capture(drawn)
    made = plan(captured, config)
    by_place = {turn.place: turn for session in captured.sessions for turn in session.turns}
    group_of: dict[str, int] = {}
    for at, batch in enumerate(made.batches):
        assert len(batch.sessions) == made.funnel.batch_sessions[at] >= config.min_sessions
        for session in batch.sessions:
            assert set(batch.advantages) & {turn.place for turn in session.turns}, "a session is there for its loss"
            assert group_of.setdefault(session.group_id or session.session_id, at) == at, "a group is never split"
        assert batch.advantages.keys() == batch.staleness.keys()
        for place, value in batch.advantages.items():
            turn = by_place[place]
            assert could(turn, drawn, config)
            assert 0 < abs(value) <= 3.4028234663852886e38
            sampled_by = 0 if turn.adapter is None else turn.adapter_version
            assert sampled_by is not None
            assert batch.staleness[place] == 6 + at - STEPS[sampled_by] <= config.max_staleness
        masses: dict[str, float] = {}
        for place, value in batch.advantages.items():
            session = by_place[place].session_id
            user = drawn[int(session[1:])]["user"] or session
            masses[user] = masses.get(user, 0.0) + abs(value) * by_place[place].tokens
        cap = max(config.max_user_share, 1 / len(masses))
        assert max(masses.values()) <= cap * math.fsum(masses.values()) * (1 + 1e-9)
    shares = made.funnel.share_by_user
    assert not made.batches or math.isclose(math.fsum(shares.values()), 1)
    assert not made.batches or math.isclose(math.fsum(made.funnel.share_by_version.values()), 1)


@given(st.sets(st.tuples(st.sampled_from("vw"), st.integers(1, 30))))
def test_ranges_hold_exactly_the_records_they_are_made_of(places: set[tuple[str, int]]) -> None:
    ranges = exact_ranges(places)
    held = [(writer, seq) for writer, first, last in ranges for seq in range(first, last + 1)]
    assert held == sorted(places)
    assert all(one[0] != other[0] or other[1] > one[2] + 1 for one, other in pairwise(ranges))

"""A planned batch with its tokens: what the trainer steps on."""

import math
from collections.abc import Iterable, Mapping

from trainer.batch.adapter_plan import AdapterPlan, PlannedBatch
from trainer.batch.tenant_capture import Place, TurnFacts
from trainer.batch.token_ids import TurnIds
from trainer.batch.work import UpdateBatch
from trainer.rows import CapturedTurn


def update_batch(plan: AdapterPlan, batch: PlannedBatch, ids: Mapping[Place, TurnIds]) -> UpdateBatch:
    """The batch as the trainer takes it."""
    turns = [turn for session in batch.sessions for turn in session.turns]
    with_loss = [turn for turn in turns if turn.place in batch.advantages]
    rewards = tuple(reward for session in batch.sessions for reward in plan.rewards.records(session))
    values = [reward.value for reward in rewards if reward.value is not None]
    return UpdateBatch(
        turns=tuple(_captured(turn, plan, ids[turn.place]) for turn in turns),
        advantages={turn.turn_id: batch.advantages[turn.place] for turn in with_loss},
        staleness={turn.turn_id: batch.staleness[turn.place] for turn in with_loss},
        rewards=rewards,
        reward_mean=math.fsum(values) / len(values) if values else None,
        trained_on=exact_ranges(turn.place for turn in with_loss),
        sessions=len(batch.sessions),
    )


def exact_ranges(places: Iterable[Place]) -> tuple[tuple[str, int, int], ...]:
    """(writer, first seq, last seq) that hold these records and no other."""
    ranges: list[tuple[str, int, int]] = []
    for writer, seq in sorted(places):
        if ranges and ranges[-1][0] == writer and ranges[-1][2] == seq - 1:
            ranges[-1] = (writer, ranges[-1][1], seq)
        else:
            ranges.append((writer, seq, seq))
    return tuple(ranges)


def _captured(turn: TurnFacts, plan: AdapterPlan, ids: TurnIds) -> CapturedTurn:
    # The base model's turns are version 0's, so that the adapter's own extend them; another adapter's stay that one's.
    ours = plan.own.is_own(turn)
    return CapturedTurn(
        turn_id=turn.turn_id,
        session_id=turn.session_id,
        turn=turn.turn,
        adapter=plan.own.lineage.adapter if ours else turn.adapter,
        adapter_version=plan.own.version(turn) if ours else turn.adapter_version,
        prompt_ids=ids.prompt_ids,
        completion_ids=ids.completion_ids,
        sampled_logprobs=ids.sampled_logprobs,
        temperature=turn.temperature,
        untrainable_reason=plan.ledger.reason(turn),
    )

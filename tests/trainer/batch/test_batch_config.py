"""Settings that cannot be met are refused."""

import pytest

from trainer.batch.batch_config import BatchConfig


def test_a_batch_has_room_for_its_fewest_sessions() -> None:
    with pytest.raises(ValueError, match="min_sessions is 9, expected at most batch_sessions, 8"):
        BatchConfig(batch_sessions=8, min_sessions=9)


def test_a_clip_that_clips_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="propensity_clip is inf"):
        BatchConfig(propensity_clip=float("inf"))

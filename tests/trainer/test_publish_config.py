"""The `[trainer.publish]` section."""

import msgspec
import pytest

from trainer.publish_config import PublishConfig


def test_every_field_has_a_default_that_fits() -> None:
    assert msgspec.convert({}, PublishConfig) == PublishConfig()
    assert msgspec.convert(msgspec.to_builtins(PublishConfig()), PublishConfig) == PublishConfig()


def test_what_is_sampled_by_default_is_enough_to_decide() -> None:
    assert PublishConfig().passages * PublishConfig().decode_tokens >= 12


@pytest.mark.parametrize(
    "section", [{"worker": "x"}, {"enough": 0}, {"load_limit_s": 0}, {"probe_tokens": 11}, {"engine_dtype": "int8"}]
)
def test_unknown_keys_and_impossible_values_are_refused(section: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(section, PublishConfig)

"""The `[engine]` section."""

import msgspec
import pytest

from trainer.engine_config import EngineConfig


def test_every_field_has_a_default_that_fits() -> None:
    assert msgspec.convert({}, EngineConfig) == EngineConfig()
    assert msgspec.convert(msgspec.to_builtins(EngineConfig()), EngineConfig) == EngineConfig()


@pytest.mark.parametrize(
    "section", [{"thread": 1}, {"threads": 0}, {"port": -1}, {"dtype": "int8"}, {"adapters": ["a"]}, {"kv_tokens": 0}]
)
def test_unknown_keys_and_impossible_values_are_refused(section: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(section, EngineConfig)

"""Names that are safe everywhere, and the engine's name of a version."""

import pytest

from collector.errors import UserError
from collector.store.adapter_names import checked_name, engine_name, parse_engine_name


@pytest.mark.parametrize("name", ["a", "support-bot", "Qwen3.5_x", "0", "a" * 128])
def test_a_safe_name_passes_unchanged(name: str):
    assert checked_name(name, "adapter") == name


@pytest.mark.parametrize(
    "name", ["", ".", "..", ".hidden", "-flag", "a b", "a@1", "a/b", "a\\b", "a\n", "a\x1b[2J", "ä", "a" * 129, "٣"]
)
def test_an_unsafe_name_is_refused(name: str):
    with pytest.raises(UserError, match="expected 1 to 128"):
        checked_name(name, "adapter")


def test_engine_name_is_adapter_at_version():
    assert engine_name("support-bot", 12) == "support-bot@12"
    assert parse_engine_name("support-bot@12") == ("support-bot", 12)
    assert parse_engine_name("a@0") == ("a", 0)


@pytest.mark.parametrize("name", ["a", "a@", "@1", "a@01", "a@-1", "a@+1", "a@1 ", "a@1\n", "a@1@2", "a@٣", "a@1.0"])
def test_a_name_that_engine_name_would_not_write_is_refused(name: str):
    with pytest.raises(UserError, match="<adapter>@<version>"):
        parse_engine_name(name)


def test_a_negative_version_has_no_engine_name():
    with pytest.raises(UserError, match="version of a is -1"):
        engine_name("a", -1)

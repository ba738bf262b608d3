"""roundhouse.toml: one section per package, every field with a default."""

import tomllib
from pathlib import Path

import msgspec

from collector.config import CollectorConfig
from collector.errors import UserError
from trainer.config import EngineConfig


class RoundhouseConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file."""

    collector: CollectorConfig = CollectorConfig()
    """`[collector]`."""
    engine: EngineConfig = EngineConfig()
    """`[engine]`."""


def load_config(path: Path | None) -> RoundhouseConfig:
    """Reads the file; the defaults when none is given. An unknown key or a wrong type is one clear line."""
    if path is None:
        return RoundhouseConfig()
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}; give the path of a roundhouse.toml") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not valid TOML: {error}") from error
    try:
        return msgspec.convert(values, RoundhouseConfig)
    except msgspec.ValidationError as error:
        raise UserError(f"{path}: {error}; correct or remove the key") from error

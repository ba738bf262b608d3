"""roundhouse.toml: one section per package, every field with a default."""

import os
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from checks.config import ChecksConfig
from collector.config import CollectorConfig
from collector.errors import UserError
from trainer.config import TrainerConfig
from trainer.engine_config import EngineConfig


class RoundhouseConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file."""

    collector: CollectorConfig = CollectorConfig()
    """`[collector]`."""
    engine: EngineConfig = EngineConfig()
    """`[engine]`."""
    trainer: TrainerConfig = TrainerConfig()
    """`[trainer]`."""
    checks: ChecksConfig = ChecksConfig()
    """`[checks]`."""


class Launch(NamedTuple):
    """This process among those that torchrun started together; alone without torchrun."""

    rank: int = 0
    size: int = 1


def by_torchrun() -> bool:
    """Whether torchrun started this process, be it the only one."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def launch() -> Launch:
    """From the environment that torchrun gives its processes."""
    if not by_torchrun():
        return Launch()
    return Launch(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))


DEFAULT_FILE = Path("roundhouse.toml")
"""What is read when no file is named, if it is there."""


def load_config(path: Path | None, *, say: Callable[[str], None] = lambda _: None) -> RoundhouseConfig:
    """Reads the file named, else ./roundhouse.toml; the defaults without either. What is wrong in it is one line.

    `say` is told of a file that nobody named.
    """
    if path is None:
        if not DEFAULT_FILE.exists():
            return RoundhouseConfig()
        path = DEFAULT_FILE
        say(f"settings from {path.absolute()}")
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}; give the path of a roundhouse.toml") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not valid TOML: {error}") from error
    try:
        return msgspec.convert(values, RoundhouseConfig)
    except msgspec.ValidationError as error:
        raise UserError(f"{path}: {_with_keys(str(error), values)}; correct or remove the key") from error


# Any: whatever a TOML file holds.
def _with_keys(said: str, values: dict[str, Any]) -> str:
    """The error with the names that msgspec leaves out of its path, `[...]`: those without which it would not be."""
    before, sign, path = said.partition("`$")
    steps = re.findall(r"\[\.\.\.\]|\.[^.\[`]+", path)
    names: list[str] = []
    node: Any = values
    for step in steps:
        name = step.removeprefix(".")
        if step == "[...]":
            tables = node if isinstance(node, dict) else {}
            name = next((key for key in tables if _fails([*names, key], tables[key], said)), None)
        if name is None or not isinstance(node, dict) or name not in node:
            return said
        names.append(name)
        node = node[name]
    return f"{before}{sign}.{'.'.join(names)}`" if names else said


def _fails(names: list[str], value: object, said: str) -> bool:
    """Whether a file with this alone gives the same error."""
    for name in reversed(names):
        value = {name: value}
    try:
        msgspec.convert(value, RoundhouseConfig)
    except msgspec.ValidationError as error:
        return str(error) == said
    return False

"""Every format that can be read, most telling first: the first that recognises a file reads it."""

from checks.readers.areal import AREAL
from checks.readers.atropos import ATROPOS
from checks.readers.format import Format
from checks.readers.native_json import NATIVE_JSON
from checks.readers.roll import ROLL
from checks.readers.skyrl import SKYRL
from checks.readers.slime import SLIME
from checks.readers.tensorboard import TENSORBOARD
from checks.readers.trainer_metrics import TRAINER_METRICS
from checks.readers.trl import TRL
from checks.readers.verl import VERL, VERL_VALIDATION

FORMATS: tuple[Format, ...] = (
    NATIVE_JSON,
    SLIME,
    SKYRL,
    VERL_VALIDATION,
    VERL,
    ROLL,
    TRL,
    AREAL,
    ATROPOS,
    TENSORBOARD,
    TRAINER_METRICS,
)
"""Registered by hand."""

"""Every format that can be read, most telling first: the first that recognises a file reads it."""

from collections.abc import Sequence
from typing import NamedTuple

from checks.readers.agent_lightning import AGENT_LIGHTNING
from checks.readers.areal import AREAL
from checks.readers.art import ART
from checks.readers.atropos import ATROPOS
from checks.readers.claude_code import CLAUDE_CODE
from checks.readers.codex import CODEX
from checks.readers.file_head import FileHead
from checks.readers.format import Format
from checks.readers.harbor import HARBOR
from checks.readers.marin import MARIN
from checks.readers.martingale import MARTINGALE
from checks.readers.native_json import NATIVE_JSON
from checks.readers.nemo_gym import NEMO_GYM
from checks.readers.nemo_rl import NEMO_RL
from checks.readers.openclaw import OPENCLAW
from checks.readers.otel import OTEL
from checks.readers.polar import POLAR
from checks.readers.prime_rl import PRIME_RL
from checks.readers.rllm import RLLM
from checks.readers.rllm_gateway import RLLM_GATEWAY
from checks.readers.roll import ROLL
from checks.readers.skyrl import SKYRL
from checks.readers.slime import SLIME
from checks.readers.swe_agent import SWE_AGENT
from checks.readers.tensorboard import TENSORBOARD
from checks.readers.tinker import TINKER
from checks.readers.tinker_capture import TINKER_CAPTURE
from checks.readers.trainer_metrics import TRAINER_METRICS
from checks.readers.trl import TRL
from checks.readers.verifiers import VERIFIERS
from checks.readers.verifiers_v0 import VERIFIERS_V0
from checks.readers.verl import VERL, VERL_VALIDATION

FORMATS: tuple[Format, ...] = (
    NATIVE_JSON,
    PRIME_RL,
    VERIFIERS,
    VERIFIERS_V0,
    NEMO_RL,
    NEMO_GYM,
    POLAR,
    HARBOR,
    TINKER,
    TINKER_CAPTURE,
    MARTINGALE,
    ATROPOS,
    MARIN,
    SLIME,
    SKYRL,
    VERL_VALIDATION,
    VERL,
    ROLL,
    TRL,
    AREAL,
    ART,
    RLLM,
    RLLM_GATEWAY,
    AGENT_LIGHTNING,
    CLAUDE_CODE,
    CODEX,
    SWE_AGENT,
    OPENCLAW,
    OTEL,
    TENSORBOARD,
    TRAINER_METRICS,
)
"""Registered by hand."""
_TRIED = 8
"""Lines of JSON that are tried: the first may be a record that no reader knows."""


class Recognised(NamedTuple):
    """Of which format a file is."""

    form: Format
    reason: str
    head: FileHead
    """From the line on that tells it."""


def recognised(head: FileHead, forms: Sequence[Format] = FORMATS) -> Recognised | None:
    """By the first line that a format knows; None where none of the first ones is of any.

    Metrics of any trainer come last: other logs have lines of such metrics too, among what tells more of them.
    """
    tried: FileHead | None = head
    for _ in range(_TRIED):
        if tried is None:
            break
        for form in forms:
            if form is not TRAINER_METRICS and (reason := form.recognise(tried)) is not None:
                return Recognised(form, reason, tried)
        tried = tried.after_line()
    reason = TRAINER_METRICS.recognise(head) if TRAINER_METRICS in forms else None
    return None if reason is None else Recognised(TRAINER_METRICS, reason, head)

"""Finds secrets in text, with MongoDB's Kingfisher: offline, its rules compiled once."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from collector.errors import UserError
from collector.privacy.config import RedactionConfig

# Anything shorter stands in too many places that have nothing to do with it.
_SHORTEST = 6


class Secret(NamedTuple):
    """A text that must not be stored, and what it is."""

    text: str
    kind: str
    """The rule that found it."""


class Detector(Protocol):
    """What finds secrets."""

    def find(self, texts: Sequence[str]) -> list[Secret]:
        """The secrets in some texts of one turn. Raises when it cannot say."""
        ...


class KingfisherDetector:
    """The bundled rules, and those of an operator."""

    # Between texts: a secret does not go on in the next one, but rules that look for two parts find both.
    _BETWEEN = "\n\x1e\n"

    def __init__(self, config: RedactionConfig) -> None:
        from kingfisher_sdk import Rules, Scanner

        try:
            rules = Rules(config.rules, builtins=config.builtin_rules, confidence=config.confidence)
        except (ValueError, RuntimeError, OSError) as error:
            raise UserError(f"[collector.redaction] rules cannot be used: {error}; correct or remove them") from error
        self._scanner = Scanner(rules, redact=False)

    def find(self, texts: Sequence[str]) -> list[Secret]:
        """Every secret, as it stands in the texts."""
        content = self._BETWEEN.join(texts).encode("utf-8", "surrogatepass")
        found: dict[str, str] = {}
        for finding in self._scanner.scan(content):
            place = finding.location
            stands = content[place["start_offset"] : place["end_offset"]].decode("utf-8", "ignore")
            pieces = [*stands.split(self._BETWEEN), *([] if finding.is_base64_encoded else [finding.secret])]
            for piece in pieces:
                if len(piece.strip()) >= _SHORTEST:
                    found.setdefault(piece.strip(), finding.rule_id.rpartition(".")[2])
        return [Secret(text, kind) for text, kind in found.items()]

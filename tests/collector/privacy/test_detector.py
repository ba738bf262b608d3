"""The bundled detector: it finds what leaks, and takes code and prose for what they are."""

import random
import string
from pathlib import Path

import pytest

from collector.errors import UserError
from collector.privacy.config import RedactionConfig
from collector.privacy.detector import KingfisherDetector
from collector.privacy.markers import Markers

ALPHANUMERIC = string.ascii_letters + string.digits
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def detector() -> KingfisherDetector:
    return KingfisherDetector(RedactionConfig())


def noise(length: int, alphabet: str = ALPHANUMERIC) -> str:
    # Seeded by its length, so that nothing that looks like a key stands in this file.
    made = random.Random(length)
    return "".join(made.choice(alphabet) for _ in range(length))


def test_secrets_are_found_as_they_stand(detector: KingfisherDetector) -> None:
    github, anthropic = "ghp" + "_" + noise(36), "sk-ant" + "-api03-" + noise(93) + "AA"
    slack = "xoxb" + "-" + noise(12, string.digits) + "-" + noise(13, string.digits) + "-" + noise(24)
    header = "-----BEGIN RSA PRIVATE" + " KEY-----"
    lines = [noise(64 + line)[:64] for line in range(20)]
    pem = "\n".join([header, *lines, header.replace("BEGIN", "END")])
    texts = [f"token: {github}", f"key {anthropic} end", f"slack={slack}", f"cat id_rsa\n{pem}\n$"]
    found = {secret.text for secret in detector.find(texts)}
    assert {github, anthropic, slack} <= found
    marked = Markers({secret.text: secret.kind for secret in detector.find(texts)}).value(texts)
    for secret in (github, anthropic, slack, lines[0], lines[-1]):
        assert secret not in str(marked)
    assert str(marked).startswith("['token: [redacted:")


def test_our_own_code_and_prose_hold_no_secret(detector: KingfisherDetector) -> None:
    sources = sorted((ROOT / "collector").rglob("*.py")) + sorted((ROOT / "samples").rglob("*.py"))
    texts = [path.read_text(encoding="utf-8") for path in sources]
    assert sum(map(len, texts)) > 400_000
    assert detector.find(texts) == []


def test_lone_surrogates_and_nothing_are_searched(detector: KingfisherDetector) -> None:
    assert detector.find([]) == []
    assert detector.find(["\ud800 half a character", ""]) == []


def test_rules_of_ones_own_are_used_and_wrong_ones_refused(tmp_path: Path) -> None:
    own = tmp_path / "own.yml"
    own.write_text(
        "rules:\n  - name: House key\n    id: house.key\n    pattern: '(?x)\\b(HOUSE-[0-9]{8})\\b'\n"
        "    min_entropy: 0\n    confidence: high\n    examples: ['HOUSE-12345678']\n"
    )
    config = RedactionConfig(rules=[str(own)], builtin_rules=False)
    found = KingfisherDetector(config).find(["the HOUSE-24681357 is"])
    assert [(secret.text, secret.kind) for secret in found] == [("HOUSE-24681357", "key")]
    with pytest.raises(UserError, match=r"\[collector.redaction\] rules cannot be used"):
        KingfisherDetector(RedactionConfig(rules=[str(tmp_path / "none.yml")], builtin_rules=False))
    with pytest.raises(UserError, match="rules cannot be used: no rules loaded"):
        KingfisherDetector(RedactionConfig(builtin_rules=False))


def test_the_longest_secret_is_marked_first_and_keys_are_marked_too() -> None:
    markers = Markers({"abc": "short", "abcdef": "long"})
    assert markers.value({"x abcdef": ["abc", 1, None]}) == {"x [redacted:long]": ["[redacted:short]", 1, None]}
    assert Markers({}).text("abc") == "abc"

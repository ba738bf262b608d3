"""Every check takes any log that the records allow."""

from typing import Any

import msgspec
import pytest

from checks.report import as_json
from checks.suite import CHECKS, run
from tests.checks.any_log import AnyLog


@pytest.mark.parametrize("seed", range(40))
def test_any_log_gives_one_finding_per_check_and_json(seed: int) -> None:
    report = run(AnyLog(seed).frames())
    # Any: a JSON object.
    printed: dict[str, Any] = msgspec.json.decode(as_json(report))
    assert [finding["check"] for finding in printed["findings"]] == [check.name for check in CHECKS]
    for finding in report.findings:
        assert finding.summary
        assert finding.status == "no_data" or finding.missing == ()

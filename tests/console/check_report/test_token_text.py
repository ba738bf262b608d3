"""Numbers of tokens as text: a number that a float cannot hold is infinite, as the check says it."""

import math

import pytest

from console.check_report.token_text import weight_text
from console.check_report.token_view import Sampled, Token


@pytest.mark.parametrize(
    ("log_mu", "log_pi", "text"),
    [(-1.0, -1.0, "1"), (-2.0, -1.0, "2.72"), (-709.5, -0.1, "1.23e+308"), (-2000.0, -0.1, "inf"),
     (-1.0, -2000.0, "0"),
     (math.nan, -1.0, "nan"), (None, -1.0, ""), (-1.0, None, "")],
)  # fmt: skip
def test_w_is_the_number_that_its_logarithms_give(log_mu: float | None, log_pi: float | None, text: str) -> None:
    token = Token(number=0, id=7, text=None)
    assert weight_text(Sampled(token, log_mu, log_pi, at_fault=False)) == text

"""The template sandbox: what templates expect is there, and what they could abuse is not."""

import pytest
from jinja2.exceptions import SecurityError

from collector.rendering.sandbox import ChatSandbox, TemplateLimit


def render(source: str, *, time_limit_s: float = 0.2, **variables: object) -> str:
    sandbox = ChatSandbox(time_limit_s=time_limit_s, output_limit_chars=1_000)
    return sandbox.run(sandbox.from_string(source), variables)


def test_tojson_is_plain_json_without_html_escapes_and_in_the_order_given() -> None:
    assert render("{{ value | tojson }}", value={"b": "<é>", "a": 1}) == '{"b": "<é>", "a": 1}'


def test_loop_controls_and_generation_blocks_are_understood() -> None:
    source = (
        "{% for n in range(4) %}{% if n == 2 %}{% break %}{% endif %}"
        "{% generation %}{{ n }}{% endgeneration %}{% endfor %}"
    )
    assert render(source) == "01"


@pytest.mark.parametrize(
    "source",
    [
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% macro twice(n) %}{% if n %}{{ twice(n - 1) }}{{ twice(n - 1) }}{% endif %}{% endmacro %}{{ twice(40) }}",
    ],
)
def test_a_template_that_runs_on_and_on_is_stopped(source: str) -> None:
    with pytest.raises(TemplateLimit, match=r"longer than 0\.2 s"):
        render(source)


@pytest.mark.parametrize(
    "source", ["{% for n in range(999) %}xxxx{% endfor %}", "{{ 'x' * 1001 }}", "{{ [1] * 1001 }}"]
)
def test_a_template_that_writes_too_much_is_stopped(source: str) -> None:
    with pytest.raises(TemplateLimit, match="1000 characters"):
        render(source)


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.append(1) }}",
        "{{ raise_exception.__globals__.os }}",
        "{{ 9 ** 9999999 }}",
        "{{ '%0999999999d' % 1 }}",
    ],
)
def test_a_template_reaches_neither_python_nor_its_input(source: str) -> None:
    with pytest.raises(SecurityError):
        render(source, messages=[])

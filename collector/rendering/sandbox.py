"""The sandbox chat templates run in: Jinja's immutable one, with limits on time and output."""

import json
import time
from collections.abc import Callable, Mapping, Sized
from datetime import datetime
from typing import Any, NoReturn, cast

from jinja2 import Template, TemplateError, nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

_CHECK = "__roundhouse_check__"


class TemplateLimit(TemplateError):
    """A template ran longer or wrote more than it may."""


class GenerationBlock(Extension):
    """`{% generation %}` marks what the model wrote; its body is rendered as it is."""

    tags = {"generation"}  # noqa: RUF012 - the base class reads it as a plain set

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """Reads up to `{% endgeneration %}` and returns the body."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class ChatSandbox(ImmutableSandboxedEnvironment):
    """Jinja as chat templates expect it, unable to reach Python or to run without end."""

    intercepted_binops = frozenset(["*", "**", "%"])

    def __init__(self, *, time_limit_s: float, output_limit_chars: int) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[GenerationBlock, loopcontrols])
        self.time_limit_s = time_limit_s
        self.output_limit_chars = output_limit_chars
        self.filters["tojson"] = _tojson
        known = cast(dict[str, object], self.globals)
        known.update(raise_exception=_raise_exception, strftime_now=_strftime_now)

    def run(self, template: Template, variables: Mapping[str, object]) -> str:
        """Renders within the limits; TemplateLimit when one is passed."""
        deadline = time.monotonic() + self.time_limit_s
        pieces: list[str] = []
        written = 0
        for piece in template.generate({**variables, _CHECK: self._deadline_check(deadline)}):
            pieces.append(piece)
            written += len(piece)
            if written > self.output_limit_chars:
                raise TemplateLimit(f"the chat template wrote more than {self.output_limit_chars} characters")
        return "".join(pieces)

    def _deadline_check(self, deadline: float) -> Callable[[], None]:
        def check() -> None:
            if time.monotonic() > deadline:
                raise TemplateLimit(f"the chat template ran longer than {self.time_limit_s} s")

        return check

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        for block in tree.find_all((nodes.For, nodes.Macro)):
            call = nodes.Call(nodes.Name(_CHECK, "load"), [], [], None, None)
            block.body.insert(0, nodes.ExprStmt(call, lineno=block.lineno))
        tree.set_environment(self)
        return tree

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Refuses the operators that build huge values out of small ones."""
        if operator == "**":
            raise SecurityError("a chat template may not use **")
        if operator == "%" and isinstance(left, str):
            raise SecurityError("a chat template may not format strings with %; use the format filter or ~")
        if operator == "*":
            for sized, times in ((left, right), (right, left)):
                size = len(cast(Sized, sized)) if isinstance(sized, str | list | tuple) else 0
                if size and size * int(times) > self.output_limit_chars:
                    raise TemplateLimit(f"the chat template repeats a value past {self.output_limit_chars} characters")
        return super().call_binop(context, operator, left, right)


def _tojson(
    value: object,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    # Jinja's own filter escapes HTML and sorts keys; templates were written against plain json.dumps.
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise_exception(message: str) -> NoReturn:
    raise TemplateError(message)


def _strftime_now(form: str) -> str:
    return datetime.now().strftime(form)

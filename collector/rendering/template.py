"""The model's own chat template: loaded from its folder, probed for what it can express, rendered in the sandbox."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from jinja2 import TemplateError, TemplateSyntaxError

from collector.errors import UserError
from collector.model_json import read_json
from collector.rendering.sandbox import ChatSandbox

Message = Mapping[str, object]

_PROBE_TOOL = {
    "type": "function",
    "function": {
        "name": "probe_tool",
        "description": "probe",
        "parameters": {"type": "object", "properties": {"probe_argument": {"type": "string"}}},
    },
}
_PROBE_CALL = {
    "id": "call00000",
    "type": "function",
    "function": {"name": "probe_call", "arguments": {"probe_argument": "probe_value"}},
}
_USER = {"role": "user", "content": "probe_user"}
_CALLING = {"role": "assistant", "content": "", "tool_calls": [_PROBE_CALL]}
_RESULT = {"role": "tool", "tool_call_id": "call00000", "name": "probe_call", "content": "probe_result"}


class RenderError(ValueError):
    """The template refused or could not render these messages."""


class Abilities(NamedTuple):
    """What the template writes into the prompt; what it ignores is put there in words of our own."""

    tools: bool
    tool_calls: bool
    tool_results: bool
    content_parts: bool
    late_system: bool = True
    """System messages wherever they stand, and more than one."""

    def ignored(self) -> tuple[str, ...]:
        """Names of the parts that the template leaves out."""
        parts = {
            "tools": self.tools,
            "tool_calls": self.tool_calls,
            "tool results": self.tool_results,
            "later system messages": self.late_system,
        }
        return tuple(name for name, able in parts.items() if not able)


class ChatTemplate:
    """One compiled template with the special tokens it may name."""

    def __init__(
        self,
        source: str,
        *,
        names: Mapping[str, str] | None = None,
        time_limit_s: float = 5.0,
        output_limit_chars: int = 32_000_000,
    ) -> None:
        self._sandbox = ChatSandbox(time_limit_s=time_limit_s, output_limit_chars=output_limit_chars)
        try:
            self._template = self._sandbox.from_string(source)
        except TemplateSyntaxError as error:
            raise UserError(f"the chat template does not compile, line {error.lineno}: {error.message}") from error
        self._names = dict(names or {})
        self.abilities = self._probe()

    @classmethod
    def from_folder(cls, folder: Path, *, names: Mapping[str, str], **limits: Any) -> "ChatTemplate":
        """Reads chat_template.jinja, or the default template of tokenizer_config.json."""
        path = folder / "chat_template.jinja"
        if path.is_file():
            return cls(path.read_text(encoding="utf-8"), names=names, **limits)
        source = read_json(folder / "tokenizer_config.json").get("chat_template")
        if isinstance(source, list):
            named = {entry.get("name"): entry.get("template") for entry in cast(list[dict[str, Any]], source)}
            source = named.get("default")
            if named and source is None:
                found = ", ".join(map(str, named))
                raise UserError(
                    f"{folder}/tokenizer_config.json has chat templates named {found}, expected one named default; "
                    "write the one that is served to chat_template.jinja"
                )
        if not isinstance(source, str):
            raise UserError(
                f"{folder} has no chat template: expected chat_template.jinja or chat_template in tokenizer_config.json"
            )
        return cls(source, names=names, **limits)

    def render(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, object]] | None = None,
        variables: Mapping[str, object] | None = None,
        add_generation_prompt: bool = True,
    ) -> str:
        """The text of a conversation; RenderError when the template refuses it."""
        known: dict[str, object] = {
            **self._names,
            **(variables or {}),
            "messages": messages,
            "tools": tools,
            "documents": None,
            "add_generation_prompt": add_generation_prompt,
        }
        try:
            return self._sandbox.run(self._template, known)
        except TemplateError as error:
            raise RenderError(error.message or type(error).__name__) from error
        # What a template does to a value of the wrong type surfaces as these.
        except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, RecursionError) as error:
            raise RenderError(f"{type(error).__name__}: {error}") from error

    def _probe(self) -> Abilities:
        return Abilities(
            tools=self._shows([_USER], "probe_argument", tools=[_PROBE_TOOL]),
            tool_calls=self._shows([_USER, _CALLING, _RESULT], "probe_value", tools=[_PROBE_TOOL]),
            tool_results=self._shows([_USER, _CALLING, _RESULT], "probe_result", tools=[_PROBE_TOOL]),
            content_parts=self._takes_parts(),
            late_system=self._takes_late_system(),
        )

    def _shows(self, messages: Sequence[Message], word: str, tools: Sequence[Mapping[str, object]]) -> bool:
        try:
            return word in self.render(messages, tools=tools)
        except RenderError:
            return False

    def _takes_late_system(self) -> bool:
        """Whether every system message shows, or not even the first one does."""
        first, late = ({"role": "system", "content": f"probe_{word}"} for word in ("first", "late"))
        if not self._shows([first, _USER], "probe_first", tools=[]):
            return True
        orders = ([first, _USER, late], [first, late, _USER])
        return all(self._shows(order, word, tools=[]) for order in orders for word in ("probe_first", "probe_late"))

    def _takes_parts(self) -> bool:
        """Whether only a list of content parts is understood: text content alone then does not show."""
        return not self._shows([_USER], "probe_user", tools=[]) and self._shows(
            [{"role": "user", "content": [{"type": "text", "text": "probe_user"}]}], "probe_user", tools=[]
        )

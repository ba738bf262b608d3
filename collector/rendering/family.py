"""One model family of the `renderers` package, bound to a tokenizer: what follows a reply, and its tool calls."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol, cast

from collector.rendering.tokenizer import ChatTokenizer

Messages = Sequence[Mapping[str, object]]
Tools = Sequence[Mapping[str, object]] | None

# What the package does to a message of a kind that it does not know surfaces as these.
_FAILURES = (ValueError, TypeError, AttributeError, LookupError, AssertionError, ArithmeticError, RecursionError)
_RETENTION = ("preserve_thinking", "clear_thinking", "truncate_history_thinking", "auto_drop_analysis")
"""Template variables that say themselves what becomes of earlier thinking."""


class FamilyError(ValueError):
    """A family cannot serve this tokenizer, or these variables."""


class ParsedCall(Protocol):
    """One attempt at a tool call, as the package read it."""

    name: str | None
    arguments: dict[str, Any] | str | None
    status: str
    id: str | None


class _Rendered(Protocol):
    token_ids: list[int]


class _Parsed(Protocol):
    tool_calls: list[ParsedCall]


class _FamilyRenderer(Protocol):
    """The slice of the package's renderers that is used."""

    def render_ids(self, messages: list[Any], *, tools: Any, add_generation_prompt: bool) -> list[int]: ...
    def bridge_to_next_turn(
        self,
        previous_prompt_ids: list[int],
        previous_completion_ids: list[int],
        new_messages: list[Any],
        *,
        tools: Any,
    ) -> _Rendered | None: ...
    def parse_response(self, token_ids: list[int], *, tools: Any) -> _Parsed: ...


class Family:
    """A family with template variables of one kind of request. Messages are in the spelling that templates expect."""

    def __init__(self, name: str, tokenizer: ChatTokenizer, variables: Mapping[str, object] | None = None) -> None:
        """FamilyError where the package is missing, or does not take the tokenizer or a variable's value."""
        self.name = name
        try:
            package: Any = import_module("renderers")
            kind: Any = package.config_from_name(name).__class__
            known = {key: value for key, value in (variables or {}).items() if key in kind.template_field_names()}
            # Of whole prompts this changes nothing; a reply's thinking stays where the next question follows it.
            retained = {} if any(name in known for name in _RETENTION) else {"thinking_retention": "all"}
            made = package.create_renderer(_PlainTokenizer(tokenizer), kind(**known, **retained))
        except ImportError as error:
            raise FamilyError(f"the renderers package cannot be used: {error}") from error
        except (*_FAILURES, NotImplementedError) as error:
            raise FamilyError(f"{name} does not take this tokenizer: {_first_line(error)}") from error
        self._renderer = cast(_FamilyRenderer, made)

    def whole(self, messages: Messages, tools: Tools) -> list[int]:
        """The prompt of a conversation, with the invitation to reply; FamilyError when it cannot be rendered."""
        try:
            given = list(tools) if tools else None
            return list(self._renderer.render_ids(list(messages), tools=given, add_generation_prompt=True))
        except _FAILURES as error:
            raise FamilyError(f"{self.name}: {type(error).__name__}: {_first_line(error)}") from error

    def following(
        self, prompt_ids: Sequence[int], completion_ids: Sequence[int], new: Messages, tools: Tools
    ) -> list[int] | None:
        """What follows a turn's prompt and completion once new messages are said; None where it is not certain."""
        ids = [*prompt_ids, *completion_ids]
        given = list(tools) if tools else None
        try:
            bridged = self._renderer.bridge_to_next_turn(
                ids[: len(prompt_ids)], ids[len(prompt_ids) :], list(new), tools=given
            )
        except _FAILURES:
            return None
        if bridged is None or bridged.token_ids[: len(ids)] != ids:
            return None
        return list(bridged.token_ids[len(ids) :])

    def calls(self, ids: list[int], tools: Tools) -> list[ParsedCall] | None:
        """The tool calls in ids that hold nothing else; None where one of them cannot be read."""
        try:
            found = self._renderer.parse_response(ids, tools=list(tools) if tools else None).tool_calls
        except _FAILURES:
            return None
        return found if found and all(map(_is_whole, found)) else None


class _PlainTokenizer:
    """The tokenizer as the package wants it."""

    unk_token_id = None
    name_or_path = ""

    def __init__(self, tokenizer: ChatTokenizer) -> None:
        self._own = tokenizer
        eos = tokenizer.names.get("eos_token")
        self.eos_token_id = None if eos is None else tokenizer.backend.token_to_id(eos)

    def encode(self, text: str, *_: Any, **__: Any) -> list[int]:
        """Ids of a text, none added."""
        return self._own.encode(text)

    def decode(self, token_ids: Sequence[int], *_: Any, **__: Any) -> str:
        """Text of ids, special tokens included."""
        return self._own.decode(list(token_ids))

    def convert_tokens_to_ids(self, tokens: str) -> int | None:
        """The id of one token; None where there is none."""
        return self._own.backend.token_to_id(tokens)


def _is_whole(call: ParsedCall) -> bool:
    """A tool that was not offered, and a value of another type than its schema's, are the client's to refuse."""
    return call.status in ("ok", "unknown_tool") or (call.status == "invalid_json" and isinstance(call.arguments, dict))


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]

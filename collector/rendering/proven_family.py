"""The family that serves a model: chosen by the model's type, used where it is proved to do as the template does."""

import logging
import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from collector.errors import UserError
from collector.model_json import read_json
from collector.parsing.call_syntax import BRACKETS, JSON_CALLS, CallSyntax, WrittenCall, spelled
from collector.records import ChatRequest
from collector.rendering.family import Family, FamilyError, Tools
from collector.rendering.family_proof import Ending, Proof, prove
from collector.rendering.renderer import Renderer
from collector.rendering.splice import Ancestor

_log = logging.getLogger(__name__)

_BY_TYPE: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("qwen3", "qwen3_moe"), ("qwen3", "prime-qwen3")),
    **dict.fromkeys(("qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text"), ("qwen3.5", "qwen3.6", "qwen3.8")),
    "deepseek_v4": ("deepseek-v4",),
    "glm4_moe": ("glm-4.5", "glm-5"),
    "glm4_moe_lite": ("glm-5",),
    "glm_moe_dsa": ("glm-5", "glm-5.1", "glm-5.3"),
    "kimi_k2": ("kimi-k2",),
    "kimi_k25": ("kimi-k2.5",),
    "deepseek_v3": ("deepseek-v3", "deepseek-r1", "kimi-k2"),
    "llama": ("llama-3",),
    "minimax_m2": ("minimax-m2",),
    "nemotron_h": ("nemotron-3", "nemotron-3-ultra", "nemotron-3.5"),
}
"""`model_type` in a model's config.json to the families that it may be of, the likeliest first."""

NAMES = tuple(sorted({name for names in _BY_TYPE.values() for name in names}))
"""Families that can be chosen by name."""

_TOKENS = {
    "qwen": "<tool_call>",
    "prime": "<tool_call>",
    "glm": "[gMASK]",
    "kimi": "<|im_middle|>",
    "deepseek": "<｜User｜>",
    "llama": "<|start_header_id|>",
    "minimax": "]~b]",
    "nemotron": "<tool_response>",
}
"""A token without which a model is not of the family whose name begins so; the package, which is slow to import, is
then left alone."""

_MOST_VARIANTS = 8
"""Kinds of template variables that a family is proved for; clients name them, and each costs some milliseconds."""
_THINKING = "enable_thinking"
_TOOL_NAME = re.compile(r"[\w.:/-]{1,256}")
"""GLM's calls may be a name and nothing else, so that any text in tags would be one."""


class _Variant(NamedTuple):
    family: Family
    endings: frozenset[Ending]


class ProvenFamily:
    """A family, and what of it was proved for the served model."""

    def __init__(self, renderer: Renderer, name: str) -> None:
        """FamilyError where it cannot serve the tokenizer at all."""
        self.name = name
        self._renderer = renderer
        token = next(token for begin, token in _TOKENS.items() if name.startswith(begin))
        if renderer.tokenizer.backend.token_to_id(token) is None:
            raise FamilyError(f"{name} does not take this tokenizer: it has no token {token!r}")
        self._reader = Family(name, renderer.tokenizer)
        self._variants: OrderedDict[str, _Variant | None] = OrderedDict()
        self.proof, variant = self._prove(None)
        self._variants[_key(None)] = variant

    @property
    def useful(self) -> bool:
        """Whether it does anything that the template alone does not."""
        return self.proof.next_turns is None or (self.proof.calls is None and self.name in BRACKETS)

    def syntax(self, tools: Tools) -> CallSyntax:
        """How calls of these tools are read; as JSON in tags where the family's own way was not proved."""
        return JSON_CALLS if self.proof.calls is not None else self._syntax(tools)

    def following(self, chat: ChatRequest, ancestor: Ancestor, ids: Sequence[int]) -> list[int] | None:
        """What follows the ancestor's ids, without rendering what came before; None where that was not proved."""
        new = chat.messages[ancestor.message_count + 1 :]
        if not new or not ancestor.completion_tokens or (ancestor.variables or {}) != (chat.chat_template_kwargs or {}):
            return None
        variant = self._variant(chat.chat_template_kwargs)
        if variant is None or (ancestor.last_id, str(new[0].get("role"))) not in variant.endings:
            return None
        cut = len(ids) - ancestor.completion_tokens
        said = self._renderer.spelled(chat.messages, chat.tools)[-len(new) :]
        tools = chat.tools if self._renderer.template.abilities.tools else None
        return variant.family.following(ids[:cut], ids[cut:], said, tools)

    def _variant(self, variables: Mapping[str, object] | None) -> _Variant | None:
        key = _key(variables)
        if key not in self._variants and len(self._variants) < _MOST_VARIANTS:
            self._variants[key] = self._prove(variables)[1]
        return self._variants.get(key)

    def _prove(self, variables: Mapping[str, object] | None) -> tuple[Proof, _Variant | None]:
        """Where no variable says whether to think, the family's default need not be the template's."""
        proof: Proof | None = None
        more: list[dict[str, object]] = [{}, {_THINKING: True}, {_THINKING: False}]
        if _THINKING in (variables or {}):
            more = more[:1]
        for setting in more:
            try:
                family = Family(self.name, self._renderer.tokenizer, {**(variables or {}), **setting})
            except FamilyError as error:
                proof = proof or Proof(str(error), str(error), None)
                continue
            found = prove(self._renderer, family, self._syntax, variables)
            if found.next_turns is None:
                return found, _Variant(family, found.endings)
            proof = proof or found
        assert proof is not None
        return proof, None

    def _syntax(self, tools: Tools) -> CallSyntax:
        brackets = BRACKETS.get(self.name)
        if brackets is None:
            return JSON_CALLS

        def read(body: str) -> list[WrittenCall] | None:
            ids = self._renderer.tokenizer.encode(f"{brackets.opening}{body}{brackets.closing}")
            calls: list[WrittenCall] = []
            for call in self._reader.calls(ids, tools) or ():
                arguments = spelled(call.arguments)
                if call.name is None or not _TOOL_NAME.fullmatch(call.name) or arguments is None:
                    return None
                calls.append(WrittenCall(call.name, arguments, call.id))
            return calls or None

        return CallSyntax(brackets.opening, brackets.closing, read, brackets.tokens)


class Choice(NamedTuple):
    """Which family serves the model, or why none does."""

    family: ProvenFamily | None
    reason: str | None
    """What speaks against the families that were looked at; None where nothing does."""

    def describe(self) -> dict[str, object]:
        """What a health report says."""
        if self.family is None:
            return {"family": None, "reason": self.reason}
        proof = self.family.proof
        return {
            "family": self.family.name,
            "first_turns": proof.first_turns or "as the template",
            "next_turns": proof.next_turns or "as the template",
            "calls": proof.calls or "as the template",
        }


def choose(renderer: Renderer, folder: Path, setting: str) -> Choice:
    """The family for a model folder. UserError for a family that was named and does not do as the template does."""
    if setting == "template":
        return Choice(None, "the template is chosen by the configuration")
    if setting != "auto":
        return _named(renderer, setting)
    kind = read_json(folder / "config.json").get("model_type")
    candidates = _BY_TYPE.get(str(kind), ())
    reasons: list[str] = []
    partly: list[ProvenFamily] = []
    for name in candidates:
        try:
            family = ProvenFamily(renderer, name)
        except FamilyError as error:
            reasons.append(str(error))
            continue
        if family.proof.next_turns is None and family.proof.calls is None:
            return Choice(family, None)
        reasons.append(f"{name}: {family.proof.next_turns or family.proof.calls}")
        if family.useful:
            partly.append(family)
    if partly:
        return Choice(partly[0], "; ".join(reasons))
    return Choice(None, "; ".join(reasons) or f"no family is known for models of type {kind!r}")


def _named(renderer: Renderer, name: str) -> Choice:
    if name not in NAMES:
        raise UserError(f"[collector] renderer is {name!r}, expected auto, template or one of {', '.join(NAMES)}")
    try:
        family = ProvenFamily(renderer, name)
    except FamilyError as error:
        raise UserError(f"[collector] renderer is {name!r}, which cannot serve this model: {error}") from error
    against = family.proof.next_turns or (family.proof.calls if name in BRACKETS else None)
    if against is not None:
        raise UserError(
            f"[collector] renderer is {name!r}, expected the family of the served model: {against}; "
            "use auto, which falls back to the template where they differ"
        )
    return Choice(family, family.proof.calls)


def _key(variables: Mapping[str, object] | None) -> str:
    return repr(sorted((variables or {}).items(), key=lambda item: item[0]))

"""One session in memory: its finished turns, and which of them a new request continues."""

import asyncio
import hashlib
from array import array
from bisect import insort
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from collector.conversation import Reply, reasoning_of
from collector.digests import digest_of, tools_digest, with_one_more
from collector.echo import Agreement, Echo, Trail
from collector.ports import Target
from collector.records import ChatRequest, Link
from collector.rendering.splice import Ancestor
from collector.request_dialogue import RequestDialogue, is_system
from collector.workers.placements import Placements


class KnownTurn:
    """What is remembered of a finished turn. Turns of one branch share one array of ids."""

    __slots__ = (
        "added",
        "ancestor",
        "completion_tokens",
        "length",
        "message_count",
        "parent",
        "recorded",
        "reply",
        "storing",
        "token_digest",
        "tokens",
        "tools",
        "trail",
        "turn_id",
        "variables",
        "withheld",
    )

    def __init__(
        self,
        *,
        turn_id: str,
        parent: "KnownTurn | None",
        prompt_ids: Sequence[int],
        completion_ids: Sequence[int],
        dialogue: RequestDialogue | None,
        reply: Reply | None,
        ancestor: "KnownTurn | None" = None,
    ) -> None:
        self.turn_id = turn_id
        self.parent = parent
        self.ancestor = ancestor
        self.storing: asyncio.Task[bool] | None = None
        """Ends when its record is durable or refused; None once it has."""
        self.withheld: str | None = None
        """Why it, and what goes on from it, is kept out of training."""
        self.recorded = True
        """False once its record could not be stored: it is continued all the same, and named by no record."""
        if parent is not None and len(parent.tokens) == parent.length:
            self.tokens = parent.tokens
            self.tokens.extend(prompt_ids[parent.length :])
            self.added = len(prompt_ids) - parent.length + len(completion_ids)
        else:
            self.tokens = array("i", prompt_ids)
            self.added = len(prompt_ids) + len(completion_ids)
        self.tokens.extend(completion_ids)
        self.length = len(prompt_ids) + len(completion_ids)
        self.completion_tokens = len(completion_ids)
        self.token_digest = hashlib.blake2b(self.tokens[: self.length].tobytes(), digest_size=16).digest()
        chat = dialogue.chat if dialogue is not None else None
        self.message_count = len(chat.messages) if chat is not None else 0
        self.tools = dialogue.tools if dialogue is not None else tools_digest(None)
        self.variables: Mapping[str, object] | None = chat.chat_template_kwargs if chat is not None else None
        self.reply = reply
        messages = chat.messages if chat is not None else ()
        self.trail = Trail(
            messages, None if reply is None else reply.message(), None if ancestor is None else ancestor.trail
        )
        continued = ancestor if chat is not None else parent
        if continued is not None:
            continued.trail.continued = True

    def ids(self) -> "array[int]":
        """Prompt and completion."""
        return self.tokens[: self.length]

    def as_ancestor(self) -> Ancestor:
        """What a splice needs to know."""
        assert self.reply is not None
        last_id = self.tokens[self.length - 1]
        return Ancestor(last_id, self.message_count, self.reply, self.variables, self.completion_tokens)


class Match(NamedTuple):
    """The turn whose conversation a request continues, or how it departs from what was said before."""

    ancestor: KnownTurn | None
    break_kind: str | None
    """Set when the request continues the session and yet no turn can be extended: what differs first.

    `system_prompt_changed`: the system messages, or the tools, which templates write into the system block;
    `tool_call_reserialized`: arguments of tool calls and nothing else; `other`: what was said, or thought.
    """
    said: bytes = b""
    """Fingerprint of the request's conversation and tools."""


class Session:
    """The turns of one agent run, indexed by what was said and by the ids themselves."""

    def __init__(self, session_id: str, tenant: str) -> None:
        self.session_id = session_id
        self.tenant = tenant
        self.last_turn = 0
        """Number of the newest turn, finished or not."""
        self.in_flight = 0
        """Turns dispatched and not yet recorded."""
        self.declared: dict[int, Link] = {}
        """Turn number to what a client declared of it."""
        self.targets: dict[str | None, Target] = {}
        """What was asked for, None for the tenant's route, to the weights that serve it in this session."""
        self.placements = Placements()
        """Which engine workers serve its turns; empty where there is one only."""
        self.tokens = 0
        """Ids kept for this session."""
        self.withheld: set[str] = set()
        """Why turns of it are kept out of training."""
        self.lost = False
        """Whether turns of it were stored without their ids, so that they cannot be continued token by token."""
        self._by_length: list[tuple[int, int, KnownTurn]] = []
        self._by_dialogue: dict[bytes, list[KnownTurn]] = {}
        self._by_calls: dict[bytes, list[KnownTurn]] = {}
        """By the dialogue less the arguments of tool calls."""
        self._by_calls_alone: set[bytes] = set()
        """The same without system messages."""
        self._said: set[bytes] = set()

    def add(self, known: KnownTurn, dialogue: RequestDialogue | None) -> bytes | None:
        """Remembers a finished turn; the fingerprint of its dialogue, reply included."""
        self.tokens += known.added
        insort(self._by_length, (known.length, len(self._by_length), known))
        if dialogue is None or known.reply is None:
            return None
        reply = digest_of(known.reply.message())
        digests, messages = dialogue.digests, dialogue.chat.messages
        with_reply = with_one_more(digests[-1], reply.whole)
        self._by_dialogue.setdefault(with_reply, []).append(known)
        by_calls = with_one_more(dialogue.digests_less_arguments[-1], reply.less_arguments)
        self._by_calls.setdefault(by_calls, []).append(known)
        self._by_calls_alone.add(with_one_more(dialogue.digests_of_talk[-1], reply.less_arguments))
        first = next((n for n, message in enumerate(messages) if not is_system(message)), len(messages))
        self._said.update(digests[first + 1 :])
        self._said.add(with_reply)
        return with_reply

    def match(self, dialogue: RequestDialogue, *, going_on: bool = True) -> Match:
        """The deepest turn whose messages and reply the request begins with; `going_on` counts it as continued.

        Of turns that read the same it is the one whose tool-call ids, thinking and wording come back. Where nothing
        tells them apart it is the newest that no request has continued yet, else the newest.
        """
        digests, echo = dialogue.digests, Echo(dialogue.chat.messages)
        fitting = [
            (place, known)
            for place in dialogue.reply_places
            for known in self._by_dialogue.get(digests[place + 1], ())
            if known.tools == dialogue.tools and not echo.agreement(known.trail).clashes
        ]
        if not fitting:
            return Match(None, self._departure(dialogue, echo), dialogue.said)

        def standing(candidate: tuple[int, KnownTurn]) -> tuple[object, ...]:
            place, known = candidate
            return rank(echo.agreement(known.trail), place, known.trail, known.turn_id, likely=True)

        known = max(fitting, key=standing)[1]
        known.trail.continued = known.trail.continued or going_on
        return Match(known, None, dialogue.said)

    def _departure(self, dialogue: RequestDialogue, echo: Echo) -> str | None:
        """How a request that extends no turn departs from what was said; None when it does not."""
        messages = dialogue.chat.messages
        for place in dialogue.reply_places:
            same = self._by_calls.get(dialogue.digests_less_arguments[place + 1])
            if same is not None:
                same = [known for known in same if known.tools == dialogue.tools]
                reserialized = any(not echo.agreement(known.trail).clashes for known in same)
                return "tool_call_reserialized" if reserialized else "other" if same else "system_prompt_changed"
        talk = dialogue.reply_places_in_talk
        if any(dialogue.digests_of_talk[place + 1] in self._by_calls_alone for place in talk):
            return "system_prompt_changed"
        said = max((n for n, digest in enumerate(dialogue.digests) if digest in self._said), default=0)
        # The same messages again, or fewer, are another sample; more that part from what was said are a rewriting.
        # What goes on from a turn whose ids were not stored has history that no turn here can vouch for.
        from_lost = self.lost and bool(dialogue.reply_places)
        return "other" if from_lost or 0 < said < len(messages) else None

    def deepest_prefix(self, ids: Sequence[int], *, recorded: bool = False) -> KnownTurn | None:
        """The longest known turn, or recorded one, whose prompt and completion these ids begin with."""
        data = array("i", ids).tobytes()
        hasher = hashlib.blake2b(digest_size=16)
        done = 0
        deepest = None
        for length, _, known in self._by_length:
            if length > len(ids):
                break
            hasher.update(data[done * 4 : length * 4])
            done = length
            if hasher.digest() == known.token_digest and (known.recorded or not recorded):
                deepest = known
        return deepest

    def with_thinking(self, chat: ChatRequest, known: KnownTurn) -> ChatRequest:
        """The conversation with the thinking that was sampled put back where the client left it out."""
        messages: list[dict[str, Any]] = [dict(message) for message in chat.messages]
        turn: KnownTurn | None = known
        while turn is not None and turn.reply is not None:
            place = turn.message_count
            if turn.reply.reasoning and reasoning_of(messages[place]) is None:
                messages[place]["reasoning_content"] = turn.reply.reasoning
            turn = turn.ancestor
        return ChatRequest(messages=messages, tools=chat.tools, chat_template_kwargs=chat.chat_template_kwargs)


def rank(agreement: Agreement, place: int, trail: Trail, turn_id: str, likely: bool) -> tuple[object, ...]:
    """Orders turns that a request may continue; the greatest is the one it does. `likely`: by what is not said."""
    return (agreement.call_ids, place, -agreement.clashes, likely, agreement.alike, not trail.continued, turn_id)

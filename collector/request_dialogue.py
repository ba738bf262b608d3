"""The conversation of one request with its fingerprints, each made once however many look for it."""

from collections.abc import Mapping
from functools import cached_property

from collector.digests import MessageDigest, chain, digest_of, tools_digest
from collector.records import ChatRequest


class RequestDialogue:
    """What sessions compare of a request."""

    def __init__(self, chat: ChatRequest) -> None:
        self.chat = chat

    @cached_property
    def digests(self) -> list[bytes]:
        """After each message; entry 0 is that of the empty conversation."""
        return chain(message.whole for message in self._messages)

    @cached_property
    def digests_less_arguments(self) -> list[bytes]:
        """The same whatever the arguments of tool calls are."""
        return chain(message.less_arguments for message in self._messages)

    @cached_property
    def digests_of_talk(self) -> list[bytes]:
        """The same without system messages either."""
        both = zip(self.chat.messages, self._messages, strict=True)
        return chain(digest.less_arguments for message, digest in both if not is_system(message))

    @cached_property
    def tools(self) -> bytes:
        """Of the tool definitions."""
        return tools_digest(self.chat.tools)

    @property
    def said(self) -> bytes:
        """Of the whole request."""
        return self.digests[-1] + self.tools

    @cached_property
    def reply_places(self) -> list[int]:
        """Where its assistant messages stand, the last first."""
        messages = self.chat.messages
        return [place for place in reversed(range(len(messages))) if messages[place].get("role") == "assistant"]

    @cached_property
    def reply_places_in_talk(self) -> list[int]:
        """The same in the conversation without system messages."""
        talk = [message for message in self.chat.messages if not is_system(message)]
        return [place for place in reversed(range(len(talk))) if talk[place].get("role") == "assistant"]

    def fingerprints(self) -> list[tuple[int, bytes]]:
        """Places of assistant messages and fingerprints up to them: what a sampled completion is found by."""
        return [(place, self.digests[place + 1]) for place in self.reply_places]

    @cached_property
    def _messages(self) -> list[MessageDigest]:
        return [digest_of(message) for message in self.chat.messages]


def is_system(message: Mapping[str, object]) -> bool:
    """Whether a message sets the frame, and is no part of the talk."""
    return message.get("role") in ("system", "developer")

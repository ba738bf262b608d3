"""What the small model can learn in the demo: to write a file with one line of a demanded form, and nothing else.

Two worked examples, each worded otherwise than the request, are enough for SmolLM2-135M to do it in a quarter to a half
of its tries. A reply is run as a tool call, and judged by the bytes of the file that it leaves.
"""

import json
import random
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

SYSTEM = "You edit files."
EXAMPLES = (
    ('Put "green tea" into old.txt.', "write old.txt: green tea"),
    ('Let page.txt say "white moon".', "write page.txt: white moon"),
)
"""Requests that are shown with their right lines."""
MAX_TOKENS = 20
"""Limit on a reply; a right one has 8 to 12 tokens."""
REQUESTS = 2
"""Files to write in one session."""

EXAM_ORDERS = 96
"""Held-out orders of the comparison at the end."""

_LINE = re.compile(r"write (\S+): (\S.*)")


class Words(NamedTuple):
    """What requests are made of."""

    files: tuple[str, ...]
    adjectives: tuple[str, ...]
    nouns: tuple[str, ...]


TAUGHT = Words(
    ("animal", "rock", "sound", "time", "sea", "game", "city", "house", "garden", "music", "train", "winter"),
    ("blue", "loud", "old", "deep", "fast", "big", "soft", "new", "dark", "small"),
    ("fox", "bell", "clock", "wave", "ball", "town", "chair", "song", "night", "cat"),
)
"""The words of the traffic."""
HELD_OUT = Words(
    ("harbor", "lamp", "desk", "paper", "snow", "forest", "bread", "shoe"),
    ("round", "warm", "short", "cold", "brown", "thin"),
    ("door", "tree", "hill", "dog", "boat", "hat", "spoon", "road"),
)
"""Words that no traffic has: what is scored is the form, not what was seen."""


class Order(NamedTuple):
    """One file to write."""

    path: str
    content: str

    @property
    def text(self) -> str:
        """What the model is told."""
        return f'I want "{self.content}" in {self.path}.'

    @property
    def line(self) -> str:
        """The right reply."""
        return f"write {self.path}: {self.content}"


class Lesson(NamedTuple):
    """The orders of one session."""

    task_id: str
    orders: tuple[Order, ...]


class HeldOut(NamedTuple):
    """Orders that are never traffic."""

    gate: tuple[Order, ...]
    """What the gate compares versions on, a part of it in each cycle."""
    exam: tuple[Order, ...]
    """What the demo compares the first version and the last on: no version was chosen by it."""


def lessons(seed: int) -> Iterator[Lesson]:
    """An endless list of lessons in the words of the traffic; the same seed gives the same list."""
    draw = random.Random(seed)
    number = 0
    while True:
        files = draw.sample(TAUGHT.files, REQUESTS)
        yield Lesson(f"line-{number}", tuple(_order(draw, file) for file in files))
        number += 1


def messages(order: Order) -> list[dict[str, str]]:
    """The conversation up to the point where the model answers a first order."""
    shown = [("system", SYSTEM)]
    for request, line in EXAMPLES:
        shown += [("user", request), ("assistant", line)]
    return [{"role": role, "content": content} for role, content in (*shown, ("user", order.text))]


def call_of(reply: str) -> tuple[str, str] | None:
    """Path and content of the write that a reply asks for; None where it has not the form."""
    found = _LINE.fullmatch(reply.strip())
    return None if found is None else (found[1], found[2])


def held_out(seed: int) -> HeldOut:
    """Every order in words that no traffic has, shuffled: most for the gate, the rest for the end of the demo."""
    orders = [
        Order(f"{file}.txt", f"{adjective} {noun}")
        for file in HELD_OUT.files
        for adjective in HELD_OUT.adjectives
        for noun in HELD_OUT.nouns
    ]
    random.Random(seed).shuffle(orders)
    return HeldOut(tuple(orders[EXAM_ORDERS:]), tuple(orders[:EXAM_ORDERS]))


def suite(orders: Sequence[Order]) -> bytes:
    """Orders as a suite of held-out tasks, one JSON object a line."""
    return b"".join(json.dumps(_task(order)).encode() + b"\n" for order in orders)


def _task(order: Order) -> dict[str, object]:
    return {
        "task_id": f"{order.path} {order.content}",
        "messages": messages(order),
        "max_tokens": MAX_TOKENS,
        "verifier": {"exact": order.line},
        "known_good": [order.line],
        "known_bad": [order.content],
    }


def _order(draw: random.Random, file: str) -> Order:
    return Order(f"{file}.txt", f"{draw.choice(TAUGHT.adjectives)} {draw.choice(TAUGHT.nouns)}")

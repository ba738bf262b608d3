"""Whether a user asked again: two questions in a row that say nearly the same, so that the answer between did not help.

It reads the store, and posts `accept` 0 on each answer that was asked past. An answer that was not asked past is not
judged by it: that a user goes on says little.

Usage: ROUNDHOUSE_URL=http://127.0.0.1:8000 ROUNDHOUSE_KEY=dev \
       python samples/feedback-recipes/asked_again.py --store store --tenant dev
"""

import argparse
import json
import os
import urllib.request
from difflib import SequenceMatcher
from pathlib import Path

from collector.store.reader import Reader

ALIKE = 0.8
"""Share of two questions that is the same, from which on they are one: 0.8 lets a few words differ."""
LONGEST = 2_000
"""Characters of a question that are compared."""


def main() -> None:
    """Finds the answers that did not help, and says so."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--store", type=Path, default=Path("store"))
    parser.add_argument("--tenant", default="dev", help="the tenant of the key")
    args = parser.parse_args()
    for turn_id in asked_past(args.store, args.tenant):
        print(post(turn_id))


def asked_past(store: Path, tenant: str) -> list[str]:
    """Turns whose answer was followed by the same question again."""
    with Reader(store).snapshot(["turns"]) as snapshot:
        turns = snapshot.frame("turns", columns=["tenant", "turn_id", "parent_turn_id", "request"])
    questions = {
        row["turn_id"]: last_question(row["request"]) for row in turns.filter(tenant=tenant).iter_rows(named=True)
    }
    pairs = turns.filter(tenant=tenant).drop_nulls("parent_turn_id").select("parent_turn_id", "turn_id").rows()
    return [before for before, after in pairs if same(questions.get(before), questions.get(after))]


def last_question(request: str | None) -> str | None:
    """The text of the last message, where a user wrote it; a tool's answer is no question."""
    messages = json.loads(request)["messages"] if request else []
    if not messages or messages[-1].get("role") != "user" or not isinstance(messages[-1].get("content"), str):
        return None
    return " ".join(messages[-1]["content"].lower().split())[:LONGEST]


def same(before: str | None, after: str | None) -> bool:
    """Whether two questions say nearly the same."""
    if not before or not after:
        return False
    return SequenceMatcher(None, before, after, autojunk=False).ratio() >= ALIKE


def post(turn_id: str) -> dict[str, object]:
    """Posts the judgement, under an id of its turn: however often this runs, it counts once."""
    body = {"turn_id": turn_id, "kind": "accept", "value": 0, "feedback_id": f"asked-again/{turn_id}"}
    headers = {"content-type": "application/json", "authorization": f"Bearer {os.environ['ROUNDHOUSE_KEY']}"}
    request = urllib.request.Request(
        f"{os.environ['ROUNDHOUSE_URL']}/v1/feedback",
        data=json.dumps({**body, "source": "asked_again"}).encode(),
        headers=headers,
    )
    with urllib.request.urlopen(request, timeout=30) as reply:
        return json.load(reply)


if __name__ == "__main__":
    main()

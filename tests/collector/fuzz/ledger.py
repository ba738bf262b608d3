"""What a collector answered, and whether its store holds exactly that."""

import json
import threading
from collections import Counter
from pathlib import Path
from typing import Any

from collector.store.reader import Reader
from collector.store.verify import verify
from tests.collector.fuzz.raw_http import Answer
from tests.collector.store.test_forget import unpack

TURN_PATHS = ("/v1/chat/completions", "/v1/responses", "/v1/messages", "/generate")
_LAST = (b"data: [DONE]\n\n", b'"type":"message_stop"', b'"type":"response.completed"', b'"type":"response.incomplete"')


class Ledger:
    """Takes in every answer, from any thread."""

    def __init__(self) -> None:
        self.requests = 0
        self.statuses: Counter[tuple[str, int]] = Counter()
        self.turns: dict[str, bool] = {}
        """Turns that were named to a client, and whether they were answered whole."""
        self.receipts: list[str] = []
        """Ids of whole replies, as clients got them."""
        self.feedback: Counter[str] = Counter()
        """Accepted judgements by feedback_id, those left out that were there before."""
        self.repeated: set[str] = set()
        """Ids of judgements that were said to have been there before."""
        self.events: Counter[tuple[str, str, int]] = Counter()
        self.left = 0
        """Requests whose answer nobody read."""
        self._lock = threading.Lock()

    def note(self, path: str, answer: Answer) -> None:
        """Takes in one answer; fails on one that no request may get."""
        with self._lock:
            self.requests += 1
            self.statuses[(path, answer.status)] += 1
            assert answer.status < 500, (path, answer)
            self.left += answer.status == 0
            turn_id = answer.headers.get("x-roundhouse-turn")
            if turn_id is not None:
                assert turn_id not in self.turns, f"{turn_id} was given twice"
                self.turns[turn_id] = answer.status == 200
            if answer.status == 200:
                self._note_success(path, answer)
            elif answer.status != 0 and answer.body.startswith(b"{"):
                assert json.loads(answer.body)["error"]["message"], answer

    def _note_success(self, path: str, answer: Answer) -> None:
        if path in TURN_PATHS:
            turn_id = answer.headers["x-roundhouse-turn"]
            if answer.headers["content-type"].startswith("text/event-stream"):
                last = answer.body.rstrip(b"\n").rpartition(b"\n\n")[2] + b"\n\n"
                assert any(mark in last for mark in _LAST), f"a stream without its end: {answer.body[-600:]!r}"
                assert turn_id.encode() in answer.body
            else:
                reply = json.loads(answer.body)
                assert turn_id in (reply.get("id") or reply["meta_info"]["id"])
            self.receipts.append(turn_id)
        elif path == "/v1/feedback":
            said = json.loads(answer.body)
            for each in said.get("feedback", [said]):
                if each["duplicate"]:
                    self.repeated.add(each["feedback_id"])
                else:
                    self.feedback[each["feedback_id"]] += 1
        elif path == "/v1/events":
            said = json.loads(answer.body)
            self.events[(said["kind"], said["session_id"], said["turn"])] += 1

    def check(self, store: Path, secrets: list[bytes], log: bytes) -> None:
        """Every answered record is there once and whole, nothing else is, and no secret is anywhere."""
        found = verify(store)
        assert found.clean, found
        with Reader(store).snapshot() as snapshot:
            assert snapshot.damage == ()
            turns = snapshot.frame("turns", columns=["turn_id", "complete", "prompt_ids", "session_id", "turn"])
            feedback = Counter(snapshot.frame("feedback", columns=["feedback_id"])["feedback_id"].to_list())
            events = snapshot.frame("events", columns=["kind", "session_id", "turn"]).rows()
        ids = turns["turn_id"].to_list()
        assert len(set(ids)) == len(ids)
        stored = dict(turns.select("turn_id", "complete").rows())
        missing = [turn_id for turn_id, whole in self.turns.items() if stored.get(turn_id) is not whole]
        assert missing == []
        assert len(stored) - len(self.turns) <= self.left
        places = turns.select("session_id", "turn").rows()
        assert len(set(places)) == len(places)
        assert turns["prompt_ids"].null_count() == 0
        assert {name: feedback[name] for name in self.feedback} == self.feedback
        assert set(self.feedback.values()) <= {1}
        assert self.repeated <= feedback.keys()
        declared = Counter(row for row in events if row[0] in ("compaction", "subagent"))
        assert all(declared[event] >= count for event, count in self.events.items())
        assert sum(declared.values()) - sum(self.events.values()) <= self.left
        assert _holding(secrets, store, log) == []

    def said(self) -> str:
        """How many of what, on one line."""
        by_status: Counter[int] = Counter()
        for (_, status), count in self.statuses.items():
            by_status[status] += count
        told = ", ".join(f"{status}: {count}" for status, count in sorted(by_status.items()))
        kept = f"{len(self.receipts)} whole replies, {sum(self.feedback.values())} judgements"
        return f"{self.requests} requests ({told}); {kept}"


def _holding(secrets: list[bytes], store: Path, log: bytes) -> list[Any]:
    """Where a secret stands."""
    found: list[Any] = [("the log", secret) for secret in secrets if secret in log]
    for path in store.rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        whole = content + b"".join(unpack(content))
        found += [(path.name, secret) for secret in secrets if secret in whole]
    return found

"""`roundhouse feedback --explain`: the mapping from feedback to reward, and what a session's feedback makes."""

import argparse
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from collector.errors import UserError

if TYPE_CHECKING:
    from pathlib import Path

    from trainer.reward import RewardConfig
    from trainer.reward_explained import Explanation

_WORDS = {
    "duplicate": "does not count: the same id was given before",
    "superseded": "does not count: superseded by {by}",
    "late": "does not count: it came after the window had closed",
    "kind_left_out": "does not count: its kind has no weight in [trainer.reward]",
    "no_value": "does not count: it has no value",
    "not_finite": "does not count: it is worth more than a float32 holds",
}


def explain(args: argparse.Namespace) -> int:
    """Prints the mapping and, where a target is named, what its feedback makes."""
    from console.config import load_config

    if args.kind is not None or args.value is not None or args.text is not None:
        raise UserError("--explain posts nothing, expected no --kind, --value or --text with it")
    config = load_config(args.config).trainer.reward
    asked = args.response or args.session
    found = [] if asked is None else _explanations(args, config)
    if args.json:
        mapping = {kind: _fields(each) for kind, each in config.kinds.items()}
        told = {"mapping": mapping, "window_s": config.window_s, "mapping_sha256": config.sha256()}
        print(json.dumps(told if asked is None else {**told, "sessions": [_as_json(each) for each in found]}))
        return 0
    _print_mapping(config)
    for each in found:
        _print(each)
    return 0


def _explanations(args: argparse.Namespace, config: "RewardConfig") -> "list[Explanation]":
    """One for each tenant that has such a session: the same name is not the same session."""
    from collector.store.reader import Reader
    from trainer.batch.tenant_capture import read_captures
    from trainer.reward_explained import explained

    store: Path = args.store
    with Reader(store).snapshot(["turns", "feedback", "events"]) as snapshot:
        turns = snapshot.frame("turns", columns=["turn_id", "session_id", "tenant"])
        if args.response is not None:
            named = args.response
            for prefix in ("chatcmpl-", "resp_", "msg_"):
                named = named.removeprefix(prefix)
            wanted = turns.filter(turn_id=named)
        else:
            wanted = turns.filter(session_id=args.session)
        if wanted.is_empty():
            what = f"response {args.response!r}" if args.response is not None else f"session {args.session!r}"
            raise UserError(f"{store}: no {what}, expected one that the store holds; roundhouse sql lists them")
        captures = read_captures(snapshot, set(wanted["tenant"]))
    names = set(wanted.select("tenant", "session_id").rows())
    now = datetime.now(UTC)
    return [
        explained(capture, session, config, now=now)
        for tenant, capture in captures.items()
        for session in capture.sessions
        if (tenant, session.session_id) in names
    ]


def _print_mapping(config: "RewardConfig") -> None:
    print("kind     reward")
    for kind, each in config.kinds.items():
        print(f"{kind:<8} {each.weight:g} x (value - {each.low:g}) / ({each.high:g} - {each.low:g})")
    print(
        f"one kind on one target is averaged, kinds are added; the window closes {config.window_s:g} s after the last"
    )
    print(f"turn of a session; mapping sha256 {config.sha256()}")


def _print(found: "Explanation") -> None:
    from collector.terminal_text import terminal_safe

    state = "closed" if found.closed else "is open: not eligible yet, and may change; closes"
    print(f"\nsession {terminal_safe(found.session_id)}: window {state} {found.closes_at:%Y-%m-%d %H:%M:%S} UTC")
    for each in found.verdicts:
        judged = each.feedback
        value = "no value" if judged.value is None else f"{judged.value:g}"
        said = f"counts: worth {each.worth:g}" if each.reason is None else _WORDS[each.reason].format(by=each.by)
        line = f"  {judged.feedback_id} {judged.kind} {value} on {judged.turn_id or 'the session'} {said}"
        print(terminal_safe(line))
    if not found.verdicts:
        print("  no feedback: missing, not zero")
    for reward in found.rewards:
        parts = " + ".join(f"{kind} {value:g}" for kind, value in reward.parts.items())
        print(terminal_safe(f"  reward of {reward.turn_id or 'the session'}: {reward.value:g} = {parts}"))
    if not found.rewards:
        print("  no reward")


def _as_json(found: "Explanation") -> dict[str, Any]:
    return {
        "session_id": found.session_id,
        "closes_at": found.closes_at.isoformat(),
        "closed": found.closed,
        "judgements": [
            {
                "feedback_id": each.feedback.feedback_id,
                "turn_id": each.feedback.turn_id,
                "kind": each.feedback.kind,
                "value": each.feedback.value,
                "counts": each.reason is None,
                "reason": each.reason,
                "superseded_by": each.by,
                "worth": each.worth,
            }
            for each in found.verdicts
        ],
        "rewards": [{"turn_id": each.turn_id, "value": each.value, "parts": each.parts} for each in found.rewards],
    }


def _fields(mapping: Any) -> dict[str, float]:  # Any: a struct of numbers
    return {name: getattr(mapping, name) for name in mapping.__struct_fields__}

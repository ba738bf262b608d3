"""Token contexts of an adapter's tenant from the store: what a proof and the KL to live are measured on."""

from collector.store.snapshot import Snapshot
from trainer.batch.tenant_capture import read_captures
from trainer.batch.token_ids import read_ids

CONTEXTS = 24
"""Most contexts; as many as a proof considers."""


def recent_contexts(snapshot: Snapshot, tenant: str, adapter: str) -> list[list[int]]:
    """Prompt and completion of the newest turns that the adapter or the base model sampled, one per session."""
    captured = read_captures(snapshot, [tenant])[tenant]
    newest = [
        next((turn for turn in reversed(session.turns) if turn.adapter in (adapter, None) and turn.tokens), None)
        for session in reversed(captured.sessions)
    ]
    chosen = [turn for turn in newest if turn is not None and turn.purpose in ("traffic", "canary")][:CONTEXTS]
    ids = read_ids(snapshot, chosen)
    read = [ids[turn.place] for turn in chosen if turn.place in ids]
    return [[*each.prompt_ids.tolist(), *each.completion_ids.tolist()] for each in read if len(each.prompt_ids)]

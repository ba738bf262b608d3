"""Sessions that a user judged: what has to go when the user wants to be forgotten."""

from pathlib import Path

import polars as pl

from collector.errors import StoreError
from collector.store.reader import Reader
from collector.store.snapshot import Snapshot
from collector.user_hash import existing_user_key, user_hash


def hash_of_user(store: Path, user: str, tenant: str | None = None) -> str:
    """The stored hash of a user by name. A name that users of several tenants have needs the tenant said."""
    key = existing_user_key(store)
    with Reader(store).snapshot(["feedback"]) as snapshot:
        feedback = snapshot.frame("feedback", columns=["tenant", "user_hash"])
    known = set(feedback.unique().rows())
    tenants = sorted({of for of, _ in known}) if tenant is None else [tenant]
    found = [(of, hashed) for of in tenants if (of, hashed := user_hash(key, of, user)) in known]
    if not found:
        whose = "any tenant" if tenant is None else f"tenant {tenant!r}"
        raise StoreError(f"{store}: no feedback of user {user!r} of {whose}, expected some; nothing erased")
    if len(found) > 1:
        raise StoreError(
            f"{store}: user {user!r} gave feedback to tenants {', '.join(of for of, _ in found)}, who may be different "
            "people; say which with --tenant; nothing erased"
        )
    return found[0][1]


def sessions_of_user(snapshot: Snapshot, turns: pl.DataFrame, hashed: str) -> list[str]:
    """Sessions with feedback of this user, on them or on a turn of theirs; `turns` says whose each is."""
    feedback = snapshot.frame("feedback", columns=["tenant", "session_id", "turn_id", "user_hash"])
    judged = feedback.filter(user_hash=hashed)
    if judged.is_empty():
        raise StoreError(f"no feedback with user_hash {hashed[:64]!r}, expected one of this store; nothing erased")
    tenant = str(judged["tenant"][0])
    of_turns = turns.filter(pl.col("turn_id").is_in(judged["turn_id"].drop_nulls().to_list()))["session_id"]
    names = sorted({*judged["session_id"].drop_nulls(), *of_turns})
    others = turns.filter(pl.col("session_id").is_in(names), pl.col("tenant") != tenant)
    if others.height:
        raise StoreError(
            f"session {others['session_id'][0]!r} holds turns of tenant {others['tenant'][0]!r} as well as of the "
            f"user's tenant {tenant!r}, expected one; forget that session by its name first; nothing erased"
        )
    return names

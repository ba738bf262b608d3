"""Checks the files of expert routes against the turns that name them."""

from collector.errors import StoreError
from collector.store.expert_files import has_expired, read_expert_routes
from collector.store.health import Fault
from collector.store.layout import Layout
from collector.store.reader import Reader


def expert_faults(layout: Layout) -> list[Fault]:
    """Files that are missing, damaged, or of another length than their turn."""
    files = {str(path.relative_to(layout.root)): path for path in sorted(layout.experts.glob("*/*/*"))}
    columns = ["turn_id", "routed_experts", "prompt_prefix_tokens", "new_prompt_ids", "completion_ids"]
    try:
        with Reader(layout.root).snapshot(["turns"]) as snapshot:
            if snapshot.damage:
                # Turns may be lost that name a file: the damage is reported by itself, and the files stay.
                return []
            named = snapshot.frame("turns", columns=columns[1:2])["routed_experts"].drop_nulls()
            if named.is_empty() and not files:
                return []
            turns = snapshot.frame("turns", columns=columns).drop_nulls("routed_experts")
    except StoreError:
        return []
    faults: list[Fault] = []
    for turn_id, place, prefix_tokens, new_prompt, completion in turns.select(columns).iter_rows():
        if place not in files and has_expired(layout.root, place):
            continue
        tokens = prefix_tokens + len(new_prompt) + len(completion) - 1
        try:
            routes = read_expert_routes(layout.root, place)
        except StoreError as error:
            faults.append(Fault(place, str(error), f"routes of turn {turn_id}", "the turn is read without them"))
            continue
        if routes is not None and len(routes) != tokens:
            found = f"routes of {len(routes)} tokens"
            faults.append(Fault(place, found, f"{tokens}, as turn {turn_id} has", "the turn is read without them"))
    return faults

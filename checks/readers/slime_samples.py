"""Samples of slime and Miles dumps: what generation and training recorded of one, joined."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from checks.readers.pickle_values import RefusedPickle, floats, ids, items, whole
from checks.readers.torch_file import load_file
from checks.readers.unreadable import UnreadableParts

# Any: a sample or a batch as it was pickled.
Entry = dict[str, Any]
SCORES = {
    "log_probs": "trainer_logprobs",
    "ref_log_probs": "reference_logprobs",
    "advantages": "advantages",
    "entropy": "entropies",
}
"""Field of a training sample to the field of a turn; each as long as the response."""


class Trained(NamedTuple):
    """What a training dump holds of one sample."""

    position: int | None
    """Of the sample in the rollout's dump."""
    sample_index: int | None
    """The sample's own running number."""
    entry: Entry


def samples_of(dump: object) -> list[Entry]:
    """The samples of a rollout dump."""
    found = cast(Entry, dump).get("samples") if isinstance(dump, dict) else None
    if not isinstance(found, list):
        raise RefusedPickle("no list `samples` in it, as slime and Miles write it")
    return [cast(Entry, sample) for sample in cast(list[object], found) if isinstance(sample, dict)]


def trained_of(dump: object) -> Iterator[Trained]:
    """The samples of a training dump: one list of them, or the columns of one rank."""
    if not isinstance(dump, dict):
        raise RefusedPickle("no training dump of slime or Miles")
    entries = cast(Entry, dump)
    if isinstance(entries.get("samples"), list):
        raw_reward = items(entries.get("raw_reward")) or []
        for entry in samples_of(entries):
            position = whole(entry.get("rollout_position"))
            if position is not None and position < len(raw_reward):
                entry = entry | {"raw_reward": raw_reward[position]}
            yield Trained(position, whole(entry.get("sample_index")), entry)
        return
    yield from _of_rank(entries.get("rollout_data"))


def _of_rank(columns: object) -> Iterator[Trained]:
    if not isinstance(columns, dict):
        raise RefusedPickle("neither `samples` nor `rollout_data` in it, as slime and Miles write them")
    held = cast(Mapping[str, object], columns)
    lengths = items(held.get("response_lengths"))
    if lengths is None:
        raise RefusedPickle("no response_lengths in its rollout_data")
    count = len(lengths)
    per_sample = {
        name: column for name, values in held.items() if (column := items(values)) is not None and len(column) == count
    }
    for row in range(count):
        entry = {name: column[row] for name, column in per_sample.items()}
        yield Trained(whole(entry.get("partition")), whole(entry.get("sample_indices")), entry)


def scores_of(trained: Trained, response: Sequence[int]) -> tuple[dict[str, list[float]], str | None]:
    """The per-token scores of a training sample, and why some are left out.

    With context parallelism a rank holds a slice of the tokens only: such arrays are shorter than the response.
    """
    found: dict[str, list[float]] = {}
    refused = None
    for name, field in SCORES.items():
        values = floats(trained.entry.get(name)) if trained.entry.get(name) is not None else None
        if values is None:
            continue
        if len(values) == len(response):
            found[field] = values
        else:
            refused = f"{len(values)} {name} for a response of {len(response)} tokens, expected as many"
    return found, refused


def same_tokens(trained: Trained, tokens: Sequence[int]) -> bool:
    """Whether the training sample is of these tokens, where it holds its own."""
    own = trained.entry.get("tokens")
    return own is None or ids(own) == list(tokens)


# Any: whatever the function makes of a dump.
def loaded(path: Path, parts: Any, unreadable: UnreadableParts) -> list[Any]:
    """The parts of a dump; none, counted, of a file that cannot be read."""
    try:
        return list(parts(load_file(path)))
    except RefusedPickle as error:
        unreadable.add(path.name, str(error))
        return []

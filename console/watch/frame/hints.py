"""The last row of the frame: keys and what they do."""

from collections.abc import Callable, Iterable, Mapping

from rich.cells import cell_len

from console.watch.frame.keys import BY_ID, key_text
from console.watch.frame.row import Part
from console.watch.widgets.palette import Palette


def hint_parts(
    ids: Iterable[str],
    keys: Mapping[str, str],
    off: Callable[[str], str | None],
    palette: Palette,
    width: int,
    *,
    wide: bool,
) -> list[Part]:
    """As many of these as fit; a key that is off stands in brackets, and help always has its place."""

    def hint(identity: str, after: str) -> Part:
        letters = keys.get(identity, BY_ID[identity].keys)
        shown = f"{key_text(letters.split(',')[0], ascii_only=palette.ascii)} {BY_ID[identity].label}"
        return Part(f"{shown}{after}") if off(identity) is None else Part(f"({shown}){after}", palette.dim)

    helped = hint("frame.help", " ")._replace(right=True)
    parts, left = [Part(" ")], width - 1 - cell_len(helped.text)
    for identity in dict.fromkeys(ids):
        part = hint(identity, "  " if wide else " ")
        left -= cell_len(part.text)
        if left >= 0:
            parts.append(part)
    return [*parts, helped]

"""The two differences in words, the same on the screen and in plain lines."""

from collections.abc import Iterator

from collector.terminal_text import terminal_safe
from console.watch.trace.diff_lines import DiffLine, Side
from console.watch.views.prefix_diff import PrefixDiffView
from console.watch.views.retok_diff import RetokDiffView, SpanRow
from console.watch.views.token_words import NONE, shown

SIGNS = {" ": "the same", "-": "removed", "+": "added", "=": "aligned again", "~": "removed | added"}


def prefix_words(view: PrefixDiffView, *, short: bool = False) -> str:
    """What the prompt of the turn is to the turn that it continues."""
    if not view.found:
        return f"turn {view.turn}: no token ids are logged of it"
    if view.relation == "root":
        return f"turn {view.turn} begins a conversation: its prompt ({view.now_tokens} ids) continues no earlier turn"
    kept = f"kept {view.common} of {view.before_tokens} ids"
    share = f" ({100 * view.common / view.before_tokens:.1f}%)" if view.before_tokens else ""
    if view.relation == "extends":
        return f"turn {view.turn} extends turn {view.previous}: {kept}{share}, {view.new} new"
    meant = "declared" if view.relation == "declared" else "PREFIX BREAK"
    if short:
        named = "declared" if view.relation == "declared" else "BREAK"
        kept = f"kept {view.common}/{view.before_tokens} lost {view.lost} new {view.new}"
        return f"{named} {view.previous}→{view.turn} {kept}  cause: {view.kind}"
    lost = f"lost {view.lost}" + (f" ({view.realigned} come back further on)" if view.realigned else "")
    return f"{meant} turn {view.previous} → {view.turn}  {kept}{share}  {lost}  new {view.new}  cause: {view.kind}"


def effect_lines(view: PrefixDiffView) -> Iterator[str]:
    """What the break does."""
    if view.effect is None:
        return
    effect = view.effect
    yield f"cause: {view.kind} – {view.cause}" + ("" if view.has_text else "  (told without a tokenizer)")
    yield (
        f"two samples, not one: they fork at {view.common}, in the {view.inside} of turn {view.previous} (index "
        f"{view.index_inside}); {effect.lost_sampled} sampled ids are not where they were"
        if view.inside is not None
        else f"the prompt forks at {view.common}"
    )
    cached = f"; the engine took {effect.cached} from its cache" if effect.cached is not None else ""
    yield f"prefix cache: {effect.reusable} of {view.now_tokens} prompt ids can be reused{cached}"
    if effect.same_sessions is None:
        yield "in how many sessions: not known, breaks of the other sessions were not read"
    else:
        since = f" since {effect.since:%Y-%m-%d %H:%M}" if effect.since is not None else ""
        yield f"the same kind in {effect.same_sessions} of {effect.of_sessions} sessions of this adapter{since}"


def unified_line(line: DiffLine, *, ids_only: bool) -> str:
    """One line with both positions: sign, place before, place now, id and text."""
    if line.folded:
        return f"{line.sign}      … {line.folded:,} more {SIGNS[line.sign]} (o opens)"
    side = line.before or line.now
    assert side is not None
    before = "." if line.before is None else str(line.before.position)
    now = "." if line.now is None else str(line.now.position)
    return f"{line.sign}{before:>7} {now:>7} {_token(side, ids_only=ids_only)}"


def split_line(line: DiffLine, *, ids_only: bool) -> tuple[str, str, str]:
    """The left side, the sign between, and the right side."""
    if line.folded:
        text = f"     … {line.folded:,} more {SIGNS[line.sign]} (o opens)"
        return ("", line.sign, text) if line.sign == "+" else (text, line.sign, "" if line.sign == "-" else text)
    left, right = (
        "" if side is None else f"{side.position:>6} {_token(side, ids_only=ids_only)}"
        for side in (line.before, line.now)
    )
    return left, line.sign, right


def _token(side: Side, *, ids_only: bool) -> str:
    text = "" if side.text is None or ids_only else f"  {shown(side.text)}"
    return f"{side.id:>7}{text}"


def retok_words(view: RetokDiffView) -> str:
    """How much of the completion comes back as it was."""
    if not view.found:
        return f"turn {view.turn} is not in what is watched"
    if not view.looked:
        return f"turn {view.turn}: encode(decode(ids)) was not tried: {view.why_not}"
    if not view.total:
        return f"turn {view.turn}: all {view.completion} ids come back the same"
    kind = f"  {view.kind} at {view.token_index}" if view.kind is not None else ""
    cut = ", cut within a character at its end" if view.cut_end else ""
    spans = "1 span comes" if view.total == 1 else f"{view.total} spans come"
    return f"RETOK turn {view.turn}: {spans} back as other ids; {view.kept} of {view.completion} the same{kind}{cut}"


def span_cells(row: SpanRow) -> list[str]:
    """Place, recorded ids and text, encoded ids and text, whether the text is the same, how many ids more."""
    place = str(row.start) if row.end - row.start <= 1 else f"{row.start}–{row.end - 1}"
    return [
        place,
        _ids(row.recorded),
        _quoted(row.recorded_text),
        _ids(row.encoded),
        _quoted(row.encoded_text),
        "yes ✓" if row.same_text else "no ✗",
        f"{row.difference:+d}",
    ]


SPAN_TITLES = ("span", "recorded ids", "text", "re-encoded ids", "text", "same text?", "Δlen")


def _ids(ids: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, ids))}]"


def _quoted(text: str | None) -> str:
    return NONE if text is None else f'"{shown(terminal_safe(text))}"'

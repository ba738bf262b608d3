"""A prefix break as lines of text."""

from console.watch.plain.table_lines import cut, wrapped
from console.watch.views.diff_words import effect_lines, prefix_words, split_line, unified_line
from console.watch.views.prefix_diff import PrefixDiffView


def plain_prefix_diff(view: PrefixDiffView, width: int) -> list[str]:
    """The break in a sentence, its lines, and what it does. Signs: - removed, + added, = aligned again."""
    lines: list[str] = []
    if view.lines and not view.split:
        lines.append(f"  {f'turn {view.previous}':>6} {f'turn {view.turn}':>7}      id  text")
        lines += [unified_line(each, ids_only=False) for each in view.lines]
    elif view.lines:
        half = max(20, (width - 3) // 2)
        for each in view.lines:
            left, sign, right = split_line(each, ids_only=False)
            lines.append(f"{cut(left, half):<{half}} {sign} {right}".rstrip())
    more = view.total - view.first - len(view.lines)
    lines += [f"… {more:,} more lines"] if more > 0 else []
    said = [line for each in effect_lines(view) for line in wrapped(each, width)]
    return [*wrapped(prefix_words(view), width), *(cut(line, width) for line in lines), *said]

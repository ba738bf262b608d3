"""`[` and `]` in screens of one turn: the turn before it in the session, or the one after."""

from collections.abc import Sequence

from console.watch.frame.watch_screen import WatchScreen


def next_turn(screen: WatchScreen, turns: Sequence[int], turn: int, by: int) -> int:
    """The turn so many further; at either end of the session the one there, and the same one is said to be the end."""
    if turn not in turns:
        return turn
    found = turns[max(0, min(turns.index(turn) + by, len(turns) - 1))]
    if found == turn:
        screen.say(f"turn {turn} is the {'last' if by > 0 else 'first'} of its session")
    return found

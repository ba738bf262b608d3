"""Text from models and clients, made safe to print on a terminal."""


def terminal_safe(text: str, *, keep: str = "") -> str:
    """`text` with every character that is not plainly printable, nor in `keep`, written as its escape."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() or letter in keep else repr(letter)[1:-1] for letter in text)

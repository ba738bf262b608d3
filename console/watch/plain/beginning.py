"""The beginning of a text that may be of any length: what a screen draws must not take longer for it."""

MOST_LETTERS = 4096


def beginning(text: str) -> str:
    """The text, or its beginning with how long it is."""
    return text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]}… of {len(text):,} letters"

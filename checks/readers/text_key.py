"""A short name for a long text, for sources that tell groups and tasks apart by their prompt only."""

import hashlib


def text_key(text: str) -> str:
    """Sixteen hexadecimal digits that stand for the text."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()

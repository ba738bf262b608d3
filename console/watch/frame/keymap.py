"""`keymap.toml`: other letters for the keys of the console, refused where two would clash."""

import difflib
import tomllib
from collections.abc import Mapping
from pathlib import Path

import msgspec
from textual.keys import (
    REPLACED_KEYS,
    Keys,
    _character_to_key,  # pyright: ignore[reportPrivateUsage]
    key_to_character,
)

from collector.errors import UserError
from console.watch.frame.keys import BY_ID, key_text, keys_that_meet

_MODIFIERS = ("ctrl", "alt", "shift", "super", "hyper", "meta")
_WORDS = frozenset(each.value for each in Keys if each.value.isalnum()) - {"return"}
"""Keys that are no letter, as Textual names them when they are pressed; Return is `enter`."""


def read_keymap(path: Path) -> dict[str, str]:
    """Key id to Textual's names of its letters, as `App.set_keymap` takes it."""
    try:
        said = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f'{path} cannot be read: {reason}; expected lines such as frame.copy = "c"') from error
    keymap = {identity: _letters(path, identity, letters) for identity, letters in _flat(said).items()}
    clashes = [
        f"{key_text(letter)!r} is both {one} and {other}"
        for letter, one, other in keys_that_meet(keymap)
        if one in keymap or other in keymap
    ]
    if clashes:
        raise UserError(f"{path}: {'; '.join(clashes)}; give one of them another key")
    return keymap


def _flat(table: Mapping[str, object], before: str = "") -> dict[str, object]:
    """`[frame] copy = "c"` and `frame.copy = "c"` alike."""
    flat: dict[str, object] = {}
    for name, value in table.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{before}{name}.")  # pyright: ignore[reportUnknownArgumentType]
        else:
            flat[before + name] = value
    return flat


def _letters(path: Path, identity: str, said: object) -> str:
    if identity not in BY_ID:
        near = difflib.get_close_matches(identity, BY_ID, n=1)
        raise UserError(
            f"{path}: no key {identity!r}; {f'did you mean {near[0]}?' if near else 'see ? in the console'}"
        )
    try:
        letters = [said] if isinstance(said, str) else msgspec.convert(said, list[str])
    except msgspec.ValidationError:
        letters = []
    if not letters or not all(letters):
        raise UserError(f'{path}: {identity} is {said!r}, expected a key such as "c" or a list of keys')
    named = [_named(one) for one in letters]
    for one, name in zip(letters, named, strict=True):
        if name is None:
            near = difflib.get_close_matches(one, _WORDS, n=1)
            expected = f"did you mean {near[0]}?" if near else 'expected one such as "c", "?", "ctrl+g" or "pagedown"'
            raise UserError(f"{path}: {identity} is {said!r}, and {one!r} is no key; {expected}")
    return ",".join(name for name in named if name is not None)


def _named(letter: str) -> str | None:
    """Textual's name of a key when it is pressed: `?` is `question_mark`. None where nobody can press it."""
    *modifiers, last = letter.split("+") if len(letter) > 1 else (letter,)
    named = _key_named(last)
    if named is None or not {*modifiers} <= {*_MODIFIERS} or len({*modifiers}) < len(modifiers):
        return None
    # A letter with Shift comes as another letter.
    return None if modifiers == ["shift"] and named not in _WORDS else "+".join([*modifiers, named])


def _key_named(word: str) -> str | None:
    """Of a letter, of the name of one in ASCII, or of another key."""
    if word in _WORDS:
        return word
    letter = word if len(word) == 1 else key_to_character(REPLACED_KEYS.get(word, word))
    if letter is None or not letter.isprintable() or not (letter.isascii() or letter == word):
        return None
    return _character_to_key(letter)

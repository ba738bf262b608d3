"""`keymap.toml`: other letters for the keys of the console, refused where two would clash."""

import difflib
import tomllib
from collections.abc import Mapping
from pathlib import Path

import msgspec
from textual.keys import REPLACED_KEYS, _character_to_key  # pyright: ignore[reportPrivateUsage]

from collector.errors import UserError
from console.watch.frame.keys import BY_ID, key_text, keys_that_meet


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
    return ",".join(_named(one) for one in letters)


def _named(letter: str) -> str:
    """Textual's name of a key: `?` is `question_mark`."""
    modifier, plus, last = letter.rpartition("+") if len(letter) > 1 else ("", "", letter)
    named = _character_to_key(last) if len(last) == 1 else last
    return f"{modifier}{plus}{REPLACED_KEYS.get(named, named)}"

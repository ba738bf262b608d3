"""The table of keys: no two clash where they meet, every binding of the console has its id in it, and keymaps."""

import importlib
import pkgutil
from pathlib import Path

import pytest
from textual._xterm_parser import XTermParser
from textual.binding import Binding
from textual.dom import DOMNode
from textual.events import Key

import console.watch
from collector.errors import UserError
from console.watch.frame.keymap import _named, read_keymap  # pyright: ignore[reportPrivateUsage]
from console.watch.frame.keys import BY_ID, KEYS, key_text, keys_that_meet

OWN = ("typing.", "help.", "copy_menu.", "text.", "dialog.")
"""Ids of bindings inside dialogs and the typing row, which a keymap does not change."""


def test_the_keymap_of_the_documentation_is_taken(tmp_path: Path) -> None:
    text = (Path(__file__).parents[3] / "docs" / "console.md").read_text(encoding="utf-8")
    path = tmp_path / "keymap.toml"
    path.write_text(text.partition("```toml\n")[2].partition("```")[0], encoding="utf-8")
    assert read_keymap(path) == {"frame.copy": "Z", "time.pause": "z,space"}


def test_no_two_keys_share_a_letter_where_both_work() -> None:
    assert [*keys_that_meet({})] == []


def test_every_key_has_an_id_of_its_own_and_says_what_it_does() -> None:
    assert len(BY_ID) == len(KEYS)
    assert all(key.label and key.help.endswith(".") for key in KEYS)


def test_every_binding_of_the_console_is_in_the_table() -> None:
    found: dict[str, str] = {}
    for module in pkgutil.walk_packages(console.watch.__path__, "console.watch."):
        for name, kind in vars(importlib.import_module(module.name)).items():
            if isinstance(kind, type) and issubclass(kind, DOMNode) and kind.__module__ == module.name:
                for binding in vars(kind).get("BINDINGS", ()):
                    assert isinstance(binding, Binding), f"{name} binds {binding} without an id"
                    assert binding.id, f"{name} binds {binding.key} without an id"
                    found[binding.id] = name
    strangers = {identity: name for identity, name in found.items() if not identity.startswith(OWN)}
    assert {identity: name for identity, name in strangers.items() if identity not in BY_ID} == {}
    assert len(strangers) > 30


def test_no_function_key_and_no_alt_is_the_only_way() -> None:
    for key in KEYS:
        assert not all(letter.startswith(("f1", "f2", "alt+")) and letter != "f" for letter in key.keys.split(","))


@pytest.mark.parametrize(
    ("name", "shown"),
    [("question_mark", "?"), ("ctrl+p", "^p"), ("shift+tab", "Shift+Tab"), ("M", "M"), ("enter", "⏎")],
)
def test_keys_are_shown_as_a_person_reads_them(name: str, shown: str) -> None:
    assert key_text(name) == shown


def keymap(tmp_path: Path, text: str) -> dict[str, str]:
    path = tmp_path / "keymap.toml"
    path.write_text(text)
    return read_keymap(path)


def test_a_keymap_gives_other_letters(tmp_path: Path) -> None:
    read = keymap(tmp_path, 'open = "Z"\n[frame]\nhelp = ["?", "ctrl+g"]\n')
    assert read == {"open": "Z", "frame.help": "question_mark,ctrl+g"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('frame.copy = "q"', "'q' is both frame.copy and frame.quit; give one of them another key"),
        ('adapters.hold = "p"', "'p' is both adapters.promote and adapters.hold; give one of them another key"),
        ('frame.cpoy = "Z"', "no key 'frame.cpoy'; did you mean frame.copy?"),
        ("frame.copy = 3", 'frame.copy is 3, expected a key such as "c" or a list of keys'),
        ("frame.copy = []", 'frame.copy is [], expected a key such as "c" or a list of keys'),
        ("frame.copy =", "cannot be read: "),
        ('frame.copy = "zz"', """frame.copy is 'zz', and 'zz' is no key; expected one such as "c", "?", "ctrl+g" or"""),
        ('frame.copy = ["Z", "c,d"]', "'c,d' is no key"),
        ('frame.copy = "Escape"', "'Escape' is no key; did you mean escape?"),
        ('frame.copy = "strg+k"', "'strg+k' is no key"),
        ('frame.copy = "ctrl+"', "'ctrl+' is no key"),
        ('frame.copy = "shift+k"', "'shift+k' is no key"),
        ('frame.copy = "f99"', "'f99' is no key"),
        ('frame.copy = "\\u0007"', "is no key"),
        ('frame.copy = "return"', "'return' is no key"),
    ],
)
def test_a_keymap_that_cannot_be_used_is_refused_with_the_reason(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UserError) as caught:
        keymap(tmp_path, text)
    assert said in str(caught.value)


@pytest.mark.parametrize("letter", [*"-/@\\_+;!?%Zé7", "ж"])
def test_a_letter_is_named_as_the_terminal_gives_it(letter: str) -> None:
    assert [event.key for event in XTermParser().feed(letter) if isinstance(event, Key)] == [_named(letter)]


@pytest.mark.parametrize(
    ("said", "named"),
    [("question_mark", "question_mark"), ("hyphen_minus", "minus"), ("minus", "minus"), ("space", "space"),
     ("pagedown", "pagedown"), ("f5", "f5"), ("shift+f5", "shift+f5"), ("ctrl+alt+k", "ctrl+alt+k"),
     ("ctrl+?", "ctrl+question_mark"), ("shift+tab", "shift+tab"), ("delete", "delete")],
)  # fmt: skip
def test_a_key_may_be_given_by_its_name(said: str, named: str) -> None:
    assert _named(said) == named


def test_two_screens_may_use_one_letter_for_different_things(tmp_path: Path) -> None:
    assert keymap(tmp_path, 'alerts.comment = "m"') == {"alerts.comment": "m"}

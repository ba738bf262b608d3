"""What is printed cannot move the cursor, change colours or hide itself."""

from collector.terminal_text import terminal_safe


def test_plain_text_of_any_script_is_unchanged():
    assert terminal_safe("naïve 日本語 🙂 a\\b") == "naïve 日本語 🙂 a\\b"


def test_control_sequences_become_their_escapes():
    assert terminal_safe("\x1b[2Jgone\r\n\tend\x07\x9b") == r"\x1b[2Jgone\r\n\tend\x07\x9b"


def test_characters_that_reorder_or_hide_text_become_their_escapes():
    assert terminal_safe("a\u202eb\u200bc\ud800") == r"a\u202eb\u200bc\ud800"


def test_characters_that_are_kept_stay_as_they_are():
    assert terminal_safe("a\n\tb\r", keep="\n\t") == "a\n\tb\\r"

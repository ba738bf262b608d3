"""README.md says what is there: its file tree, its commands, its glossary. Run as a script it rewrites the tree."""

import ast
import sys
from pathlib import Path

from collector import records
from console.cli import COMMANDS

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PACKAGES = ("collector", "checks", "trainer", "console")
OPENS, CLOSES = "<!-- tree -->\n```\n", "```\n<!-- /tree -->"


def clause(path: Path) -> str:
    """First sentence of a module's docstring."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    line = " ".join(text.split("\n\n")[0].split())
    first, dot, _ = line.partition(". ")
    return (first if dot else line).rstrip(".")


def tree() -> str:
    """Every module of the four packages with its clause, folders first named by their own."""
    lines: list[str] = []
    for package in PACKAGES:
        folders = [ROOT / package, *sorted(path.parent for path in (ROOT / package).rglob("*/__init__.py"))]
        for folder in folders:
            name = folder.relative_to(ROOT).as_posix()
            lines.append(f"{name + '/':<32}{clause(folder / '__init__.py')}")
            lines += [f"  {path.name:<30}{clause(path)}" for path in sorted(folder.glob("[!_]*.py"))]
    return "".join(f"{line}\n" for line in lines)


def written() -> tuple[str, str, str]:
    """README.md around its tree: before, the tree, after."""
    before, opens, rest = README.read_text(encoding="utf-8").partition(OPENS)
    body, closes, after = rest.partition(CLOSES)
    assert opens, f"README.md has no {OPENS!r}"
    assert closes, f"README.md has no {CLOSES!r}"
    return before + opens, body, closes + after


def test_the_file_tree_lists_every_module_with_its_clause() -> None:
    assert written()[1] == tree(), "run: python -m tests.test_readme"


def test_every_command_is_named() -> None:
    text = README.read_text(encoding="utf-8")
    assert [name for name in COMMANDS if f"roundhouse {name}" not in text] == []


def test_the_glossary_has_the_words_of_the_records() -> None:
    text = README.read_text(encoding="utf-8")
    words = ["session", "turn", "branch", "parent", "group", "adapter", "version", "step", "cycle", "mu", "staleness"]
    assert [word for word in words if f"**{word}**" not in text] == []
    assert [table for table in records.TABLES if f"`{table}`" not in text] == []


if __name__ == "__main__":
    before, _, after = written()
    README.write_text(before + tree() + after, encoding="utf-8")
    sys.exit(0)

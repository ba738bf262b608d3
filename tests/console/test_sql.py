"""`roundhouse sql` and `roundhouse export` as a shell sees them."""

import json
import math
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from collector.records import Event, Feedback, Step
from collector.store.writer import Writer
from console.cli import main
from console.sql_output import grid_lines

AT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "store"
    with Writer(path, "collector") as writer:
        for n in range(250):
            writer.append(Step(adapter="bot", step=n, at=AT, tokens=2**62, grad_norm=math.nan if n == 7 else n / 4))
        text = "\x1b[2J\x1b]0;owned\x07 \u202egnp.exe"
        writer.append(Feedback(feedback_id="f", tenant="acme", session_id="s", kind="thumb", text=text, at=AT))
        writer.append(Event(at=AT, kind="alert", detail={"a": [1, {"b": 2**70}]}))
    return path


def as_json(store: Path, query: str, capfd: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    assert main(["sql", "--store", str(store), "--json", query]) == 0
    out = capfd.readouterr().out

    def refuse(name: str) -> float:
        raise AssertionError(f"{name} is no JSON")

    return json.loads(out, parse_constant=refuse)


def queries_of_the_docs() -> list[str]:
    root = Path(__file__).parents[2]
    text = "\n".join(path.read_text(encoding="utf-8") for path in (root / "README.md", *(root / "docs").glob("*.md")))
    return [*re.findall(r'roundhouse sql [^"\n`]*"([^"\n]+)"', text), *re.findall(r"`(select [^`\n]+)`", text)]


@pytest.mark.parametrize("query", queries_of_the_docs())
def test_every_query_of_the_docs_runs(store: Path, query: str) -> None:
    assert main(["sql", "--store", str(store), "--json", query]) == 0


def test_the_docs_have_queries() -> None:
    assert len(queries_of_the_docs()) >= 6


def test_json_holds_integers_of_any_width(store: Path, capfd: pytest.CaptureFixture[str]):
    query = """
        SELECT sum(tokens) AS s, 18446744073709551615::UBIGINT AS u,
            (-170141183460469231731687303715884105727)::HUGEINT AS h
        FROM steps"""
    assert as_json(store, query, capfd) == [
        {"s": 250 * 2**62, "u": 2**64 - 1, "h": -(2**127) + 1},
    ]
    assert as_json(
        store, "SELECT [340282366920938463463374607431768211455::UHUGEINT] AS l, 10::BIGNUM AS b", capfd
    ) == [{"l": [2**128 - 1], "b": 10}]


def test_json_holds_null_for_what_is_no_number(store: Path, capfd: pytest.CaptureFixture[str]):
    query = (
        "SELECT grad_norm, 'inf'::DOUBLE AS i, ['nan'::FLOAT, 1.5] AS l FROM steps WHERE step IN (6, 7) ORDER BY step"
    )
    assert as_json(store, query, capfd) == [
        {"grad_norm": 1.5, "i": None, "l": [None, 1.5]},
        {"grad_norm": None, "i": None, "l": [None, 1.5]},
    ]


def test_json_types(store: Path, capfd: pytest.CaptureFixture[str]):
    query = r"""
        SELECT "at", "at"::DATE AS d, 1.10::DECIMAL(4, 2) AS n, {'a': 1, 'b': ['x', NULL]} AS s, MAP {'k': 1} AS m,
            MAP {[1]: '\xFF'::BLOB} AS lm, '\x00\xAB'::BLOB AS b, {'x': ['\x01'::BLOB]} AS nb, detail->'$.a' AS j,
            detail AS t, true AS y, NULL AS z, INTERVAL '90 seconds' AS i,
            '12345678-1234-1234-1234-123456789abc'::UUID AS u
        FROM events"""
    assert as_json(store, query, capfd) == [
        {
            "at": "2026-01-02T03:04:05.678901Z",
            "d": "2026-01-02",
            "n": 1.1,
            "s": {"a": 1, "b": ["x", None]},
            "m": {"k": 1},
            "lm": {"[1]": "ff"},
            "b": "00ab",
            "nb": {"x": ["01"]},
            "j": [1, {"b": 2**70}],
            "t": '{"a":[1,{"b":1180591620717411303424}]}',
            "y": True,
            "z": None,
            "i": "PT90S",
            "u": "12345678-1234-1234-1234-123456789abc",
        }
    ]


def test_json_of_no_rows_is_an_empty_array(store: Path, capfd: pytest.CaptureFixture[str]):
    assert as_json(store, "FROM turns", capfd) == []


def test_text_of_others_cannot_steer_the_terminal(store: Path, capfd: pytest.CaptureFixture[str]):
    assert main(["sql", "--store", str(store), 'SELECT text, text AS "\x1b[31m" FROM feedback']) == 0
    out = capfd.readouterr().out
    assert all(line.isprintable() for line in out.splitlines())
    assert r"\x1b[2J\x1b]0;owned\x07 \u202egnp.exe" in out


def test_a_long_result_says_that_it_was_cut(store: Path, capfd: pytest.CaptureFixture[str]):
    assert main(["sql", "--store", str(store), "SELECT step FROM steps ORDER BY step"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[:4] == ["step", "────", "   0", "   1"]
    assert lines[-2:] == [" 199", "the first 200 rows; --json prints all, LIMIT and OFFSET choose others"]


def test_a_mistake_is_one_line_and_exit_2(store: Path, capfd: pytest.CaptureFixture[str]):
    assert main(["sql", "--store", str(store), "--json", "SELECT nope FROM turns"]) == 2
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.startswith('roundhouse sql: Binder Error: Referenced column "nope" not found')
    assert main(["sql", "--store", str(store)]) == 2
    assert main(["sql", "--store", str(store.parent), "SELECT 1"]) == 2
    assert main(["sql", "--store", str(store / "missing"), "SELECT 1"]) == 2
    assert capfd.readouterr().err.count("\n") == 3


def test_a_table_fits_the_width_it_is_given():
    rows = [["1", "x" * 100, "日本語" * 10], ["22", "y", "z"]]
    lines = list(grid_lines(["n", "long", "wide"], rows, [True, False, False], 40))
    assert lines == [
        " n  long               wide",
        "──  ─────────────────  ─────────────────",
        " 1  xxxxxxxxxxxxxxxx…  日本語日本語日本…",
        "22  y                  z",
    ]


def test_ids_that_fit_are_not_cut_and_the_widest_text_gives_way():
    ids = ["01234567-89ab-cdef-0123-456789abcdef", "chatcmpl-0123456789"]
    row = [*ids, "some words " * 3, "more words " * 30]
    lines = list(grid_lines(["turn_id", "response", "short", "long"], [row], [False] * 4, 100))
    assert lines[2].startswith("  ".join(ids))
    assert lines[2][59:].count("…") == 2
    assert 98 <= len(lines[1]) <= 100
    wide = list(grid_lines(["turn_id", "response", "short", "long"], [row], [False] * 4, 140))
    assert wide[2].count("…") == 1
    assert wide[2].endswith("…")


def test_ids_that_do_not_fit_beside_each_other_stand_one_a_line():
    ids = [f"{n}1234567-89ab-cdef-0123-456789abcdef" for n in range(3)]
    lines = list(grid_lines(["a_rather_long_name_of_a_column", "b_id", "c_id"], [ids], [False] * 3, 60))
    assert lines[1:] == [
        f"a_rather_long_name_of…  {ids[0]}",
        f"b_id                    {ids[1]}",
        f"c_id                    {ids[2]}",
    ]


def test_what_is_piped_is_never_cut(store: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "40")
    query = "SELECT repeat('long text ', 100) AS t, uuid() AS a, uuid() AS b, uuid() AS c"
    assert main(["sql", "--store", str(store), query]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[2].startswith("long text " * 100)
    assert "…" not in "".join(lines)
    assert len(lines[2].split()[-1]) == 36


def test_many_columns_are_shown_one_value_a_line():
    names = [f"column_{n}" for n in range(20)]
    lines = list(grid_lines(names, [[f"value {n} " + "x" * 50 for n in range(20)]], [False] * 20, 30))
    assert lines[0] == "─ row 1 " + "─" * 22
    assert lines[1] == "column_0   value 0 xxxxxxxxxx…"
    assert len(lines) == 21


def test_describe_prints_every_column_of_a_table(capsys: pytest.CaptureFixture[str]):
    assert main(["sql", "--describe", "routes"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[:2] == [
        "routes: Where a tenant's new sessions go: one adapter version and its weight.",
        "  tenant   str. The tenant.",
    ]
    assert main(["sql", "--describe", "nope"]) == 2
    capsys.readouterr()
    assert main(["sql", "--describe", "costs"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0].startswith("costs: Tokens of a tenant on an adapter version, ")
    assert "  completion_tokens  int. Tokens that were sampled.\n" in out


def test_describe_as_json_covers_every_table(capfd: pytest.CaptureFixture[str]):
    assert main(["sql", "--describe", "--json"]) == 0
    columns = json.loads(capfd.readouterr().out)
    assert {"table": "routes", "column": "tenant", "type": "str", "meaning": "The tenant."} in columns
    assert {column["table"] for column in columns} >= {"turns", "versions", "audit", "turn_workers", "costs"}


def test_export_says_what_it_wrote(store: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    to = tmp_path / "log.jsonl"
    assert main(["export", "--store", str(store), "--to", str(to)]) == 0
    captured = capfd.readouterr()
    assert captured.out == f"{to}: 1 feedback, 250 steps, 1 events\n"
    assert captured.err.splitlines() == ["feedback: 1 rows", "steps: 250 rows", "events: 1 rows"]
    assert main(["export", "--store", str(store), "--to", str(to)]) == 2
    assert capfd.readouterr().err == (
        f"roundhouse export: {to}: exists already; choose another name, or --force to replace it\n"
    )
    assert main(["export", "--store", str(store), "--to", str(to), "--force"]) == 0

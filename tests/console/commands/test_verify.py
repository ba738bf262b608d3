"""`roundhouse verify` as a shell sees it: how the store is named, and one line per cause of lost records."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from collector.records import Event, Step
from collector.store.writer import Writer
from console.cli import main

AT = datetime(2026, 1, 2, tzinfo=UTC)
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Sealed: an event at every odd record to 39, a step at every even one to 40."""
    path = tmp_path / "store"
    with Writer(path, "collector") as writer:
        for n in range(20):
            writer.append(Event(at=AT, kind="alert", text=f"event {n}"))
            writer.append(Step(adapter="bot", step=n, at=AT))
        writer.seal()
    return path


def test_the_store_is_named_as_an_argument_or_by_flag(
    store: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "clean; 40 records, 2 segments, 0 erased\n"
    for words in ([str(store)], ["--store", str(store)]):
        assert main(["verify", *words]) == 0
        assert capsys.readouterr().out == f"{store}: {said}"
    monkeypatch.chdir(store.parent)
    assert main(["verify"]) == 0
    assert capsys.readouterr().out == f"store: {said}"
    assert main(["verify", str(store), "--store", str(store.parent)]) == 2
    assert capsys.readouterr().err == (
        f"roundhouse verify: {store} and --store {store.parent} were given, expected one store\n"
    )


def test_one_damaged_file_is_one_line_of_lost_records(store: Path, capsys: Captured) -> None:
    [segment] = (store / "segments/events").glob("collector*.parquet")
    segment.write_bytes(b"not Parquet")
    assert main(["verify", str(store)]) == 1
    lines = capsys.readouterr().out.splitlines()
    [line] = [line for line in lines if line.startswith("lost: ")]
    shown = ", ".join(str(seq) for seq in range(1, 17, 2))
    assert line.startswith(f"lost: 20 records of collector, {shown} and 12 more runs (--json lists them) (")
    assert segment.name in line
    assert line.endswith("; run verify --accept once you know of it")
    assert main(["verify", str(store), "--json"]) == 1
    losses = json.loads(capsys.readouterr().out)["losses"]
    assert [(loss["first_seq"], loss["last_seq"]) for loss in losses] == [(seq, seq) for seq in range(1, 40, 2)]


def test_accepted_losses_stand_apart_from_new_ones(store: Path, capsys: Captured) -> None:
    for table, words in (("events", ["--accept"]), ("steps", [])):
        [segment] = (store / f"segments/{table}").glob("collector*.parquet")
        segment.write_bytes(b"not Parquet")
        main(["verify", str(store), *words])
        said = capsys.readouterr().out
    lines = [line for line in said.splitlines() if line.startswith("lost: ")]
    assert [line.startswith("lost: 20 records of collector, ") for line in lines] == [True, True]
    assert sorted(line.rpartition("; ")[2] for line in lines) == ["accepted", "run verify --accept once you know of it"]

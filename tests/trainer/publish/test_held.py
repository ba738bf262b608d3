"""What the trainer takes for served: loaded by every worker that answers, and proved of the process that runs there."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from collector.errors import EngineError
from collector.records import Event
from collector.store.writer import Writer
from tests.trainer.engine.loopback import Served
from tests.trainer.publish.probe_setting import CONFIG, Setting
from trainer.config import TrainerConfig
from trainer.cycle.parts import Engines, RealParts
from trainer.publish.publisher import Publisher
from trainer.publish_config import PublishConfig

NOBODY = "http://127.0.0.1:9"


@contextmanager
def parts_of(
    store: Path, setting: Setting, *urls: str, enough: int | None = None
) -> Iterator[tuple[RealParts, Writer]]:
    """The real parts of a cycle, and the journal that their proofs go to."""
    with Writer(store, "trainer") as writer:
        config = TrainerConfig(publish=PublishConfig(enough=enough))
        yield (
            RealParts(
                store, config, model=setting.model, base_model="tiny", engines=Engines(urls), write=lambda _: None
            ),
            writer,
        )


def write(writer: Writer, url: str, process: str | None, verdict: str = "proved") -> None:
    """A proof's event."""
    detail: dict[str, object] = {"verdict": verdict, "worker": url, "process": process}
    event = Event(at=datetime.now(UTC), kind="proof", adapter="ada", version=1, detail=detail)
    writer.append(event).result(10)


def test_a_version_is_served_once_it_is_proved_of_the_process_that_runs(
    setting: Setting, served: Served, tmp_path: Path
) -> None:
    publisher = Publisher([served.url], CONFIG)
    publisher.load("ada@1", setting.versions[0])
    process = publisher.processes([served.url])[served.url]
    assert process is not None
    with parts_of(tmp_path, setting, served.url) as (parts, writer):
        assert (parts.held().anywhere, parts.held().everywhere) == ({"ada@1"}, frozenset())
        write(writer, served.url, "another process")
        assert parts.held().everywhere == frozenset()
        write(writer, served.url, process, "undecided")
        assert parts.held().everywhere == frozenset()
        write(writer, served.url + "/", process)
        assert parts.held().everywhere == {"ada@1"}
        served.engine.launch_id = "started anew"
        assert (parts.held().anywhere, parts.held().everywhere) == ({"ada@1"}, frozenset())


def test_a_worker_that_is_gone_keeps_nobody_up_where_the_others_are_enough(
    setting: Setting, served: Served, tmp_path: Path
) -> None:
    publisher = Publisher([served.url], CONFIG)
    publisher.load("ada@1", setting.versions[0])
    with parts_of(tmp_path, setting, served.url, NOBODY, enough=1) as (parts, writer):
        write(writer, served.url, publisher.processes([served.url])[served.url])
        assert parts.held().everywhere == {"ada@1"}
        assert parts.base_model() == "tiny"
    with (
        parts_of(tmp_path, setting, served.url, NOBODY) as (parts, _),
        pytest.raises(EngineError, match=r"1 of 2 workers did, expected 2: http://127\.0\.0\.1:9"),
    ):
        parts.base_model()
